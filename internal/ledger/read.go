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

// repairSpec is what the ledger reads of a Repair's spec. Times may have fractions of a second: the definition
// accepts both forms, and users write times without fractions.
type repairSpec struct {
	Target    repairTarget              `json:"target"`
	Cluster   string                    `json:"cluster"`
	Policy    v1alpha1.ObjectReference  `json:"policy"`
	Owner     *v1alpha1.ObjectReference `json:"owner"`
	Ladder    []v1alpha1.RepairStep     `json:"ladder"`
	Holder    string                    `json:"holder"`
	StartedAt metav1.Time               `json:"startedAt"`
	Retry     int32                     `json:"retry"`
	// OwnerTemplate is only compared. It is kept up to the length that Fettle writes.
	OwnerTemplate string       `json:"ownerTemplate"`
	RequestedAt   *metav1.Time `json:"requestedAt"`
}

// repairTarget is the target of a Repair. It embeds nothing: the error about a field of an embedded struct would
// have the name of the Go type.
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

// repairStatus is what the ledger reads of a Repair's status.
type repairStatus struct {
	Phase       v1alpha1.RepairPhase `json:"phase"`
	Message     string               `json:"message"`
	Steps       []attempt            `json:"steps"`
	RecoveredAt *metav1.Time         `json:"recoveredAt"`
	BegunAt     *metav1.Time         `json:"begunAt"`
	Answer      string               `json:"answer"`
	Attempts    int32                `json:"attempts"`
	LastAttempt *metav1.Time         `json:"lastAttempt"`
	Evidence    []evidence           `json:"evidence"`
	FinishedAt  *metav1.Time         `json:"finishedAt"`
}

// attempt is what the ledger reads of a step that was given up.
type attempt struct {
	Outcome v1alpha1.StepOutcome `json:"outcome"`
	EndedAt *metav1.Time         `json:"endedAt"`
	Message string               `json:"message"`
}

// record is a Repair as far as it could be read. Caches store records.
type record struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	repair core.Repair
	// cluster is the cluster of the target.
	cluster core.ClusterKey
	// problem says which fields can't be read, and is empty if all can.
	problem string
	// ignored says why the Repair doesn't count. The record of such a Repair has nothing but the metadata.
	ignored ignoreReason
}

// DeepCopyObject returns a copy of the record.
func (p *record) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

// hasProgressed reports whether another client has changed the progress of the repair since the old record, or may
// have. Old is nil if the cache had none: then a repair that runs or has any progress has progressed.
func (p *record) hasProgressed(old *record) bool {
	r := &p.repair
	if r.Attempts > 0 {
		return true
	}
	if old == nil { // its creation may have had no answer, or come so late that no pass expects it any more
		return r.Running() || len(r.Tried) > 0 || !r.Recovered.IsZero() || !r.Begun.IsZero()
	}
	was := &old.repair
	return len(r.Tried) != len(was.Tried) || !r.Recovered.Equal(was.Recovered) || !r.Begun.Equal(was.Begun) || r.Answer != was.Answer // a text of texts
}

// counts reports whether the Repair counts for decisions.
func (p *record) counts() bool { return p.ignored == (ignoreReason{}) }

// readRecord reads a Repair that any user may have written. A field that can't be read is absent, since an object
// that fails to decode would end the watch of all. A Repair without an outcome is running. Home is the namespace
// for Repairs whose targets have none, and is empty if it is unknown.
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

// maxProblem bounds the text about one Repair. The API server accepts 1024 bytes in an event.
const maxProblem = 800

func specOf(s *v1alpha1.RepairSpec) repairSpec {
	return repairSpec{
		Target: targetOf(s.Target), Cluster: s.Cluster, Policy: s.Policy, Owner: s.Owner, Ladder: s.Ladder, Holder: s.Holder,
		StartedAt: metav1.Time(s.StartedAt), Retry: s.Retry, OwnerTemplate: s.OwnerTemplate, RequestedAt: s.RequestedAt,
	}
}

// read returns the repair that a Repair records.
func read(r *v1alpha1.Repair) core.Repair {
	spec := specOf(&r.Spec)
	status := repairStatus{
		Phase: r.Status.Phase, Message: r.Status.Message, Attempts: r.Status.Attempts,
		RecoveredAt: (*metav1.Time)(r.Status.RecoveredAt), BegunAt: (*metav1.Time)(r.Status.BegunAt),
		LastAttempt: (*metav1.Time)(r.Status.LastAttempt), FinishedAt: r.Status.FinishedAt, Answer: r.Status.Answer,
		Evidence: evidenceStatus(r.Status.Evidence),
	}
	for _, s := range r.Status.Steps {
		status.Steps = append(status.Steps, attempt{Outcome: s.Outcome, EndedAt: (*metav1.Time)(&s.EndedAt), Message: s.Message})
	}
	return repairOf(&r.ObjectMeta, &spec, &status)
}

// holderNow returns the present name of a holder. Earlier versions of Fettle recorded other names.
func holderNow(recorded string) string {
	if recorded == "" {
		return ""
	}
	return core.CurrentHolder(recorded)
}

// maxClockSkew is the most by which Fettle's clock and the API server's may differ. A Repair is created when its
// repair starts.
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
	if q := spec.RequestedAt; q != nil && q.Sub(out.Started) < maxClockSkew { // Fettle starts nothing for a request in the future
		out.Requested = q.UTC()
	}
	if spec.Owner != nil {
		out.Owner, out.OwnerTemplate = identity(*spec.Owner), lenient.Prefix(spec.OwnerTemplate, maxTemplate)
	}
	for _, s := range status.Steps {
		out.Tried = append(out.Tried, core.StepRecord{Ended: sinceStart(&out, s.EndedAt), Outcome: cmp.Or(stepOutcomes[s.Outcome], core.TimedOut), Text: shortened(s.Message)})
	}
	out.Evidence = evidenceOf(status.Evidence)
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

// sinceStart returns an instant in the course of a repair. An instant before the start, which only a user can have
// written, would end a step too soon. It becomes the start.
func sinceStart(r *core.Repair, at *metav1.Time) time.Time {
	if at == nil || at.Time.Before(r.Started) {
		return r.Started
	}
	return at.Time
}

// stepsOf returns the steps of a repair. It returns none if the nature of any step is unknown, since a wrong guess
// would do the wrong thing to the target.
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

// unknownNature returns the problem of the first step whose nature is unknown.
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

// sequence returns the revision at which a Repair was created. It is lost with the first change, which leaves a
// message.
func sequence(meta *metav1.ObjectMeta, status *repairStatus) uint64 {
	if status.Attempts > 0 || status.FinishedAt != nil || status.Message != "" {
		return 0
	}
	return revision(meta.ResourceVersion)
}

// revision reads the resource version of an object. Versions are numbers that count up. It returns 0 for any other
// version.
func revision(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
