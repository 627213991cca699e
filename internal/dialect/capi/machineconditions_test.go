package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
)

const (
	theTemplate = "spec: {remediation: {templateRef: {apiVersion: x.example/v1, kind: XTemplate, name: t}}}"

	passedNow, passedOld = "HealthCheckSucceeded=True HealthCheckSucceeded", "old HealthCheckSucceeded=True"
	failedNow, failedOld = "HealthCheckSucceeded=False UnhealthyNode", "old HealthCheckSucceeded=False UnhealthyNode"
	infra                = "InfrastructureReady=True Ready"
)

// TestHealthyMachinesSaySo: machines with a template too, with or without a request. Cluster API leaves a stale failure
// for ever there (docs/reference/cluster-api.md#open-gate).
func TestHealthyMachinesSaySo(t *testing.T) {
	for _, check := range []string{"{}", theTemplate} {
		s := settle(t, check)
		s.pass()
		s.wantSaid("it is well", "Machine clusters/a", infra, passedNow, passedOld)
		if got := s.written(); !slices.Equal(got, []string{"Machine/status a", "Machine/status b", "Machine/status c", "MachineHealthCheck/status check"}) {
			t.Errorf("written are %v", got)
		}
		s.pass()
		if got := s.written(); len(got) > 0 {
			t.Errorf("nothing has changed, and written are %v", got)
		}
	}
}

// TestMarksAreAboutTheSpecThatIsJudged: a changed spec costs one write and no second one.
func TestMarksAreAboutTheSpecThatIsJudged(t *testing.T) {
	s := settle(t)
	s.pass()
	s.written()
	u := s.stored("Machine clusters/a")
	u.SetGeneration(3)
	u.SetResourceVersion("20")
	clear(s.woken)
	s.show(u)
	if s.woken[blue] == 0 {
		t.Error("it wakes no pass")
	}
	s.pass()
	if got := s.written(); !slices.Equal(got, []string{"Machine/status a"}) {
		t.Errorf("written are %v", got)
	}
	s.pass()
	if got := s.written(); len(got) > 0 {
		t.Errorf("nothing has changed, and written are %v", got)
	}
	m := s.client.Machine(core.ID{Namespace: "clusters", Name: "a"})
	if mark := m.Mark(clusterapi.Current, healthType); mark.Generation != 3 || !mark.Since.Equal(noon) {
		t.Errorf("it is about generation %d, since %s", mark.Generation, mark.Since)
	}
}

// TestFailureIsMarkedAndTakenBack follows one machine. The gate is closed, so no remedy is called.
func TestFailureIsMarkedAndTakenBack(t *testing.T) {
	s := settle(t, "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 0}}}")
	s.pass()
	s.written()
	s.nodes.has("False", noon, "a-node")
	s.pass()
	s.wantSaid("it may be about to fail, and keeps what it says", "Machine clusters/a", infra, passedNow, passedOld)
	s.now = noon.Add(5 * time.Minute)
	_, d := s.pass()
	if len(d.Starts) > 0 {
		t.Fatalf("it starts %+v", d.Starts)
	}
	s.wantSaid("it has failed, and is not to be repaired", "Machine clusters/a", infra, failedNow, failedOld)
	s.wantSaid("and that is why", "MachineHealthCheck clusters/check",
		"Paused=False NotPaused", "RemediationAllowed=False TooManyUnhealthy", "old RemediationAllowed=False TooManyUnhealthy")
	s.written()
	s.nodes.has("True", s.now, "a-node")
	s.pass()
	s.wantSaid("it has recovered", "Machine clusters/a", infra, passedNow, passedOld)
	if got := s.written(); !slices.Equal(got, []string{"Machine/status a", "MachineHealthCheck/status check"}) {
		t.Errorf("written are %v", got)
	}
}

// TestRemedyMarksWhomItBegins: the dialect does not write a machine that a remedy writes in the same pass.
func TestRemedyMarksWhomItBegins(t *testing.T) {
	s := settle(t)
	s.nodes.has("False", ago(time.Hour), "a-node")
	if _, d := s.pass(); len(d.Starts) != 1 {
		t.Fatalf("it starts %+v", d.Starts)
	}
	if got := s.written(); slices.Contains(got, "Machine/status a") {
		t.Errorf("written are %v", got)
	}
}

