package conform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// Run runs the suite on a dialect.
func Run(t *testing.T, f Fixture) {
	t.Helper()
	t.Run("observes nothing until it can", f.observesNothing)
	t.Run("observes what is there", f.observes)
	t.Run("follows no nonsense", f.followsNoNonsense)
	t.Run("records what has changed", f.records)
	t.Run("records again what failed", f.recordsAgain)
	t.Run("records what is harmless", f.recordsHarmlessly)
	t.Run("records briefly what is too large", f.recordsBriefly)
	t.Run("reads whether a policy stands", f.readsPolicies)
	t.Run("tells whether it acts", f.acts)
	t.Run("waits for upgrades", f.waitsForUpgrades)
	t.Run("announces whatever happens", f.announces)
	t.Run("takes back a confirmation", f.withdrawsConfirmation)
}

// errDown is returned where the API server does not answer.
var errDown = errors.New("the API server is down")

// start starts a dialect against an API server of its own.
func (f *Fixture) start(t *testing.T) (*APIServer, Harness) {
	t.Helper()
	w := &APIServer{
		Now:    time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC),
		served: core.Yes, checks: map[string]*unstructured.Unstructured{},
	}
	return w, f.Begin(t, w)
}

// startSynced starts a dialect whose caches are in sync. They show three targets, and the health
// check unless it is nil.
func (f *Fixture) startSynced(t *testing.T, check *unstructured.Unstructured) (*APIServer, Harness) {
	t.Helper()
	w, s := f.start(t)
	s.SyncCaches()
	for _, name := range []string{"a", "b", "c"} {
		s.AddTarget(name)
	}
	if check != nil {
		w.put(check)
		s.PutCheck(check.DeepCopy())
	}
	return w, s
}

func observed(t *testing.T, s Harness) core.Observation {
	t.Helper()
	o, err := s.Observe()
	if err != nil {
		t.Fatalf("observing: %v", err)
	}
	return o
}

// observesNothing: a dialect whose kinds are not served, or whose caches are not in sync, observes
// no policies and no targets. It says which of both it is (I1).
func (f *Fixture) observesNothing(t *testing.T) {
	w, s := f.start(t)
	want := func(sentence string, observedAs core.Tri) {
		t.Helper()
		if o := observed(t, s); o.Observed != observedAs || o.Kind != f.Kind || len(o.Policies)+len(o.Targets) > 0 {
			t.Errorf("%s: it observes %s of kind %q, with %d policies and %d targets; want %s of kind %s and none",
				sentence, o.Observed, o.Kind, len(o.Policies), len(o.Targets), observedAs, f.Kind)
		}
	}
	want("served and not in sync", core.Unknown)
	w.served = core.Unknown
	want("not known whether it is served", core.Unknown)
	w.served = core.No
	want("not served", core.No)
	s.SyncCaches()
	want("not served any more", core.No)
	w.served = core.Yes
	want("in sync with an empty cluster", core.Yes)
}

