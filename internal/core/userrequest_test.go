package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// requestedByUser has a user request the repair of a target at an instant.
func requestedByUser(at time.Time) func(*core.Target) {
	return func(t *core.Target) { t.RepairRequest = core.RepairRequest{At: at} }
}

// requested has a repair begin with a person's request.
func requested(at time.Time) func(*core.Repair) {
	return func(r *core.Repair) { r.Requested = at }
}

func byHand(t *core.Target) { requestedByUser(ago(2 * time.Minute))(t) }

func TestReadRepairRequest(t *testing.T) {
	noonIs := core.RepairRequest{At: noon}
	for text, want := range map[string]core.RepairRequest{
		"2026-08-03T12:00:00Z":        noonIs,
		"2026-08-03T14:00:00+02:00":   noonIs,
		"2026-08-03T12:00:00.999999Z": noonIs,
		"2026-08-03T12:00:01.5Z":      {At: noon.Add(time.Second)},
		"1970-01-01T00:00:01Z":        {At: time.Unix(1, 0)},
		"1970-01-01T00:00:00Z":        {Unreadable: true},
		"":                            {Unreadable: true},
		"true":                        {Unreadable: true},
		"now":                         {Unreadable: true},
		"2026-08-03":                  {Unreadable: true},
		"0001-01-01T00:00:00Z":        {Unreadable: true},
	} {
		if got := core.ReadRepairRequest(text); !got.At.Equal(want.At) || got.Unreadable != want.Unreadable {
			t.Errorf("%q is read as %+v, want %+v", text, got, want)
		}
	}
}

// TestRepairRequestCounts shows which requests make a healthy target unhealthy.
func TestRepairRequestCounts(t *testing.T) {
	p := check("p", all(1), classic)
	n := aNode("a")
	by := func(at time.Time, changes ...func(*core.Repair)) []core.Repair {
		return []core.Repair{repair(n, p, append([]func(*core.Repair){started(at)}, changes...)...)}
	}
	request := func(q core.RepairRequest) func(*core.Target) {
		return func(t *core.Target) { t.RepairRequest = q }
	}
	hour := core.RequestLasts
	cases := map[string]struct {
		ask     func(*core.Target)
		repairs []core.Repair
		want    core.RepairRequestState
		starts  bool
	}{
		"just made":                 {requestedByUser(noon), nil, core.RequestPending, true},
		"an hour less a second old": {requestedByUser(ago(hour - time.Second)), nil, core.RequestPending, true},
		"an hour old":               {requestedByUser(ago(hour)), nil, core.RequestLapsed, false},
		"unreadable":                {request(core.RepairRequest{Unreadable: true}), nil, core.RequestUnreadable, false},
		"far in the future":         {request(core.RepairRequest{At: noon.Add(hour), Ahead: true}), nil, core.RequestAhead, false},
		"before the target was made, as a template does": {func(t *core.Target) { byHand(t); created(ago(30 * time.Second))(t) }, nil, core.RequestInherited, false},
		"by a clock that is behind":                      {func(t *core.Target) { byHand(t); created(ago(time.Minute))(t) }, nil, core.RequestPending, true},
		"before the target was made, and its repair is under way": {
			func(t *core.Target) { byHand(t); created(ago(30 * time.Second))(t) }, by(ago(20 * time.Second)), core.RequestInherited, false,
		},
		"before a repair that ended":                   {byHand, by(ago(90*time.Second), ended(ago(time.Minute))), core.RequestServed, false},
		"in the second in which it did":                {byHand, by(ago(hour), ended(ago(2*time.Minute))), core.RequestServed, false},
		"after a repair that ended":                    {byHand, by(ago(hour), ended(ago(3*time.Minute))), core.RequestPending, true},
		"before a repair under way":                    {byHand, by(ago(time.Minute)), core.RequestPending, false},
		"hours ago, and it began then":                 {requestedByUser(ago(9 * hour)), by(ago(9*hour - time.Minute)), core.RequestPending, false},
		"hours before the next began":                  {requestedByUser(ago(9 * hour)), by(ago(time.Minute)), core.RequestLapsed, false},
		"and a repair began with it, by another clock": {requestedByUser(noon.Add(50 * time.Second)), by(ago(time.Minute), ended(ago(time.Second)), requested(noon.Add(50*time.Second))), core.RequestServed, false},
		"and that repair has gone on for long":         {requestedByUser(ago(hour)), by(ago(hour+time.Minute), requested(ago(hour))), core.RequestPending, false},
		"and a repair began with an earlier one":       {byHand, by(ago(time.Hour), ended(ago(3*time.Minute)), requested(ago(time.Hour))), core.RequestPending, true},
		"and the node recovered since":                 {byHand, by(ago(time.Minute), recovered(ago(time.Second))), core.RequestServed, false},
		"and all steps were given up":                  {byHand, by(ago(time.Minute), gaveUp(ago(time.Second))), core.RequestServed, false},
		"a repair of another node ended":               {byHand, []core.Repair{repair(aNode("b"), p, ended(noon))}, core.RequestPending, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			target := aNode("a", c.ask)
			d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{target}, c.repairs...), noon)
			if len(d.RepairRequests) != 1 || d.RepairRequests[0].State != c.want {
				t.Fatalf("the request stands as %+v, want state %d", d.RepairRequests, c.want)
			}
			counts := c.want == core.RequestPending
			v := d.Verdicts[0]
			if byUser := v.Health == core.Unhealthy && v.Reason == core.RemediationRequested; byUser != counts {
				t.Errorf("verdict %s by %s", v.Health, v.Reason)
			}
			if counts && !v.Since.Equal(target.RepairRequest.At) {
				t.Errorf("unhealthy since %s, want since the request", v.Since)
			}
			if began := len(d.Starts) == 1; began != c.starts {
				t.Errorf("starts %v", d.Starts)
			}
		})
	}
}