// TestI12PausesMarkRecoveriesAlone: a pause holds no recovery back, and marks no new failure.
func TestI12PausesMarkRecoveriesAlone(t *testing.T) {
	const paused = `metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`
	failed := `status: {conditions: [{type: HealthCheckSucceeded, status: "False", reason: UnhealthyNode, message: "x", lastTransitionTime: "2026-08-03T11:00:00Z"}]}`
	s := begin(t)
	s.nodes.has("True", ago(time.Hour), "recovered-node", "well-node")
	s.nodes.has("False", ago(time.Hour), "fails-node")
	s.show(theCluster(t), aMachine(t, "recovered", failed), aMachine(t, "fails"), aMachine(t, "well"), aCheck(t, "check", paused))
	s.pass()
	s.wantSaid("it has recovered", "Machine clusters/recovered", passedNow, passedOld)
	s.wantSaid("it fails anew", "Machine clusters/fails", infra)
	s.wantSaid("it is well, and nothing was ever said", "Machine clusters/well", infra)
}

// TestWhoKeepsWhatItSays: a machine keeps its conditions if its health is unknown or a user has excluded it.
func TestWhoKeepsWhatItSays(t *testing.T) {
	s := begin(t)
	s.nodes.has("Unknown", time.Time{}, "untimed-node")
	s.nodes.has("True", ago(time.Hour), "well-node", "leaving-node")
	s.show(theCluster(t, `status: {conditions: [{type: ControlPlaneInitialized, status: "True", lastTransitionTime: "2026-08-01T00:10:00Z"}]}`),
		aMachine(t, "young", "status: {nodeRef: null}"), aMachine(t, "untimed"), aMachine(t, "well"),
		aMachine(t, "told", `status: {conditions: [{type: HealthCheckSucceeded, status: "False", reason: UnhealthyNode, message: "x", lastTransitionTime: "2026-08-03T11:00:00Z"}]}`),
		aMachine(t, "leaving", `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`), aCheck(t, "check"))
	s.nodes.has("True", ago(time.Hour), "told-node")
	s.pass()
	// While the infrastructure is not ready, no machine is judged. A machine with a node and without the condition is
	// marked healthy.
	s.wantSaid("a first word", "Machine clusters/well", infra, passedNow, passedOld)
	s.wantSaid("a first word", "Machine clusters/untimed", infra, passedNow, passedOld)
	s.wantSaid("no word", "Machine clusters/young", infra)
	s.wantSaid("an earlier failure stays", "Machine clusters/told", failedNow)
	s.wantSaid("it leaves", "Machine clusters/leaving", infra)
}

// TestDryRunsMarkNoMachine: a dry run has no effect on machines.
func TestDryRunsMarkNoMachine(t *testing.T) {
	s := settle(t, `metadata: {annotations: {fettle.io/dry-run: "true"}}`)
	s.nodes.has("False", ago(time.Hour), "a-node")
	s.pass()
	if got := s.written(); !slices.Equal(got, []string{"MachineHealthCheck/status check"}) {
		t.Errorf("written are %v", got)
	}
}

