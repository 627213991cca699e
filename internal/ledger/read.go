package ledger

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// repairSpec is what is read of a Repair's spec. Its times may be written with fractions of a second or
// without: the definition takes both, and people write the latter.
type repairSpec struct {
	Target    repairTarget              `json:"target"`
	Cluster   string                    `json:"cluster"`
	Policy    v1alpha1.ObjectReference  `json:"policy"`
	Owner     *v1alpha1.ObjectReference `json:"owner"`
	Ladder    []v1alpha1.RepairStep     `json:"ladder"`
	Holder    string                    `json:"holder"`
	StartedAt metav1.Time               `json:"startedAt"`
	Retry     int32                     `json:"retry"`
	// OwnerTemplate is compared alone, and is kept as far as Fettle writes it.
	OwnerTemplate string       `json:"ownerTemplate"`
	RequestedAt   *metav1.Time `json:"requestedAt"`
}

// repairTarget is what a Repair is about. It embeds nothing, since a field of an embedded struct is told by the name of
// the Go type when it can't be read.
type repairTarget struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Node      string `json:"node"`
}

func targetOf(t v1alpha1.RepairTarget) repairTarget {
	return repairTarget{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, UID: t.UID, Node: t.Node}
}

func (a repairTarget) identity() core.ID {
	return core.ID{Kind: a.Kind, Namespace: a.Namespace, Name: a.Name, UID: a.UID}
}

// repairStatus is what is read of a Repair's status: how far it has come.
type repairStatus struct {
	Phase       v1alpha1.RepairPhase `json:"phase"`
	Message     string               `json:"message"`
	Steps       []attempt            `json:"steps"`
	RecoveredAt *metav1.Time         `json:"recoveredAt"`
	BegunAt     *metav1.Time         `json:"begunAt"`
	Answer      string               `json:"answer"`
	Attempts    int32                `json:"attempts"`
	LastAttempt *metav1.Time         `json:"lastAttempt"`
	FinishedAt  *metav1.Time         `json:"finishedAt"`
}

// attempt is what is read of a step that was given up.
type attempt struct {
	Outcome v1alpha1.StepOutcome `json:"outcome"`
	EndedAt *metav1.Time         `json:"endedAt"`
	Message string               `json:"message"`
}

// record is a Repair as far as it could be read. It is what a cache keeps of one.
type record struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	repair core.Repair
	// cluster is the one that the target belongs to.
	cluster ClusterKey
	// problem says what can't be read of it, and is empty when all can.
	problem string
	// ignored says why nothing follows from it. Then nothing but its metadata is kept.
	ignored ignoreReason
}

// DeepCopyObject copies the page.
func (p *record) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

// hasProgressed tells whether somebody has changed how far a repair has come, or may have, since it was seen
// last.
func (p *record) hasProgressed(old *record) bool {
	r := &p.repair
	if r.Attempts > 0 {
		return true
	}
	moved := len(r.Tried) > 0 || !r.Recovered.IsZero() || !r.Begun.IsZero()
	if old == nil {
		return moved
	}
	was := &old.repair
	return len(r.Tried) != len(was.Tried) || !r.Recovered.Equal(was.Recovered) || !r.Begun.Equal(was.Begun) || r.Answer != was.Answer
}

// counts reports whether anything follows from the Repair.
func (p *record) counts() bool { return p.ignored == (ignoreReason{}) }

// readRecord reads a Repair that anybody may have written. One that fails to decode would end the watch of
// all others, so what can't be read is absent. A Repair that does not say how it ended is running. Home is the namespace of
// Repairs whose targets have none; it is empty where that is not known.
func readRecord(u *unstructured.Unstructured, home string) *record {
	spec, wrong := lenient.Part[repairSpec](u.Object, "spec")
	status, alsoWrong := lenient.Part[repairStatus](u.Object, "status")
	p := &record{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
	}}
	var problems []string
	for _, w := range append(append(wrong, unknownNature(spec.Ladder)...), alsoWrong...) {
		problems = append(problems, w.Field+" is "+w.Value+" and can't be read")
	}
	if p.ignored = ignoreReasonOf(&p.ObjectMeta, &spec, &status, home); p.counts() {
		p.repair, p.cluster = repairOf(&p.ObjectMeta, &spec, &status), clusterKeyOf(&p.ObjectMeta, spec.Cluster)
	} else {
		problems = append(problems, p.ignored.text)
	}
	p.problem = sanitize.Line(maxProblem, strings.Join(problems, "; "))
	return p
}

// maxTemplate bounds what is kept of a template's fingerprint.
const maxTemplate = 64

// maxProblem bounds what is said about one Repair. The API server takes 1024 bytes in an event.
const maxProblem = 800

func specOf(s *v1alpha1.RepairSpec) repairSpec {
	return repairSpec{
		Target: targetOf(s.Target), Cluster: s.Cluster, Policy: s.Policy, Owner: s.Owner, Ladder: s.Ladder, Holder: s.Holder,
		StartedAt: metav1.Time(s.StartedAt), Retry: s.Retry, OwnerTemplate: s.OwnerTemplate, RequestedAt: s.RequestedAt,
	}
}

