package core_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

func TestTemplatesMakeKinds(t *testing.T) {
	for want, r := range map[core.Kind]core.Reference{
		{Group: "reboot.example", Kind: "Reboot"}: rebooting,
		{Group: "", Kind: "Pod"}:                  {APIVersion: "v1", Kind: "PodTemplate"},
		{Group: "", Kind: ""}:                     {},
	} {
		if got := r.Makes(); got != want {
			t.Errorf("%+v makes %+v, want %+v", r, got, want)
		}
	}
}

// TestNoRequestForAPart: nothing begins by a template that makes parts of the target. Nothing begins while the parts
// of the target are not known. Other steps, and other targets, are not held back.
func TestNoRequestForAPart(t *testing.T) {
	of := func(kinds ...core.Kind) *core.Parts { return &core.Parts{Kinds: kinds} }
	reboot := rebooting.Makes()
	image := reprovisioning.Makes()
	for sentence, tc := range map[string]struct {
		parts *core.Parts
		steps func(*core.Policy)
		says  string
	}{
		"no parts":               {core.NoParts(), classic, ""},
		"parts of another kind":  {of(image), classic, ""},
		"its own infrastructure": {of(reboot), classic, "itself is made"},
		"its own bootstrap":      {of(core.Kind{Group: "g", Kind: "K"}, reboot), classic, "itself is made"},
		"the second step":        {of(image), escalating, "itself is made"},
		"unknown":                {nil, classic, "it is not known of which objects"},
		"unknown, and deleted":   {nil, func(*core.Policy) {}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := check("p", []int{0}, tc.steps)
			m := machine("m", dead)
			m.Parts = tc.parts
			for began, repairs := range map[string][]core.Repair{"new": nil, "recorded": {repair(m, p, started(ago(time.Minute)))}} {
				f := with([]core.Target{m}, repairs)
				f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
				d := core.Decide([]core.Policy{p}, f, noon)
				if begins := len(d.Starts)+len(d.StepStarts) > 0; begins != (tc.says == "") {
					t.Errorf("%s: it begins: %t", began, begins)
				}
				if tc.says != "" && (len(d.Refusals) != 1 || d.Refusals[0].Gate != core.TemplateUnusable || !strings.Contains(d.Refusals[0].Text(), tc.says)) {
					t.Errorf("%s: refused as %+v", began, d.Refusals)
				}
			}
		})
	}
}

func foreign(q *core.Request) { q.Own = false }

// TestForeignRequests: an object that Fettle did not make counts as far as it is a request, and is never touched.
func TestForeignRequests(t *testing.T) {
	p := check("p", []int{0}, escalating)
	sick, well := aNode("n", dead), aNode("n")
	r := []core.Repair{repair(sick, p, started(ago(time.Hour)))}
	late := requestedAt(ago(time.Hour))
	suspect := aNode("n", ready("False", ago(time.Minute)))
	handedOver := []core.Repair{repair(sick, p, started(ago(time.Hour)), func(r *core.Repair) { r.Begun = ago(time.Minute) })}
	for name, c := range map[string]remediationCase{
		"sick, under way":         {"no second request is made", with([]core.Target{sick}, r, requestFor(p, sick, rebooting, foreign)), nil, noon.Add(4 * time.Minute)},
		"sick, failed":            {"the next step follows, and no remediator is told to stop", with([]core.Target{sick}, r, requestFor(p, sick, rebooting, foreign, says(core.No))), []string{"give up on n: Failed"}, time.Time{}},
		"sick, its time over":     {"the same", with([]core.Target{sick}, r, requestFor(p, sick, rebooting, foreign, late)), []string{"give up on n: TimedOut"}, time.Time{}},
		"in between, handed over": {"it has finished, whatever others ask", with([]core.Target{suspect}, handedOver, requestFor(p, sick, rebooting, foreign)), []string{"end n: Succeeded"}, noon.Add(4 * time.Minute)},
		"well, a repair":          {"the repair ends without it", with([]core.Target{well}, r, requestFor(p, sick, rebooting, foreign)), []string{"end n: Recovered"}, time.Time{}},
		"well, and one of ours":   {"only ours is withdrawn", with([]core.Target{well}, r, requestFor(p, sick, rebooting, foreign), requestFor(p, sick, reprovisioning)), []string{"withdraw nImageTemplate"}, time.Time{}},
		"well, no repair":         {"it stays", with([]core.Target{well}, nil, requestFor(p, sick, rebooting, foreign)), nil, time.Time{}},
		"gone":                    {"the repair ends without it", with(nil, r, requestFor(p, sick, rebooting, foreign)), []string{"end n: Withdrawn"}, time.Time{}},
		"gone, no repair":         {"it stays", with(nil, nil, requestFor(p, sick, rebooting, foreign)), nil, time.Time{}},
		"anonymous, well":         {"it stays", with([]core.Target{well}, nil, requestFor(p, sick, rebooting, foreign, anonymous)), nil, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.run(t, p)
			c.world.Observed, c.world.ClockAgrees, c.world.Upgrading = core.Yes, core.Yes, core.No
			for _, a := range core.Decide([]core.Policy{p}, c.world, noon).Escalations {
				if a.Request != -1 {
					t.Errorf("its remediator is told to stop: %+v", a)
				}
			}
		})
	}
}