// TestOutsideRemediation: the condition ExternallyRemediated through the life of a request.
func TestOutsideRemediation(t *testing.T) {
	const about = "ExternallyRemediated=False "
	said := func(reason string) string {
		return `status: {conditions: [{type: ExternallyRemediated, status: "False", reason: ` + reason + `, message: "", lastTransitionTime: "2026-08-03T11:00:00Z"}]}`
	}
	request := core.Request{ID: core.ID{Kind: "X", UID: "x"}, Remedy: RequestMachineRemediation, Target: core.ID{Kind: "Machine", Namespace: "clusters", Name: "a", UID: "a-uid"}}
	refused := core.Repair{
		Namespace: "clusters", Name: "a-1", Target: request.Target, Policy: core.ID{Kind: "MachineHealthCheck", Namespace: "clusters", Name: "check", UID: "check-uid"},
		Steps: []core.Step{{Remedy: RequestMachineRemediation, Nature: core.CreateRequest}}, StepState: core.StepState{Attempts: 2, LastAttempt: noon}, Started: noon,
	}
	cases := map[string]struct {
		healthy bool
		machine string
		world   func(*core.Cluster, []core.Policy)
		want    string
	}{
		"a request stands": {false, "{}", func(f *core.Cluster, _ []core.Policy) { f.Requests = append(f.Requests, request) }, about + "WaitingForRemediation"},
		"the template is missing": {
			false, "{}", func(_ *core.Cluster, p []core.Policy) {
				p[0].Steps = []core.Step{p[0].Steps[0]}
				p[0].Steps[0].Problem, p[0].Steps[0].Missing = "there is none", true
			}, about + "RemediationTemplateNotFound",
		},
		"the template can't be used": {
			false, "{}", func(_ *core.Cluster, p []core.Policy) {
				p[0].Steps = []core.Step{p[0].Steps[0]}
				p[0].Steps[0].Problem = "it has no object in spec.template"
			}, about + "RemediationRequestCreationFailed",
		},
		"its creation is refused":      {false, "{}", func(f *core.Cluster, _ []core.Policy) { f.Repairs = append(f.Repairs, refused) }, about + "RemediationRequestCreationFailed"},
		"it has recovered":             {true, said("WaitingForRemediation"), func(*core.Cluster, []core.Policy) {}, ""},
		"the remediator has its say":   {true, said("Theirs"), func(*core.Cluster, []core.Policy) {}, about + "Theirs"},
		"the remediator had its say":   {false, said("Theirs"), func(f *core.Cluster, _ []core.Policy) { f.Requests = append(f.Requests, request) }, about + "Theirs"},
		"a creation that succeeds now": {false, said("RemediationRequestCreationFailed"), func(f *core.Cluster, _ []core.Policy) { f.Requests = append(f.Requests, request) }, about + "WaitingForRemediation"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := settle(t, theTemplate)
			s.show(aMachine(t, "a", `metadata: {resourceVersion: "8"}`, tc.machine))
			if !tc.healthy {
				s.nodes.has("False", ago(time.Hour), "a-node")
			}
			s.pass(tc.world)
			got := ""
			for _, line := range s.said("Machine clusters/a") {
				if strings.HasPrefix(line, "ExternallyRemediated") {
					got = line
				}
			}
			if got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}

// TestMarksAreBounded: machines that fail or recover go first. The next pass writes the others.
func TestMarksAreBounded(t *testing.T) {
	s := begin(t).show(theCluster(t), aCheck(t, "check", "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 0}}}"))
	for i := range parallelWrites + maxUpdates + 5 {
		name := fmt.Sprintf("m%03d", i)
		s.nodes.has("True", ago(time.Hour), name+"-node")
		s.show(aMachine(t, name))
	}
	s.nodes.has("False", ago(time.Hour), "m104-node")
	mark := func(ctx context.Context) bool {
		o := s.observe()
		cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: o.Targets}
		d := core.Decide(o.Policies, cluster, s.now)
		more, err := s.dialect.WriteConditions(ctx, o.Policies, &cluster, d.CombinedVerdicts(o.Policies, &cluster))
		if err != nil {
			t.Fatalf("marking: %v", err)
		}
		return more
	}
	over, end := context.WithCancel(t.Context())
	end()
	for _, step := range []struct {
		when    string
		ctx     context.Context
		more    bool
		written int
	}{
		{"while something else is due", over, true, parallelWrites},
		{"then", t.Context(), true, maxUpdates},
		{"at last", t.Context(), false, 5},
	} {
		more, got := mark(step.ctx), s.written()
		if turned := slices.Contains(got, "Machine/status m104"); turned != (step.ctx == over) {
			t.Errorf("%s m104 is among them: %t", step.when, turned)
		}
		if more != step.more || len(got) != step.written {
			t.Errorf("%s more: %t, %d are written", step.when, more, len(got))
		}
	}
}

// TestMarksThatAreRefused: a machine that has changed is judged again, a deleted one needs no write, and a failed write
// does not hold up the others.
func TestMarksThatAreRefused(t *testing.T) {
	s := settle(t)
	resource := schema.GroupResource{Resource: "machines"}
	mark := func() (bool, error) {
		o := s.observe()
		cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: o.Targets}
		d := core.Decide(o.Policies, cluster, s.now)
		return s.dialect.WriteConditions(t.Context(), o.Policies, &cluster, d.CombinedVerdicts(o.Policies, &cluster))
	}
	s.refuse["a"] = apierrors.NewNotFound(resource, "a")
	if more, err := mark(); more || err != nil {
		t.Errorf("one is gone: more: %t, %v", more, err)
	}
	s.wantSaid("the others are written", "Machine clusters/b", infra, passedNow, passedOld)
	s.refuse["a"] = apierrors.NewConflict(resource, "a", errDown)
	if more, err := mark(); !more || err != nil {
		t.Errorf("one has changed: more: %t, %v", more, err)
	}
	s.refuse["a"] = errDown
	if _, err := mark(); err == nil || !strings.Contains(err.Error(), errDown.Error()) {
		t.Errorf("one can't be written: %v", err)
	}
	s.panics = "a"
	if _, err := mark(); err == nil || !strings.Contains(err.Error(), "the sky falls") {
		t.Errorf("the write of one panics: %v", err)
	}
}