// observes: targets and policies have the fields that the engine relies on, and two observations
// are the same (I7, I11).
func (f *Fixture) observes(t *testing.T) {
	_, s := f.startSynced(t, f.Check)
	o := observed(t, s)
	if len(o.Policies) != 1 || len(o.Targets) != 3 {
		t.Fatalf("there are %d policies and %d targets, want 1 and 3", len(o.Policies), len(o.Targets))
	}
	p := &o.Policies[0]
	if p.ID.Kind == "" || p.ID.Name != f.Check.GetName() || p.ID.UID != string(f.Check.GetUID()) || p.Created.IsZero() || p.Problem != "" {
		t.Errorf("the policy is %s with UID %q, created at %s, problem %q", p.ID, p.ID.UID, p.Created, p.Problem)
	}
	members := slices.Sorted(slices.Values(p.Members))
	if !slices.Equal(members, []int{0, 1, 2}) {
		t.Errorf("the members are %v, want the indices of all targets, each once", p.Members)
	}
	for i := range o.Targets {
		target := &o.Targets[i]
		if target.ID.Kind != f.Kind || target.ID.UID == "" || target.Revision == "" || target.Created.IsZero() || target.Problem != "" {
			t.Errorf("a target is %s with UID %q, revision %q, created at %s, problem %q", target.ID, target.ID.UID, target.Revision, target.Created, target.Problem)
		}
		if target.Node.State != core.NodePresent || target.Node.Name == "" {
			t.Errorf("the node of %s is %s, called %q", target.ID, target.Node.State, target.Node.Name)
		}
	}
	for _, v := range decide(&o).Verdicts {
		if v.Health != core.Healthy {
			t.Errorf("%s is judged %s: %s", o.Targets[v.Target].ID, v.Health, v.Text())
		}
	}
	first := fmt.Sprint(o)
	if second := fmt.Sprint(observed(t, s)); first != second {
		t.Errorf("the same caches give\n%s\nand then\n%s", first, second)
	}
}

// decide decides on an observation in a cluster that is not being upgraded, with every node just
// read.
func decide(o *core.Observation) core.Decision { return decideDuring(o, core.No) }

// decideDuring does the same during an upgrade or not.
func decideDuring(o *core.Observation, upgrading core.Tri) core.Decision {
	now := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	cluster := core.Cluster{Observed: o.Observed, ClockAgrees: core.Yes, Upgrading: upgrading, Targets: slices.Clone(o.Targets)}
	for i := range cluster.Targets {
		cluster.Targets[i].NodeReadAt = now
	}
	return core.Decide(o.Policies, cluster, now)
}

// failing makes the first target fail for good, which every policy takes for unhealthy at once.
func failing(o core.Observation) *core.Observation {
	o.Targets = slices.Clone(o.Targets)
	o.Targets[0].Failed = true
	o.Targets[0].Owner = core.ID{Kind: "Set", Name: "set", UID: "set-uid"}
	return &o
}

// followsNoNonsense: a health check that can't be followed is a policy that says so and permits
// nothing. It never causes an error, which would hide other health checks.
func (f *Fixture) followsNoNonsense(t *testing.T) {
	_, s := f.startSynced(t, f.Check)
	o := observed(t, s)
	if d := decide(failing(o)); len(d.Starts) != 1 {
		t.Fatalf("a sound health check permits %d repairs of one target that failed, so this shows nothing; refusals: %v", len(d.Starts), d.Refusals)
	}
	specs := map[string]any{"a word": "nonsense", "a number": int64(7), "a list": []any{"nonsense"}}
	maps.Copy(specs, f.Nonsense)
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			broken := f.Check.DeepCopy()
			broken.Object["spec"] = spec
			_, s := f.startSynced(t, broken)
			o := observed(t, s)
			if o.Observed != core.Yes || len(o.Policies) != 1 || len(o.Targets) > 3 {
				t.Fatalf("it observes %s, %d policies and %d targets", o.Observed, len(o.Policies), len(o.Targets))
			}
			if p := o.Policies[0].Problem; p == "" || strings.Contains(p, "\n") {
				t.Errorf("the problem is %q, want one line", p)
			}
			// A health check that selects nothing has nothing to permit. Any other must permit
			// nothing.
			if len(o.Targets) > 0 {
				if d := decide(failing(o)); len(d.Starts) > 0 {
					t.Errorf("it starts %d repairs", len(d.Starts))
				}
			}
		})
	}
}

// reports returns the reports of a pass over the changed observation.
func reports(t *testing.T, s Harness, change func(*core.Observation) *core.Observation) []core.PolicyReport {
	t.Helper()
	o := observed(t, s)
	changed := change(&o)
	cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: changed.Targets}
	d := decide(changed)
	return d.Reports(changed.Policies, &cluster)
}

func asTheyAre(o *core.Observation) *core.Observation { return o }

