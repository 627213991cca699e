package core

import (
	"slices"
	"time"
)

// expectationLimit bounds how long an entry that the ledger's cache never showed is believed in: somebody
// may have deleted it at once. Its name, which the API server has or has not, keeps that safe (I2).
const expectationLimit = time.Minute

// Expectations is what Fettle did, or read live, and its caches may not show yet. Laid over a snapshot
// it keeps a pass from doing again what an earlier one did. Losing it may delay a repair, never
// hasten it (I6). The zero Expectations is empty and ready; it is not safe for concurrent use.
type Expectations struct {
	// deleting are the UIDs of targets whose deletion was accepted and has not been seen.
	deleting map[string]bool
	// goneNodes are the nodes, by target UID, that a live read did not find.
	goneNodes map[string]goneNode
	// nodeReads are the nodes, by target UID, as a live read found them a moment ago.
	nodeReads map[string]nodeRead
	// lookups are what live reads have found of the nodes that the cache lacks, by target UID.
	lookups map[string]*lookup
	// cooldowns are the short circuits that have opened, by the UID of their policy.
	cooldowns map[string]CooldownState
	// tests are the tests that have been seen to hold for the node of a target, by the UID of the target.
	tests map[string][]SeenTest
	// coverage is what the last pass has asked of nodes for that.
	coverage testCoverage
	// workers are the targets of running repairs that were seen outside of the control plane.
	workers map[ID]bool
	// healthy are the targets that were well in the last pass, and departed those that were when they were removed, by owner.
	healthy, removedHealthy map[ID]HealthyTarget
	// futureTimes are the instants that lay in the future when they were first seen.
	futureTimes futureTimes
	// repairs are the entries of the ledger as last written or seen.
	repairs map[ledgerKey]*repairExpectation
	// deleted are the finished repairs that Fettle has deleted and that the ledger's cache may still show.
	deleted map[deletedKey]deletion
	// requested are the requests that were made and have not been seen.
	requested map[requestKey]madeRequest
	// withdrawn are the requests, by their UID, that were taken back and have not been seen to leave.
	withdrawn map[string]bool
	// expectedUntil is when the first of these ends by time alone; zero when none does.
	expectedUntil time.Time
}

// requestKey tells requests apart that have not been seen yet: what was asked of whom, for which target.
type requestKey struct {
	target, remedy string
	template       Reference
}

type madeRequest struct {
	Request
	made time.Time
}

// goneNode is a node that a live read did not find, since the first of such reads.
type goneNode struct {
	name  string
	since time.Time
}

// nodeRead is a node as it was read live.
type nodeRead struct {
	node Node
	at   time.Time
}

type ledgerKey struct{ namespace, name string }

// ExpectDeletion remembers that the deletion of a target was accepted.
func (m *Expectations) ExpectDeletion(target ID) {
	if m.deleting == nil {
		m.deleting = map[string]bool{}
	}
	m.deleting[target.UID] = true
	for _, e := range m.repairs {
		e.begun = e.begun || e.repair.Target == target
	}
}

// ExpectRequest remembers a request that was made.
func (m *Expectations) ExpectRequest(r Request, now time.Time) {
	if m.requested == nil {
		m.requested = map[requestKey]madeRequest{}
	}
	m.requested[requestKey{r.Target.UID, r.Remedy, r.Template}] = madeRequest{r, now}
	m.expectUntil(now.Add(expectationLimit))
}

// ExpectWithdrawal remembers that the withdrawal of a request was accepted, and of a repair whose target is healthy by then
// that it has done something.
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

// KeepNodeGone remembers that a live read did not find the node that a target names, and returns since when such reads have not.
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

// KeepNodeRead remembers how a live read has found the node of a target. It counts as long as the cache says the same.
func (m *Expectations) KeepNodeRead(target ID, n Node, at time.Time) {
	if m.nodeReads == nil {
		m.nodeReads = map[string]nodeRead{}
	}
	m.nodeReads[target.UID] = nodeRead{n, at}
}

// ExpectRepair remembers a repair as it was written to the ledger.
func (m *Expectations) ExpectRepair(r Repair, now time.Time) {
	r = r.ToWrite()
	m.keep(r, false, now)
	e := m.repairs[ledgerKey{r.Namespace, r.Name}]
	e.ours, e.step = true, len(r.Tried)+1
	if r.Running() && !e.seen {
		m.expectUntil(now.Add(expectationLimit))
	}
}

// ExpectRepairDeletion forgets a finished repair that Fettle has deleted from the ledger, and hides it until the cache agrees.
func (m *Expectations) ExpectRepairDeletion(r Repair, now time.Time) {
	key := deletedKeyOf(&r)
	e := m.repairs[key.ledgerKey]
	delete(m.repairs, key.ledgerKey)
	if m.deleted[key].stands {
		return
	}
	if m.deleted == nil {
		m.deleted = map[deletedKey]deletion{}
	}
	m.deleted[key] = deletion{revision: r.Revision, seen: e != nil && e.seen, at: now}
}