// hanging is an API server that answers no write. It records when each write has to end, since the start of the bubble.
type hanging struct {
	client.Client

	mu   sync.Mutex
	ends []time.Duration
}

func (h *hanging) Status() client.SubResourceWriter { return hangingStatuses{h: h} }

type hangingStatuses struct {
	client.SubResourceWriter

	h *hanging
}

func (w hangingStatuses) Patch(ctx context.Context, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	start := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // of every bubble
	until, _ := ctx.Deadline()
	w.h.mu.Lock()
	w.h.ends = append(w.h.ends, until.Sub(start))
	w.h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// TestI15WritesOfMachinesAreBounded: so many run at a time, for so long. Writes that did not start are due again, also
// if one pass could make them all. Each failure counts.
func TestI15WritesOfMachinesAreBounded(t *testing.T) {
	s := begin(t)
	var updates []machineUpdate
	for i := range parallelWrites + 2 {
		m := decoded(t, aMachine(t, fmt.Sprintf("m%02d", i)), &clusterapi.Machine{})
		updates = append(updates, machineUpdate{machine: m, changes: clusterapi.HealthCheckSucceeded()})
	}
	over, end := context.WithCancel(t.Context())
	end()
	first := slices.Repeat([]time.Duration{writeTimeout}, parallelWrites)
	for _, tc := range []struct {
		ctx   context.Context
		again bool
		ends  []time.Duration
	}{{t.Context(), false, append(first, 2*writeTimeout, 2*writeTimeout)}, {over, true, first}} {
		synctest.Test(t, func(t *testing.T) {
			server := &hanging{}
			s.client.machines.Statuses = server
			again, err := s.dialect.write(tc.ctx, newStore(), updates)
			want := fmt.Sprintf("%d machines could not be marked", len(tc.ends))
			if again != tc.again || err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("again: %t, %v, want %s", again, err, want)
			}
			if !slices.Equal(server.ends, tc.ends) {
				t.Errorf("the writes end after %v, want %v", server.ends, tc.ends)
			}
		})
	}
}

// TestMarksGoByTheLatestPlaces: the store has a write at once, before the watch shows it.
func TestMarksGoByTheLatestPlaces(t *testing.T) {
	s := settle(t, "spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 0}}}")
	s.pass()
	s.nodes.has("False", ago(time.Hour), "a-node")
	s.pass()
	s.nodes.has("True", ago(time.Minute), "a-node")
	s.pass()
	s.wantSaid("there and back", "Machine clusters/a", infra, passedNow, passedOld)
	if m := s.client.Machine(core.ID{Namespace: "clusters", Name: "a"}); m.Mark(clusterapi.Current, healthType) == nil || m.ResourceVersion != "10" {
		t.Errorf("the machine is known at revision %s", m.ResourceVersion)
	}
}

