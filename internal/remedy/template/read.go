package template

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// readRequest reads a request, and the cluster of its target. It reports false for an object that no health check has
// created. The kinds of remediators may have no schema, so a field of a wrong type counts as absent.
func readRequest(u *unstructured.Unstructured) (core.Request, core.ClusterKey, bool) {
	if partOfMachine(u) {
		return core.Request{}, core.ClusterKey{}, false
	}
	r := core.Request{
		ID:         core.ID{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())},
		APIVersion: u.GetAPIVersion(),
		Template:   core.Reference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind() + templateSuffix, Namespace: u.GetNamespace()},
		Created:    u.GetCreationTimestamp().UTC(),
		Processing: condition(u, v1alpha1.ProcessingCondition).status,
		Phase:      phase(u),
		Replaces:   replaces(u),
		Leaving:    u.GetDeletionTimestamp() != nil,
		Evidence:   evidenceOf(u),
	}
	succeeded := condition(u, v1alpha1.SucceededCondition)
	r.Succeeded, r.SucceededSince = succeeded.status, succeeded.since
	annotations := u.GetAnnotations()
	if namespace, set := annotations[annotation.TemplateNamespace]; set {
		r.Template.Namespace = namespace
	}
	if at := u.GetDeletionTimestamp(); at != nil {
		r.LeavingSince, r.KeptBy = at.UTC(), finalizersOf(u)
	}
	r.Stopped = stoppedAt(annotations, r.Created)
	signed, own := signatureOf(u)
	if policy, is := requestingCheck(u); is {
		r.Remedy, r.Template.Name = NodeRemedy, annotations[v1alpha1.TemplateNameAnnotation]
		r.Policy = policy
		r.Target = core.ID{Kind: nodeKind, Name: nodeOf(u)}
		if node, is := owner(u, "", nodeKind); is && node.Name == r.Target.Name {
			r.Target.UID = string(node.UID)
		}
		r.Own = own && (r.Target.UID == "" || r.Target.UID == signed.target)
		if r.Own {
			// The garbage collector removes a deleted node from the owners. The signature still has its UID, so the
			// request does not count for a later node of the name.
			r.Target.UID = signed.target
		}
		return r, core.ClusterKey{}, true
	}
	machine, remedy := machineOf(u)
	if r.Template.Name = annotations[clonedFromAnnotations[remedy].name]; remedy == "" || r.Template.Name == "" || u.GetNamespace() == "" {
		return core.Request{}, core.ClusterKey{}, false
	}
	r.Remedy = remedy
	r.Target = core.ID{Kind: machineKind, Namespace: u.GetNamespace(), Name: machine.Name, UID: string(machine.UID)}
	r.Own = own && r.Target.UID == signed.target && r.ID.Name == machine.Name
	return r, clusterOf(u, remedy), true
}

// replaces reports whether a remediator expects the node of a request to be gone for good.
func replaces(u *unstructured.Unstructured) bool {
	return condition(u, v1alpha1.PermanentNodeDeletionExpectedCondition).status == core.Yes
}

// mostFinalizers bounds the finalizers that a message names.
const mostFinalizers = 3

// finalizersOf names the finalizers that keep an object.
func finalizersOf(u *unstructured.Unstructured) string {
	all := u.GetFinalizers()
	text := strings.Join(all[:min(len(all), mostFinalizers)], ", ")
	if more := len(all) - mostFinalizers; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// machineOf returns the machine that a request is about, and the remedy that creates such requests. The remedy is empty
// when there is no machine.
func machineOf(u *unstructured.Unstructured) (machine metav1.OwnerReference, remedy string) {
	for _, remedy := range [...]string{MachineRemedy, ClusterMachineRemedy} {
		if machine, is := owner(u, machineKinds[remedy].Group, machineKind); is {
			return machine, remedy
		}
	}
	return metav1.OwnerReference{}, ""
}

// requestingCheck returns the health check that created a node request. The garbage collector removes a deleted health
// check from the owners; then an annotation has its name.
func requestingCheck(u *unstructured.Unstructured) (core.ID, bool) {
	if policy, is := owner(u, v1alpha1.GroupVersion.Group, healthCheckKind); is {
		return core.ID{Kind: healthCheckKind, Name: policy.Name, UID: string(policy.UID)}, true
	}
	name := u.GetAnnotations()[annotation.NodeHealthCheck]
	return core.ID{Kind: healthCheckKind, Name: name}, name != ""
}

// nodeOf returns the name of the node that a request is about. Older remediators go by the name of the request.
func nodeOf(u *unstructured.Unstructured) string {
	if name := u.GetAnnotations()[v1alpha1.NodeNameAnnotation]; name != "" {
		return name
	}
	return u.GetName()
}

// stoppedAt returns when Fettle told a remediator to stop. An annotation that holds no time counts from the creation of
// the request.
func stoppedAt(annotations map[string]string, created time.Time) time.Time {
	text, stopped := annotations[v1alpha1.TimedOutAnnotation]
	if !stopped {
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

// owner returns the first owner of a kind, in any version of its group.
func owner(u *unstructured.Unstructured, group, kind string) (metav1.OwnerReference, bool) {
	for _, o := range u.GetOwnerReferences() {
		if version, err := schema.ParseGroupVersion(o.APIVersion); err == nil && version.Group == group && o.Kind == kind {
			return o, true
		}
	}
	return metav1.OwnerReference{}, false
}

// mostPhase bounds a phase, in bytes.
const mostPhase = 64

// phase returns the status.phase of an object, in which remediators without conditions report their progress.
func phase(u *unstructured.Unstructured) string {
	status, _ := u.Object["status"].(map[string]any)
	word, _ := status["phase"].(string)
	return lenient.Prefix(word, mostPhase)
}

// conditionState is the state of a condition. The zero state is that of an absent condition.
type conditionState struct {
	status core.Tri
	// since is zero when the condition has no time that can be parsed.
	since time.Time
}

// condition reads a condition of an object. A status other than True and False is unknown.
func condition(u *unstructured.Unstructured, kind string) conditionState {
	status, _ := u.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		if fields["type"] != kind {
			continue
		}
		var r conditionState
		if text, is := fields["lastTransitionTime"].(string); is {
			at, _ := time.Parse(time.RFC3339, text)
			r.since = at.UTC()
		}
		switch fields["status"] {
		case string(metav1.ConditionTrue):
			r.status = core.Yes
		case string(metav1.ConditionFalse):
			r.status = core.No
		}
		return r
	}
	return conditionState{}
}