// KeepCooldowns remembers the short circuits whose cooldown is not over.
func (m *Expectations) KeepCooldowns(policies []Policy, tallies []Tally) {
	openings := map[string]CooldownState{}
	for i := range policies {
		if o := tallies[i].Cooldown; o != (CooldownState{}) {
			openings[policies[i].ID.UID] = o
		}
	}
	m.cooldowns = openings
}

// OverlayPolicies puts what is remembered over policies as just observed.
func (m *Expectations) OverlayPolicies(policies []Policy) {
	for i := range policies {
		policies[i].Cooldown = m.cooldowns[policies[i].ID.UID]
	}
}

func (m *Expectations) keep(r Repair, seen bool, now time.Time) {
	if m.repairs == nil {
		m.repairs = map[ledgerKey]*repairExpectation{}
	}
	key := ledgerKey{r.Namespace, r.Name}
	fresh := &repairExpectation{repair: r, seen: seen, recorded: now}
	if old := m.repairs[key]; old != nil {
		fresh.seen, fresh.begun, fresh.step, fresh.requestSeen = seen || old.seen, old.begun, old.step, old.requestSeen
		if r.CreatedSameSecond == nil {
			fresh.repair.CreatedSameSecond = old.repair.CreatedSameSecond
		}
	}
	m.repairs[key] = fresh
}

// Overlay puts what is remembered over a fresh snapshot, and forgets what the snapshot shows by now.
// It changes the snapshot's slices, which nobody else may hold yet.
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
	m.overlayWorkers(f)
	m.OverlayTimes(f, now)
}

// overlayRequestsSeen tells of running repairs whether something has stood that they ask for. Whoever takes that back, another
// leader among them, leaves nothing else that shows it.
func (m *Expectations) overlayRequestsSeen(f *Cluster) {
	about := make(map[string][]*Request, len(f.Requests))
	for i := range f.Requests {
		q := &f.Requests[i]
		about[q.Target.Name] = append(about[q.Target.Name], q)
	}
	for i := range f.Repairs {
		r := &f.Repairs[i]
		e := m.repairs[ledgerKey{r.Namespace, r.Name}]
		if e == nil || !r.Running() {
			continue
		}
		e.requestSeen = e.requestSeen || slices.ContainsFunc(about[r.Target.Name], func(q *Request) bool {
			return q.Own && q.about(&r.Target) && r.made(q)
		})
		r.RequestSeen = e.requestSeen
	}
}

// overlayRequests adds the requests that were made and are not shown yet, and marks those that were taken back.
// One that is never shown was made in vain, and may be made again: its name keeps that safe.
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

// overlayReads tells of nodes that were read live a moment ago and have not changed since that they were.
func (m *Expectations) overlayReads(targets []Target, now time.Time) {
	if len(m.nodeReads) == 0 {
		return
	}
	fresh := map[string]nodeRead{}
	for i := range targets {
		t := &targets[i]
		s, known := m.nodeReads[t.ID.UID]
		if known && now.Sub(s.at) < liveReadLimit && t.Node.same(&s.node) {
			t.NodeReadAt = s.at
			fresh[t.ID.UID] = s
		}
	}
	m.nodeReads = fresh
}

// overlayRepairs lays over the ledger what is remembered: entries that the cache does not show yet,
// newer versions of those that it does, and those that somebody deleted before their time, whose
// back-off still counts. One that was deleted while it ran has been withdrawn by whoever did that.
func (m *Expectations) overlayRepairs(f *Cluster, now time.Time) {
	cached := m.hideDeleted(f.Repairs, now)
	shown := make(map[ledgerKey]bool, len(cached))
	for i := range cached {
		key := ledgerKey{cached[i].Namespace, cached[i].Name}
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
		cached[i].RecordedElsewhere = m.repairs[ledgerKey{cached[i].Namespace, cached[i].Name}].recordedElsewhere(&cached[i])
	}
	f.Repairs = cached
	m.overlayUnshown(f, shown, now)
}

// overlayUnshown adds the remembered entries that the cache does not show.
func (m *Expectations) overlayUnshown(f *Cluster, shown map[ledgerKey]bool, now time.Time) {
	for key, e := range m.repairs {
		switch {
		case shown[key]:
			continue
		case e.repair.Running() && e.begun: // it goes on to its end, whatever became of its entry
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

// expectUntil takes in when an expectation ends by time alone; zero when it does not.
func (m *Expectations) expectUntil(end time.Time) {
	if sooner(end, m.expectedUntil) {
		m.expectedUntil = end
	}
}

// ExpectedUntil returns when the first of the expectations ends by time alone, those of the pass under way among them; zero when
// none does. No event may tell of that.
func (m *Expectations) ExpectedUntil() time.Time { return m.expectedUntil }
