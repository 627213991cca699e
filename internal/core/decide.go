package core

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// liveReadLimit is how long a live read of a node can justify a destructive step.
const liveReadLimit = 10 * time.Second

// recheckUnseen is how soon a node that a live read found, and the cache still lacks, is looked up
// again.
const recheckUnseen = 10 * time.Second

// none is the index that stands for no object.
const none = -1

// Decide returns the decision that follows from the facts at an instant. It is total and
// deterministic, and the order of its input changes nothing (I7, I8).
func Decide(policies []Policy, cluster Cluster, now time.Time) Decision {
	d := newPlanner(policies, &cluster, now)
	d.continueRepairs()
	d.noteEvidence()
	d.withdrawOrphans()
	d.findStuck()
	d.startRepairs()
	d.releaseIdleLeases()
	d.startDryRuns()
	return d.decision
}

// planner is the working state of one decision.
type planner struct {
	policies []Policy
	cluster  *Cluster
	now      time.Time
	decision Decision

	// ageRank is the place of each policy in the order of age, name and ID. Of the policies that
	// find a target unhealthy the first one leads its repair.
	ageRank []int
	// groups maps targets to their groups, nil when each target is a group of its own.
	groups []int
	// running is the oldest running repair of each target. targetOf maps such a repair to its
	// target, and repairOf a group to its oldest repair. Targets are identified by their whole ID:
	// an author who knows the UID of one may write it into a Repair of another.
	running  map[ID]int
	targetOf map[int]int
	repairOf []int
	// ended is the youngest ended repair of each target that left the target in place, by
	// backoffID.
	ended map[ID]int
	// requestsAbout are the requests about each target, and requestsOf those of each running
	// repair.
	requestsAbout map[int][]int
	requestsOf    map[int][]int
	// requestedTargets are the targets with a user's repair request. repairRequests is the history
	// of each of them.
	requestedTargets []int
	repairRequests   map[int]*repairRequestHistory
	orphans          orphanIndex
	// byName has the policies by kind, namespace and name, in their own order; nil until needed.
	byName map[qualifiedName][]int
	// awaitingReplacement has the running repairs whose targets are gone and that go on.
	// controlPlaneAwaited counts those whose targets may belong to the control plane. healthyUIDs are
	// the UIDs of healthy targets, by their IDs without UID; nil until needed.
	awaitingReplacement map[int]bool
	controlPlaneAwaited int
	healthyUIDs         map[ID]string
	// replacing has the first request whose remediator replaces a target that is gone, by the target's ID without UID.
	replacing map[ID]int
	// lastNumber is the highest number among the earlier repairs of each target.
	lastNumber map[ID]int
	// newest are the targets created in this very second; nil until needed.
	newest []int
	// affected are the groups that are unhealthy or under repair, each once. verdicts indexes the
	// verdicts on them.
	affected []int
	verdicts verdictIndex
	pools    map[ID]*pool
	// controlPlane are its targets, and byLabel the targets that may belong to it by their label
	// alone. out are the groups of each quorum group that are under repair, have a request, or are
	// being deleted.
	controlPlane, byLabel []int
	out                   map[quorumGroup][]int
	// later counts, by policy, the running repairs that have not begun and whose turn is still to
	// come. laterOut counts those of each quorum group.
	later    []int
	laterOut map[quorumGroup]int
	// unledEnded counts the repairs without a target and without a policy that end in this pass.
	unledEnded int
	// confirming are the targets to be read live, and whether the quorum of each is to be read too.
	confirming map[int]bool
	// reserved counts, for each policy, the targets whose nodes are read so that they may be
	// repaired.
	reserved []int
	// readOf counts the targets among them that share a place, by quorum group.
	readOf map[quorumGroup]reads
}

// newPlanner returns a planner that has judged all targets and counted what is under way. It has decided about no repair
// yet.
func newPlanner(policies []Policy, cluster *Cluster, now time.Time) *planner {
	d := &planner{policies: policies, cluster: cluster, now: now, later: make([]int, len(policies)), laterOut: map[quorumGroup]int{}}
	d.wakeAt(cluster.ExpectedUntil)
	d.indexTargets()
	d.relateRequests()
	d.readRepairRequests()
	d.judgeMembers()
	d.indexRepairs()
	d.findAwaitingReplacement()
	d.findReplacing()
	d.tally()
	return d
}

// indexTargets makes one pass over all targets, of which there may be very many. It finds the
// control plane, the groups, and the targets with a repair request.
func (d *planner) indexTargets() {
	mixed := false
	for i := range d.cluster.Targets {
		t := &d.cluster.Targets[i]
		if t.RepairRequest != (RepairRequest{}) {
			d.requestedTargets = append(d.requestedTargets, i)
		}
		mixed = mixed || t.ID.Kind != d.cluster.Targets[0].ID.Kind
		switch {
		case t.ControlPlane:
			d.controlPlane = append(d.controlPlane, i)
		case t.ControlPlaneByLabel:
			d.byLabel = append(d.byLabel, i)
		}
	}
	if mixed {
		d.groups = groupsByNode(d.cluster.Targets)
	}
}