// TestI06RepairRequestIsServedOnce: whatever a remediator and its node report, one repair serves a request. A leader that has lost
// all memory makes no second request.
func TestI06RepairRequestIsServedOnce(t *testing.T) {
	p := check("p", all(1), classic)
	grouped, named := check("p", all(1), classic, groups(tests(unready))), check("p", all(1), classic, groups(tests(mute)))
	rebooted := func(t *core.Target) { byHand(t); ready("True", ago(10*time.Second))(t) }
	processing := func(q *core.Request) { q.Processing = core.Yes }
	run := func(changes ...func(*core.Repair)) core.Repair {
		return repair(aNode("a"), p, append([]func(*core.Repair){started(ago(90 * time.Second))}, changes...)...)
	}
	on := func(changes ...func(*core.Request)) []core.Request {
		return []core.Request{requestFor(p, aNode("a"), rebooting, changes...)}
	}
	hands := check("p", all(1), func(p *core.Policy) { p.Steps = []core.Step{{Remedy: "Mark", Nature: core.Annotate}} })
	handed := func(at time.Time) core.Repair {
		return repair(aNode("a"), hands, func(r *core.Repair) { r.Begun = at })
	}
	cases := map[string]struct {
		policy   core.Policy
		target   core.Target
		repair   core.Repair
		requests []core.Request
		want     []string
	}{
		"it is due":                           {p, aNode("a", byHand), run(), nil, []string{"step 0 for a"}},
		"the remediator is at work":           {p, aNode("a", byHand), run(), on(processing), nil},
		"it is at work though Ready moved":    {p, aNode("a", rebooted), run(), on(processing), nil},
		"it has succeeded":                    {p, aNode("a", byHand), run(), on(says(core.Yes)), []string{"note a: true"}},
		"it says nothing":                     {p, aNode("a", byHand), run(), on(), nil},
		"it says nothing and Ready moved":     {p, aNode("a", rebooted), run(), on(), []string{"note a: true"}},
		"a condition of a group moved":        {grouped, aNode("a", rebooted), run(), on(), []string{"note a: true"}},
		"a condition that none names moved":   {named, aNode("a", rebooted), run(), on(), nil},
		"that is recorded":                    {p, aNode("a", byHand), run(recovered(ago(time.Second))), on(says(core.Yes)), []string{"withdraw aRebootTemplate"}},
		"and the request leaves":              {p, aNode("a", byHand), run(recovered(ago(time.Second))), on(leaving), nil},
		"and nothing stands":                  {p, aNode("a", byHand), run(recovered(ago(time.Second))), nil, []string{"end a: Succeeded"}},
		"it leaves and nothing was recorded":  {p, aNode("a", byHand), run(), on(leaving), []string{"note a: true"}},
		"the person takes the request back":   {p, aNode("a"), run(), on(processing), []string{"withdraw aRebootTemplate"}},
		"the target was just handed over":     {hands, aNode("a", byHand), handed(ago(9 * time.Second)), nil, nil},
		"it is in the hands of a remediator":  {hands, aNode("a", byHand, externallyRemediated), handed(ago(time.Minute)), nil, nil},
		"it was given back":                   {hands, aNode("a", byHand), handed(ago(time.Minute)), nil, []string{"end a: Succeeded"}},
		"it was given back and fails as well": {hands, aNode("a", byHand, dead), handed(ago(time.Minute)), nil, []string{"step 0 for a"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := clusterOf([]core.Target{c.target}, c.repair)
			f.Requests = c.requests
			d := core.Decide([]core.Policy{c.policy}, f, noon)
			if diff := cmp.Diff(c.want, actionTexts(f, d)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGatesHoldRepairRequests: a person's request passes no gate.
func TestGatesHoldRepairRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*core.Policy)
		target func(*core.Target)
		want   core.Gate
	}{
		"a pause":      {paused, byHand, core.PolicyPaused},
		"a limit":      {maxUnhealthy(core.Count(0)), byHand, core.TooManyUnhealthy},
		"a mistake":    {problem("it is nonsense"), byHand, core.PolicyInvalid},
		"no owner":     {func(*core.Policy) {}, func(t *core.Target) { byHand(t); t.Owner = core.ID{} }, core.NoOwner},
		"an exclusion": {func(*core.Policy) {}, func(t *core.Target) { byHand(t); t.Node.Excluded = true }, core.Excluded},
	} {
		d := core.Decide([]core.Policy{policy("p", all(1), c.change)}, clusterOf([]core.Target{machine("a", c.target)}), noon)
		if diff := cmp.Diff([]core.Gate{c.want}, refusedBy(d, 0)); diff != "" || len(d.Starts) > 0 {
			t.Errorf("%s: starts %v, gates (-want +got):\n%s", name, d.Starts, diff)
		}
	}
	again := machine("a", byHand)
	last := repair(again, policy("p", all(1), needsNoOwner), started(ago(4*time.Minute)), ended(ago(3*time.Minute)), retry(8))
	d := core.Decide([]core.Policy{policy("p", all(1), needsNoOwner)}, clusterOf([]core.Target{again}, last), noon)
	if diff := cmp.Diff([]core.Gate{core.BackingOff}, refusedBy(d, 0)); diff != "" {
		t.Errorf("soon after a repair: gates (-want +got):\n%s", diff)
	}
}

// TestRepairRequestOfTwins: a node and its machine are one, so the repair of one serves a request about the other.
func TestRepairRequestOfTwins(t *testing.T) {
	m, n := machine("a", byHand), aNode("a-node")
	p := check("p", []int{0}, classic)
	for name, r := range map[string]core.Repair{
		"of the node": repair(n, p, func(r *core.Repair) { r.Node = "a-node" }, ended(ago(time.Minute))),
		"of itself":   repair(m, p, ended(ago(time.Minute))),
	} {
		if d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m, n}, r), noon); d.RepairRequests[0].State != core.RequestServed || len(d.Starts) > 0 {
			t.Errorf("a repair %s: the request stands as %+v, starts %v", name, d.RepairRequests, d.Starts)
		}
	}
}

