package pass_test

import (
	"errors"
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
	// stored are the repairs, cached those in the cache. The requests are shown by caches at once.
	stored, cached []core.Repair
	requests       []core.Request
	// past are requests that are gone and whose evidence is remembered.
	past []core.Request
	// unseen are the requests that no cache shows until it catches up, while requests lag.
	unseen      []core.Request
	requestsLag bool
	// replacing has the targets whose remediators expect a replacement, which no cache shows before it catches up.
	replacing map[string]bool
	leases    map[string]lease
	deleted   map[string]bool
	// fates has how calls end, and changes the policies that are changed before a call is answered; see of.
	fates   map[string]ending
	changes map[string]string
	// slow has how long calls take.
	slow map[string]time.Duration
	// turns has whether the clock agrees once a call is answered.
	turns map[string]core.Tri
	// unwritten are the policies whose status can't be written, and siblings whether a cache shows the siblings of targets.
	unwritten map[string]bool
	siblings  bool
	// observed is whether the caches are in sync.
	observed core.Tri
	// dialect is the dialect of policies and machines that are added.
	dialect        int
	dialectOf      map[core.ID]int
	targetDialects []int
	// grant is called with each call that is granted.
	grant func(c pass.Call)
}

func newWorld() *world {
	return &world{
		now: noon, agrees: core.Yes, state: &pass.State{}, live: map[string]core.Node{}, replacing: map[string]bool{}, quorum: map[string]core.Tri{}, changed: map[string]bool{},
		leases: map[string]lease{}, deleted: map[string]bool{}, fates: map[string]ending{}, changes: map[string]string{}, slow: map[string]time.Duration{},
		turns: map[string]core.Tri{}, unwritten: map[string]bool{}, siblings: true, observed: core.Yes, dialectOf: map[core.ID]int{},
		config: pass.Config{
			Dialects: []pass.Dialect{{WritesConditions: true, WithdrawsConfirmations: true, ReportsBlocked: true}}, Leases: true, Quorum: true,
			Remedies: map[string]bool{"delete": false, "ask": true, "hand-over": false, "owner": true}, Retention: core.Retention{For: 24 * time.Hour, Max: 1000}, Decide: core.Decide,
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
	natures := map[string]core.Nature{"delete": core.Delete, "ask": core.CreateRequest, "hand-over": core.Annotate, "owner": core.AskOwner}
	return core.Policy{
		ID: id("HealthCheck", name), Created: noon.Add(-24 * time.Hour), Fingerprint: "as it was",
		Criteria:     core.Criteria{Conditions: []core.ConditionCriterion{{Type: "Ready", Status: "False", For: 5 * time.Minute}}},
		ShortCircuit: core.ShortCircuit{MaxUnhealthy: core.Percent(100)}, MaxInFlight: core.Unlimited(), Backoff: core.DefaultBackoff(),
		Steps: []core.Step{{Remedy: remedy, Nature: natures[remedy]}},
	}
}

// lease is the lease of a node.
type lease struct {
	holder         string
	renewed, until time.Time
}

// begins returns a pass on what the caches show.
func (w *world) begins() *pass.Pass {
	s := pass.Snapshot{
		Clock: w.clock(), Policies: slices.Clone(w.policies), PolicyDialect: map[core.ID]int{}, TargetDialect: make([]int, len(w.targets)),
		Kinds: map[string]bool{"Machine": true, "Node": true},
		Cluster: core.Cluster{
			Observed: w.observed, ClockAgrees: w.agrees, Targets: slices.Clone(w.targets), Repairs: slices.Clone(w.cached), Requests: slices.Clone(w.requests), PastRequests: slices.Clone(w.past),
		},
	}
	copy(s.TargetDialect, w.targetDialects)
	for i := range s.Policies {
		s.PolicyDialect[s.Policies[i].ID] = w.dialectOf[s.Policies[i].ID]
	}
	for d := range w.config.Dialects {
		if w.observed != core.Yes {
			s.Unknown = append(s.Unknown, d)
		}
	}
	for i := range s.Cluster.Targets {
		t := &s.Cluster.Targets[i]
		held := w.leases[t.Node.Name]
		t.Lease = core.Lease{Holder: held.holder, Until: held.until}
	}
	for node, held := range w.leases {
		s.Cluster.Leases = append(s.Cluster.Leases, core.NodeLease{Node: node, Holder: held.holder, Renewed: held.renewed})
	}
	return pass.New(w.config, w.state, s)
}

func (w *world) clock() pass.ClockReading {
	return pass.ClockReading{Now: w.now, Agrees: w.agrees, Corrected: w.now}
}

// catchUp has the caches show what is stored.
func (w *world) catchUp() {
	w.cached, w.requests, w.unseen = slices.Clone(w.stored), append(w.requests, w.unseen...), nil
	for i := range w.requests {
		q := &w.requests[i]
		q.Replaces = q.Replaces || w.replacing[q.Target.Name]
	}
	for i := range w.targets {
		w.targets[i].Deleting = w.deleted[w.targets[i].ID.Name]
		if n, differs := w.live[w.targets[i].ID.Name]; differs {
			w.targets[i].Node = n
		}
	}
}

// of returns what a map has for a call, by its name or by its stage and its name.
func of[V any](all map[string]V, c pass.Call) (V, bool) {
	v, known := all[c.Stage.String()+": "+callName(c)]
	if !known {
		v, known = all[callName(c)]
	}
	return v, known
}

// answers returns the result of a call.
func (w *world) answers(c pass.Call) pass.Result {
	slow, _ := of(w.slow, c)
	w.now = w.now.Add(slow)
	if agrees, turns := of(w.turns, c); turns {
		w.agrees = agrees
	}
	if policy, changes := of(w.changes, c); changes {
		w.changed[policy] = true
	}
	fate, _ := of(w.fates, c)
	return w.ends(c, fate)
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
	case pass.WriteStatuses:
		r.Unwritten = w.unwrittenOf(c.Reports)
	case pass.FindSibling:
		r.ID, r.OK = id("Machine", c.Target.ID.Name+"-machine"), w.siblings
	case pass.StopRequest:
		w.stop(c)
	case pass.WithdrawConfirmation:
		w.target(c.Target.ID.Name).ConfirmedHealthy = false
	case pass.CreateRepair:
		r.Repair, r.OK = w.create(c.NewRepair)
	case pass.UpdateRepair:
		r.Repair, r.OK = w.amend(c.Repair)
	case pass.ListRunning:
		r.Repairs = slices.DeleteFunc(slices.Clone(w.stored), func(r core.Repair) bool { return !r.Running() })
	case pass.AcquireLease:
		holder := w.leases[c.Target.Node.Name].holder
		if r.OK = holder == "" || holder == c.Holder; r.OK {
			w.leases[c.Target.Node.Name] = lease{c.Holder, w.now, w.now.Add(c.For)}
		}
	case pass.ReleaseLease:
		if l := w.leases[c.Node]; l.holder == c.Holder && (c.At.IsZero() || !l.renewed.After(c.At)) {
			delete(w.leases, c.Node)
			r.OK = true
		}
	case pass.StartRemedy:
		r.RemedyResult = w.start(c.RemedyCall)
	case pass.WithdrawRequest:
		if c.Request.OnlyAsReported && !c.Request.Replaces && w.replacing[c.Request.Target.Name] {
			r.RemedyResult = core.Stale
			break
		}
		w.requests = slices.DeleteFunc(w.requests, func(q core.Request) bool {
			if q.ID.UID == c.Request.ID.UID && q.Evidence != (core.Evidence{}) {
				q.Evidence.Back = w.now // its remediator writes that last, and no cache shows the request then
				w.past = append(w.past, q)
			}
			return q.ID.UID == c.Request.ID.UID
		})
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
		Holder: e.Policy.Holder, Steps: e.Steps, Retry: e.Retry, Started: e.Started.Truncate(time.Second), Sequence: uint64(len(w.stored) + 1), Revision: 1,
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
		if !slices.ContainsFunc(slices.Concat(w.requests, w.unseen), func(q core.Request) bool { return q.Target == o.Target.ID }) {
			q := core.Request{ID: id("Request", o.Target.ID.Name), Remedy: o.Step.Remedy, Target: o.Target.ID, Policy: o.Policy, Created: w.now, Own: true}
			if w.requestsLag {
				w.unseen = append(w.unseen, q)
			} else {
				w.requests = append(w.requests, q)
			}
		}
	}
	return core.Accepted
}

// unwrittenOf returns the policies among those of reports whose status can't be written.
func (w *world) unwrittenOf(reports []core.PolicyReport) map[core.ID]error {
	unwritten := map[core.ID]error{}
	for i := range reports {
		if id := reports[i].Policy.ID; w.unwritten[id.Name] {
			unwritten[id] = errDown
		}
	}
	return unwritten
}

// stop marks a request so that its remediator stops.
func (w *world) stop(c pass.Call) {
	for i := range w.requests {
		if w.requests[i].ID.UID == c.Request.ID.UID {
			w.requests[i].Stopped = c.At
		}
	}
}

// target returns a target by its name.
func (w *world) target(name string) *core.Target {
	i := slices.IndexFunc(w.targets, func(t core.Target) bool { return t.ID.Name == name })
	return &w.targets[i]
}