// judgeMembers judges the members of the policies by age of the policies, so that refusals come in
// that order.
func (d *planner) judgeMembers() {
	members := 0
	for i := range d.policies {
		members += len(d.policies[i].Members)
	}
	d.ageRank = make([]int, len(d.policies))
	precedence := d.byAge()
	for place, i := range precedence {
		d.ageRank[i] = place
	}
	d.decision.Verdicts = make([]Verdict, 0, members)
	for _, i := range precedence {
		for _, m := range d.policies[i].Members {
			d.judgeMember(i, m)
		}
	}
}

// judgeMember adds the verdict on one member. A member that is no target of the cluster gets none.
func (d *planner) judgeMember(policy, target int) {
	if target < 0 || target >= len(d.cluster.Targets) {
		return
	}
	t := &d.cluster.Targets[target]
	v := Verdict{Health: Undetermined, Reason: ClusterUnobserved}
	if d.cluster.Observed == Yes {
		v = d.judgeOne(&d.policies[policy], target)
	}
	v.Policy, v.Target = policy, target
	if v.Health == Healthy && v.Reason != Premature && (d.awaitsRequest(policy, target) || d.settles(policy, target)) {
		v.Health, v.Reason = Suspect, Recovering
		v.Detail, v.RequestRemains = d.remainingRequest(policy, target)
	}
	d.decision.Verdicts = append(d.decision.Verdicts, v)
	d.wakeAt(v.Until)
	d.wakeAt(t.NodeReadAgain)
	if v.Reason == NodeUnconfirmed && !t.Deleting && !d.now.Before(t.NodeReadAgain) {
		var step *Step
		if steps := d.policies[policy].StepsFor(t); len(steps) > 0 {
			step = &steps[0]
		}
		d.confirm(target, step)
		d.wakeAt(d.now.Add(recheckUnseen))
	}
}

// indexRepairs relates repairs to targets and to pools, and indexes the verdicts that matter.
func (d *planner) indexRepairs() {
	d.pools, d.lastNumber, d.running, d.ended = map[ID]*pool{}, map[ID]int{}, map[ID]int{}, map[ID]int{}
	for i := range d.cluster.Repairs {
		r := &d.cluster.Repairs[i]
		d.lastNumber[r.Target] = max(d.lastNumber[r.Target], r.number())
		d.indexRepair(i, r)
		if first, taken := d.running[r.Target]; r.Running() && (!taken || d.olderRepair(i, first) < 0) {
			d.running[r.Target] = i
		}
	}
	d.relateRepairs()
	d.countControlPlane()
	d.indexVerdicts()
}

// relateRepairs finds the running repair of each group: the oldest.
func (d *planner) relateRepairs() {
	d.repairOf, d.targetOf = make([]int, len(d.cluster.Targets)), map[int]int{}
	for i := range d.repairOf {
		d.repairOf[i] = none
	}
	if len(d.running) == 0 {
		return
	}
	for i := range d.cluster.Targets {
		at, under := d.running[d.cluster.Targets[i].ID]
		if !under {
			continue
		}
		d.targetOf[at] = i
		if of := &d.repairOf[d.groupOf(i)]; *of == none || d.olderRepair(at, *of) < 0 {
			*of = at
		}
	}
	d.relateRequestsToRepairs()
}

// olderRepair orders repairs by their sequence in the ledger, then by start and name.
func (d *planner) olderRepair(a, b int) int {
	p, q := &d.cluster.Repairs[a], &d.cluster.Repairs[b]
	return cmp.Or(cmp.Compare(p.Sequence, q.Sequence), p.Started.Compare(q.Started), cmp.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Name, q.Name))
}

// endedBefore orders repairs by their end. At the same instant the repair with more retries comes
// last.
func (r *Repair) endedBefore(other *Repair) bool {
	return cmp.Or(r.Ended.Compare(other.Ended), cmp.Compare(r.Retry, other.Retry)) < 0
}

// indexRepair adds a repair to the history of its target and of its pool. It leaves out a repair
// whose end lies further in the future than clocks differ.
func (d *planner) indexRepair(index int, r *Repair) {
	if r.Misdated {
		return
	}
	of := r.Target.backoffID()
	if last, known := d.ended[of]; r.lasted() && (!known || d.cluster.Repairs[last].endedBefore(r)) {
		d.ended[of] = index
	}
	if r.Owner.UID == "" || r.Outcome == Recovered { // nothing was done, so nothing was replaced
		return
	}
	p := d.pools[r.Owner]
	if p == nil {
		p = &pool{youngestUnhealthy: none}
		d.pools[r.Owner] = p
	}
	p.repairs = append(p.repairs, index)
	if r.Started.After(p.lastStart) {
		p.lastStart = r.Started
	}
}