// TestRepairRecordsItsRequest: also that about the other target with the same node.
func TestRepairRecordsItsRequest(t *testing.T) {
	m, n := machine("a", byHand), aNode("a-node", requestedByUser(ago(time.Minute)))
	p := check("p", []int{1}, classic)
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m, n}), noon)
	if len(d.Starts) != 1 || !d.Starts[0].Requested.Equal(ago(time.Minute)) {
		t.Errorf("starts %+v, want one with the later request", d.Starts)
	}
	n.RepairRequest = core.RepairRequest{}
	dead(&n)
	if d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m, n}), noon); len(d.Starts) != 1 || !d.Starts[0].Requested.Equal(m.RepairRequest.At) {
		t.Errorf("starts %+v, want one with the request about its machine", d.Starts)
	}
	m.RepairRequest.Ahead = true
	if d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m, n}), noon); len(d.Starts) != 1 || !d.Starts[0].Requested.IsZero() {
		t.Errorf("starts %+v, want one without a request", d.Starts)
	}
}

// TestRepairRequestsOfTheFuture: a clock may be a little ahead; a request that was further ahead when it was seen counts for nothing.
func TestRepairRequestsOfTheFuture(t *testing.T) {
	var m core.Expectations
	look := func(ahead, later time.Duration) core.RepairRequest {
		f := clusterOf([]core.Target{aNode("a", requestedByUser(noon.Add(ahead)))})
		m.Overlay(&f, noon.Add(later))
		return f.Targets[0].RepairRequest
	}
	if q := look(time.Minute, 0); q.Ahead || !q.At.Equal(noon.Add(time.Minute)) {
		t.Errorf("a minute ahead: %+v, want a request as it is told", q)
	}
	if q := look(time.Hour, 0); !q.Ahead || !q.At.Equal(noon.Add(time.Hour)) {
		t.Errorf("an hour ahead: %+v", q)
	}
	if q := look(time.Hour, 61*time.Minute); !q.Ahead {
		t.Errorf("when its time has come: %+v, want that it still counts for nothing", q)
	}
}

