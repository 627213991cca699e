package machineapi

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// occurrence is an event of a machine or a set.
type occurrence struct {
	kind   string
	reason string
	action string
	note   string
}

func (o occurrence) record(recorder events.EventRecorder, object runtime.Object) {
	recorder.Eventf(object, nil, o.kind, o.reason, o.action, "%s", o.note)
}

func normal(reason, action, note string) occurrence {
	return occurrence{kind: corev1.EventTypeNormal, reason: reason, action: action, note: note}
}

func warning(reason, action, note string) occurrence {
	return occurrence{kind: corev1.EventTypeWarning, reason: reason, action: action, note: note}
}

func eventInvalid(problem string) occurrence { return warning("FailedValidate", "Validate", problem) }
func eventLaunched() occurrence {
	return normal("Created", "Create", "asked the cloud for an instance")
}
func eventLaunchFailed(err error) occurrence { return warning("FailedCreate", "Create", err.Error()) }
func eventVanished(note string) occurrence   { return warning("InstanceVanished", "Reconcile", note) }
func eventTerminating() occurrence {
	return normal("Delete", "Delete", "asked the cloud to delete the instance")
}

func eventDrainSkipped(why string) occurrence { return normal("DrainSkipped", "Drain", why) }
func eventDrainBlocked() occurrence {
	return normal("DrainBlocked", "Drain", "the drain waits for preDrain hooks to be removed")
}
func eventDrainProceeds() occurrence {
	return normal("DrainProceeds", "Drain", "the node is being drained")
}
func eventDrained(node string) occurrence {
	return normal("Deleted", "Drain", "node "+node+" is drained")
}
func eventDrainSucceeded() occurrence { return normal("DrainSucceeded", "Drain", "the drain is done") }
func eventDrainRequeued(err error) occurrence {
	return warning("DrainRequeued", "Drain", "the drain is tried again: "+err.Error())
}

func eventMachineCreated(name string) occurrence {
	return normal("SuccessfulCreate", "Create", "created machine "+name)
}
func eventMachineDeleted(name string) occurrence {
	return normal("SuccessfulDelete", "Delete", "deleted machine "+name)
}