// TestI14DeprecatedWordOfARemediatorAsksNoOwner: Metal3's remediator gives a machine up by a condition that owners
// don't read. Asking the owner then would delete the machine past every gate.
func TestI14DeprecatedWordOfARemediatorAsksNoOwner(t *testing.T) {
	s := begin(t)
	s.nodes.has("False", ago(time.Hour), "a-node")
	s.show(theCluster(t), aCheck(t, "check", strings.Split(theTemplate, "\n")...), aMachine(t, "a",
		`status: {deprecated: {v1beta1: {conditions: [{type: OwnerRemediated, status: "False", severity: Warning, reason: WaitingForRemediation, lastTransitionTime: "2026-08-03T11:59:00Z"}]}}}`))
	s.pass(func(f *core.Cluster, policies []core.Policy) {
		step, id := policies[0].Steps[0], f.Targets[0].ID
		f.Repairs = append(f.Repairs, core.Repair{
			Namespace: "clusters", Name: "a-1", Target: id, Policy: policies[0].ID, Steps: policies[0].Steps, Started: ago(10 * time.Minute),
		})
		f.Requests = append(f.Requests, core.Request{
			ID: core.ID{Kind: "X", Namespace: "clusters", Name: "a", UID: "x-uid"}, Remedy: step.Remedy, Template: step.Template,
			Target: id, Created: ago(10 * time.Minute), Own: true,
		})
	})
	said := s.said("Machine clusters/a")
	if !slices.Contains(said, failedNow) || slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, "OwnerRemediated=") }) {
		t.Errorf("the machine says %q", said)
	}
}

// judgedAs returns machine a with these conditions, judged as a policy with or without a template has it.
func judgedAs(t *testing.T, template bool, conditions string, changes ...func(*judgedMachine)) *judgedMachine {
	t.Helper()
	p := policy()
	if template {
		p.Steps = append([]core.Step{{Remedy: RequestMachineRemediation, Nature: core.CreateRequest}}, p.Steps...)
	}
	j := &judgedMachine{
		machine: decoded(t, aMachine(t, "a", "status: {conditions: ["+conditions+"]}"), &clusterapi.Machine{}),
		target:  &core.Target{Failed: true}, policy: &p, now: noon, passed: clusterapi.HealthCheckSucceeded(),
	}
	j.Verdict.Health = core.Healthy
	for _, change := range changes {
		change(j)
	}
	return j
}

func failed(j *judgedMachine) { j.Verdict.Health, j.Verdict.Reason = core.Unhealthy, core.TargetFailed }

func isPremature(j *judgedMachine) { j.Verdict.Reason = core.Premature }

func isPaused(j *judgedMachine) { j.policy.Paused = true }

func isRequested(j *judgedMachine) { j.HasRequest = true }

// changesOf returns changes of the present list as lines.
func changesOf(changes []clusterapi.Change) []string {
	var lines []string
	for _, c := range changes {
		switch {
		case c.In != clusterapi.Current:
		case c.Content == nil:
			lines = append(lines, c.Type+" removed")
		default:
			lines = append(lines, strings.TrimSpace(c.Type+"="+c.Content.Status+" "+c.Content.Reason))
		}
	}
	return lines
}

// mark is a condition of a machine, as YAML.
func mark(kind, status, reason string) string {
	return fmt.Sprintf(`{type: %s, status: %q, reason: %s, message: "", lastTransitionTime: "2026-08-03T11:00:00Z"}`, kind, status, reason)
}

