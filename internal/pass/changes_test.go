package pass_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// TestOneWriteForARepair: a note and a given-up step of one repair are one write, and an end that follows is written on top of that.
func TestOneWriteForARepair(t *testing.T) {
	w := worldOf(t, "a")
	w.policies[0].Steps = append(w.policies[0].Steps, w.policies[0].Steps[0])
	w.repairOf("a")
	w.decides(core.Decision{
		Notes:       []core.Note{{Repair: 0, Recovered: noon, Answer: "working"}},
		Escalations: []core.Escalation{{Repair: 0, Target: 0, Request: -1, Outcome: core.TimedOut, Text: "too slow"}},
		Finishes:    []core.Finish{{Repair: 0, Outcome: core.Succeeded, RecordOnly: true}},
	})
	rec := w.runs(-1, ending{})
	writes := slices.DeleteFunc(slices.Clone(rec.lines), func(l string) bool { return !strings.Contains(l, "UpdateRepair a") })
	equal(t, "writes", strings.Join(writes, "\n"), `update repairs: UpdateRepair a (step 1 TimedOut at +0s, recovered at +0s, "too slow"): done
end repairs: UpdateRepair a (step 1 TimedOut at +0s, recovered at +0s, Succeeded at +0s): done`)
	equal(t, "repair", stateOf(&w.stored[0]), "step 1 TimedOut at +0s, recovered at +0s, Succeeded at +0s")
}

// TestNotes: a note is written to its repair, with a text that says it.
func TestNotes(t *testing.T) {
	w := worldOf(t, "a")
	w.repairOf("a")
	w.decides(core.Decision{Notes: []core.Note{{Repair: 0, Answer: "not before noon"}}})
	w.runs(-1, ending{})
	equal(t, "answer", w.stored[0].Answer, "not before noon")
	var text string
	w = worldOf(t, "a")
	w.repairOf("a")
	w.decides(core.Decision{Notes: []core.Note{{Repair: 0, Answer: "not before noon"}}})
	w.grant = func(c pass.Call) { text = c.Text }
	for _, call := range []string{"WriteConditions", "WriteStatuses"} {
		w.fates[call] = ending{name: "fails"}
	}
	w.runs(-1, ending{})
	equal(t, "text", text, "not before noon")
}

// TestStoppedRequests: the remediator of a step that is given up is told to stop, unless it has succeeded or there is no request.
func TestStoppedRequests(t *testing.T) {
	for name, c := range map[string]struct {
		request   int
		succeeded core.Tri
		want      []string
	}{
		"a request":             {request: 0, want: []string{"StopRequest a"}},
		"no request":            {request: -1, want: []string{}},
		"a success":             {request: 0, succeeded: core.Yes, want: []string{}},
		"a failure":             {request: 0, succeeded: core.No, want: []string{"StopRequest a"}},
		"another's success":     {request: 1, want: []string{"StopRequest a"}},
		"no request but others": {request: -1, succeeded: core.No, want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "a")
			w.repairOf("a")
			w.request("first", "a")
			w.request("second", "a")
			w.requests[0].Succeeded = c.succeeded
			w.decides(core.Decision{Escalations: []core.Escalation{{Repair: 0, Request: c.request, Outcome: core.TimedOut}}})
			equal(t, "stops", only(w.runs(-1, ending{}), "StopRequest"), c.want)
		})
	}
}

// TestConflicts: a pass follows soon when another writer has changed any repair, and not when a write has failed.
func TestConflicts(t *testing.T) {
	for want, fates := range map[string]map[string]ending{
		"in 1s": {"UpdateRepair a": {no: true}, "UpdateRepair b": {name: "fails"}},
		"never": {"UpdateRepair a": {name: "fails"}, "UpdateRepair b": {name: "fails"}},
		"in 0s": {"UpdateRepair a": {no: true}},
	} {
		w := worldOf(t, "a", "b")
		w.repairOf("a")
		w.repairOf("b")
		w.decides(core.Decision{Notes: []core.Note{{Repair: 0, Answer: "x"}, {Repair: 1, Answer: "x"}}})
		w.fates = fates
		equal(t, fmt.Sprint(fates), w.runs(-1, ending{}).next, want)
	}
}

