package capi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// The kinds of owners whose rules this package knows.
const (
	machineSetKind        = "MachineSet"
	machineDeploymentKind = "MachineDeployment"
	controlPlaneKind      = "KubeadmControlPlane"
)

// Answer is the response of an owner to a machine that requests its replacement.
type Answer struct {
	// Kind and Name identify the owner, which is in the namespace of the machine.
	Kind, Name string
	// Requested is set if the machine requests its replacement. Since is when the request, or the owner's response, last
	// changed.
	Requested bool
	Since     time.Time
	// Reason and Message are the owner's response. They are empty if the owner has not responded.
	Reason, Message string
	// Rules are sentences without a full stop about the owner's rules.
	Rules []string
	// Waits are what the owner waits for, as far as Fettle can see it.
	Waits []Wait
}

// Answer returns the response of a machine's owner, and false for a machine that no owner replaces. owners has the
// owner and the owner's owner, as far as they could be read. annotations are those of the machine.
func (r *Reading) Answer(machine core.ID, annotations map[string]string, owners []*unstructured.Unstructured, now time.Time) (Answer, bool) {
	m := r.machine(machine.Namespace, machine.Name)
	if m == nil || string(m.UID) != machine.UID || m.ReplacingOwner() == nil {
		return Answer{}, false
	}
	owner := m.ReplacingOwner()
	a := Answer{Kind: owner.Kind, Name: owner.Name, Requested: requestsReplacement(m)}
	if mark := m.Mark(clusterapi.Current, clusterv1.MachineOwnerRemediatedCondition); a.Requested {
		a.Since = mark.Since
		if mark.Reason != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
			a.Reason, a.Message = mark.Reason, strings.Join(strings.Fields(mark.Message), " ")
		}
	}
	pool := r.pool(m, owner.UID)
	switch find := ownersBy(owners); {
	case find(controlPlaneKind) != nil:
		k := readControlPlane(find(controlPlaneKind))
		a.Rules = k.rules()
		if a.Requested && m.DeletionTimestamp == nil {
			a.Waits = k.waits(m, pool, readReplacement(annotations, replacesAnnotation), now)
		}
	case find(machineSetKind) != nil:
		p := readMachineSet(find(machineSetKind), find(machineDeploymentKind))
		a.Rules = p.rules()
		if a.Requested && m.DeletionTimestamp == nil {
			a.Waits = p.waits(m, pool)
		}
	}
	return a, true
}

func ownersBy(owners []*unstructured.Unstructured) func(kind string) *unstructured.Unstructured {
	return func(kind string) *unstructured.Unstructured {
		i := slices.IndexFunc(owners, func(u *unstructured.Unstructured) bool { return u.GetKind() == kind })
		if i < 0 {
			return nil
		}
		return owners[i]
	}
}

// pool returns the machines of an owner, including machines that are excluded from health checking.
func (r *Reading) pool(of *clusterapi.Machine, owner string) []*clusterapi.Machine {
	var pool []*clusterapi.Machine
	for _, m := range r.client.storeOf(types.NamespacedName{Namespace: of.Namespace, Name: of.ClusterName()}).index.All() {
		if m.Owner != nil && m.Owner.UID == owner {
			pool = append(pool, m.Machine)
		}
	}
	return pool
}

// machineSet has the fields of a MachineSet and its MachineDeployment that decide when it replaces machines
// (docs/reference/cluster-api.md#machineset).
type machineSet struct {
	paused bool
	// deployment is the name of its MachineDeployment, or empty if there is none or it could not be read.
	deployment string
	// outdated is set while a rollout is to replace all machines of the set.
	outdated bool
	// maxInFlight is how many machines may be replaced at a time, nil for no limit. field is the path of that setting.
	maxInFlight *int
	field       string
	// wrong describes the fields that can't be read.
	wrong []string
}

