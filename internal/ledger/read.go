package ledger

import (
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/legible"
)

// decided is what is read of a Repair's spec. Its times may be written with fractions of a second or
// without: the definition takes both, and people write the latter.
type decided struct {
	Target    v1alpha1.ObjectReference  `json:"target"`
	Policy    v1alpha1.ObjectReference  `json:"policy"`
	Owner     *v1alpha1.ObjectReference `json:"owner"`
	StartedAt metav1.Time               `json:"startedAt"`
	Retry     int32                     `json:"retry"`
}

// come is what is read of a Repair's status: how far it has come.
type come struct {
	Phase       v1alpha1.RepairPhase `json:"phase"`
	Attempts    int32                `json:"attempts"`
	LastAttempt *metav1.Time         `json:"lastAttempt"`
	FinishedAt  *metav1.Time         `json:"finishedAt"`
}

// page is a Repair as far as it could be read. It is what a cache keeps of one.
type page struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	repair core.Repair
	// problem says what can't be read of it, and is empty when all can.
	problem string
}

// DeepCopyObject copies the page.
func (p *page) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

// about tells whether it is known what is repaired. If not, nothing follows from the Repair.
func (p *page) about() bool { return p.repair.Target.Kind != "" && p.repair.Target.UID != "" }

// readPage reads a Repair that anybody may have written. One that fails to decode would end the watch of
// all others, so what can't be read is absent. A Repair that does not say how it ended is running.
func readPage(u *unstructured.Unstructured) *page {
	spec, wrong := legible.Part[decided](u.Object, "spec")
	status, alsoWrong := legible.Part[come](u.Object, "status")
	p := &page{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
	}}
	p.repair = repairOf(&p.ObjectMeta, &spec, &status)
	var problems []string
	for _, w := range append(wrong, alsoWrong...) {
		problems = append(problems, w.Field+" is "+w.Value+" and can't be read")
	}
	if !p.about() {
		problems = append(problems, "spec.target does not say what is repaired")
	}
	p.problem = strings.Join(problems, "; ")
	return p
}

// Read gives what the core reads of a Repair, for those who list repairs and keep no ledger.
func Read(r *v1alpha1.Repair) core.Repair { return read(r) }

// read gives what the core reads of a Repair.
func read(r *v1alpha1.Repair) core.Repair {
	spec := decided{
		Target: r.Spec.Target.ObjectReference, Policy: r.Spec.Policy, Owner: r.Spec.Owner,
		StartedAt: metav1.Time(r.Spec.StartedAt), Retry: r.Spec.Retry,
	}
	status := come{
		Phase: r.Status.Phase, Attempts: r.Status.Attempts,
		LastAttempt: (*metav1.Time)(r.Status.LastAttempt), FinishedAt: r.Status.FinishedAt,
	}
	return repairOf(&r.ObjectMeta, &spec, &status)
}

// clocksDiffer is the most by which Fettle's clock may be ahead of the API server's.
const clocksDiffer = time.Hour

func repairOf(meta *metav1.ObjectMeta, spec *decided, status *come) core.Repair {
	out := core.Repair{
		Namespace: meta.Namespace, Name: meta.Name,
		Target:   identity(spec.Target),
		Policy:   identity(spec.Policy),
		Retry:    int(spec.Retry),
		Started:  spec.StartedAt.Time,
		Attempts: int(status.Attempts),
		Outcome:  outcomes[status.Phase],
		Sequence: sequence(meta, status),
	}
	if created := meta.CreationTimestamp.Time; out.Started.IsZero() || (!created.IsZero() && out.Started.After(created.Add(clocksDiffer))) {
		out.Started = created
	}
	if spec.Owner != nil {
		out.Owner = identity(*spec.Owner)
	}
	if status.LastAttempt != nil {
		out.LastAttempt = status.LastAttempt.Time
	}
	if out.Outcome != 0 {
		out.Ended = out.Started
	}
	if !status.FinishedAt.IsZero() {
		out.Ended = status.FinishedAt.Time
	}
	return out
}

// sequence is the revision at which a Repair was created. It is lost with the first change, which is
// that of an attempt or an end.
func sequence(meta *metav1.ObjectMeta, status *come) uint64 {
	if status.Attempts > 0 || status.FinishedAt != nil {
		return 0
	}
	revision, err := strconv.ParseUint(meta.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}