// TestConflictBesideAnUnreadPolicy: a conflict counts also when the policies of another repair could not be read.
func TestConflictBesideAnUnreadPolicy(t *testing.T) {
	w := worldOf(t, "a", "b")
	w.repairOf("a")
	w.repairOf("b")
	w.decides(core.Decision{
		Notes: []core.Note{{Repair: 0, Answer: "x"}}, Escalations: []core.Escalation{{Repair: 1, Target: 1, Request: -1, Outcome: core.TimedOut}},
	})
	w.fates = map[string]ending{"UpdateRepair a": {no: true}, "ReadPolicy workers": {name: "fails"}}
	rec := w.runs(-1, ending{})
	equal(t, "updates", only(rec, "UpdateRepair"), []string{"UpdateRepair a"})
	equal(t, "next pass", rec.next, "in 1s")
}

// TestConfirmationsAreWithdrawnOnce: several requests about a target were withdrawn, and its confirmation is withdrawn once.
func TestConfirmationsAreWithdrawnOnce(t *testing.T) {
	w := worldOf(t, "a", "b")
	var d core.Decision
	for i, target := range []int{1, 0, 1} {
		w.targets[target].ConfirmedHealthy = true
		w.request(fmt.Sprint("r", i), w.targets[target].ID.Name)
		d.Withdrawals = append(d.Withdrawals, core.Withdrawal{Request: i, Target: target, TargetHealthy: true})
	}
	w.decides(d)
	equal(t, "withdrawn", only(w.runs(-1, ending{}), "WithdrawConfirmation"), []string{"WithdrawConfirmation a", "WithdrawConfirmation b"})
}

// TestConfirmationsAwaitRequestsAndRepairs: a confirmation stays while a request about its target stands, or its repair
// runs.
func TestConfirmationsAwaitRequestsAndRepairs(t *testing.T) {
	withdrawn := []string{"WithdrawConfirmation a"}
	for name, c := range map[string]struct {
		arrange func(w *world)
		want    []string
	}{
		"no repair":                   {func(*world) {}, withdrawn},
		"its repair runs":             {func(w *world) { w.repairOf("a") }, []string{}},
		"the repair of another runs":  {func(w *world) { w.repairOf("b") }, withdrawn},
		"its repair has ended before": {func(w *world) { w.repairOf("a").Ended = noon }, withdrawn},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "a", "b")
			w.withdrawsConfirmed("a")
			c.arrange(w)
			all := w.runs(-1, ending{})
			equal(t, "withdrawn", only(all, "WithdrawConfirmation"), c.want)
			first := slices.Index(all.calls, "WithdrawRequest a")
			for _, place := range []int{first, first + 1} { // one request is left
				w := worldOf(t, "a", "b")
				w.withdrawsConfirmed("a")
				c.arrange(w)
				equal(t, all.calls[place]+" fails", only(w.runs(place, ending{name: "fails"}), "WithdrawConfirmation"), []string{})
			}
		})
	}
}

// withdrawsConfirmed has the next pass withdraw two requests about a target that is confirmed healthy.
func (w *world) withdrawsConfirmed(name string) {
	var d core.Decision
	for i := range w.targets {
		if w.targets[i].ID.Name != name {
			continue
		}
		w.targets[i].ConfirmedHealthy = true
		for r := range 2 {
			w.request(fmt.Sprint("r", r), name)
			d.Withdrawals = append(d.Withdrawals, core.Withdrawal{Request: r, Target: i, TargetHealthy: true})
		}
	}
	w.decides(d)
}

