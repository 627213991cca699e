package core

import (
	"slices"
	"time"
)

// unseenFor bounds how long an entry that the ledger's cache never showed is believed in: somebody
// may have deleted it at once. Its name, which the API server has or has not, keeps that safe (I2).
const unseenFor = time.Minute

// Memory is what Fettle did, or read live, and its caches may not show yet. Laid over a snapshot
// it keeps a pass from doing again what an earlier one did. Losing it may delay a repair, never
// hasten it (I6). The zero Memory is empty and ready; it is not safe for concurrent use.
type Memory struct {
	// deleting are the UIDs of targets whose deletion was accepted and has not been seen.
	deleting map[string]bool
	// gone are the nodes, by target UID, that a live read did not find.
	gone map[string]absence
	// read are the nodes, by target UID, as a live read found them a moment ago.
	read map[string]sighting
	// lookups are what live reads have found of the nodes that the cache lacks, by target UID.
	lookups map[string]*lookup
	// openings are the short circuits that have opened, by the UID of their policy.
	openings map[string]Opening
	// tests are the tests that have been seen to hold for the node of a target, by the UID of the target.
	tests map[string][]SeenTest
	// looked is what the last pass has asked of nodes for that.
	looked looks
	// workers are the targets of running repairs that were seen outside of the control plane.
	workers map[ID]bool
	// proofs are the targets that were well in the last pass, and departed those that were when they were removed, by owner.
	proofs, departed map[ID]Proof
	// instants are the instants that lay in the future when they were first seen.
	instants instants
	// repairs are the entries of the ledger as last written or seen.
	repairs map[ledgerKey]*entry
	// deleted are the finished repairs that Fettle has deleted and that the ledger's cache may still show.
	deleted map[deletedKey]deletion
	// requested are the requests that were made and have not been seen.
	requested map[petition]request
	// withdrawn are the requests, by their UID, that were taken back and have not been seen to leave.
	withdrawn map[string]bool
	// expectedUntil is when the first of these ends by time alone; zero when none does.
	expectedUntil time.Time
}

// petition tells requests apart that have not been seen yet: what was asked of whom, for which target.
type petition struct {
	target, remedy string
	template       Reference
}

type request struct {
	Request
	made time.Time
}

// absence is a node that a live read did not find, since the first of such reads.
type absence struct {
	name  string
	since time.Time
}

// sighting is a node as it was read live.
type sighting struct {
	node Node
	at   time.Time
}

type ledgerKey struct{ namespace, name string }

// Deleted remembers that the deletion of a target was accepted.
func (m *Memory) Deleted(target ID) {
	if m.deleting == nil {
		m.deleting = map[string]bool{}
	}
	m.deleting[target.UID] = true
	for _, e := range m.repairs {
		e.begun = e.begun || e.repair.Target == target
	}
}

// Requested remembers a request that was made.
func (m *Memory) Requested(r Request, now time.Time) {
	if m.requested == nil {
		m.requested = map[petition]request{}
	}
	m.requested[petition{r.Target.UID, r.Remedy, r.Template}] = request{r, now}
	m.expectUntil(now.Add(unseenFor))
}

// Withdrawn remembers that the withdrawal of a request was accepted, and of a repair whose target is healthy by then
// that it has done something.
func (m *Memory) Withdrawn(r Request, now time.Time) {
	if m.withdrawn == nil {
		m.withdrawn = map[string]bool{}
	}
	m.withdrawn[r.ID.UID] = true
	for _, e := range m.repairs {
		if r.Settled && e.repair.Running() && e.repair.Recovered.IsZero() && r.about(&e.repair.Target) {
			e.repair.Recovered, e.settled = now, true
		}
	}
}

// NodeGone remembers that a live read did not find the node that a target names, and returns since when such reads have not.
func (m *Memory) NodeGone(target ID, node string, at time.Time) time.Time {
	if m.gone == nil {
		m.gone = map[string]absence{}
	}
	if known, again := m.gone[target.UID]; again && known.name == node {
		return known.since
	}
	m.gone[target.UID] = absence{node, at}
	return at
}

// Read remembers how a live read has found the node of a target. It counts as long as the cache says the same.
func (m *Memory) Read(target ID, n Node, at time.Time) {
	if m.read == nil {
		m.read = map[string]sighting{}
	}
	m.read[target.UID] = sighting{n, at}
}

// Recorded remembers a repair as it was written to the ledger.
func (m *Memory) Recorded(r Repair, now time.Time) {
	r = r.ToWrite()
	m.keep(r, false, now)
	e := m.repairs[ledgerKey{r.Namespace, r.Name}]
	e.ours, e.step = true, len(r.Rungs)+1
	if r.Running() && !e.seen {
		m.expectUntil(now.Add(unseenFor))
	}
}