// readMachineSet reads a MachineSet and its MachineDeployment of either version. deployment may be nil.
func readMachineSet(set, deployment *unstructured.Unstructured) machineSet {
	_, paused := set.GetAnnotations()[clusterv1.PausedAnnotation]
	p := machineSet{paused: paused}
	if deployment == nil {
		return p
	}
	type limit struct {
		MaxInFlight *intstr.IntOrString `json:"maxInFlight"`
	}
	spec, wrong := lenient.Part[struct {
		Replicas    *int32 `json:"replicas"`
		Remediation limit  `json:"remediation"`
		Strategy    struct {
			Remediation limit `json:"remediation"`
		} `json:"strategy"`
	}](deployment.Object, "spec")
	for _, w := range wrong {
		p.wrong = append(p.wrong, w.Field+" is "+w.Value+" and can't be read")
	}
	p.deployment = deployment.GetName()
	p.outdated = set.GetAnnotations()[clusterv1.RevisionAnnotation] != deployment.GetAnnotations()[clusterv1.RevisionAnnotation]
	most := spec.Remediation.MaxInFlight
	p.field = "spec.remediation.maxInFlight"
	if most == nil && spec.Strategy.Remediation.MaxInFlight != nil {
		most, p.field = spec.Strategy.Remediation.MaxInFlight, "spec.strategy.remediation.maxInFlight"
	}
	if most == nil {
		return p
	}
	replicas := 1
	if spec.Replicas != nil {
		replicas = int(*spec.Replicas)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(most, replicas, true)
	if err != nil {
		p.wrong = append(p.wrong, p.field+" is "+lenient.Quote(most.String())+" and can't be read")
		return p
	}
	p.maxInFlight = &n
	return p
}

func (p *machineSet) rules() []string {
	rules := p.wrong
	switch {
	case p.deployment == "":
	case p.maxInFlight == nil:
		rules = append([]string{"Any number of its machines are replaced at a time (" + p.field + " of MachineDeployment " + p.deployment + " is not set)"}, rules...)
	default:
		rules = append([]string{fmt.Sprintf("At most %d of its machines are replaced at a time (%s of MachineDeployment %s)", *p.maxInFlight, p.field, p.deployment)}, rules...)
	}
	return rules
}

// waits returns what a MachineSet waits for before it replaces a machine that requests it. Only the machine set can
// tell the results of its preflight checks.
func (p *machineSet) waits(machine *clusterapi.Machine, members []*clusterapi.Machine) []Wait {
	var waits []Wait
	if p.paused {
		waits = append(waits, Wait{
			Text: "annotation " + clusterv1.PausedAnnotation + " is on the machine set, which does nothing as long as it is", Hint: "remove the annotation",
		})
	}
	if p.outdated {
		return append(waits, Wait{
			Text: "its machine set is not the current one of MachineDeployment " + p.deployment + ", whose rollout replaces the machine", Hint: "see what holds up the rollout, which never comes with the strategy OnDelete",
		})
	}
	if p.maxInFlight == nil {
		return waits
	}
	leaving, before := 0, 0
	for _, m := range members {
		switch mark := m.Mark(clusterapi.Current, clusterv1.MachineOwnerRemediatedCondition); {
		case m.DeletionTimestamp != nil && isFalse(mark) && mark.Reason == clusterv1.MachineSetMachineRemediationMachineDeletingReason:
			leaving++
		case m.DeletionTimestamp == nil && requestsReplacement(m) && goesFirst(m, machine):
			before++
		}
	}
	if leaving+before < *p.maxInFlight {
		return waits
	}
	mend := "raise " + p.field + " of MachineDeployment " + p.deployment
	if *p.maxInFlight == 0 {
		return append(waits, Wait{Text: p.field + " of MachineDeployment " + p.deployment + " is 0, so none of its machines is ever replaced", Hint: mend})
	}
	return append(waits, Wait{
		Text: fmt.Sprintf("%d of its machine set are being replaced and %d go first, and %s of MachineDeployment %s lets at most %d be replaced at a time", leaving, before, p.field, p.deployment, *p.maxInFlight),
		Hint: mend,
	})
}

// goesFirst reports whether the machine set replaces a before than. Machines that a user marked go first, then the
// newest, then by name.
func goesFirst(a, than *clusterapi.Machine) bool {
	order := cmp.Or(falseFirst(!a.RemediationRequested(), !than.RemediationRequested()), than.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, than.Name))
	return order < 0
}

// ControlledBy returns the controller owner of an object, and whether it is an owner of Cluster API whose rules are
// known.
func ControlledBy(o metav1.Object) (metav1.OwnerReference, bool) {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return metav1.OwnerReference{}, false
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	known := (group == clusterv1.GroupVersion.Group && (owner.Kind == machineSetKind || owner.Kind == machineDeploymentKind)) ||
		(group == controlPlaneGroup && owner.Kind == controlPlaneKind)
	return *owner, known
}

// ownedBy reports whether there is an owner reference to the cluster.
func ownedBy(owners []metav1.OwnerReference, cluster *clusterapi.Cluster) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == cluster.UID })
}