// records: a status is written when it has changed, at the revision that it was made from.
func (f *Fixture) records(t *testing.T) {
	w, s := f.startSynced(t, f.Check)
	record := func(sentence, revision string, change func(*core.Observation) *core.Observation) {
		t.Helper()
		if failed := s.WriteStatuses(t.Context(), reports(t, s, change)); len(failed) > 0 {
			t.Errorf("%s: recording failed: %v", sentence, failed)
		}
		written := w.takeWrites()
		switch {
		case revision == "" && len(written) > 0:
			t.Errorf("%s: %d statuses were written, want none", sentence, len(written))
		case revision != "" && !slices.Equal(written, []write{{f.Check.GetName(), revision}}):
			t.Errorf("%s: written are %v, want that of %s at revision %s", sentence, written, f.Check.GetName(), revision)
		}
	}
	first := f.Check.GetResourceVersion()
	deferred := reports(t, s, asTheyAre)
	for i := range deferred {
		deferred[i].Deferred = true
	}
	if failed := s.WriteStatuses(t.Context(), deferred); len(failed)+len(w.takeWrites()) > 0 {
		t.Errorf("a status that is deferred was written, or failed: %v", failed)
	}
	record("there was no status", first, asTheyAre)
	record("nothing has changed", "", asTheyAre)
	record("a target has failed", next(first), func(o *core.Observation) *core.Observation { return failing(*o) })
	record("nothing has changed since", "", func(o *core.Observation) *core.Observation { return failing(*o) })
	if failed := s.WriteStatuses(t.Context(), nil); len(failed)+len(w.takeWrites()) > 0 {
		t.Errorf("there is nothing to record, yet something was written, or failed: %v", failed)
	}
}

// recordsAgain: a failed write is returned by policy, and the next pass writes the status. A
// deleted health check needs no status.
func (f *Fixture) recordsAgain(t *testing.T) {
	resource := schema.GroupResource{Resource: "healthchecks"}
	for sentence, c := range map[string]struct {
		answer error
		fails  bool
	}{
		"the API server is down": {errDown, true},
		"another client has changed it": {
			apierrors.NewConflict(resource, f.Check.GetName(), errors.New("it has changed")), true,
		},
		"it may not be written": {apierrors.NewForbidden(resource, f.Check.GetName(), errors.New("no")), true},
		"it is gone":            {apierrors.NewNotFound(resource, f.Check.GetName()), false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, s := f.startSynced(t, f.Check)
			w.fail(c.answer)
			found := reports(t, s, asTheyAre)
			failed := s.WriteStatuses(t.Context(), found)
			if err := failed[found[0].Policy.ID]; (err != nil) != c.fails || (c.fails && !errors.Is(err, c.answer)) || (!c.fails && len(failed) > 0) {
				t.Errorf("it tells %v", failed)
			}
			w.fail(nil)
			w.takeWrites()
			if failed := s.WriteStatuses(t.Context(), reports(t, s, asTheyAre)); len(failed) > 0 || len(w.takeWrites()) != 1 {
				t.Errorf("then it was not written, or failed: %v", failed)
			}
		})
	}
}

// nonsense reports a health check that can't be followed, for a reason that is long and has control
// characters.
func nonsense(t *testing.T, s Harness) []core.PolicyReport {
	t.Helper()
	return reports(t, s, func(o *core.Observation) *core.Observation {
		o.Policies[0].Problem = "\x1b[2J\n" + strings.Repeat("it is long ", 1<<19)
		return o
	})
}

