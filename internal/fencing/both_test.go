package fencing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// byBoth is a fencing that needs both proofs.
func byBoth(change ...func(*fencing.Config)) fencing.Config {
	c := with(append(change, needsBoth)...)
	c.Limits.Fence = 3 * time.Minute
	return c
}

func needsBoth(c *fencing.Config) { c.Both = true }

func attemptNeedsBoth(r *fencing.Record) { r.Both = true }

// both is a fencing by both in a phase that began a minute before the facts of seen().
func both(p fencing.Phase, change ...func(*fencing.Record)) fencing.Record {
	r := recorded(p, append(change, attemptNeedsBoth)...)
	r.Revoked = p != fencing.Preparing
	if p == fencing.Releasing && r.Proof.Kind == fencing.PowerOff {
		r.Proof = fencing.Proof{Kind: fencing.OffAndExpired, At: start}
	}
	return r
}

// TestBoth: neither proof suffices, and neither waits for the other. A new boot does suffice.
func TestBoth(t *testing.T) {
	off := commandedOff(20, read(fencing.IsOff, 10), read(fencing.IsOff, 2))
	once := commandedOff(20, read(fencing.IsOff, 2))
	on := commandedOff(20, read(fencing.IsOn, 1))
	expired, held := promise(fencing.Revoked, 1, expires(-5)), promise(fencing.Revoked, 1)
	r := both(fencing.PoweringOff)
	observed := func(n *fencing.Node, p fencing.Power, q fencing.Promise, change ...func(*fencing.Facts)) fencing.Facts {
		f := known(n, p, change...)
		f.Promise = q
		return f
	}
	proven := func(p fencing.Proof, change ...func(*fencing.Record)) fencing.Step {
		r := both(fencing.PoweringOff, change...)
		r.Proof = p
		return writes(since(r, fencing.Releasing, known(nil, fencing.Power{})))
	}
	revoked := func(r *fencing.Record) { r.Revoked = true }
	failed := func(why fencing.Reason, change ...func(*fencing.Facts)) fencing.Step {
		return writes(since(r, fencing.Failed, known(nil, fencing.Power{}, change...), because(why)))
	}
	bootedAnew := fencing.Proof{Kind: fencing.NewBoot, At: in(0), BootID: "boot 2"}
	check(t, map[string]edge{
		"the revocation is recorded first": {byBoth(), both(fencing.Preparing), observed(down(), commandedOff(20), fencing.Promise{}), writes(since(both(fencing.Preparing), fencing.PoweringOff, known(nil, fencing.Power{}), revoked, commandedAt(20)))},
		"it has come to need both":         {byBoth(), recorded(fencing.PoweringOff, attemptNeedsBoth), observed(down(), off, fencing.Promise{}), writes(r)},
		"the power comes first":            {byBoth(), r, observed(down(), fencing.Power{}, fencing.Promise{}), does(fencing.CommandOff)},
		"then the promise is read":         {byBoth(), r, observed(down(), on, fencing.Promise{}), does(fencing.ReadPromise)},
		"it is revoked meanwhile":          {byBoth(), r, observed(down(), on, promise(fencing.Promised, 0)), does(fencing.RevokePromise)},
		"both are waited for":              {byBoth(), r, observed(down(), on, promise(fencing.Revoked, 1, expires(40))), waits(fencing.PowerNotOff, 1)},
		"the promise is due first":         {byBoth(), r, observed(down(), commandedOff(20, read(fencing.IsOn, 0)), promise(fencing.Revoked, 1, expires(1))), waits(fencing.PowerNotOff, 1)},
		"off, and it stands":               {byBoth(), r, observed(down(), off, promise(fencing.Revoked, 1, expires(40))), waits(fencing.PromiseStands, 40)},
		"off, and it is not timed":         {byBoth(), r, observed(down(), off, held), waits(fencing.PromiseNotTimed, 1)},
		"off, and nothing is promised":     {byBoth(), r, observed(down(), off, promise(fencing.NoPromise, 1)), waits(fencing.NothingPromised, 1)},
		"expired, and off once":            {byBoth(), r, observed(down(), once, expired), waits(fencing.PowerOffOnce, 3)},
		"expired, and the BMC is silent":   {byBoth(), r, retriedAt(observed(down(), fencing.Power{}, expired), 9), waits(fencing.PowerNotRead, 9)},
		"off and expired":                  {byBoth(), r, observed(down(), off, expired), proven(fencing.Proof{Kind: fencing.OffAndExpired, At: in(-1)}, offIn("boot"))},
		"expired before":                   {byBoth(), r, observed(down(), off, promise(fencing.Revoked, 3, expires(-5))), proven(fencing.Proof{Kind: fencing.OffAndExpired, At: in(-2)}, offIn("boot"))},
		"a new boot":                       {byBoth(), r, drained(observed(down(rebooted), fencing.Power{}, fencing.Promise{})), proven(bootedAnew)},
		"no BMC in time":                   {byBoth(), r, observed(down(), fencing.Power{}, held, atTheLimit), failed(fencing.PowerOffTimedOut, atTheLimit)},
		"not in time, and off":             {byBoth(), r, observed(down(), off, held, at3m), failed(fencing.FenceTimedOut, at3m)},
		"not in time, and not off":         {byBoth(), r, observed(down(), commandedOff(-119, read(fencing.IsOn, -120)), promise(fencing.Revoked, -119), at3m), failed(fencing.FenceTimedOut, at3m)},
		"by power alone": {limits, recorded(fencing.PoweringOff), observed(down(), off, held), writes(func() fencing.Record {
			r := recorded(fencing.PoweringOff, offIn("boot"))
			r.Proof = fencing.Proof{Kind: fencing.PowerOff, At: in(-2)}
			return since(r, fencing.Releasing, known(nil, fencing.Power{}))
		}())},
	})
}

