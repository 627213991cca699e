package core

import (
	"slices"
	"time"
)

// Expectations are Fettle's writes and live reads that the caches may not show yet. They overlay
// each snapshot, so that a pass does not repeat what an earlier one did. Losing them may delay a
// repair, and never hastens it (I6). The zero Expectations are empty and ready. They are not safe
// for concurrent use.
type Expectations struct {
	// deleting has the UIDs of targets whose deletion was accepted and that the cache does not show
	// as deleting.
	deleting map[string]bool
	// goneNodes are the nodes that a live read did not find, by target UID.
	goneNodes map[string]goneNode
	// nodeReads are the nodes that a live read found a moment ago, by target UID.
	nodeReads map[string]nodeRead
	// lookups are the live reads of nodes that the cache lacks, by target UID.
	lookups map[string]*lookup
	// cooldowns are the cooldowns after short circuits, by policy UID.
	cooldowns map[string]CooldownState
	// tests are the tests seen to hold for the node of a target, by target UID.
	tests map[string][]SeenTest
	// coverage is what the last pass tested for that.
	coverage testCoverage
	// workers are the targets of running repairs that were seen outside of the control plane.
	workers map[ID]bool
	// healthy are the youngest healthy targets of the last pass, and removedHealthy the ones
	// removed since, by owner.
	healthy, removedHealthy map[ID]HealthyTarget
	// futureTimes are the times that lay in the future when they were first seen.
	futureTimes futureTimes
	// repairs are the repairs as last written or seen.
	repairs map[RepairKey]*repairExpectation
	// deleted are the finished repairs that Fettle has deleted and that the cache may still show.
	deleted map[deletedKey]deletion
	// requested are the created requests that the cache does not show yet.
	requested map[requestKey]madeRequest
	// withdrawn are the UIDs of withdrawn requests that the cache does not show as leaving.
	withdrawn map[string]bool
	// expectedUntil is when the first expectation expires; zero when none does.
	expectedUntil time.Time
}

// requestKey identifies a request that has not been seen yet: its remedy, template and target.
type requestKey struct {
	target, remedy string
	template       Reference
}

type madeRequest struct {
	Request
	made time.Time
}

// goneNode is a node that live reads did not find, and when the first of them was.
type goneNode struct {
	name  string
	since time.Time
}

// nodeRead is a node as it was read live.
type nodeRead struct {
	node Node
	at   time.Time
}

// ExpectDeletion records that the deletion of a target was accepted.
func (m *Expectations) ExpectDeletion(target ID) {
	if m.deleting == nil {
		m.deleting = map[string]bool{}
	}
	m.deleting[target.UID] = true
	for _, e := range m.repairs {
		e.begun = e.begun || e.repair.Target == target
	}
}

// ExpectRequest records that a request was created.
func (m *Expectations) ExpectRequest(r Request, now time.Time) {
	if m.requested == nil {
		m.requested = map[requestKey]madeRequest{}
	}
	m.requested[requestKey{r.Target.UID, r.Remedy, r.Template}] = madeRequest{r, now}
	m.expectUntil(now.Add(expectationLimit))
}

// ExpectWithdrawal records that the withdrawal of a request was accepted. If the target was
// healthy, its repair has done something.
func (m *Expectations) ExpectWithdrawal(r Request, now time.Time) {
	if m.withdrawn == nil {
		m.withdrawn = map[string]bool{}
	}
	m.withdrawn[r.ID.UID] = true
	for _, e := range m.repairs {
		if r.TargetHealthy && e.repair.Running() && e.repair.Recovered.IsZero() && r.about(&e.repair.Target) {
			e.repair.Recovered, e.recoveryUnrecorded = now, true
		}
	}
}

// KeepNodeGone records that a live read did not find the node that a target names. It returns when
// the first such read was.
func (m *Expectations) KeepNodeGone(target ID, node string, at time.Time) time.Time {
	if m.goneNodes == nil {
		m.goneNodes = map[string]goneNode{}
	}
	if known, again := m.goneNodes[target.UID]; again && known.name == node {
		return known.since
	}
	m.goneNodes[target.UID] = goneNode{node, at}
	return at
}

// KeepNodeRead records a live read of the node of a target. It counts while the cache agrees with
// it.
func (m *Expectations) KeepNodeRead(target ID, n Node, at time.Time) {
	if m.nodeReads == nil {
		m.nodeReads = map[string]nodeRead{}
	}
	m.nodeReads[target.UID] = nodeRead{n, at}
}

