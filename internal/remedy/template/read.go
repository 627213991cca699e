package template

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// readRequest reads a request and whose target it is about, and is false for an object that a health check has not made.
// Remediators' kinds let anything through, so a field that can't be read is as if it were absent.
func readRequest(u *unstructured.Unstructured) (core.Request, Fleet, bool) {
	r := core.Request{
		ID:         core.ID{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())},
		APIVersion: u.GetAPIVersion(),
		Template:   core.Reference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind() + templateSuffix, Namespace: u.GetNamespace()},
		Created:    u.GetCreationTimestamp().UTC(),
		Processing: condition(u, v1alpha1.ProcessingCondition),
		Succeeded:  condition(u, v1alpha1.SucceededCondition),
		Replaces:   condition(u, v1alpha1.PermanentNodeDeletionExpectedCondition) == core.Yes,
		Leaving:    u.GetDeletionTimestamp() != nil,
	}
	annotations := u.GetAnnotations()
	if namespace, set := annotations[templateNamespace]; set {
		r.Template.Namespace = namespace
	}
	r.Stopped = stopped(annotations, r.Created)
	if policy, is := asker(u); is {
		r.Remedy, r.Template.Name = NodeRemedy, annotations[v1alpha1.TemplateNameAnnotation]
		r.Policy = policy
		r.Target = core.ID{Kind: nodeKind, Name: nodeOf(u)}
		if node, is := owner(u, "", nodeKind); is && node.Name == r.Target.Name {
			r.Target.UID = string(node.UID)
		}
		return r, Fleet{}, true
	}
	machine, remedy := machineOf(u)
	if r.Template.Name = annotations[provenances[remedy].name]; remedy == "" || r.Template.Name == "" || u.GetNamespace() == "" {
		return core.Request{}, Fleet{}, false
	}
	r.Remedy = remedy
	r.Target = core.ID{Kind: machineKind, Namespace: u.GetNamespace(), Name: machine.Name, UID: string(machine.UID)}
	return r, fleetOf(u, remedy), true
}

// machineOf is the machine that a request is about, and the remedy that asks for such. That is empty when there is none.
func machineOf(u *unstructured.Unstructured) (machine metav1.OwnerReference, remedy string) {
	for _, remedy := range [...]string{MachineRemedy, ClusterMachineRemedy} {
		if machine, is := owner(u, machineKinds[remedy].Group, machineKind); is {
			return machine, remedy
		}
	}
	return metav1.OwnerReference{}, ""
}

// asker is the health check that asked for the remediation of a node. One that is struck off the owners, since it was
// deleted, is known by its name.
func asker(u *unstructured.Unstructured) (core.ID, bool) {
	if policy, is := owner(u, v1alpha1.GroupVersion.Group, healthCheckKind); is {
		return core.ID{Kind: healthCheckKind, Name: policy.Name, UID: string(policy.UID)}, true
	}
	name := u.GetAnnotations()[checkName]
	return core.ID{Kind: healthCheckKind, Name: name}, name != ""
}

// nodeOf is the name of the node that a request is about. Remediators that don't heed the annotation are asked by the
// name of the request.
func nodeOf(u *unstructured.Unstructured) string {
	if name := u.GetAnnotations()[v1alpha1.NodeNameAnnotation]; name != "" {
		return name
	}
	return u.GetName()
}

// stopped is when a remediator was told to stop. A time that can't be read doesn't make it untold.
func stopped(annotations map[string]string, created time.Time) time.Time {
	text, told := annotations[v1alpha1.TimedOutAnnotation]
	if !told {
		return time.Time{}
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil && !at.IsZero() {
		return at.UTC()
	}
	if created.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return created
}

// owner gives the first owner of a kind, in any version of its group.
func owner(u *unstructured.Unstructured, group, kind string) (metav1.OwnerReference, bool) {
	for _, o := range u.GetOwnerReferences() {
		if version, err := schema.ParseGroupVersion(o.APIVersion); err == nil && version.Group == group && o.Kind == kind {
			return o, true
		}
	}
	return metav1.OwnerReference{}, false
}

// condition reads a condition of an object. What is neither True nor False is unknown.
func condition(u *unstructured.Unstructured, kind string) core.Tri {
	status, _ := u.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		if fields["type"] != kind {
			continue
		}
		switch fields["status"] {
		case string(metav1.ConditionTrue):
			return core.Yes
		case string(metav1.ConditionFalse):
			return core.No
		}
		return core.Unknown
	}
	return core.Unknown
}