// TestWhatAnAttemptNeeds: an attempt needs what the configuration says when it begins. Until its first command is recorded it may come to need
// more, and never less. The next attempt needs what the configuration says then, and a promise that is revoked is freed all the same.
func TestWhatAnAttemptNeeds(t *testing.T) {
	less, registered := byBoth(func(c *fencing.Config) { c.Retries = 1 }), down(func(n *fencing.Node) { n.UID = "another" })
	more := less
	less.Both = false
	second := func(change ...func(*fencing.Record)) fencing.Record {
		return recorded(fencing.Preparing, append(change, func(r *fencing.Record) { r.Attempt = 2 })...)
	}
	of := func(r fencing.Record, uid string) fencing.Record {
		r.NodeUID = uid
		return r
	}
	begun := fencing.Record{Attempt: 1, PoweredOff: true, NodeUID: "uid", BootID: "boot"}
	begunByBoth := begun
	begunByBoth.Both = true
	failed := func(r fencing.Record, change ...func(*fencing.Record)) fencing.Step {
		r.Attempt = 2
		for _, f := range change {
			f(&r)
		}
		return writes(since(r, fencing.Preparing, known(nil, fencing.Power{}, atTheLimit), because(fencing.PowerOffTimedOut)))
	}
	revoked := func(r *fencing.Record) { r.Revoked = true }
	needsLess := func(r *fencing.Record) { r.Both = false }
	check(t, map[string]edge{
		"it begins with both":                 {more, fencing.Record{}, known(down(), fencing.Power{}), writes(since(begunByBoth, fencing.Preparing, known(nil, fencing.Power{})))},
		"it begins with one":                  {less, fencing.Record{}, known(down(), fencing.Power{}), writes(since(begun, fencing.Preparing, known(nil, fencing.Power{})))},
		"the next one needs less":             {less, both(fencing.PoweringOff), known(down(), fencing.Power{}, atTheLimit), failed(both(fencing.PoweringOff), needsLess)},
		"the next one needs more":             {more, recorded(fencing.PoweringOff), known(down(), fencing.Power{}, atTheLimit), failed(recorded(fencing.PoweringOff), attemptNeedsBoth)},
		"what was revoked stays recorded":     {less, second(revoked), known(down(), commandedOff(20)), writes(since(second(revoked), fencing.PoweringOff, known(nil, fencing.Power{}), commandedAt(20)))},
		"an attempt with both goes on so":     {less, both(fencing.PoweringOff), known(down(), commandedOff(20, read(fencing.IsOff, 10), read(fencing.IsOff, 2))), does(fencing.ReadPromise)},
		"an attempt with one goes on so":      {more, recorded(fencing.PoweringOff), known(down(), commandedOff(20, read(fencing.IsOn, 1))), waits(fencing.PowerNotOff, 1)},
		"a node that registers needs more":    {more, second(), known(registered, fencing.Power{}), writes(of(second(attemptNeedsBoth), "another"))},
		"a node that registers needs no less": {less, second(attemptNeedsBoth), known(registered, fencing.Power{}), writes(of(second(attemptNeedsBoth), "another"))},
	})
}