// TestUsedConfirmationsAreForgotten: a confirmation that could not be withdrawn is withdrawn by a later pass. It waits
// while a repair of its target runs, and is forgotten once the user has removed it.
func TestUsedConfirmationsAreForgotten(t *testing.T) {
	w := worldOf(t, "a")
	w.withdrawsConfirmed("a")
	w.fates["WithdrawConfirmation a"] = ending{name: "fails"}
	tries := func(what string, want ...string) {
		t.Helper()
		equal(t, what, only(w.runs(-1, ending{}), "WithdrawConfirmation"), append([]string{}, want...))
	}
	tries("the first pass", "WithdrawConfirmation a")
	w.decides(core.Decision{})
	w.repairOf("a")
	tries("while a repair runs")
	w.cached[0].Ended = noon
	tries("once it has ended", "WithdrawConfirmation a")
	w.targets[0].ConfirmedHealthy = false
	tries("after the user has removed it")
	w.targets[0].ConfirmedHealthy = true
	tries("after the user has confirmed it again")
}

// TestUsedConfirmationOfAGoneTarget: the confirmation of no other target is withdrawn for it.
func TestUsedConfirmationOfAGoneTarget(t *testing.T) {
	w := worldOf(t, "a", "b")
	w.withdrawsConfirmed("b")
	w.fates["WithdrawConfirmation b"] = ending{name: "fails"}
	w.runs(-1, ending{})
	w.decides(core.Decision{})
	w.targets, w.policies[0].Members = w.targets[:1], []int{0}
	w.targets[0].ConfirmedHealthy = true
	equal(t, "withdrawn", only(w.runs(-1, ending{}), "WithdrawConfirmation"), []string{})
}

// TestLeaseOfUnselectedTarget: the lease of a target that is not selected any more stays until its requests are gone.
func TestLeaseOfUnselectedTarget(t *testing.T) {
	for name, c := range map[string]struct {
		about string
		want  []string
	}{
		"a request about it":    {"gone", []string{}},
		"a request about other": {"a", []string{"ReleaseLease gone-node"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "a")
			w.config.Leases = true
			r := w.repairOf("gone")
			r.Holder, r.Node = "fettle", "gone-node"
			w.request("first", c.about)
			w.decides(core.Decision{Finishes: []core.Finish{{Repair: 0, Outcome: core.Withdrawn}}})
			equal(t, "released", only(w.runs(-1, ending{}), "ReleaseLease"), c.want)
		})
	}
}

// TestLeaseStaysWhileARequestMayBeUnseen: the lease of a repair that has ended stays while the caches may lack a request.
// Caches that were read long before the decision may lack more.
func TestLeaseStaysWhileARequestMayBeUnseen(t *testing.T) {
	released := []string{"ReleaseLease a-node"}
	for name, c := range map[string]struct {
		holder  string
		renewed time.Duration
		slow    time.Duration
		want    []string
	}{
		"renewed a moment ago":             {"fettle", 59 * time.Second, 0, []string{}},
		"renewed a minute ago":             {"fettle", time.Minute, 0, released},
		"renewed by another holder":        {"others", time.Second, 0, released},
		"a minute ago after a slow read":   {"fettle", 59 * time.Second, time.Second, []string{}},
		"a minute before the caches' time": {"fettle", time.Minute, 10 * time.Second, released},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "a", "b")
			w.repairOf("a").Holder = "fettle"
			w.leases["a-node"] = lease{c.holder, w.now.Add(-c.renewed), w.now.Add(time.Hour)}
			w.decides(core.Decision{Confirm: []int{1}, Finishes: []core.Finish{{Repair: 0, Outcome: core.Recovered}}})
			w.slow["ReadNode b"] = c.slow
			equal(t, "released", only(w.runs(-1, ending{}), "ReleaseLease"), c.want)
		})
	}
}