// ExpectRepair records a repair as it was written to the ledger.
func (m *Expectations) ExpectRepair(r Repair, now time.Time) {
	r = r.ToWrite()
	m.keep(r, false, now)
	e := m.repairs[r.key()]
	e.ours, e.evidence = true, r.Evidence
	if r.Running() { // an end begins no step
		e.step = len(r.Tried) + 1
	}
	if r.Running() && !e.seen {
		m.expectUntil(now.Add(expectationLimit))
	}
}

// ExpectRepairDeletion forgets a finished repair that Fettle has deleted, and hides it until the
// cache agrees.
func (m *Expectations) ExpectRepairDeletion(r Repair, now time.Time) {
	key := deletedKeyOf(&r)
	e := m.repairs[key.RepairKey]
	delete(m.repairs, key.RepairKey)
	if m.deleted[key].stands {
		return
	}
	if m.deleted == nil {
		m.deleted = map[deletedKey]deletion{}
	}
	m.deleted[key] = deletion{revision: r.Revision, seen: e != nil && e.seen, at: now}
}

// KeepCooldowns records the cooldowns that are not over.
func (m *Expectations) KeepCooldowns(policies []Policy, tallies []Tally) {
	cooldowns := map[string]CooldownState{}
	for i := range policies {
		if o := tallies[i].Cooldown; o != (CooldownState{}) {
			cooldowns[policies[i].ID.UID] = o
		}
	}
	m.cooldowns = cooldowns
}

// OverlayPolicies sets the cooldowns of policies as just observed.
func (m *Expectations) OverlayPolicies(policies []Policy) {
	for i := range policies {
		policies[i].Cooldown = m.cooldowns[policies[i].ID.UID]
	}
}

func (m *Expectations) keep(r Repair, seen bool, now time.Time) {
	if m.repairs == nil {
		m.repairs = map[RepairKey]*repairExpectation{}
	}
	key := r.key()
	fresh := &repairExpectation{repair: r, seen: seen, recorded: now}
	if old := m.repairs[key]; old != nil {
		fresh.seen, fresh.begun, fresh.step, fresh.stepSeen, fresh.evidence = seen || old.seen, old.begun, old.step, old.stepSeen, old.evidence
		if r.CreatedSameSecond == nil {
			fresh.repair.CreatedSameSecond = old.repair.CreatedSameSecond
		}
	}
	m.repairs[key] = fresh
}

// Overlay applies the expectations to a fresh snapshot, and forgets what the snapshot shows by now.
// It changes the slices of the snapshot, which no other goroutine may hold yet.
func (m *Expectations) Overlay(f *Cluster, now time.Time) {
	if f.Observed != Yes {
		return
	}
	m.overlayTargets(f.Targets, now)
	m.overlayLookups(f.Targets, now)
	m.overlayReads(f.Targets, now)
	m.expectedUntil = time.Time{}
	m.overlayRepairs(f, now)
	m.overlayRequests(f, now)
	f.ExpectedUntil = m.expectedUntil
	m.overlayHealthy(f)
	m.overlayRequestsSeen(f)
	m.overlayEvidence(f)
	m.overlayWorkers(f)
	m.OverlayTimes(f, now)
}

// overlayRequestsSeen sets StepSeen for running repairs. A request that another leader withdraws
// leaves no other trace.
func (m *Expectations) overlayRequestsSeen(f *Cluster) {
	about := make(map[string][]*Request, len(f.Requests))
	for i := range f.Requests {
		q := &f.Requests[i]
		about[q.Target.Name] = append(about[q.Target.Name], q)
	}
	for i := range f.Repairs {
		r := &f.Repairs[i]
		e := m.repairs[r.key()]
		if !r.Running() {
			continue
		}
		for _, q := range about[r.Target.Name] {
			if q.Own && q.about(&r.Target) && r.made(q) {
				e.stepSeen = max(e.stepSeen, q.stepIn(r.Steps)+1)
			}
		}
		r.StepSeen = e.stepSeen
	}
}