// read gives what the core reads of a Repair.
func read(r *v1alpha1.Repair) core.Repair {
	spec := specOf(&r.Spec)
	status := repairStatus{
		Phase: r.Status.Phase, Message: r.Status.Message, Attempts: r.Status.Attempts,
		RecoveredAt: (*metav1.Time)(r.Status.RecoveredAt), BegunAt: (*metav1.Time)(r.Status.BegunAt),
		LastAttempt: (*metav1.Time)(r.Status.LastAttempt), FinishedAt: r.Status.FinishedAt, Answer: r.Status.Answer,
	}
	for _, s := range r.Status.Steps {
		status.Steps = append(status.Steps, attempt{Outcome: s.Outcome, EndedAt: (*metav1.Time)(&s.EndedAt), Message: s.Message})
	}
	return repairOf(&r.ObjectMeta, &spec, &status)
}

// holderNow returns the present name of a holder. Earlier versions of Fettle recorded another one.
func holderNow(recorded string) string {
	if recorded == "" {
		return ""
	}
	return core.CurrentHolder(recorded)
}

// maxClockSkew is the most by which Fettle's clock and the API server's may differ. A Repair is created when its repair starts.
const maxClockSkew = time.Hour

func repairOf(meta *metav1.ObjectMeta, spec *repairSpec, status *repairStatus) core.Repair {
	out := core.Repair{
		Namespace: meta.Namespace, Name: meta.Name, UID: string(meta.UID),
		Target:   spec.Target.identity(),
		Node:     spec.Target.Node,
		Policy:   identity(spec.Policy),
		Steps:    stepsOf(spec.Ladder),
		Holder:   holderNow(spec.Holder),
		Retry:    int(spec.Retry),
		Started:  spec.StartedAt.Time,
		Outcome:  outcomes[status.Phase],
		Sequence: sequence(meta, status),
		Revision: revision(meta.ResourceVersion),
	}
	if created := meta.CreationTimestamp.Time; out.Started.IsZero() || (!created.IsZero() && out.Started.Sub(created).Abs() > maxClockSkew) {
		out.Started = created
	}
	if q := spec.RequestedAt; q != nil && q.Sub(out.Started) < maxClockSkew { // Fettle begins nothing for a request of the future
		out.Requested = q.UTC()
	}
	if spec.Owner != nil {
		out.Owner, out.OwnerTemplate = identity(*spec.Owner), lenient.Prefix(spec.OwnerTemplate, maxTemplate)
	}
	for _, s := range status.Steps {
		out.Tried = append(out.Tried, core.StepRecord{Ended: sinceStart(&out, s.EndedAt), Outcome: cmp.Or(stepOutcomes[s.Outcome], core.TimedOut), Text: shortened(s.Message)})
	}
	out.Answer, out.Attempts = shortened(status.Answer), int(status.Attempts)
	if status.RecoveredAt != nil {
		out.Recovered = sinceStart(&out, status.RecoveredAt)
	}
	if status.BegunAt != nil {
		out.Begun = sinceStart(&out, status.BegunAt)
	}
	if status.LastAttempt != nil {
		out.LastAttempt = status.LastAttempt.Time
	}
	switch {
	case !status.FinishedAt.IsZero():
		out.Ended = out.EndAt(status.FinishedAt.Time)
	case out.Outcome != 0:
		out.Ended = out.EndAt(out.Started)
	}
	return out
}

// sinceStart is an instant in the course of a repair. One from before its start, which nobody writes but
// by hand, would have a step be over before its time.
func sinceStart(r *core.Repair, at *metav1.Time) time.Time {
	if at == nil || at.Time.Before(r.Started) {
		return r.Started
	}
	return at.Time
}

// stepsOf gives the steps of a repair, and none when one of them can't be read: what a step does to a
// target is no matter for a guess.
func stepsOf(steps []v1alpha1.RepairStep) []core.Step {
	if len(unknownNature(steps)) > 0 {
		return nil
	}
	var out []core.Step
	for _, s := range steps {
		step := core.Step{Remedy: s.Remedy, Nature: natures[s.Nature]}
		if s.Template != nil {
			step.Template = core.Reference(*s.Template)
		}
		if s.Timeout != nil {
			step.Limit = max(0, s.Timeout.Duration)
		}
		out = append(out, step)
	}
	return out
}

// unknownNature tells of the first step whose nature is not known here.
func unknownNature(steps []v1alpha1.RepairStep) []lenient.Problem {
	for i, s := range steps {
		if _, known := natures[s.Nature]; !known {
			return []lenient.Problem{{
				Field: "spec.ladder[" + strconv.Itoa(i) + "].nature", Value: lenient.Excerpt(strconv.Quote(string(s.Nature))),
			}}
		}
	}
	return nil
}

// sequence is the revision at which a Repair was created. It is lost with the first change, which leaves a
// message.
func sequence(meta *metav1.ObjectMeta, status *repairStatus) uint64 {
	if status.Attempts > 0 || status.FinishedAt != nil || status.Message != "" {
		return 0
	}
	return revision(meta.ResourceVersion)
}

// revision reads the version of an object. They are numbers that count up; of one that can't be read nothing is known.
func revision(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
