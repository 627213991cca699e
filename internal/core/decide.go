package core

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// confirmedFor is how long a live read of a node can justify a destructive step.
const confirmedFor = 10 * time.Second

// recheckUnseen is how soon a node that a live read found, and the cache still lacks, is looked
// for again.
const recheckUnseen = 10 * time.Second

// none is the index of nothing.
const none = -1

// Decide says what follows from the facts at an instant. It is total and deterministic, and the
// order of its input changes nothing (I7, I8).
func Decide(policies []Policy, fleet Fleet, now time.Time) Decision {
	d := &deliberation{policies: policies, fleet: &fleet, now: now}
	d.wakeAt(fleet.ExpectedUntil)
	d.survey()
	d.relateRequests()
	d.readRepairRequests()
	d.judgeMembers()
	d.readLedger()
	d.findBehind()
	d.tally()
	d.carryOn()
	d.withdrawOrphans()
	d.findStuck()
	d.startRepairs()
	d.releaseIdle()
	d.rehearse()
	return d.decision
}

// deliberation is the working state of one decision.
type deliberation struct {
	policies []Policy
	fleet    *Fleet
	now      time.Time
	decision Decision

	// seniority is each policy's place in the order of their age, then name, then ID: the first of those that
	// find a target unhealthy leads its repair.
	seniority []int
	// bodies are those of the targets, nil when each is its own.
	bodies []int
	// running is the oldest running repair of each target, targetOf the index of the target of each of those,
	// and repairOf the oldest of each body. Targets are told apart by all of their ID: an
	// author who knows the UID of one may write it into a Repair of another.
	running  map[ID]int
	targetOf map[int]int
	repairOf []int
	// ended is the youngest repair of each target that has ended and left the target in place, by the lineage of the target.
	ended map[ID]int
	// requestsOn are the requests about each target, and petitions those of each running repair.
	requestsOn map[int][]int
	petitions  map[int][]int
	// requested are the targets about which people have made requests, and asked is what the ledger tells of them.
	requested []int
	asked     map[int]*asked
	orphans   orphanIndex
	// behind are the repairs that go on though their targets are gone, and membersBehind counts those of targets that may
	// belong to the control plane. sound are the UIDs of the targets that are found healthy, by their IDs without UID; nil
	// until it is needed.
	behind        map[int]bool
	membersBehind int
	sound         map[ID]string
	// lastNumber is the highest number among the earlier repairs of each target.
	lastNumber map[ID]int
	// young are the targets created in this very second; nil until somebody asks.
	young []int
	// troubled are the bodies that are unhealthy or under repair, each once, and judgements the
	// verdicts on them.
	troubled   []int
	judgements judgements
	pools      map[ID]*pool
	// controlPlane are the targets that belong to it, and byLabel the targets that may by their label alone. Out are the bodies of each
	// circle that are under repair, in the hands of a remediator, or leaving.
	controlPlane, byLabel []int
	out                   map[circle][]int
	// later counts, by policy, the running repairs that have not begun and have not had their turn
	// yet; laterOut those of each circle.
	later    []int
	laterOut map[circle]int
	// unled counts the repairs that end in this pass, have no target and no health check that leads them.
	unled int
	// confirming are the targets to be read live, and of each whether its quorum is to be known.
	confirming map[int]bool
	// reserved counts, for each policy, the targets whose nodes are read so that they may be repaired.
	reserved []int
	// readOf are those of them that share a place, by circle.
	readOf map[circle]reads
}

// survey looks once at all targets, of which there may be very many: for those of the control plane, and
// for bodies.
func (d *deliberation) survey() {
	mixed := false
	for i := range d.fleet.Targets {
		t := &d.fleet.Targets[i]
		if t.RepairRequest != (RepairRequest{}) {
			d.requested = append(d.requested, i)
		}
		mixed = mixed || t.ID.Kind != d.fleet.Targets[0].ID.Kind
		switch {
		case t.ControlPlane:
			d.controlPlane = append(d.controlPlane, i)
		case t.ControlPlaneByLabel:
			d.byLabel = append(d.byLabel, i)
		}
	}
	if mixed {
		d.bodies = bodies(d.fleet.Targets)
	}
}