// overlayRequests adds requests that the cache does not show yet, and marks withdrawn requests as
// leaving. A request that the cache never shows expires, and may be created again under the same
// name.
func (m *Expectations) overlayRequests(f *Cluster, now time.Time) {
	if len(m.requested) == 0 && len(m.withdrawn) == 0 {
		return
	}
	shown, leaving := f.Requests, map[string]bool{}
	for i := range shown {
		r := &shown[i]
		if m.withdrawn[r.ID.UID] && !r.Leaving {
			r.Leaving, leaving[r.ID.UID] = true, true
		}
	}
	m.withdrawn = leaving
	own := make(map[qualifiedName][]int, len(shown))
	for i := range shown {
		if name := shown[i].Target.qualified(); shown[i].Own {
			own[name] = append(own[name], i)
		}
	}
	for key, made := range m.requested {
		seen := slices.ContainsFunc(own[made.Target.qualified()], func(i int) bool {
			r := &shown[i]
			return !r.Leaving && r.Remedy == key.remedy && r.Template == key.template && r.about(&made.Target)
		})
		if seen || now.Sub(made.made) >= expectationLimit {
			delete(m.requested, key)
			continue
		}
		f.Requests = append(f.Requests, made.Request)
		m.expectUntil(made.made.Add(expectationLimit))
	}
}

func (m *Expectations) overlayTargets(targets []Target, now time.Time) {
	if len(m.deleting) == 0 && len(m.goneNodes) == 0 {
		return
	}
	deleting, gone := map[string]bool{}, map[string]goneNode{}
	for i := range targets {
		t := &targets[i]
		if m.deleting[t.ID.UID] && !t.Deleting {
			t.Deleting = true
			deleting[t.ID.UID] = true
		}
		if absent, known := m.goneNodes[t.ID.UID]; known && t.Node.State == NodeUnseen && t.Node.Name == absent.name {
			absent.since = seenBy(absent.since, now)
			t.Node.State, t.NodeGoneSince = NodeGone, absent.since
			gone[t.ID.UID] = absent
		}
	}
	m.deleting, m.goneNodes = deleting, gone
}

// overlayReads sets NodeReadAt of nodes that were read live a moment ago and have not changed
// since.
func (m *Expectations) overlayReads(targets []Target, now time.Time) {
	if len(m.nodeReads) == 0 {
		return
	}
	fresh := map[string]nodeRead{}
	for i := range targets {
		t := &targets[i]
		s := m.nodeReads[t.ID.UID]
		if now.Sub(s.at) < liveReadLimit && t.Node.same(&s.node) {
			t.NodeReadAt = s.at
			fresh[t.ID.UID] = s
		}
	}
	m.nodeReads = fresh
}

// overlayRepairs applies the expected repairs to the ledger. It adds repairs that the cache does
// not show yet, and newer versions of the others. It keeps repairs that were deleted early, since
// back-off counts them. A repair that was deleted while it ran counts as withdrawn.
func (m *Expectations) overlayRepairs(f *Cluster, now time.Time) {
	cached := m.hideDeleted(f.Repairs, now)
	shown := make(map[RepairKey]bool, len(cached))
	for i := range cached {
		key := cached[i].key()
		shown[key] = true
		if e := m.repairs[key]; e != nil && !e.lost && sameTarget(&e.repair, &cached[i]) {
			e.update(cached[i])
			if ahead, until := e.ahead(&cached[i], now); ahead {
				m.expectUntil(until)
				e.seen, cached[i] = true, e.repair
				continue
			}
		}
		m.keep(cached[i], true, now)
		cached[i].CreatedSameSecond = m.repairs[key].repair.CreatedSameSecond
	}
	for i := range cached {
		cached[i].RecordedElsewhere = m.repairs[cached[i].key()].recordedElsewhere(&cached[i])
	}
	f.Repairs = cached
	m.overlayUnshown(f, shown, now)
}

// overlayUnshown adds the expected repairs that the cache does not show.
func (m *Expectations) overlayUnshown(f *Cluster, shown map[RepairKey]bool, now time.Time) {
	for key, e := range m.repairs {
		switch {
		case shown[key]:
			continue
		case e.begun: // it goes on to its end, even if its object is gone
		case e.repair.Running() && !e.seen && now.Sub(e.recorded) >= expectationLimit:
			delete(m.repairs, key)
			continue
		case e.repair.Running() && !e.seen:
			m.expectUntil(e.recorded.Add(expectationLimit))
		default:
			e.markLost(now)
		}
		f.Repairs = append(f.Repairs, e.repair)
	}
}

// expectUntil notes when an expectation expires; zero when it does not.
func (m *Expectations) expectUntil(end time.Time) {
	if sooner(end, m.expectedUntil) {
		m.expectedUntil = end
	}
}

// ExpectedUntil returns when the first expectation expires, those of the running pass included;
// zero when none does. No event need come at that time.
func (m *Expectations) ExpectedUntil() time.Time { return m.expectedUntil }