// TestReleaseByBoth: both proofs must hold in the observation that releases the node, and the node is read after both.
func TestReleaseByBoth(t *testing.T) {
	r := both(fencing.Releasing)
	off := commandedOff(20, read(fencing.IsOff, 10), read(fencing.IsOff, 0))
	held := promise(fencing.Revoked, 0, expires(-9))
	observed := func(n *fencing.Node, p fencing.Power, q fencing.Promise) fencing.Facts {
		f := known(n, p)
		f.Promise = q
		return f
	}
	alone := r
	alone.Proof.Kind = fencing.PowerOff
	void := func() fencing.Step {
		v := r
		v.Void, v.Proof = 1, fencing.Proof{}
		return writes(since(v, fencing.PoweringOff, known(nil, fencing.Power{}), because(fencing.ProofVoid)))
	}
	check(t, map[string]edge{
		"the power is read":         {byBoth(), r, observed(down(), commandedOff(20, read(fencing.IsOff, 10), read(fencing.IsOff, 1)), held), does(fencing.ReadPower)},
		"the promise is read":       {byBoth(), r, observed(down(), off, promise(fencing.Revoked, 1, expires(-9))), does(fencing.ReadPromise)},
		"the node is read after it": {byBoth(), r, observed(down(), off, promise(fencing.Revoked, 0, endedLater)), does(fencing.ReadNode)},
		"it has the power alone":    {byBoth(), alone, observed(down(), off, held), void()},
		"it boots anew":             {byBoth(), r, drained(observed(down(rebooted), commandedOff(20, read(fencing.IsOn, 0)), held)), writes(both(fencing.Releasing, released, releasedNow))},
		"it must stay off":          {func() fencing.Config { c := byBoth(); c.Off = true; return c }(), r, observed(down(rebooted), commandedOff(20, read(fencing.IsOn, 0)), held), void()},
		"both hold":                 {byBoth(), r, observed(down(), off, held), writes(both(fencing.Releasing, released, releasedNow))},
		"it is on":                  {byBoth(), r, observed(down(), commandedOff(20, read(fencing.IsOn, 0)), held), void()},
		"it was freed":              {byBoth(), r, observed(down(), off, promise(fencing.NoPromise, 0)), void()},
		"another host":              {byBoth(), r, onAnotherHost(observed(down(), off, held)), void()},
		"a new boot":                {byBoth(), r, drained(observed(down(rebooted), fencing.Power{}, fencing.Promise{})), writes(both(fencing.Releasing, released, releasedNow))},
		"Ready anew":                {byBoth(), r, observed(down(rebooted, ready), fencing.Power{}, fencing.Promise{}), writes(since(r, fencing.PoweringOn, known(nil, fencing.Power{})))},
		"an abort powers on first":  {byBoth(), both(fencing.Aborting), observed(down(), off, held), does(fencing.CommandOn)},
		"then it frees":             {byBoth(), both(fencing.Aborting, poweredOn), observed(down(), off, held), does(fencing.FreePromise)},
		"the end frees":             {byBoth(), both(fencing.Restoring, poweredOn), observed(back(), fencing.Power{}, held), does(fencing.FreePromise)},
	})
}

// TestSmallWorldsByBoth (I12, I13): no pod runs twice, also where one of the proofs is false, and each fencing ends.
func TestSmallWorldsByBoth(t *testing.T) {
	worlds := map[string]struct {
		setup setup
		long  bool
	}{
		"both are true":                     {setup{config: config(needsBoth), settles: true}, true},
		"deleted in between":                {setup{config: config(needsBoth), budget: budget{deletions: 1}, settles: true}, true},
		"a BMC of another host":             {setup{config: config(needsBoth), otherHost: true}, false},
		"the same, and a crash":             {setup{config: config(needsBoth), otherHost: true, budget: budget{crashes: 1}}, true},
		"a watchdog that never fires":       {setup{config: config(needsBoth), neverFires: true}, false},
		"the same, by deletion of the node": {setup{config: config(needsBoth, deleteNode), neverFires: true}, true},
		"the policy needs less meanwhile":   {setup{config: config(needsBoth), otherHost: true, budget: budget{eases: 1}}, false},
		"such a watchdog, and a person":     {setup{config: config(needsBoth), neverFires: true, budget: budget{flips: 1}}, true},
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			if w.long && testing.Short() {
				t.Skip("a big world")
			}
			t.Parallel()
			w.setup.next = fencing.Next
			story, states := walk(t, &w.setup, 6_000_000)
			if len(story) > 0 {
				t.Error(strings.Join(story, "\n"))
			}
			t.Logf("%d states", states)
		})
	}
}

// TestPlantedFaultsByBoth: the small worlds find what comes of one proof where it is false.
func TestPlantedFaultsByBoth(t *testing.T) {
	alone := func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
		c.Both, r.Both = false, false
		return fencing.Next(c, r, f)
	}
	eased := func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
		r.Both = c.Both
		return fencing.Next(c, r, f)
	}
	promiseAlone := func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
		if r.Phase == fencing.PoweringOff || r.Phase == fencing.Releasing {
			reading := fencing.Reading{Begun: f.Now, Ended: f.Now, State: fencing.IsOff}
			f.Power.Off, f.Power.Last, f.Power.FirstOff = f.Now.Add(-time.Minute), reading, reading
			f.Power.FirstOff.Begun = f.Now.Add(-time.Minute / 2)
			if f.Node != nil {
				n := *f.Node
				n.ReadAt = f.Now
				f.Node = &n
			}
		}
		return fencing.Next(c, r, f)
	}
	for name, f := range map[string]setup{
		"the power suffices": {config: config(needsBoth), next: alone, otherHost: true},
		"what is needed now counts, not what the attempt has recorded": {config: config(needsBoth), next: eased, otherHost: true, budget: budget{eases: 1}},
		"the promise suffices": {config: config(needsBoth), next: promiseAlone, neverFires: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story, states := walk(t, &f, 2_000_000)
			if len(story) == 0 || !strings.HasPrefix(story[len(story)-1], "I13") {
				t.Errorf("in %d states the story was %q, want a complaint of I13", states, story)
			}
		})
	}
}