// judgeMembers asks the policies in the order of their age, so that refusals come in that order.
func (d *deliberation) judgeMembers() {
	members := 0
	for i := range d.policies {
		members += len(d.policies[i].Members)
	}
	d.seniority = make([]int, len(d.policies))
	precedence := d.byAge()
	for place, i := range precedence {
		d.seniority[i] = place
	}
	d.decision.Verdicts = make([]Verdict, 0, members)
	for _, i := range precedence {
		for _, m := range d.policies[i].Members {
			d.judgeMember(i, m)
		}
	}
}

// judgeMember returns the verdict on one member. A member outside of the fleet gets none.
func (d *deliberation) judgeMember(policy, target int) {
	if target < 0 || target >= len(d.fleet.Targets) {
		return
	}
	t := &d.fleet.Targets[target]
	v := Verdict{Health: Undetermined, Reason: FleetUnobserved}
	if d.fleet.Observed == Yes {
		v = d.judgeOne(&d.policies[policy], target)
	}
	v.Policy, v.Target = policy, target
	if v.Health == Healthy && v.Reason != Premature && (d.petitioned(policy, target) || d.settles(policy, target)) {
		v.Health, v.Reason, v.Detail = Suspect, Recovering, d.foreignOn(policy, target)
	}
	d.decision.Verdicts = append(d.decision.Verdicts, v)
	d.wakeAt(v.Until)
	d.wakeAt(t.NodeReadAgain)
	if v.Reason == NodeUnconfirmed && !t.Deleting && !d.now.Before(t.NodeReadAgain) {
		var step *Step
		if ladder := d.policies[policy].LadderFor(t); len(ladder) > 0 {
			step = &ladder[0]
		}
		d.confirm(target, step)
		d.wakeAt(d.now.Add(recheckUnseen))
	}
}

// readLedger relates repairs to targets and to pools, and collects the verdicts that matter.
func (d *deliberation) readLedger() {
	d.pools, d.lastNumber, d.running, d.ended = map[ID]*pool{}, map[ID]int{}, map[ID]int{}, map[ID]int{}
	for i := range d.fleet.Repairs {
		r := &d.fleet.Repairs[i]
		d.lastNumber[r.Target] = max(d.lastNumber[r.Target], r.number())
		d.remember(i, r)
		if first, taken := d.running[r.Target]; r.Running() && (!taken || d.olderRepair(i, first) < 0) {
			d.running[r.Target] = i
		}
	}
	d.relateRepairs()
	d.countControlPlane()
	d.collectJudgements()
}

// relateRepairs finds the repair under way of each body: the oldest.
func (d *deliberation) relateRepairs() {
	d.repairOf, d.targetOf = make([]int, len(d.fleet.Targets)), map[int]int{}
	for i := range d.repairOf {
		d.repairOf[i] = none
	}
	if len(d.running) == 0 {
		return
	}
	for i := range d.fleet.Targets {
		at, under := d.running[d.fleet.Targets[i].ID]
		if !under {
			continue
		}
		d.targetOf[at] = i
		if of := &d.repairOf[d.body(i)]; *of == none || d.olderRepair(at, *of) < 0 {
			*of = at
		}
	}
	d.relatePetitions()
}

// olderRepair orders repairs as the ledger took them, then by their start and name.
func (d *deliberation) olderRepair(a, b int) int {
	p, q := &d.fleet.Repairs[a], &d.fleet.Repairs[b]
	return cmp.Or(cmp.Compare(p.Sequence, q.Sequence), p.Started.Compare(q.Started), cmp.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Name, q.Name))
}

// endedBefore orders by what is read of the last: when it ended, and of those that ended at once, which was retried
// more often.
func (r *Repair) endedBefore(other *Repair) bool {
	return cmp.Or(r.Ended.Compare(other.Ended), cmp.Compare(r.Retry, other.Retry)) < 0
}