// TestForeignRequestsAreCountedAndReported: a target for which one stands is not counted as healthy, and the verdict says what
// to do.
func TestForeignRequestsAreCountedAndReported(t *testing.T) {
	p := check("p", []int{0}, classic)
	well := aNode("n")
	f := with([]core.Target{well}, nil, requestFor(p, well, rebooting, foreign))
	f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
	d := core.Decide([]core.Policy{p}, f, noon)
	v := d.Verdicts[0]
	if v.Health != core.Suspect || v.Reason != core.Recovering || !strings.Contains(v.Text(), "Fettle did not make Request remedies/n") || !strings.Contains(v.Text(), "delete it") {
		t.Errorf("the verdict is %s: %s", v.Health, v.Text())
	}
	own := with([]core.Target{well}, nil, requestFor(p, well, rebooting))
	own.Observed, own.ClockAgrees, own.Upgrading = core.Yes, core.Yes, core.No
	if v := core.Decide([]core.Policy{p}, own, noon).Verdicts[0]; v.Reason != core.Recovering || v.Detail != "" {
		t.Errorf("of a request that Fettle made it says: %s", v.Text())
	}
	report := d.Reports([]core.Policy{p}, &f)[0]
	if len(report.Concerns) != 1 || !strings.Contains(report.Concerns[0].Text, "Fettle did not make") {
		t.Errorf("the report says %+v", report.Concerns)
	}
}

// TestForeignRequestsSpareNoGate: a request of another maker for a repair which has not begun does not let the
// repair past the gates of its first step.
func TestForeignRequestsSpareNoGate(t *testing.T) {
	p := check("p", []int{0, 1}, escalating, maxUnhealthy(core.Count(0)))
	sick := aNode("n", dead)
	// It is by the template of the second step, so the first one is still to be requested.
	f := with([]core.Target{sick, aNode("m")}, []core.Repair{repair(sick, p, started(ago(time.Minute)))}, requestFor(p, sick, reprovisioning, foreign))
	f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
	if d := core.Decide([]core.Policy{p}, f, noon); len(d.StepStarts) > 0 {
		t.Errorf("a step begins while the short circuit holds: %+v", d.StepStarts)
	}
}

// TestI10ForeignRequestsAreNeverTouched, in whatever world they stand.
func TestI10ForeignRequestsAreNeverTouched(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawRemediation(rapidDice(r))
		for i := range w.cluster.Requests {
			w.cluster.Requests[i].Own = rapid.Bool().Draw(r, "own")
		}
		d := w.decide()
		for _, x := range d.Withdrawals {
			if !w.cluster.Requests[x.Request].Own {
				r.Errorf("%s is withdrawn, which Fettle did not make", w.cluster.Requests[x.Request].ID)
			}
		}
		for _, a := range d.Escalations {
			if a.Request >= 0 && !w.cluster.Requests[a.Request].Own {
				r.Errorf("the remediator of %s is told to stop, which Fettle did not ask", w.cluster.Requests[a.Request].ID)
			}
		}
	})
}