// TestUpdates: the conditions that are written on a machine follow from its verdict and its present conditions.
func TestUpdates(t *testing.T) {
	const passes, fails = "HealthCheckSucceeded=True HealthCheckSucceeded", "HealthCheckSucceeded=False MachineHasFailure"
	const waits, refuses = "ExternallyRemediated=False WaitingForRemediation", "ExternallyRemediated=False RemediationRequestCreationFailed"
	passed, failedMark := mark("HealthCheckSucceeded", "True", "HealthCheckSucceeded"), mark("HealthCheckSucceeded", "False", "UnhealthyNode")
	waiting := mark("ExternallyRemediated", "False", "WaitingForRemediation")
	repair := func(remedy string, attempts int) func(*judgedMachine) {
		return func(j *judgedMachine) {
			j.Repair = &core.Repair{Namespace: "fettle", Name: "r", Steps: []core.Step{{Remedy: remedy}}, StepState: core.StepState{Attempts: attempts}}
		}
	}
	step := func(s core.Step) func(*judgedMachine) {
		return func(j *judgedMachine) {
			s.Remedy = RequestMachineRemediation
			j.policy.Steps[0] = s
		}
	}
	called := func(j *judgedMachine) { j.RemedyCalled = true }
	withdrawn := func(j *judgedMachine) { j.RequestsWithdrawn = true }
	without := func(change func(*clusterapi.Machine)) func(*judgedMachine) {
		return func(j *judgedMachine) { change(j.machine) }
	}
	for sentence, tc := range map[string]struct {
		judged *judgedMachine
		want   []string
	}{
		"a first success":         {judgedAs(t, false, ""), []string{passes}},
		"a recovery":              {judgedAs(t, false, failedMark), []string{passes}},
		"a failure":               {judgedAs(t, false, passed, failed), []string{fails}},
		"no machine":              {judgedAs(t, false, "", func(j *judgedMachine) { j.machine = nil }), nil},
		"a machine being deleted": {judgedAs(t, false, "", without(leaving)), nil},
		"an excluded machine": {judgedAs(t, false, "", func(j *judgedMachine) {
			j.machine = decoded(t, aMachine(t, "a", `metadata: {annotations: {cluster.x-k8s.io/skip-remediation: ""}}`), &clusterapi.Machine{})
		}), nil},
		"criteria that can't be read":        {judgedAs(t, false, "", func(j *judgedMachine) { j.policy.Unparsable = true }), nil},
		"a suspect machine":                  {judgedAs(t, false, passed, func(j *judgedMachine) { j.Verdict.Health = core.Suspect }), nil},
		"premature, and never written":       {judgedAs(t, false, "", isPremature), []string{passes}},
		"premature, and written before":      {judgedAs(t, false, failedMark, isPremature), nil},
		"a pause, and a success":             {judgedAs(t, false, "", isPaused), nil},
		"a pause, and a new failure":         {judgedAs(t, false, passed, failed, isPaused), nil},
		"a pause, and a recovery":            {judgedAs(t, false, failedMark, isPaused), []string{passes}},
		"the remedy marks the failure":       {judgedAs(t, false, passed, failed, called), nil},
		"the remedy only creates an object":  {judgedAs(t, true, passed, failed, called), []string{fails}},
		"the remedy marks the recovery":      {judgedAs(t, false, failedMark, withdrawn), nil},
		"the remedy only deletes an object":  {judgedAs(t, true, failedMark, withdrawn), []string{passes}},
		"a request to the owner":             {judgedAs(t, false, passed, failed, isRequested), []string{fails}},
		"a request to a remediator":          {judgedAs(t, true, passed, failed, isRequested), []string{fails, waits}},
		"a request, and a suspect machine":   {judgedAs(t, true, passed, isRequested, func(j *judgedMachine) { j.Verdict.Health = core.Suspect }), nil},
		"a request of a former template":     {judgedAs(t, false, passed, failed, isRequested, repair(RequestMachineRemediation, 0)), []string{fails, waits}},
		"a repair by the owner":              {judgedAs(t, false, passed, failed, isRequested, repair(MarkOwner, 0)), []string{fails}},
		"a refused creation":                 {judgedAs(t, true, passed, failed, repair(RequestMachineRemediation, 1)), []string{fails, refuses}},
		"a creation not yet tried":           {judgedAs(t, true, passed, failed, repair(RequestMachineRemediation, 0)), []string{fails}},
		"a missing template":                 {judgedAs(t, true, passed, failed, step(core.Step{Problem: "gone", Missing: true})), []string{fails, "ExternallyRemediated=False RemediationTemplateNotFound"}},
		"an unusable template":               {judgedAs(t, true, passed, failed, step(core.Step{Problem: "odd"})), []string{fails, refuses}},
		"a template not yet read":            {judgedAs(t, true, passed, failed, step(core.Step{Problem: "later", Pending: true})), []string{fails}},
		"an unusable template, and a pause":  {judgedAs(t, true, failedMark, failed, isPaused, step(core.Step{Problem: "odd"})), []string{"HealthCheckSucceeded=False MachineHasFailure"}},
		"recovered from a remediator":        {judgedAs(t, true, failedMark+", "+waiting), []string{passes, "ExternallyRemediated removed"}},
		"premature after a request":          {judgedAs(t, true, failedMark+", "+waiting, isPremature), nil},
		"no template any more":               {judgedAs(t, false, failedMark+", "+waiting, failed), []string{"HealthCheckSucceeded=False MachineHasFailure", "ExternallyRemediated removed"}},
		"still waiting for a remediator":     {judgedAs(t, true, passed+", "+waiting, failed, isRequested), []string{fails, waits}},
		"a remediator that gave up":          {judgedAs(t, true, passed+", "+mark("ExternallyRemediated", "False", "GivenUp"), failed, isRequested), []string{fails}},
		"a remediator that is done":          {judgedAs(t, true, failedMark+", "+mark("ExternallyRemediated", "True", "WaitingForRemediation")), []string{passes}},
		"an older condition of a remediator": {judgedAs(t, false, failedMark+", "+mark("ExternallyRemediated", "True", "Done"), failed), []string{"HealthCheckSucceeded=False MachineHasFailure"}},
	} {
		u, differs := tc.judged.update()
		got := changesOf(u.changes)
		if !slices.Equal(got, tc.want) || differs != (len(tc.want) > 0) || (differs && u.machine != tc.judged.machine) {
			t.Errorf("%s: it writes (%t) %q, want %q", sentence, differs, got, tc.want)
		}
	}
	said := judgedAs(t, true, "", failed, step(core.Step{Problem: "odd"})).requestCondition().Message
	refused := judgedAs(t, true, "", failed, repair(RequestMachineRemediation, 1)).requestCondition().Message
	if said != "Fettle can't request a remediation: odd" || !strings.HasSuffix(refused, "kubectl -n fettle describe repair r says why") {
		t.Errorf("it says %q and %q", said, refused)
	}
}