// remember takes in what a repair tells of its target and of its pool. It leaves out a repair whose end no clock of a leader
// can have told.
func (d *deliberation) remember(index int, r *Repair) {
	if r.Misdated {
		return
	}
	of := r.Target.lineage()
	if last, known := d.ended[of]; r.lasted() && (!known || d.fleet.Repairs[last].endedBefore(r)) {
		d.ended[of] = index
	}
	if r.Owner.UID == "" || r.Outcome == Recovered { // nothing was done, so nothing was replaced
		return
	}
	p := d.pools[r.Owner]
	if p == nil {
		p = &pool{heir: none}
		d.pools[r.Owner] = p
	}
	p.repairs = append(p.repairs, index)
	if r.Started.After(p.lastStart) {
		p.lastStart = r.Started
	}
}

func (d *deliberation) collectJudgements() {
	troubled := make([]bool, len(d.fleet.Targets))
	for i := range d.decision.Verdicts {
		v := &d.decision.Verdicts[i]
		if b := d.body(v.Target); !troubled[b] && (v.Health == Unhealthy || d.repairOf[b] != none) {
			troubled[b] = true
			d.troubled = append(d.troubled, b)
		}
	}
	if len(d.troubled) > 0 {
		d.judgements = d.judgementsOn(troubled)
	}
	if len(d.pools) > 0 {
		d.findProof()
	}
}

// tally counts each policy's members. Whatever is not known to be healthy counts against the
// limit, as in today's controllers.
func (d *deliberation) tally() {
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
	d.tallyBehind()
	for i := range d.policies {
		p, t := &d.policies[i], &d.decision.Tallies[i]
		if p.Overlooked { // none of its members is known to be healthy
			t.Total = p.Selected
			continue
		}
		t.MostUnhealthy = p.ShortCircuit.Most(t.Counted())
		t.Permitted = p.ShortCircuit.Permits(t.Unhealthy(), t.Counted())
		t.MostInFlight = mostInFlight(p.MaxInFlight, t.Total)
		if t.Permitted && p.Held && !p.Paused && p.Problem == "" && t.Unhealthy() > 0 {
			t.Opening, t.ResumeAt = p.Opening.coolDown(p.StormCooldown, t.Unhealthy(), d.now)
			if p.FixedCooldown {
				t.ResumeAt = t.Opening.First.Add(p.StormCooldown)
			}
			t.CoolingDown = d.now.Before(t.ResumeAt)
			d.wakeAt(t.ResumeAt)
		}
	}
}

// inFlight: under repair, in the hands of a remediator or an owner, or leaving while not healthy. All but the first need
// no memory, so a lost ledger can't make room for another repair (I6). A repair without a step left frees the place of its own
// target alone: another target of the body may be in the hands of its owner.
func (d *deliberation) inFlight(v *Verdict) bool {
	if at := d.repairOf[d.body(v.Target)]; at != none && d.spent(at) {
		t := &d.fleet.Targets[v.Target]
		return t.Claimed || t.Deleting || (v.Target != d.targetOf[at] && d.inHands(v))
	}
	return d.repairOf[d.body(v.Target)] != none || (v.Health == Gone && v.Unsound) || d.inHands(v)
}

// mostInFlight lets a share that is not zero repair at least one, or it would repair none for ever.
func mostInFlight(a Amount, total int) int {
	switch {
	case a.Unlimited:
		return math.MaxInt
	case a.Percent && a.Number > 0:
		return max(1, a.FloorOf(total))
	}
	return a.FloorOf(total)
}

// byAge orders the policies: the oldest first, and of those made in the same second the first by name,
// whatever its kind.
func (d *deliberation) byAge() []int {
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

func (d *deliberation) wakeAt(at time.Time) {
	if at.After(d.now) && sooner(at, d.decision.NextAt) {
		d.decision.NextAt = at
	}
}

// confirm has a target's node read live, and the quorum of the control plane where a step may cost that.
func (d *deliberation) confirm(target int, step *Step) {
	if d.confirming == nil {
		d.confirming = map[int]bool{}
	}
	polled, known := d.confirming[target]
	if !known {
		d.decision.Confirm = append(d.decision.Confirm, target)
	}
	takes := d.fleet.Targets[target].takesQuorum(step)
	if takes && !polled {
		d.decision.Polls = append(d.decision.Polls, target)
	}
	d.confirming[target] = polled || takes
}