// TestRetentionOfServedRequests: the repair that has served a request is kept until the request would count no more without it.
func TestRetentionOfServedRequests(t *testing.T) {
	p := check("p", all(1), classic)
	withdrawn := func(r *core.Repair) { r.Ended, r.Outcome = ago(time.Minute), core.Withdrawn }
	for name, c := range map[string]struct {
		ask  func(*core.Target)
		want int
	}{
		"no request": {func(*core.Target) {}, 1}, "a served one": {byHand, 0}, "a later one": {requestedByUser(noon), 1},
		"one of hours ago": {requestedByUser(ago(9 * time.Hour)), 1},
	} {
		target := aNode("a", c.ask)
		f := clusterOf([]core.Target{target}, repair(target, p, withdrawn))
		d := core.Decide([]core.Policy{p}, f, noon)
		if expired, _ := (core.Retention{}).Expired(&f, d.Verdicts, noon); len(expired) != c.want {
			t.Errorf("%s: %d repairs expire, want %d", name, len(expired), c.want)
		}
	}
}

// TestRepairRequestWakes: a request that gates hold back lapses in time.
func TestRepairRequestWakes(t *testing.T) {
	target := machine("a", byHand)
	d := core.Decide([]core.Policy{policy("p", all(1), paused)}, clusterOf([]core.Target{target}), noon)
	if want := target.RepairRequest.At.Add(core.RequestLasts); !d.NextAt.Equal(want) || !d.RepairRequests[0].Lapses.Equal(want) {
		t.Errorf("the next look is at %s and it lapses at %s, want both at %s", d.NextAt, d.RepairRequests[0].Lapses, want)
	}
}
