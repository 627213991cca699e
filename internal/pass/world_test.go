package pass_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

var (
	errDown = errors.New("the API server is down")
	errLost = errors.New("the connection was lost")
)

// world is a cluster with its caches, and what one process remembers of it.
type world struct {
	now      time.Time
	agrees   core.Tri
	config   pass.Config
	state    *pass.State
	policies []core.Policy
	targets  []core.Target
	// live are the nodes that differ from those in the cache, by the name of their target, and quorum the answers that are not Yes.
	live   map[string]core.Node
	quorum map[string]core.Tri
	// changed are the policies that were changed, and shows nothing yet.
	changed map[string]bool
	// stored are the repairs, cached those in the cache, and requests what remediators were asked for, which caches show at once.
	stored, cached []core.Repair
	requests       []core.Request
	leases         map[string]string
	deleted        map[string]bool
	// fail names the calls that fail, and lose the calls that are granted and fail all the same, as in told.
	fail, lose map[string]bool
	// slow has how long calls take.
	slow map[string]time.Duration
	// turns has whether the clock agrees once a call is answered.
	turns map[string]core.Tri
	// grant is called with each call that is granted.
	grant func(c pass.Call)
}

func newWorld() *world {
	return &world{
		now: noon, agrees: core.Yes, state: &pass.State{}, live: map[string]core.Node{}, quorum: map[string]core.Tri{}, changed: map[string]bool{},
		leases: map[string]string{}, deleted: map[string]bool{}, fail: map[string]bool{}, lose: map[string]bool{}, slow: map[string]time.Duration{},
		turns: map[string]core.Tri{},
		config: pass.Config{
			Dialects: []pass.Dialect{{WritesConditions: true, WithdrawsConfirmations: true, ReportsBlocked: true}}, Leases: true, Quorum: true,
			Remedies: map[string]bool{"delete": false, "ask": true, "hand-over": false}, Retention: core.Retention{For: 24 * time.Hour, Max: 1000}, Decide: core.Decide,
		},
	}
}

func id(kind, name string) core.ID {
	return core.ID{Kind: kind, Namespace: "machines", Name: name, UID: name + "-uid"}
}

func node(name, ready string, since time.Time) core.Node {
	return core.Node{
		State: core.NodePresent, Name: name + "-node", UID: name + "-node-uid", Conditions: []core.Condition{{Type: "Ready", Status: ready, Since: since}},
	}
}

func machine(name string) core.Target {
	created := noon.Add(-24 * time.Hour)
	return core.Target{
		ID: id("Machine", name), Created: created, StartupFrom: created, Owner: id("MachineSet", name+"-set"), Node: node(name, "True", created),
		Revision: "7", Parts: core.NoParts(),
	}
}

func policy(name, remedy string) core.Policy {
	natures := map[string]core.Nature{"delete": core.Delete, "ask": core.CreateRequest, "hand-over": core.Annotate}
	return core.Policy{
		ID: id("HealthCheck", name), Created: noon.Add(-24 * time.Hour), Fingerprint: "as it was",
		Criteria:     core.Criteria{Conditions: []core.ConditionCriterion{{Type: "Ready", Status: "False", For: 5 * time.Minute}}},
		ShortCircuit: core.ShortCircuit{MaxUnhealthy: core.Percent(100)}, MaxInFlight: core.Unlimited(), Backoff: core.DefaultBackoff(),
		Steps: []core.Step{{Remedy: remedy, Nature: natures[remedy]}},
	}
}

// begins returns a pass on what the caches show.
func (w *world) begins() *pass.Pass {
	s := pass.Snapshot{
		Clock: w.clock(), Policies: slices.Clone(w.policies), PolicyDialect: map[core.ID]int{}, TargetDialect: make([]int, len(w.targets)),
		Kinds: map[string]bool{"Machine": true},
		Cluster: core.Cluster{
			Observed: core.Yes, ClockAgrees: w.agrees, Targets: slices.Clone(w.targets), Repairs: slices.Clone(w.cached), Requests: slices.Clone(w.requests),
		},
	}
	for i := range s.Policies {
		s.PolicyDialect[s.Policies[i].ID] = 0
	}
	for i := range s.Cluster.Targets {
		t := &s.Cluster.Targets[i]
		if holder := w.leases[t.Node.Name]; holder != "" {
			t.Lease = core.Lease{Holder: holder, Until: w.now.Add(time.Hour)}
		}
	}
	return pass.New(w.config, w.state, s)
}

func (w *world) clock() pass.ClockReading {
	return pass.ClockReading{Now: w.now, Agrees: w.agrees, Corrected: w.now}
}

// catchUp has the caches show what is stored.
func (w *world) catchUp() {
	w.cached = slices.Clone(w.stored)
	for i := range w.targets {
		w.targets[i].Deleting = w.deleted[w.targets[i].ID.Name]
		if n, differs := w.live[w.targets[i].ID.Name]; differs {
			w.targets[i].Node = n
		}
	}
}

// answers returns the result of a call.
func (w *world) answers(c pass.Call) pass.Result {
	w.now = w.now.Add(w.slow[callName(c)])
	if agrees, turns := w.turns[callName(c)]; turns {
		w.agrees = agrees
	}
	if w.fail[callName(c)] {
		return pass.Result{Clock: w.clock(), Began: w.now, Err: errDown}
	}
	r := w.does(c)
	if r.Clock, r.Began = w.clock(), w.now; w.lose[callName(c)] {
		r = pass.Result{Clock: r.Clock, Began: r.Began, Err: errLost}
	}
	return r
}