// TestLeaseThatIsRenewedDuringThePass: the caches show a lease that was renewed long ago. It stays if another leader has
// renewed it since, as the API server shows. Once the request of the step was seen, it goes at the end in any case.
func TestLeaseThatIsRenewedDuringThePass(t *testing.T) {
	ends := core.Decision{Finishes: []core.Finish{{Repair: 0, Outcome: core.Recovered}}}
	idle := core.Decision{LeaseReleases: []core.NodeLease{{Node: "other", Holder: "fettle"}}}
	for name, c := range map[string]struct {
		decision core.Decision
		node     string
		seen     int
		renewed  time.Duration
		stays    bool
	}{
		"at the end of its repair":    {ends, "a-node", 0, 59 * time.Second, true},
		"a minute before":             {ends, "a-node", 0, time.Minute, false},
		"after its request":           {ends, "a-node", 1, time.Second, false},
		"without a repair":            {idle, "other", 0, 59 * time.Second, true},
		"a minute before, and no one": {idle, "other", 0, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "a")
			w.repairOf("a").Holder = "fettle"
			w.leases[c.node] = lease{"fettle", w.now.Add(-time.Hour), w.now.Add(time.Hour)}
			w.decides(c.decision)
			decide := w.config.Decide
			w.config.Decide = func(policies []core.Policy, cluster core.Cluster, now time.Time) core.Decision {
				w.leases[c.node], cluster.Repairs[0].StepSeen = lease{"fettle", w.now.Add(-c.renewed), w.now.Add(time.Hour)}, c.seen
				return decide(policies, cluster, now)
			}
			equal(t, "released", only(w.runs(-1, ending{}), "ReleaseLease"), []string{"ReleaseLease " + c.node})
			if _, stays := w.leases[c.node]; stays != c.stays {
				t.Errorf("the lease stays: %t, want %t", stays, c.stays)
			}
		})
	}
}

// TestAgeOfTheCaches: each decision of a pass knows how long ago the caches were read.
func TestAgeOfTheCaches(t *testing.T) {
	w := newWorld()
	if err := w.addPolicy("workers", "ask", []string{"in-flight=1"}); err != nil {
		t.Fatal(err)
	}
	if err := w.addMachine("a", []string{"sick"}); err != nil {
		t.Fatal(err)
	}
	var ages []time.Duration
	w.config.Decide = func(policies []core.Policy, cluster core.Cluster, now time.Time) core.Decision {
		ages = append(ages, cluster.Age)
		return core.Decide(policies, cluster, now)
	}
	w.slow["ReadNode a"], w.slow["CreateRepair a"], w.slow["ListRunning"] = 3*time.Second, time.Second, time.Second
	w.runs(-1, ending{})
	equal(t, "ages", ages[:3], []time.Duration{0, 3 * time.Second, 5 * time.Second})
}

// TestEventsOfWithdrawals: users are told once of the requests for one target, and by the policy as it is.
func TestEventsOfWithdrawals(t *testing.T) {
	w := worldOf(t, "a")
	w.request("first", "a")
	w.request("second", "a")
	for i := range w.requests {
		w.requests[i].Policy.UID = ""
	}
	w.decides(core.Decision{Withdrawals: []core.Withdrawal{
		{Request: 0, Policy: 0, Target: 0, Reason: core.TargetHealthy}, {Request: 1, Policy: 0, Target: 0, Reason: core.TargetHealthy},
	}})
	p := w.begins()
	var events []core.Event
	for calls := p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
		p.Done(calls[0], w.answers(calls[0]))
		for _, e := range p.Events() {
			if e.Kind == pass.NewEvents {
				events = append(events, e.Events...)
			}
		}
	}
	if len(events) != 1 || events[0].Policy != w.policies[0].ID || events[0].Target != w.targets[0].ID {
		t.Errorf("the events are %+v, want one of the policy about the target", events)
	}
}

// TestStepsOfChangedRepairs: a repair that changes in this pass takes its step in the next. A repair without a step left says so, and a
// target whose policy has no status written waits.
func TestStepsOfChangedRepairs(t *testing.T) {
	start := core.StepStart{Repair: 0, Target: 0}
	for name, c := range map[string]struct {
		change func(w *world, d *core.Decision)
		want   string
	}{
		"nothing else": {func(*world, *core.Decision) {}, "[StartRemedy a] []"},
		"a note":       {func(_ *world, d *core.Decision) { d.Notes = []core.Note{{Repair: 0, Answer: "x"}} }, "[] []"},
		"a note on another": {func(w *world, d *core.Decision) {
			w.repairOf("b")
			d.Notes = []core.Note{{Repair: 1, Answer: "x"}}
		}, "[StartRemedy a] []"},
		"no status": {func(w *world, _ *core.Decision) { w.unwritten["workers"] = true }, "[] [recording the status of HealthCheck machines/workers: the API server is down]"},
		"no step left": {func(w *world, _ *core.Decision) { w.cached[0].Tried = []core.StepRecord{{}} },
			"[] [repairing Machine machines/a: Repair a-repair has no step left that can be read; delete it to have the target repaired anew]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "a", "b")
			w.repairOf("a")
			d := core.Decision{StepStarts: []core.StepStart{start}}
			c.change(w, &d)
			d.Verdicts = []core.Verdict{{Target: 0, Health: core.Unhealthy}}
			w.targets[0].NodeReadAt = noon
			w.decides(d)
			rec := w.runs(-1, ending{})
			equal(t, "remedies and failures", fmt.Sprint(only(rec, "StartRemedy"), " ", rec.failures), c.want)
		})
	}
}