// TestUrgencies: of the present list the condition of health decides.
func TestUrgencies(t *testing.T) {
	const current, deprecated = clusterapi.Current, clusterapi.Deprecated
	change := func(in clusterapi.List, kind, status string) clusterapi.Change {
		return clusterapi.Change{In: in, Type: kind, Content: &clusterapi.ConditionContent{Status: status}}
	}
	for sentence, tc := range map[string]struct {
		has     string
		changes []clusterapi.Change
		want    urgency
	}{
		"a first success":       {"", []clusterapi.Change{change(current, healthType, "True")}, neverWritten},
		"a first failure":       {"", []clusterapi.Change{change(current, healthType, "False")}, statusChanges},
		"a recovery":            {mark(healthType, "False", "R"), []clusterapi.Change{change(current, healthType, "True")}, statusChanges},
		"a failure":             {mark(healthType, "True", "R"), []clusterapi.Change{change(current, healthType, "False")}, statusChanges},
		"another message":       {mark(healthType, "False", "R"), []clusterapi.Change{change(current, healthType, "False")}, messageChanges},
		"another condition":     {"", []clusterapi.Change{change(current, externalType, "False")}, messageChanges},
		"another list":          {"", []clusterapi.Change{change(deprecated, healthType, "False")}, messageChanges},
		"one after another one": {"", []clusterapi.Change{change(current, externalType, "False"), change(deprecated, healthType, "True"), change(current, healthType, "False")}, statusChanges},
	} {
		m := decoded(t, aMachine(t, "a", "status: {conditions: ["+tc.has+"]}"), &clusterapi.Machine{})
		if got := urgencyOf(m, tc.changes); got != tc.want {
			t.Errorf("%s: its urgency is %d, want %d", sentence, got, tc.want)
		}
	}
}

// TestManyFailedWrites are reported by the first and their number.
func TestManyFailedWrites(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for want, errs := range map[string][]error{"first": {first}, "2 machines could not be marked, the first since: first": {first, second}} {
		if err := joinErrors(errs); err == nil || err.Error() != want || !errors.Is(err, first) {
			t.Errorf("it tells %v, want %s", err, want)
		}
	}
	if err := joinErrors(nil); err != nil {
		t.Errorf("without errors it tells %v", err)
	}
}
