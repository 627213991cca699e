package core

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	reboots   = Step{Remedy: "Ask", Nature: CreateRequest, Template: Reference{APIVersion: "a/v1", Kind: "RebootTemplate", Name: "t"}}
	reimages  = Step{Remedy: "Ask", Nature: CreateRequest, Template: Reference{APIVersion: "a/v1", Kind: "ImageTemplate", Name: "t"}}
	asksItsMS = Step{Remedy: "Mark", Nature: AskOwner}
)

// askingPolicy returns a policy of some targets that takes steps when Ready is False for a minute.
func askingPolicy(name string, members []int, steps ...Step) Policy {
	return Policy{
		ID: ID{Kind: "NodeCheck", Name: name, UID: name + "-uid"}, Members: members, Steps: steps, MaxInFlight: Unlimited(),
		ShortCircuit: ShortCircuit{MaxUnhealthy: Percent(100)},
		Criteria:     Criteria{Conditions: []ConditionCriterion{{Type: "Ready", Status: "False", For: time.Minute}, {Type: "Disk", Status: "True", For: time.Minute}}},
	}
}

// nodeTarget returns a node with a status of Ready since an hour.
func nodeTarget(name, status string, changes ...func(*Target)) Target {
	id := ID{Kind: "Node", Name: name, UID: name + "-uid"}
	t := Target{ID: id, Created: atNoon.Add(-24 * time.Hour), NodeReadAt: atNoon, Parts: NoParts(), Node: Node{
		State: NodePresent, Name: name, UID: id.UID, Conditions: []Condition{{Type: "Ready", Status: status, Since: atNoon.Add(-time.Hour)}},
	}}
	for _, change := range changes {
		change(&t)
	}
	return t
}

// machineTarget returns a machine on the node of a name.
func machineTarget(name, node, status string) Target {
	t := nodeTarget(node, status)
	t.ID = ID{Kind: "Machine", Namespace: "machines", Name: name, UID: name + "-uid"}
	return t
}

// requestOf returns Fettle's request of a step about a target, a minute old.
func requestOf(p *Policy, t ID, s Step, changes ...func(*Request)) Request {
	q := Request{
		ID: ID{Kind: "Request", Name: t.Name, UID: t.UID + s.Template.Kind}, Remedy: s.Remedy, Template: s.Template,
		Target: t, Policy: p.ID, Created: atNoon.Add(-time.Minute), Own: true,
	}
	for _, change := range changes {
		change(&q)
	}
	return q
}

func withoutPolicy(q *Request) { q.Policy = ID{} }
func notOwn(q *Request)        { q.Own = false }
func onItsWay(q *Request)      { q.Leaving = true }
func unseenYet(q *Request)     { q.ID.UID = "" }
func ofReplacing(q *Request)   { q.Replaces = true }