// Dropped forgets a finished repair that Fettle has deleted from the ledger, and hides it until the cache agrees.
func (m *Memory) Dropped(r Repair, now time.Time) {
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

// Tallied remembers the short circuits whose cooldown is not over.
func (m *Memory) Tallied(policies []Policy, tallies []Tally) {
	openings := map[string]Opening{}
	for i := range policies {
		if o := tallies[i].Opening; o != (Opening{}) {
			openings[policies[i].ID.UID] = o
		}
	}
	m.openings = openings
}

// LayPolicies puts what is remembered over policies as just observed.
func (m *Memory) LayPolicies(policies []Policy) {
	for i := range policies {
		policies[i].Opening = m.openings[policies[i].ID.UID]
	}
}

func (m *Memory) keep(r Repair, seen bool, now time.Time) {
	if m.repairs == nil {
		m.repairs = map[ledgerKey]*entry{}
	}
	key := ledgerKey{r.Namespace, r.Name}
	fresh := &entry{repair: r, seen: seen, recorded: now}
	if old := m.repairs[key]; old != nil {
		fresh.seen, fresh.begun, fresh.step, fresh.petitioned = seen || old.seen, old.begun, old.step, old.petitioned
		if r.Contemporaries == nil {
			fresh.repair.Contemporaries = old.repair.Contemporaries
		}
	}
	m.repairs[key] = fresh
}

// Lay puts what is remembered over a fresh snapshot, and forgets what the snapshot shows by now.
// It changes the snapshot's slices, which nobody else may hold yet.
func (m *Memory) Lay(f *Fleet, now time.Time) {
	if f.Observed != Yes {
		return
	}
	m.layTargets(f.Targets, now)
	m.layLookups(f.Targets, now)
	m.layReads(f.Targets, now)
	m.expectedUntil = time.Time{}
	m.layRepairs(f, now)
	m.layRequests(f, now)
	f.ExpectedUntil = m.expectedUntil
	m.layProofs(f)
	m.layPetitions(f)
	m.layWorkers(f)
	m.LayInstants(f, now)
}

// layPetitions tells of running repairs whether something has stood that they ask for. Whoever takes that back, another
// leader among them, leaves nothing else that shows it.
func (m *Memory) layPetitions(f *Fleet) {
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
		e.petitioned = e.petitioned || slices.ContainsFunc(about[r.Target.Name], func(q *Request) bool {
			return q.Own && q.about(&r.Target) && r.asked(q)
		})
		r.Petitioned = e.petitioned
	}
}

// layRequests adds the requests that were made and are not shown yet, and marks those that were taken back.
// One that is never shown was made in vain, and may be made again: its name keeps that safe.
func (m *Memory) layRequests(f *Fleet, now time.Time) {
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
		if seen || now.Sub(made.made) >= unseenFor {
			delete(m.requested, key)
			continue
		}
		f.Requests = append(f.Requests, made.Request)
		m.expectUntil(made.made.Add(unseenFor))
	}
}

func (m *Memory) layTargets(targets []Target, now time.Time) {
	if len(m.deleting) == 0 && len(m.gone) == 0 {
		return
	}
	deleting, gone := map[string]bool{}, map[string]absence{}
	for i := range targets {
		t := &targets[i]
		if m.deleting[t.ID.UID] && !t.Deleting {
			t.Deleting = true
			deleting[t.ID.UID] = true
		}
		if absent, known := m.gone[t.ID.UID]; known && t.Node.State == NodeUnseen && t.Node.Name == absent.name {
			absent.since = seenBy(absent.since, now)
			t.Node.State, t.NodeGoneSince = NodeGone, absent.since
			gone[t.ID.UID] = absent
		}
	}
	m.deleting, m.gone = deleting, gone
}

// layReads tells of nodes that were read live a moment ago and have not changed since that they were.
func (m *Memory) layReads(targets []Target, now time.Time) {
	if len(m.read) == 0 {
		return
	}
	fresh := map[string]sighting{}
	for i := range targets {
		t := &targets[i]
		s, known := m.read[t.ID.UID]
		if known && now.Sub(s.at) < confirmedFor && t.Node.same(&s.node) {
			t.NodeReadAt = s.at
			fresh[t.ID.UID] = s
		}
	}
	m.read = fresh
}

// layRepairs lays over the ledger what is remembered: entries that the cache does not show yet,
// newer versions of those that it does, and those that somebody deleted before their time, whose
// back-off still counts. One that was deleted while it ran has been withdrawn by whoever did that.
func (m *Memory) layRepairs(f *Fleet, now time.Time) {
	cached := m.hideDeleted(f.Repairs, now)
	shown := make(map[ledgerKey]bool, len(cached))
	for i := range cached {
		key := ledgerKey{cached[i].Namespace, cached[i].Name}
		shown[key] = true
		if e := m.repairs[key]; e != nil && !e.lost && sameTarget(&e.repair, &cached[i]) {
			e.takeIn(cached[i])
			if ahead, until := e.ahead(&cached[i], now); ahead {
				m.expectUntil(until)
				e.seen, cached[i] = true, e.repair
				continue
			}
		}
		m.keep(cached[i], true, now)
		cached[i].Contemporaries = m.repairs[key].repair.Contemporaries
	}
	for i := range cached {
		cached[i].Foreign = m.repairs[ledgerKey{cached[i].Namespace, cached[i].Name}].foreign(&cached[i])
	}
	f.Repairs = cached
	m.layUnshown(f, shown, now)
}

// layUnshown adds the remembered entries that the cache does not show.
func (m *Memory) layUnshown(f *Fleet, shown map[ledgerKey]bool, now time.Time) {
	for key, e := range m.repairs {
		switch {
		case shown[key]:
			continue
		case e.repair.Running() && e.begun: // it goes on to its end, whatever became of its entry
		case e.repair.Running() && !e.seen && now.Sub(e.recorded) >= unseenFor:
			delete(m.repairs, key)
			continue
		case e.repair.Running() && !e.seen:
			m.expectUntil(e.recorded.Add(unseenFor))
		default:
			e.loseAt(now)
		}
		f.Repairs = append(f.Repairs, e.repair)
	}
}

// expectUntil takes in when an expectation ends by time alone; zero when it does not.
func (m *Memory) expectUntil(end time.Time) {
	if sooner(end, m.expectedUntil) {
		m.expectedUntil = end
	}
}

// ExpectedUntil returns when the first of the expectations ends by time alone, those of the pass under way among them; zero when
// none does. No event may tell of that.
func (m *Memory) ExpectedUntil() time.Time { return m.expectedUntil }