// does grants a call.
func (w *world) does(c pass.Call) (r pass.Result) {
	if w.grant != nil {
		w.grant(c)
	}
	switch c.Kind { //nolint:exhaustive // the others change nothing
	case pass.ReadNode:
		n, differs := w.live[c.Target.ID.Name]
		if r.Node = n; !differs {
			r.Node = c.Target.Node
		}
	case pass.ReadQuorum:
		survives, differs := w.quorum[c.Target.ID.Name]
		if r.Survives = survives; !differs {
			r.Survives = core.Yes
		}
	case pass.ReadPolicy:
		if r.Fingerprint = "as it was"; w.changed[c.Policy.Name] {
			r.Fingerprint = "another"
		}
	case pass.CreateRepair:
		r.Repair, r.OK = w.create(c.NewRepair)
	case pass.UpdateRepair:
		r.Repair, r.OK = w.amend(c.Repair)
	case pass.ListRunning:
		r.Repairs = slices.DeleteFunc(slices.Clone(w.stored), func(r core.Repair) bool { return !r.Running() })
	case pass.AcquireLease:
		holder := w.leases[c.Target.Node.Name]
		if r.OK = holder == "" || holder == c.Holder; r.OK {
			w.leases[c.Target.Node.Name] = c.Holder
		}
	case pass.ReleaseLease:
		if w.leases[c.Node] == c.Holder {
			delete(w.leases, c.Node)
		}
	case pass.StartRemedy:
		r.RemedyResult = w.start(c.RemedyCall)
	case pass.WithdrawRequest:
		w.requests = slices.DeleteFunc(w.requests, func(q core.Request) bool { return q.ID.UID == c.Request.ID.UID })
	case pass.DeleteRepair:
		w.stored = slices.DeleteFunc(w.stored, func(r core.Repair) bool { return r.Name == c.Repair.Name })
		r.OK = true
	}
	return r
}

func (w *world) create(e *core.NewRepair) (core.Repair, bool) {
	if slices.ContainsFunc(w.stored, func(r core.Repair) bool { return r.Name == e.Name }) {
		return core.Repair{}, false
	}
	r := core.Repair{
		Namespace: e.Target.ID.Namespace, Name: e.Name, Target: e.Target.ID, Node: e.Target.Node.Name, Policy: e.Policy.ID, Owner: e.Target.Owner,
		Holder: e.Policy.Holder, Steps: e.Steps, Retry: e.Retry, Started: e.Started, Sequence: uint64(len(w.stored) + 1), Revision: 1,
	}
	w.stored = append(w.stored, r)
	return r, true
}

func (w *world) amend(r core.Repair) (core.Repair, bool) {
	i := slices.IndexFunc(w.stored, func(s core.Repair) bool { return s.Name == r.Name })
	if i < 0 || w.stored[i].Revision != r.Revision {
		return core.Repair{}, false
	}
	r.Revision++
	w.stored[i] = r
	return r, true
}

func (w *world) start(o *core.RemedyCall) core.RemedyResult {
	switch o.Step.Nature { //nolint:exhaustive // a target that is handed over shows that in its repair
	case core.Delete:
		w.deleted[o.Target.ID.Name] = true
	case core.CreateRequest:
		if !slices.ContainsFunc(w.requests, func(q core.Request) bool { return q.Target == o.Target.ID }) {
			q := core.Request{ID: id("Request", o.Target.ID.Name), Remedy: o.Step.Remedy, Target: o.Target.ID, Policy: o.Policy, Created: w.now, Own: true}
			w.requests = append(w.requests, q)
		}
	}
	return core.Accepted
}

// callName says in words what a call is about.
func callName(c pass.Call) string {
	about := ""
	switch c.Kind { //nolint:exhaustive // the others are about nothing
	case pass.ReadNode, pass.ReadQuorum, pass.FindSibling, pass.AcquireLease, pass.WithdrawConfirmation:
		about = c.Target.ID.Name
	case pass.ReadPolicy:
		about = c.Policy.Name
	case pass.CreateRepair:
		about = c.NewRepair.Target.ID.Name
	case pass.UpdateRepair, pass.DeleteRepair:
		about = c.Repair.Target.Name
	case pass.StartRemedy:
		about = c.RemedyCall.Target.ID.Name
	case pass.StopRequest, pass.WithdrawRequest:
		about = c.Request.Target.Name
	case pass.ReleaseLease:
		about = c.Node
	}
	if about == "" {
		return c.Kind.String()
	}
	return c.Kind.String() + " " + about
}

// answerText says in words how a call was answered.
func answerText(r *pass.Result, k pass.Kind) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case k == pass.ReadNode:
		ready := "no Ready condition"
		if len(r.Node.Conditions) > 0 {
			ready = "Ready=" + r.Node.Conditions[0].Status
		}
		return cmp.Or(map[core.NodeState]string{core.NodePresent: ready}[r.Node.State], r.Node.State.String())
	case k == pass.ReadQuorum:
		return "survives: " + r.Survives.String()
	case k == pass.ReadPolicy:
		return r.Fingerprint
	case k == pass.ListRunning:
		return fmt.Sprintf("%d run", len(r.Repairs))
	case k == pass.StartRemedy:
		return r.RemedyResult.String()
	case k == pass.CreateRepair, k == pass.UpdateRepair, k == pass.AcquireLease, k == pass.DeleteRepair:
		return map[bool]string{true: "done", false: "not done"}[r.OK]
	}
	return "done"
}