// repairOf returns a running repair of a target that began an hour ago.
func repairOf(p *Policy, t ID, changes ...func(*Repair)) Repair {
	r := Repair{Name: RepairName(t, 1), Target: t, Policy: p.ID, Started: atNoon.Add(-time.Hour), Steps: p.Steps}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func triedSteps(n int) func(*Repair) {
	return func(r *Repair) {
		r.Tried = slices.Repeat([]StepRecord{{Ended: atNoon.Add(-30 * time.Minute), Outcome: TimedOut}}, n)
	}
}

func handedOver(r *Repair) { r.Begun = atNoon.Add(-time.Minute) }

// TestOrderOfRequests: by age, then by ID, about a target and of a repair.
func TestOrderOfRequests(t *testing.T) {
	n := nodeTarget("n", "False")
	p := askingPolicy("p", all(1), reboots, reimages)
	older := requestOf(&p, n.ID, reimages, func(q *Request) { q.ID.Name, q.Created = "z", atNoon.Add(-time.Hour) })
	first, second := requestOf(&p, n.ID, reboots), requestOf(&p, n.ID, reboots)
	second.ID.Name = "o"
	f := observed([]Target{n}, []Repair{repairOf(&p, n.ID)}, second, first, older)
	d := plannerOf([]Policy{p}, f)
	if want := []int{2, 1, 0}; !slices.Equal(d.requestsAbout[0], want) || !slices.Equal(d.requestsOf[0], want) {
		t.Errorf("the requests about the target are %v and those of the repair %v, want %v", d.requestsAbout[0], d.requestsOf[0], want)
	}
	for _, c := range []struct{ a, b, want int }{{0, 1, 1}, {1, 0, -1}, {0, 2, 1}, {2, 0, -1}, {0, 0, 0}} {
		if got := d.olderRequest(c.a, c.b); got != c.want {
			t.Errorf("request %d to request %d is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// all returns the indices of n targets.
func all(n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// TestWhoWorksOnATarget: a remediator has a request of the policy, unless the policy ignores that, or an owner has a mark that the policy would make.
func TestWhoWorksOnATarget(t *testing.T) {
	n := nodeTarget("n", "False")
	p, owners := askingPolicy("p", all(1), reboots), askingPolicy("p", all(1), asksItsMS)
	ignoring := p
	ignoring.IgnoresRequests = true
	mark := requestOf(&owners, n.ID, asksItsMS, withoutPolicy)
	for name, c := range map[string]struct {
		policy         Policy
		requests       []Request
		verdict        Verdict
		awaited, asked bool
	}{
		"none":                          {p, nil, Verdict{Health: Unhealthy}, false, false},
		"a remediator":                  {p, []Request{requestOf(&p, n.ID, reboots)}, Verdict{Health: Unhealthy}, true, false},
		"a remediator that is ignored":  {ignoring, []Request{requestOf(&p, n.ID, reboots)}, Verdict{Health: Unhealthy}, false, false},
		"the owner":                     {owners, []Request{mark}, Verdict{Health: Unhealthy}, false, true},
		"the owner, of a healthy one":   {owners, []Request{mark}, Verdict{Health: Healthy, Reason: NoCriterionMet}, false, false},
		"the owner, of a premature one": {owners, []Request{mark}, Verdict{Health: Healthy, Reason: Premature}, false, true},
		"another policy's mark":         {owners, []Request{requestOf(&p, n.ID, asksItsMS, func(q *Request) { q.Policy.Name = "q" })}, Verdict{Health: Unhealthy}, false, false},
		"a mark of another remedy":      {owners, []Request{requestOf(&p, n.ID, reboots, withoutPolicy)}, Verdict{Health: Unhealthy}, false, false},
		"a request of no policy":        {p, []Request{requestOf(&p, n.ID, reboots, withoutPolicy)}, Verdict{Health: Unhealthy}, false, false},
	} {
		d := plannerOf([]Policy{c.policy}, observed([]Target{n}, nil, c.requests...))
		if got := d.awaitsRequest(0, 0); got != c.awaited {
			t.Errorf("%s: a remediator is awaited: %t", name, got)
		}
		if got := d.markedForOwner(&c.verdict); got != c.asked {
			t.Errorf("%s: the owner has a request: %t", name, got)
		}
	}
}

// TestRepairOfARequest: of several repairs that may have made it, that of an existing target, and then the oldest.
func TestRepairOfARequest(t *testing.T) {
	p, q := askingPolicy("p", all(1), reboots), askingPolicy("q", nil, reboots)
	at := func(uid string, hours int) Repair {
		n := ID{Kind: "Node", Name: "n", UID: uid}
		return repairOf(&p, n, func(r *Repair) { r.Started = atNoon.Add(-time.Duration(hours) * time.Hour) })
	}
	targets := []Target{nodeTarget("n", "False", func(t *Target) { t.ID.UID = "here" }), nodeTarget("n", "False", func(t *Target) { t.ID.UID = "too" })}
	for name, c := range map[string]struct {
		repairs []Repair
		uid     string
		want    int
	}{
		"of none":                              {nil, "", none},
		"of an existing one":                   {[]Repair{at("here", 1)}, "", 0},
		"of a target that is gone":             {[]Repair{at("gone", 1)}, "", 0},
		"of another by its UID":                {[]Repair{at("here", 1)}, "other", none},
		"of the existing, before an older":     {[]Repair{at("here", 1), at("gone", 2)}, "", 0},
		"of the existing, after an older":      {[]Repair{at("gone", 2), at("here", 1)}, "", 1},
		"of the existing, after a younger":     {[]Repair{at("gone", 1), at("here", 2)}, "", 1},
		"of the older of two, before":          {[]Repair{at("gone", 2), at("former", 1)}, "", 0},
		"of the older of two, after":           {[]Repair{at("gone", 1), at("former", 2)}, "", 1},
		"of the older of two that exist":       {[]Repair{at("here", 2), at("too", 1)}, "", 0},
		"of the older of two that exist, last": {[]Repair{at("here", 1), at("too", 2)}, "", 1},
		"of the target that its UID tells":     {[]Repair{at("here", 2), at("too", 1)}, "too", 1},
	} {
		f := observed(targets, c.repairs)
		d := plannerOf([]Policy{p}, f)
		request := requestOf(&p, ID{Kind: "Node", Name: "n", UID: c.uid}, reboots)
		if got := d.repairOfRequest(&request, all(len(c.repairs))); got != c.want {
			t.Errorf("%s: it is of repair %d, want %d", name, got, c.want)
		}
		request.Policy = q.ID
		if got := d.repairOfRequest(&request, all(len(c.repairs))); got != none {
			t.Errorf("%s: a request of another policy is of repair %d", name, got)
		}
	}
}

// TestUnlistedRequests: of steps that create requests, by the version and the kind of their template.
func TestUnlistedRequests(t *testing.T) {
	marks := reboots
	marks.Nature = AskOwner
	for name, c := range map[string]struct {
		step     Step
		unlisted []Reference
		want     bool
	}{
		"all are listed":     {reboots, nil, false},
		"unlisted":           {reboots, []Reference{{APIVersion: "b/v1"}, {APIVersion: "a/v1", Kind: "RebootTemplate"}}, true},
		"of another version": {reboots, []Reference{{APIVersion: "a/v2", Kind: "RebootTemplate"}}, false},
		"of another kind":    {reboots, []Reference{{APIVersion: "a/v1", Kind: "ImageTemplate"}}, false},
		"a mark":             {marks, []Reference{{APIVersion: "a/v1", Kind: "RebootTemplate"}}, false},
	} {
		d := newInput(nil, &Cluster{UnlistedTemplates: c.unlisted}, atNoon)
		if d.unlisted(&c.step) != c.want || d.requestsUnlisted(&Repair{Steps: []Step{{Remedy: "Delete"}, c.step}}) != c.want {
			t.Errorf("%s: requests are unlisted: %t", name, !c.want)
		}
	}
}

// TestCurrentRequest: a request that is not leaving goes before a leaving one, whatever their ages are.
func TestCurrentRequest(t *testing.T) {
	n := nodeTarget("n", "False")
	p := askingPolicy("p", all(1), reboots, reimages)
	old := func(q *Request) { q.ID.UID, q.Created = "old", atNoon.Add(-time.Hour) }
	for name, c := range map[string]struct {
		requests []Request
		want     int
	}{
		"none":                   {nil, none},
		"of another step":        {[]Request{requestOf(&p, n.ID, reimages)}, none},
		"a leaving one":          {[]Request{requestOf(&p, n.ID, reboots, onItsWay)}, 0},
		"a leaving one is old":   {[]Request{requestOf(&p, n.ID, reboots, onItsWay, old), requestOf(&p, n.ID, reboots)}, 1},
		"a leaving one is young": {[]Request{requestOf(&p, n.ID, reboots, old), requestOf(&p, n.ID, reboots, onItsWay)}, 0},
	} {
		d := plannerOf([]Policy{p}, observed([]Target{n}, []Repair{repairOf(&p, n.ID)}, c.requests...))
		if got := d.current(0, &p.Steps[0]); got != c.want {
			t.Errorf("%s: the current request is %d, want %d", name, got, c.want)
		}
	}
}

// TestWhatShowsThatARepairHasBegun: some signs show in the cluster alone, which the record of a repair can't claim.
func TestWhatShowsThatARepairHasBegun(t *testing.T) {
	p := askingPolicy("p", all(1), reboots)
	deleting, marked := func(t *Target) { t.Deleting = true }, func(t *Target) { t.ExternallyRemediated = true }
	n := nodeTarget("n", "False")
	for name, c := range map[string]struct {
		target       Target
		repair       Repair
		requests     []Request
		begun, shown bool
	}{
		"nothing":                      {n, repairOf(&p, n.ID), nil, false, false},
		"its deletion":                 {nodeTarget("n", "False", deleting), repairOf(&p, n.ID), nil, true, true},
		"a step that was given up":     {n, repairOf(&p, n.ID, triedSteps(1)), nil, true, false},
		"a record of a mark":           {n, repairOf(&p, n.ID, handedOver), nil, true, false},
		"a mark":                       {nodeTarget("n", "False", marked), repairOf(&p, n.ID), nil, false, false},
		"a mark, and the record of it": {nodeTarget("n", "False", marked), repairOf(&p, n.ID, handedOver), nil, true, true},
		"a request":                    {n, repairOf(&p, n.ID), []Request{requestOf(&p, n.ID, reboots)}, true, true},
		"a request of another author":  {n, repairOf(&p, n.ID), []Request{requestOf(&p, n.ID, reboots, notOwn)}, false, false},
	} {
		d := plannerOf([]Policy{p}, observed([]Target{c.target}, []Repair{c.repair}, c.requests...))
		if d.begun(0, 0) != c.begun || d.underWay(0, 0) != c.shown {
			t.Errorf("%s: it has begun: %t, the cluster shows that: %t", name, d.begun(0, 0), d.underWay(0, 0))
		}
	}
}

// TestDisputedTarget: a policy that acts finds this very target unhealthy, and not only another of its group.
func TestDisputedTarget(t *testing.T) {
	for name, c := range map[string]struct {
		policies []Policy
		want     bool
	}{
		"by none":            {[]Policy{askingPolicy("p", []int{1}, reboots)}, false},
		"by one":             {[]Policy{askingPolicy("p", all(2), reboots)}, true},
		"by a dry run alone": {[]Policy{askingPolicy("p", []int{1}, reboots), {Members: []int{0}, DryRun: true, Criteria: askingPolicy("", nil).Criteria}}, false},
	} {
		d := plannerOf(c.policies, observed([]Target{nodeTarget("n", "False"), machineTarget("m", "n", "False")}, nil))
		if got := d.disputed(0); got != c.want {
			t.Errorf("%s: it is disputed: %t", name, got)
		}
	}
}

// TestHowLongRequestsLast: for the policy's delay since the recovery, and until a condition has settled.
func TestHowLongRequestsLast(t *testing.T) {
	at := atNoon.Add
	conditioned := func(kind string, since time.Time) Target {
		return Target{Node: Node{Conditions: []Condition{{Type: kind, Since: since}}}}
	}
	confirmed := conditioned("Ready", at(0))
	confirmed.ConfirmedHealthy = true
	for name, c := range map[string]struct {
		delay     time.Duration
		target    Target
		recovered time.Time
		until     time.Time
		lasts     bool
	}{
		"no delay":                         {0, conditioned("Ready", at(-time.Second)), at(0), time.Time{}, false},
		"no delay, and a clock is ahead":   {0, conditioned("Ready", at(time.Hour)), at(0), time.Time{}, false},
		"no delay, and a condition turned": {0, conditioned("Disk", at(-time.Second)), at(0), at(59 * time.Second), true},
		"a delay":                          {time.Hour, conditioned("Ready", at(-time.Minute)), at(-time.Second), at(time.Hour - time.Second), true},
		"a delay since a condition turned": {time.Hour, conditioned("Ready", at(-time.Second)), at(-time.Minute), at(time.Hour - time.Second), true},
		"a delay that is over":             {time.Minute, conditioned("Ready", at(-time.Hour)), at(-time.Minute), at(0), false},
		"until a user confirms":            {-1, conditioned("Ready", at(-time.Hour)), at(-time.Hour), time.Time{}, true},
		"a user has confirmed":             {-1, confirmed, at(-time.Hour), time.Time{}, false},
	} {
		p := askingPolicy("p", nil)
		p.HealthyDelay = c.delay
		until, lasts := newInput(nil, &Cluster{}, atNoon).lastsUntil(&p, &c.target, c.recovered)
		if !until.Equal(c.until) || lasts != c.lasts {
			t.Errorf("%s: it lasts until %s: %t, want %s", name, until, lasts, c.until)
		}
	}
}

// orphansOf decides on the requests of a world without repairs, and returns the withdrawn ones and the next pass.
func orphansOf(policies []Policy, f *Cluster) ([]Withdrawal, time.Time) {
	d := plannerOf(policies, f)
	d.next = time.Time{}
	d.withdrawOrphans()
	return d.decision.Withdrawals, d.next
}

// TestOrphanedRequests: which requests without a repair are withdrawn.
func TestOrphanedRequests(t *testing.T) {
	n, gone := nodeTarget("n", "True"), ID{Kind: "Node", Name: "gone", UID: "gone-uid"}
	sick := nodeTarget("n", "False")
	p := askingPolicy("p", all(1), reboots)
	delayed, unparsable, dry := p, p, p
	delayed.HealthyDelay, delayed.IgnoresRequests = 2*time.Hour, true
	unparsable.Unparsable, unparsable.Problem, unparsable.Members = true, "it is nonsense", nil
	dry.DryRun = true
	renewed := unparsable
	renewed.ID.UID = "later"
	other := askingPolicy("other", nil, reimages)
	for name, c := range map[string]struct {
		policies []Policy
		target   Target
		request  Request
		want     []int // the target of each withdrawal
		next     time.Time
	}{
		"of a healthy target":                     {[]Policy{p}, n, requestOf(&p, n.ID, reboots), []int{0}, time.Time{}},
		"of a sick target":                        {[]Policy{p}, sick, requestOf(&p, n.ID, reboots), nil, time.Time{}},
		"of a premature target":                   {[]Policy{p}, nodeTarget("n", "True", func(t *Target) { t.Premature = "it is new" }), requestOf(&p, n.ID, reboots), nil, time.Time{}},
		"by another author":                       {[]Policy{delayed}, n, requestOf(&p, n.ID, reboots, notOwn), nil, time.Time{}},
		"with a delay":                            {[]Policy{delayed}, n, requestOf(&p, n.ID, reboots), nil, atNoon.Add(time.Hour)},
		"of a dry run":                            {[]Policy{dry}, n, requestOf(&p, n.ID, reboots), nil, time.Time{}},
		"of a target that is gone":                {[]Policy{p}, n, requestOf(&p, gone, reboots), []int{none}, time.Time{}},
		"of a target that is replaced":            {[]Policy{p}, n, requestOf(&p, gone, reboots, ofReplacing), nil, time.Time{}},
		"of a target that is gone, by none":       {[]Policy{p}, n, requestOf(&p, gone, reboots, withoutPolicy), nil, time.Time{}},
		"by none, for a step of the policy":       {[]Policy{p}, n, requestOf(&p, n.ID, reboots, withoutPolicy), []int{0}, time.Time{}},
		"by none, for a step of none":             {[]Policy{p}, n, requestOf(&p, n.ID, reimages, withoutPolicy), nil, time.Time{}},
		"by none, beside an unparsable policy":    {[]Policy{unparsable, p}, n, requestOf(&p, n.ID, reboots, withoutPolicy), nil, time.Time{}},
		"by none, before an unparsable policy":    {[]Policy{p, unparsable}, n, requestOf(&p, n.ID, reboots, withoutPolicy), nil, time.Time{}},
		"of an unparsable policy":                 {[]Policy{unparsable}, n, requestOf(&p, n.ID, reboots), nil, time.Time{}},
		"of a policy whose successor is nonsense": {[]Policy{renewed}, n, requestOf(&p, n.ID, reboots), []int{0}, time.Time{}},
		"of a policy that is gone":                {[]Policy{other}, sick, requestOf(&p, n.ID, reboots), []int{0}, time.Time{}},
	} {
		withdrawn, next := orphansOf(c.policies, observed([]Target{c.target}, nil, c.request))
		var got []int
		for _, w := range withdrawn {
			got = append(got, w.Target)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || !next.Equal(c.next) {
			t.Errorf("%s: the next pass is at %s, want %s, and the targets of the withdrawals are (-want +got):\n%s", name, next, c.next, diff)
		}
	}
	machine := machineTarget("m", "n", "False")
	p.Members = []int{0, 1}
	for i, targets := range [][]Target{{machine, n}, {n, machine}} {
		if withdrawn, _ := orphansOf([]Policy{p}, observed(targets, nil, requestOf(&p, n.ID, reboots))); len(withdrawn) != 1 {
			t.Errorf("order %d: the request of a healthy node with a sick machine is withdrawn %d times", i, len(withdrawn))
		}
	}
	if withdrawn, _ := orphansOf([]Policy{p}, &Cluster{Targets: []Target{n}, Requests: []Request{requestOf(&p, n.ID, reboots)}}); len(withdrawn) > 0 {
		t.Error("a request is withdrawn while the cluster is not observed")
	}
}

// TestTargetsSettle: a target is not healthy yet while Fettle's own mark stands, and a condition has just turned.
func TestTargetsSettle(t *testing.T) {
	p := askingPolicy("p", all(1), asksItsMS)
	turned := func(since time.Time) Target {
		return nodeTarget("n", "True", func(t *Target) {
			t.Node.Conditions = append(t.Node.Conditions, Condition{Type: "Disk", Status: "False", Since: since})
		})
	}
	mark := func(changes ...func(*Request)) []Request {
		n := turned(atNoon)
		return []Request{requestOf(&p, n.ID, asksItsMS, append(changes, withoutPolicy)...)}
	}
	soon := atNoon.Add(59 * time.Second)
	for name, c := range map[string]struct {
		since    time.Time
		requests []Request
		next     time.Time
	}{
		"a mark":               {atNoon.Add(-time.Second), mark(), soon},
		"no mark":              {atNoon.Add(-time.Second), nil, time.Time{}},
		"for a minute":         {atNoon.Add(-time.Minute), mark(), time.Time{}},
		"of another author":    {atNoon.Add(-time.Second), mark(notOwn), time.Time{}},
		"that leaves":          {atNoon.Add(-time.Second), mark(onItsWay), time.Time{}},
		"of another remedy":    {atNoon.Add(-time.Second), mark(func(q *Request) { q.Remedy = "Other" }), time.Time{}},
		"another still stands": {atNoon.Add(-time.Second), append(mark(onItsWay), mark()...), soon},
	} {
		d := plannerOf([]Policy{p}, observed([]Target{turned(c.since)}, nil, c.requests...))
		if recovers := d.verdicts[0].Reason == Recovering; recovers == c.next.IsZero() || !d.next.Equal(c.next) {
			t.Errorf("%s: it recovers: %t, and the next pass is at %s, want %s", name, recovers, d.next, c.next)
		}
	}
}