func (d *planner) indexVerdicts() {
	affected := make([]bool, len(d.cluster.Targets))
	for i := range d.decision.Verdicts {
		v := &d.decision.Verdicts[i]
		if b := d.groupOf(v.Target); !affected[b] && (v.Health == Unhealthy || d.repairOf[b] != none) {
			affected[b] = true
			d.affected = append(d.affected, b)
		}
	}
	if len(d.affected) > 0 {
		d.verdicts = d.verdictsByGroup(affected)
	}
	if len(d.pools) > 0 {
		d.findHealthy()
	}
}

// tally counts each policy's members. A member that is not known to be healthy counts against the
// limit, as in today's controllers.
func (d *planner) tally() {
	d.decision.Tallies = make([]Tally, len(d.policies))
	for i := range d.decision.Verdicts {
		v := &d.decision.Verdicts[i]
		t := &d.decision.Tallies[v.Policy]
		t.Total++
		switch v.Health { //nolint:exhaustive // the others are counted as the rest
		case Healthy:
			t.Healthy++
		case Unhealthy:
			t.Failed++
		}
		if d.inFlight(v) {
			t.InFlight++
		}
	}
	d.tallyAwaitingReplacement()
	for i := range d.policies {
		p, t := &d.policies[i], &d.decision.Tallies[i]
		if p.Unjudged { // none of its members is known to be healthy
			t.Total = p.Selected
			continue
		}
		t.MaxUnhealthy = p.ShortCircuit.MaxUnhealthyOf(t.Counted())
		t.Permitted = p.ShortCircuit.Permits(t.Unhealthy(), t.Counted())
		t.MaxInFlight = mostInFlight(p.MaxInFlight, t.Total)
		if t.Permitted && p.WasStopped && !p.Paused && p.Problem == "" && t.Unhealthy() > 0 {
			t.Cooldown, t.ResumeAt = p.Cooldown.advance(p.StormCooldown, t.Unhealthy(), d.now)
			if p.FixedCooldown {
				t.ResumeAt = t.Cooldown.First.Add(p.StormCooldown)
			}
			t.CoolingDown = d.now.Before(t.ResumeAt)
			d.wakeAt(t.ResumeAt)
		}
	}
}

// inFlight reports whether the target of a verdict is in flight. It is under repair, has a request,
// or is being deleted while not healthy. All but the first show in the cluster, so a lost ledger
// frees no place for another repair (I6). A repair without a step left frees the place of its own
// target alone. Another target of the group may have a request to its owner.
func (d *planner) inFlight(v *Verdict) bool {
	if at := d.repairOf[d.groupOf(v.Target)]; at != none && d.outOfSteps(at) {
		t := &d.cluster.Targets[v.Target]
		return t.ExternallyRemediated || t.Deleting || (v.Target != d.targetOf[at] && d.underRemediation(v))
	}
	return d.repairOf[d.groupOf(v.Target)] != none || v.WasUnhealthy || d.underRemediation(v)
}

// mostInFlight returns at least one for a share above zero. Otherwise a small policy would never
// repair anything.
func mostInFlight(a Amount, total int) int {
	switch {
	case a.Unlimited:
		return math.MaxInt
	case a.Number > 0:
		return max(1, a.FloorOf(total))
	}
	return a.FloorOf(total)
}

// byAge orders the policies by age, then by name, whatever their kind.
func (d *planner) byAge() []int {
	order := make([]int, len(d.policies))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		p, q := &d.policies[a], &d.policies[b]
		return cmp.Or(p.Created.Compare(q.Created), cmp.Compare(p.ID.Name, q.ID.Name), p.ID.Compare(q.ID))
	})
	return order
}

func (d *planner) wakeAt(at time.Time) {
	if at.After(d.now) && sooner(at, d.decision.NextAt) {
		d.decision.NextAt = at
	}
}

// confirm adds a target to the live reads. It adds the quorum of the control plane where the step
// may cost that.
func (d *planner) confirm(target int, step *Step) {
	if d.confirming == nil {
		d.confirming = map[int]bool{}
	}
	polled, known := d.confirming[target]
	if !known {
		d.decision.Confirm = append(d.decision.Confirm, target)
	}
	takes := d.cluster.Targets[target].takesQuorum(step)
	if takes && !polled {
		d.decision.QuorumReads = append(d.decision.QuorumReads, target)
	}
	d.confirming[target] = polled || takes
}
