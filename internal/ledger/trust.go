package ledger

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/legible"
)

// Why a Repair is ignored, in one word. The words are the values of a label of the metric fettle_repairs_ignored.
const (
	// unreadable: it does not say what is repaired.
	unreadable = "Unreadable"
	// wrongNamespace: it is not in the namespace of its target.
	wrongNamespace = "WrongNamespace"
	// wrongName: Fettle makes another name from the target.
	wrongName = "WrongName"
	// inconsistent: its parts contradict each other.
	inconsistent = "Inconsistent"
	// tooLarge: a part of it is larger than any that Fettle writes.
	tooLarge = "TooLarge"
	// tooMany: its namespace has more Repairs than Fettle reads.
	tooMany = "TooMany"
)

var reasons = [...]string{unreadable, wrongNamespace, wrongName, inconsistent, tooLarge, tooMany}

// Bounds of what is read of one Repair. Fettle writes none that exceeds them.
const (
	// longestName is that of an object, and of anything else that Fettle names.
	longestName = 253
	// mostSteps is more than any health check may have.
	mostSteps = 100
)

// distrust is the reason for which a Repair is ignored, and a sentence for people. The zero value means that it counts.
type distrust struct{ reason, text string }

// distrustOf decides whether a Repair counts. Fettle records a repair in the namespace of its target, or in its own
// namespace where the target has none, under a name made from the target, led by a health check beside the target. A Repair
// that differs is not Fettle's, and a person who may write in one namespace must not reach a target of another.
//
// An empty home means that Fettle's own namespace is not known. Repairs of targets without a namespace count anywhere then.
func distrustOf(meta *metav1.ObjectMeta, spec *decided, status *come, home string) distrust {
	t := &spec.Target
	switch {
	case t.Kind == "" || t.UID == "":
		return distrust{unreadable, "spec.target does not say what is repaired"}
	case exceeds(spec, status):
		return distrust{tooLarge, fmt.Sprintf(
			"it has more than %d steps, or a name in its spec that is longer than %d characters", mostSteps, longestName)}
	}
	if d := misplaced(meta, t, spec.Cluster, home); d != (distrust{}) {
		return d
	}
	if !core.IsRepairName(meta.Name, t.identity()) {
		return distrust{wrongName, "its name is not the name that Fettle makes from spec.target"}
	}
	return contradicted(spec)
}

func misplaced(meta *metav1.ObjectMeta, t *aim, cluster, home string) distrust {
	switch {
	case t.Namespace != "" && t.Namespace != meta.Namespace:
		return distrust{wrongNamespace, "its target is in namespace " + legible.Quote(t.Namespace) + ", and only Repairs of that namespace count for it"}
	case t.Namespace == "" && cluster != "":
		return distrust{inconsistent, "a machine of a workload cluster has a namespace, and spec.target has none"}
	case t.Namespace == "" && home != "" && home != meta.Namespace:
		return distrust{wrongNamespace, "its target has no namespace, and only Repairs in namespace " + legible.Quote(home) + " count for it"}
	}
	return distrust{}
}

// contradicted compares the parts of a Repair with each other.
func contradicted(spec *decided) distrust {
	t := &spec.Target
	switch {
	case spec.Policy.Namespace != t.Namespace:
		return distrust{inconsistent, "spec.policy is not in the namespace of spec.target"}
	case spec.Owner != nil && spec.Owner.Namespace != t.Namespace:
		return distrust{inconsistent, "spec.owner is not in the namespace of spec.target"}
	case spec.Holder != "" && (t.Namespace != "" || core.HolderNow(spec.Holder) != core.HolderOf(identity(spec.Policy))):
		return distrust{inconsistent, "spec.holder is not that of spec.policy"}
	case t.Kind == nodeKind && t.Node != t.Name:
		return distrust{inconsistent, "spec.target is a node, and spec.target.node names another"}
	}
	return distrust{}
}

// nodeKind is the kind of targets that are nodes themselves.
const nodeKind = "Node"

// exceeds reports whether a part of a Repair is larger than any that Fettle writes.
func exceeds(spec *decided, status *come) bool {
	if len(spec.Ladder) > mostSteps || len(status.Steps) > mostSteps {
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
		// A holder is a kind and a name.
		if len(name) > 2*longestName {
			return true
		}
	}
	return false
}

func namesOf(r *v1alpha1.ObjectReference) []string {
	return []string{r.Kind, r.Namespace, r.Name, r.UID}
}
