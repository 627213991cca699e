package ledger

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// The reasons for ignoring a Repair. They are the values of a label of the metric fettle_repairs_ignored.
const (
	// unreadable: it has no target.
	unreadable = "Unreadable"
	// wrongNamespace: it is not in the namespace of its target.
	wrongNamespace = "WrongNamespace"
	// wrongName: Fettle makes another name for the target.
	wrongName = "WrongName"
	// inconsistent: its fields contradict each other.
	inconsistent = "Inconsistent"
	// tooLarge: a field is larger than any that Fettle writes.
	tooLarge = "TooLarge"
	// tooMany: its namespace has more Repairs than Fettle reads.
	tooMany = "TooMany"
)

var reasons = [...]string{unreadable, wrongNamespace, wrongName, inconsistent, tooLarge, tooMany}

// The bounds on one Repair. Fettle writes none that exceeds them.
const (
	// maxNameLength is the longest name of an object, or of anything else that Fettle names.
	maxNameLength = 253
	// maxSteps is more than any health check may have.
	maxSteps = 100
)

// ignoreReason is the reason for ignoring a Repair, with a text for users. The zero value means that the Repair
// counts.
type ignoreReason struct{ reason, text string }

// ignoreReasonOf returns why a Repair is ignored. Fettle records a repair in the namespace of its target, or in its
// own namespace if the target has none. The name is made from the target, and the health check is in the target's
// namespace. Any other Repair is not Fettle's: a user who may write in one namespace must not reach a target of
// another.
//
// An empty home means that Fettle's own namespace is unknown. Repairs of targets without a namespace then count in
// any.
func ignoreReasonOf(meta *metav1.ObjectMeta, spec *repairSpec, status *repairStatus, home string) ignoreReason {
	t := &spec.Target
	switch {
	case t.Kind == "" || t.UID == "":
		return ignoreReason{unreadable, "spec.target does not say what is repaired"}
	case exceeds(spec, status):
		return ignoreReason{tooLarge, fmt.Sprintf(
			"it has more than %d steps, or a name in its spec that is longer than %d characters", maxSteps, maxNameLength)}
	}
	if d := misplaced(meta, t, spec.Cluster, home); d != (ignoreReason{}) {
		return d
	}
	if !core.IsRepairName(meta.Name, t.identity()) {
		return ignoreReason{wrongName, "its name is not the name that Fettle makes from spec.target"}
	}
	return contradicted(spec)
}

func misplaced(meta *metav1.ObjectMeta, t *repairTarget, cluster, home string) ignoreReason {
	switch {
	case t.Namespace != "" && t.Namespace != meta.Namespace:
		return ignoreReason{wrongNamespace, "its target is in namespace " + lenient.Quote(t.Namespace) + ", and only Repairs of that namespace count for it"}
	case t.Namespace == "" && cluster != "":
		return ignoreReason{inconsistent, "a machine of a workload cluster has a namespace, and spec.target has none"}
	case t.Namespace == "" && home != "" && home != meta.Namespace:
		return ignoreReason{wrongNamespace, "its target has no namespace, and only Repairs in namespace " + lenient.Quote(home) + " count for it"}
	}
	return ignoreReason{}
}

// contradicted returns whether the fields of a Repair contradict each other.
func contradicted(spec *repairSpec) ignoreReason {
	t := &spec.Target
	switch {
	case spec.Policy.Namespace != t.Namespace:
		return ignoreReason{inconsistent, "spec.policy is not in the namespace of spec.target"}
	case spec.Owner != nil && spec.Owner.Namespace != t.Namespace:
		return ignoreReason{inconsistent, "spec.owner is not in the namespace of spec.target"}
	case spec.Holder != "" && (t.Namespace != "" || core.CurrentHolder(spec.Holder) != core.HolderOf(identity(spec.Policy))):
		return ignoreReason{inconsistent, "spec.holder is not that of spec.policy"}
	case t.Kind == nodeKind && t.Node != t.Name:
		return ignoreReason{inconsistent, "spec.target is a node, and spec.target.node names another"}
	}
	return ignoreReason{}
}

// nodeKind is the kind of targets that are nodes.
const nodeKind = "Node"

// exceeds reports whether a field of a Repair is larger than any that Fettle writes.
func exceeds(spec *repairSpec, status *repairStatus) bool {
	if len(spec.Ladder) > maxSteps || len(status.Steps) > maxSteps {
		return true
	}
	t := &spec.Target
	names := []string{t.Kind, t.Namespace, t.Name, t.UID, t.Node, spec.Cluster, spec.Holder}
	names = append(names, namesOf(&spec.Policy)...)
	if spec.Owner != nil {
		names = append(names, namesOf(spec.Owner)...)
	}
	for i := range spec.Ladder {
		step := &spec.Ladder[i]
		names = append(names, step.Remedy)
		if step.Template != nil {
			names = append(names, step.Template.APIVersion, step.Template.Kind, step.Template.Namespace, step.Template.Name)
		}
	}
	for _, name := range names {
		// A holder has a kind and a name.
		if len(name) > 2*maxNameLength {
			return true
		}
	}
	return false
}

func namesOf(r *v1alpha1.ObjectReference) []string {
	return []string{r.Kind, r.Namespace, r.Name, r.UID}
}
