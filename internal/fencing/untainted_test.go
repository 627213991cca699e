package fencing_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/fencing"
)

// TestBootWithoutTheTaint: the pods of a node start again when it boots and others have removed the taint. Such a boot proves nothing, unless the node
// is Ready, so that nothing is released.
func TestBootWithoutTheTaint(t *testing.T) {
	none, now := fencing.Power{}, known(nil, fencing.Power{})
	stopping, condemning := recorded(fencing.PoweringOff), condemned(fencing.Condemning)
	byBoot, byPower, again := recorded(fencing.Releasing, provenByBoot), recorded(fencing.Releasing), recorded(fencing.Preparing, voids(1))
	once := recorded(fencing.PoweringOff, because(fencing.ProofVoid), voids(1))
	often, self2 := recorded(fencing.PoweringOff, voids(2)), condemned(fencing.Condemning, voids(2))
	fails := func(r fencing.Record) fencing.Step {
		return writes(since(r, fencing.Failed, now, because(fencing.BootedUntainted), voids(3)))
	}
	anew := func(r fencing.Record) fencing.Step {
		return writes(since(r, fencing.Preparing, now, because(fencing.BootedUntainted), func(r *fencing.Record) { r.BootID, r.Void = "boot 2", 1 }))
	}
	proven := func(r fencing.Record) fencing.Step {
		r.Proof = fencing.Proof{Kind: fencing.NewBoot, At: in(0), BootID: "boot 2"}
		return writes(since(r, fencing.Releasing, now))
	}
	voided := func(r fencing.Record) fencing.Step {
		r.Proof, r.Void = fencing.Proof{}, 1
		return writes(since(r, fencing.PoweringOff, now, because(fencing.ProofVoid)))
	}
	fresh := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
	check(t, map[string]edge{
		"the node is recorded anew":         {limits, stopping, known(down(rebooted, untainted), none), anew(stopping)},
		"a taint that stands is enough":     {limits, stopping, drained(known(down(rebooted), none)), proven(stopping)},
		"a node that serves is":             {limits, stopping, known(down(rebooted, untainted, ready), none), proven(stopping)},
		"the recorded boot goes on":         {limits, stopping, known(down(untainted), none), does(fencing.CommandOff)},
		"too often":                         {limits, often, known(down(rebooted, untainted), none), fails(often)},
		"too often, by promise":             {self(), self2, promised(down(rebooted, untainted), fencing.Promise{}), fails(self2)},
		"by promise":                        {self(), condemning, promised(down(rebooted, untainted), fencing.Promise{}), anew(condemning)},
		"by promise, and it serves":         {self(), condemning, promised(down(rebooted, untainted, ready), fencing.Promise{}), proven(condemning)},
		"just before the release":           {limits, byBoot, known(down(rebooted, untainted), none), voided(byBoot)},
		"the same, proven by the power":     {limits, byPower, known(down(rebooted, untainted), fresh), voided(byPower)},
		"the same, and it serves":           {limits, byBoot, known(down(rebooted, untainted, ready), none), writes(since(byBoot, fencing.PoweringOn, now))},
		"by the power, and it serves":       {limits, byPower, known(down(rebooted, untainted, ready), fresh), writes(since(byPower, fencing.PoweringOn, now))},
		"by the power, and it must not":     {with(off), byPower, known(down(rebooted, untainted, ready), fresh), voided(byPower)},
		"it is to stay off, and serves":     {with(off), stopping, known(down(rebooted, untainted, ready), none), anew(stopping)},
		"a void proof counts once":          {limits, once, known(down(rebooted, untainted), none), anew(once)},
		"the recorded boot is tainted":      {limits, byPower, known(down(untainted), fresh), does(fencing.TaintNode)},
		"it registers again, recorded anew": {limits, again, known(down(recreated), none), writes(recorded(fencing.Preparing, voids(1), func(r *fencing.Record) { r.NodeUID = "uid 2" }))},
	})
}

// TestPowerOfARecord: reads and commands from before a node was recorded are no part of a proof.
func TestPowerOfARecord(t *testing.T) {
	p := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
	if d := cmp.Diff(p, p.Recorded(recorded(fencing.PoweringOff))); d != "" {
		t.Errorf("a later record changes the power: %s", d)
	}
	for _, p := range []fencing.Power{p, commandedOn(5, read(fencing.IsOn, 1))} {
		p.RetryAt = in(7)
		if d := cmp.Diff(fencing.Power{RetryAt: in(7)}, p.Recorded(recorded(fencing.Preparing))); d != "" {
			t.Errorf("after the node was recorded, something is known of the power: %s", d)
		}
	}
}