// recordsHarmlessly: the texts of a status are bounded and have no control characters. An unchanged
// status is written once.
func (f *Fixture) recordsHarmlessly(t *testing.T) {
	w, s := f.startSynced(t, f.Check)
	if failed := s.WriteStatuses(t.Context(), nonsense(t, s)); len(failed) > 0 {
		t.Errorf("it was not written: %v", failed)
	}
	message, written := w.message(f.Check.GetName(), "RemediationAllowed")
	if !written || len(message) > sanitize.MaxMessage || len(message) < sanitize.MaxPart || strings.ContainsAny(message, "\x1b\n") {
		t.Errorf("it says %d bytes: %.300q", len(message), message)
	}
	w.takeWrites()
	w.Now = w.Now.Add(time.Hour)
	if failed, writes := s.WriteStatuses(t.Context(), nonsense(t, s)), w.takeWrites(); len(failed) > 0 || len(writes) > 0 {
		t.Errorf("what has not changed was written again: %v, %v", writes, failed)
	}
}

// recordsBriefly: a status that the API server refuses as too large is cut, so that repairs go on.
// Its numbers stay right.
func (f *Fixture) recordsBriefly(t *testing.T) {
	w, s := f.startSynced(t, f.Check)
	found := nonsense(t, s)
	const most = 2048
	w.mu.Lock()
	w.maxStatusSize = most
	w.mu.Unlock()
	if failed := s.WriteStatuses(t.Context(), found); len(failed) > 0 {
		t.Errorf("it was not written: %v", failed)
	}
	writes := w.takeWrites()
	if len(writes) != 2 || writes[0] != writes[1] {
		t.Errorf("it was written as %v", writes)
	}
	message, written := w.message(f.Check.GetName(), "RemediationAllowed")
	if !written || len(message) > sanitize.MaxBrief || !strings.Contains(message, "can't be followed") || strings.ContainsAny(message, "\x1b\n") {
		t.Errorf("it says %q", message)
	}
}

// readsPolicies: a health check read live has the fingerprint of the observed one as long as its
// spec and settings are the same. Its status and annotations of other programs don't matter. A
// deleted or changed health check has another fingerprint (I1).
func (f *Fixture) readsPolicies(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		stands bool
	}{
		"as it was":           {func(*unstructured.Unstructured) {}, true},
		"with a status":       {func(u *unstructured.Unstructured) { u.Object["status"] = map[string]any{"conditions": []any{}} }, true},
		"with an owner":       {func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"others.example/finalizer"}) }, true},
		"annotated by others": {func(u *unstructured.Unstructured) { annotate(u, "others.example/note", "x") }, true},
		"a dry run":           {func(u *unstructured.Unstructured) { annotate(u, "fettle.io/dry-run", "true") }, false},
		"nonsense":            {func(u *unstructured.Unstructured) { u.Object["spec"] = "nonsense" }, false},
		"another of its name": {func(u *unstructured.Unstructured) { u.SetUID("another") }, false},
		"being deleted":       {func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }, false},
	} {
		w, s := f.startSynced(t, f.Check)
		p := observed(t, s).Policies[0]
		changed := f.Check.DeepCopy()
		c.change(changed)
		changed.SetResourceVersion(next(changed.GetResourceVersion()))
		w.put(changed)
		if found, err := s.ReadPolicy(t.Context(), p.ID); err != nil || p.Fingerprint == "" || (found == p.Fingerprint) != c.stands {
			t.Errorf("%s: it reads %q, %v, and has observed %q", sentence, found, err, p.Fingerprint)
		}
	}
	w, s := f.startSynced(t, f.Check)
	id := observed(t, s).Policies[0].ID
	w.remove(id.Name)
	if found, err := s.ReadPolicy(t.Context(), id); err != nil || found != "" {
		t.Errorf("it is gone: it reads %q, %v", found, err)
	}
	w.fail(errDown)
	if found, err := s.ReadPolicy(t.Context(), id); !errors.Is(err, errDown) || found != "" {
		t.Errorf("the API server is down: it reads %q, %v", found, err)
	}
}