// TestAdmission: of the recorded repairs the step is admitted that the list of running repairs has too.
func TestAdmission(t *testing.T) {
	for want, ahead := range map[string]int{"[StartRemedy a]": 0, "[]": 1} {
		w := worldOf(t, "a")
		w.policies[0].MaxInFlight = core.Count(1)
		w.repairOf("a")
		w.targets[0].NodeReadAt = noon
		w.decides(core.Decision{
			StepStarts: []core.StepStart{{Repair: 0, Target: 0, Step: ahead}}, Verdicts: []core.Verdict{{Target: 0, Health: core.Unhealthy}},
		})
		equal(t, fmt.Sprint("step ", ahead), only(w.runs(-1, ending{}), "StartRemedy"), want)
	}
}

// TestHandedOverAlready: no event says that a target is handed over that another writer has marked before. Other steps say what they do.
func TestHandedOverAlready(t *testing.T) {
	for remedy, want := range map[string]string{"hand-over": "[] in 1s", "delete": "[begun] never"} {
		w := worldOf(t, "a")
		w.policies[0].Steps = policy("p", remedy).Steps
		w.repairOf("a")
		w.targets[0].ExternallyRemediated, w.targets[0].NodeReadAt = true, noon
		w.decides(core.Decision{StepStarts: []core.StepStart{{Repair: 0, Target: 0}}, Verdicts: []core.Verdict{{Target: 0, Health: core.Unhealthy}}})
		w.fates["UpdateRepair a"] = ending{no: true}
		p := w.begins()
		begun := []string{}
		for calls := p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
			p.Done(calls[0], w.answers(calls[0]))
			for _, e := range p.Events() {
				for i := range e.Events {
					if e.Kind == pass.NewEvents {
						begun = append(begun, e.Events[i].Kind.String())
					}
				}
			}
		}
		rec := &record{}
		rec.ends(p, w.now)
		equal(t, remedy, fmt.Sprint(begun, " ", rec.next), want)
	}
}

// TestRepairOfACallStays: the repair in a call does not change with the repair of the pass.
func TestRepairOfACallStays(t *testing.T) {
	w := worldOf(t, "a")
	w.repairOf("a")
	w.decides(core.Decision{
		Verdicts: []core.Verdict{{Target: 0, Health: core.Unhealthy}}, Notes: []core.Note{{Repair: 0, Answer: "later"}},
	})
	p := w.begins()
	var judged []core.CombinedVerdict
	for calls := p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
		if calls[0].Kind == pass.WriteConditions {
			judged = calls[0].Judged
		}
		p.Done(calls[0], w.answers(calls[0]))
	}
	equal(t, "judged", len(judged), 1)
	equal(t, "answer in the call", judged[0].Repair.Answer, "")
	equal(t, "answer of the repair", p.Cluster().Repairs[0].Answer, "later")
}