// acts: a dialect that judges nodes of Fettle's own cluster acts while it has a health
// check that may start repairs and selects a target. Before its caches are in sync, that is unknown
// (I12).
func (f *Fixture) acts(t *testing.T) {
	w, s := f.start(t)
	d, is := s.Dialect.(homeDialect)
	if !is {
		t.Skip("its nodes are those of other clusters")
	}
	nodes := map[string]string{"another": "another"}
	want := func(sentence string, acts, on core.Tri) {
		t.Helper()
		if got := d.Acts(); got != acts {
			t.Errorf("%s: it acts: %s, want %s", sentence, got, acts)
		}
		if got := d.ActsOn(nodes); got != on {
			t.Errorf("%s: it acts on %v: %s, want %s", sentence, nodes, got, on)
		}
	}
	want("its caches are not in sync", core.Unknown, core.Unknown)
	if got := d.HasAny(nodes); got != core.Unknown {
		t.Errorf("its caches are not in sync, and it has any of %v: %s", nodes, got)
	}
	w.served = core.No
	want("it is not served", core.No, core.No)
	w.served = core.Yes
	s.SyncCaches()
	want("there is no health check", core.No, core.No)
	if got := d.HasAny(map[string]string{"another": ""}); got != core.No {
		t.Errorf("a node that the cluster lacks has no UID: it has any of them: %s", got)
	}
	check := f.Check.DeepCopy()
	s.PutCheck(check)
	want("the health check selects nothing", core.No, core.No)
	s.AddTarget("a")
	want("the health check selects other nodes", core.Yes, core.No)
	node := observed(t, s).Targets[0].Node
	for name, c := range map[string]struct {
		name, uid string
		has       core.Tri
	}{
		"it":              {node.Name, node.UID, core.Yes},
		"one of its name": {node.Name, "another", core.No},
		"one of its UID":  {"another", node.UID, core.No},
	} {
		nodes = map[string]string{"another": "another", c.name: c.uid}
		want("the health check selects "+name, core.Yes, c.has)
		if got := d.HasAny(nodes); got != c.has {
			t.Errorf("the cluster has %s: %s, want %s", name, got, c.has)
		}
	}
	nodes = map[string]string{node.Name: node.UID}
	for sentence, change := range f.inactive() {
		changed := f.Check.DeepCopy()
		change(changed)
		check.SetResourceVersion(next(check.GetResourceVersion()))
		changed.SetResourceVersion(check.GetResourceVersion())
		s.PutCheck(changed)
		want(sentence, core.No, core.No)
	}
}

// inactive returns changes after which a health check starts no repairs, by what they are.
func (f *Fixture) inactive() map[string]func(*unstructured.Unstructured) {
	return map[string]func(*unstructured.Unstructured){
		"it is a dry run":      func(u *unstructured.Unstructured) { annotate(u, "fettle.io/dry-run", "true") },
		"it can't be followed": func(u *unstructured.Unstructured) { annotate(u, "fettle.io/max-in-flight", "nonsense") },
		"it is paused":         f.Pause,
	}
}

func annotate(u *unstructured.Unstructured, key, value string) {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	u.SetAnnotations(annotations)
}

// withdrawsConfirmation: a dialect withdraws a user's confirmation that a target is healthy. A
// target that is gone or replaced causes no error.
func (f *Fixture) withdrawsConfirmation(t *testing.T) {
	w, s := f.startSynced(t, f.Check)
	d, confirms := s.Dialect.(confirmationWithdrawer)
	if !confirms {
		t.Skip("the dialect has no confirmations")
	}
	target := observed(t, s).Targets[0]
	resource := schema.GroupResource{Resource: "targets"}
	for sentence, c := range map[string]struct {
		answer error
		fails  bool
	}{
		"it is there":            {nil, false},
		"it is gone":             {apierrors.NewNotFound(resource, "a"), false},
		"it is another":          {apierrors.NewConflict(resource, "a", errors.New("another UID")), false},
		"the API server is down": {errDown, true},
	} {
		w.fail(c.answer)
		if err := d.WithdrawConfirmation(t.Context(), target); (err != nil) != c.fails || (c.fails && !errors.Is(err, c.answer)) {
			t.Errorf("%s: it tells %v", sentence, err)
		}
	}
}