// TestExpectedFacts: a pass leaves to the next which targets were created with a repair, and which were healthy.
func TestExpectedFacts(t *testing.T) {
	w := worldOf(t, "a", "b")
	w.targets[0].Node = node("a", "False", noon.Add(-time.Hour))
	w.targets[0].NodeReadAt = noon
	w.decides(core.Decision{
		Verdicts:        []core.Verdict{{Target: 0, Health: core.Unhealthy}},
		Starts:          []core.Start{{Target: 0, Name: "a-1", Steps: w.policies[0].Steps, CreatedSameSecond: []string{"other"}}},
		YoungestHealthy: map[core.ID]core.HealthyTarget{w.targets[0].Owner: {Target: w.targets[1].ID, Created: noon}},
	})
	w.runs(-1, ending{})
	if err := w.remove("b"); err != nil {
		t.Fatal(err)
	}
	cluster := w.begins().Cluster()
	equal(t, "created in the second of the repair", cluster.Repairs[0].CreatedSameSecond, []string{"other"})
	equal(t, "created when it was healthy", cluster.HealthyCreated[w.targets[0].Owner], noon)
}

// TestOnlyNodesAreReadAhead: nothing is read ahead of the deadline of a target that has no node.
func TestOnlyNodesAreReadAhead(t *testing.T) {
	for want, suspect := range map[string]int{"[ReadNode a]": 0, "[]": 1} {
		w := worldOf(t, "a", "b")
		w.targets[1].Node = core.Node{State: core.NodeAwaited}
		next := noon.Add(time.Second)
		w.config.Decide = func(policies []core.Policy, _ core.Cluster, now time.Time) core.Decision {
			d := core.Decision{Tallies: make([]core.Tally, len(policies)), NextAt: next, Verdicts: []core.Verdict{{Target: suspect, Health: core.Suspect, Until: next}}}
			if now.Equal(next) {
				d.Confirm = []int{0}
			}
			return d
		}
		equal(t, fmt.Sprint("target ", suspect), only(w.runs(-1, ending{}), "ReadNode"), want)
	}
}

// TestExpectationsCountFromTheAnswer: calls are slow. Their writes are expected for a minute after the last answer, as long
// as no cache shows them.
func TestExpectationsCountFromTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		slow  string
		shown bool // the repair is, and its request is not
		kind  string
	}{
		"a repair, by its creation": {"CreateRepair a", false, "CreateRepair"},
		"a repair, by its remedy":   {"StartRemedy a", false, "CreateRepair"},
		"a request":                 {"StartRemedy a", true, "StartRemedy"},
	} {
		for after, again := range map[time.Duration]bool{59 * time.Second: false, time.Minute: true} {
			t.Run(name+", "+after.String()+" later", func(t *testing.T) {
				w := worldOf(t, "a")
				w.targets[0].Node = node("a", "False", w.now.Add(-5*time.Minute))
				w.requestsLag = true
				w.slow[c.slow] = 40 * time.Second
				equal(t, "the first pass", len(only(w.runs(-1, ending{}), c.kind)), 1)
				if c.shown {
					w.cached = slices.Clone(w.stored)
				}
				w.now = w.now.Add(after)
				equal(t, "the second pass does it again", len(only(w.runs(-1, ending{}), c.kind)) > 0, again)
			})
		}
	}
}

// TestDeletedRepairThatNoCacheHasShown: a user deletes a repair, before its remedy is called, during a slow pass. The next pass calls
// no remedy for it, and the pass after that creates another one.
func TestDeletedRepairThatNoCacheHasShown(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		w := worldOf(t, "a", "b")
		w.policies[0].Holder = "fettle"
		for i, name := range []string{"a", "b"} {
			w.targets[i].Node = node(name, "False", w.now.Add(-5*time.Minute))
		}
		w.fates["AcquireLease a"] = ending{no: true}
		w.slow["StartRemedy b"] = 40 * time.Second
		equal(t, "the first pass", only(w.runs(-1, ending{}), "CreateRepair"), "[CreateRepair a CreateRepair b]")
		delete(w.fates, "AcquireLease a")
		if deleted {
			w.stored = slices.DeleteFunc(w.stored, func(r core.Repair) bool { return r.Target.Name == "a" })
		}
		w.now = w.now.Add(59 * time.Second)
		equal(t, fmt.Sprint("deleted: ", deleted), len(only(w.runs(-1, ending{}), "StartRemedy a")) > 0, !deleted)
		equal(t, fmt.Sprint("anew, deleted: ", deleted), only(w.runs(-1, ending{}), "CreateRepair"), map[bool]string{false: "[]", true: "[CreateRepair a]"}[deleted])
	}
}
