package fencing_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// condemned is a fencing by promise in a phase that began a minute before the facts of seen().
func condemned(p fencing.Phase, change ...func(*fencing.Record)) fencing.Record {
	r := recorded(p, change...)
	r.PoweredOff, r.Revoked = false, p != fencing.Preparing
	return r
}

func provenByPromise(r *fencing.Record) {
	r.Proof = fencing.Proof{Kind: fencing.PromiseExpired, At: in(-1)}
}

// promise is a promise about the recorded boot, read a number of seconds before the facts of seen().
func promise(s fencing.PromiseState, ago int, change ...func(*fencing.Promise)) fencing.Promise {
	p := fencing.Promise{Begun: in(-ago), Ended: in(-ago), State: s, Boot: "boot"}
	for _, f := range change {
		f(&p)
	}
	return p
}

func expires(seconds int) func(*fencing.Promise) {
	return func(p *fencing.Promise) {
		p.Expires = in(seconds)
		p.Expired = !p.Begun.Before(p.Expires)
	}
}
func ofOtherBoot(p *fencing.Promise) { p.Boot = "boot 2" }
func failing(p *fencing.Promise)     { p.RetryAt = in(7) }
func endedLater(p *fencing.Promise)  { p.Ended = in(1) }

// promised are facts of an observation with a node and what is known of its promise.
func promised(n *fencing.Node, p fencing.Promise, change ...func(*fencing.Facts)) fencing.Facts {
	f := known(n, fencing.Power{}, change...)
	f.Promise = p
	return f
}

func at3m(f *fencing.Facts)       { f.Now = start.Add(3 * time.Minute) }
func justBefore(f *fencing.Facts) { f.Now = start.Add(3*time.Minute - 1) }

// self is a fencing by promise.
func self(change ...func(*fencing.Config)) fencing.Config {
	c := with(append(change, byPromise)...)
	c.Limits.Fence = 3 * time.Minute
	return c
}

// TestCondemn: the promise is revoked, and nothing but a new boot or its expiry is a proof.
func TestCondemn(t *testing.T) {
	preparing, condemning := condemned(fencing.Preparing), condemned(fencing.Condemning)
	stands := func(seconds int) fencing.Step { return waits(fencing.PromiseStands, seconds) }
	proven := func(r fencing.Record, p fencing.Proof) fencing.Step {
		r.Proof = p
		return writes(since(r, fencing.Releasing, known(nil, fencing.Power{})))
	}
	expired := func(begun int) fencing.Proof {
		return fencing.Proof{Kind: fencing.PromiseExpired, At: in(begun)}
	}
	fails := func(r fencing.Record, why fencing.Reason, change ...func(*fencing.Facts)) fencing.Step {
		return writes(since(r, fencing.Failed, known(nil, fencing.Power{}, change...), because(why)))
	}
	revoked := func(r *fencing.Record) { r.Revoked = true }
	voided := condemned(fencing.Condemning, because(fencing.ProofVoid), voids(3))
	check(t, map[string]edge{
		"no power-off is allowed":     {self(), fencing.Record{}, promised(down(untainted), fencing.Promise{}), writes(since(preparing, fencing.Preparing, known(nil, fencing.Power{})))},
		"the phase is recorded first": {self(), preparing, promised(down(), fencing.Promise{}), writes(since(preparing, fencing.Condemning, known(nil, fencing.Power{}), revoked, commandedNow))},
		"the promise is read":         {self(), condemning, promised(down(), fencing.Promise{}), does(fencing.ReadPromise)},
		"it stands":                   {self(), condemning, promised(down(), promise(fencing.Promised, 0)), does(fencing.RevokePromise)},
		"it is of another boot":       {self(), condemning, promised(down(), promise(fencing.Promised, 0, ofOtherBoot)), waits(fencing.PromiseOfOtherBoot, 2)},
		"it is read again":            {self(), condemning, promised(down(), promise(fencing.Promised, 2, ofOtherBoot)), does(fencing.ReadPromise)},
		"it can't be read":            {self(), condemning, promised(down(), promise(fencing.Promised, 9, failing)), waits(fencing.PromiseNotRead, 7)},
		"nothing is promised":         {self(), condemning, promised(down(), promise(fencing.NoPromise, 1)), waits(fencing.NothingPromised, 1)},
		"others have revoked it":      {self(), condemning, promised(down(), promise(fencing.RevokedByOther, 1)), waits(fencing.PromiseOfOther, 1)},
		"a gone fencing has":          {self(), condemning, promised(down(), promise(fencing.RevokedByGone, 1)), does(fencing.FreePromise)},
		"it was of an earlier boot":   {self(), condemning, promised(down(), promise(fencing.Revoked, 1, ofOtherBoot, expires(-9))), does(fencing.FreePromise)},
		"without a recorded boot":     {self(), condemned(fencing.Condemning, noBootID), promised(down(withoutBootID), promise(fencing.Revoked, 1, func(p *fencing.Promise) { p.Boot = "" }, expires(-9))), does(fencing.FreePromise)},
		"it expires":                  {self(), condemning, promised(down(), promise(fencing.Revoked, 5, expires(4))), stands(4)},
		"it has just expired":         {self(), condemning, promised(down(), promise(fencing.Revoked, 5, expires(0))), does(fencing.ReadPromise)},
		"it has expired":              {self(), condemning, promised(down(), promise(fencing.Revoked, 5, expires(-1))), does(fencing.ReadPromise)},
		"it is read too early":        {self(), condemning, promised(down(), promise(fencing.Revoked, 5, expires(-4))), does(fencing.ReadPromise)},
		"it is read in time":          {self(), condemning, promised(down(), promise(fencing.Revoked, 5, expires(-5))), proven(condemning, expired(-5))},
		"it is read later":            {self(), condemning, promised(down(), promise(fencing.Revoked, 1, expires(-5))), proven(condemning, expired(-1))},
		"its witnesses don't know":    {self(), condemning, promised(down(), promise(fencing.Revoked, 1, func(p *fencing.Promise) { p.Unwitnessed = true })), waits(fencing.WitnessesNotAcknowledged, 1)},
		"they don't, and it is over":  {self(), condemning, promised(down(), promise(fencing.Revoked, 1, expires(-5), func(p *fencing.Promise) { p.Expired, p.Unwitnessed = false, true })), waits(fencing.PromiseOfOtherBoot, 1)},
		"they don't, and nothing is":  {self(), condemning, promised(down(), promise(fencing.NoPromise, 1, func(p *fencing.Promise) { p.Unwitnessed = true })), waits(fencing.NothingPromised, 1)},
		"a time alone is no proof":    {self(), condemning, promised(down(), promise(fencing.Revoked, 1, expires(-5), func(p *fencing.Promise) { p.Expired = false })), waits(fencing.PromiseOfOtherBoot, 1)},
		"it is not timed":             {self(), condemning, promised(down(), promise(fencing.Revoked, 1)), waits(fencing.PromiseNotTimed, 1)},
		"that is read again":          {self(), condemning, promised(down(), promise(fencing.Revoked, 2)), does(fencing.ReadPromise)},
		"it stands and seems expired": {self(), condemning, promised(down(), promise(fencing.Promised, 1, expires(-5))), does(fencing.RevokePromise)},
		"the node is another":         {self(), condemning, promised(down(recreated), promise(fencing.Revoked, 1, expires(-5))), waits(fencing.PromiseOfOtherBoot, 1)},
		"the node shows no boot":      {self(), condemning, promised(down(withoutBootID), promise(fencing.Revoked, 1, expires(-5))), waits(fencing.PromiseOfOtherBoot, 1)},
		"none, of another boot":       {self(), condemning, promised(down(), promise(fencing.NoPromise, 1, ofOtherBoot)), waits(fencing.NothingPromised, 1)},
		"the node boots anew":         {self(), condemning, drained(promised(down(rebooted), promise(fencing.Revoked, 1, expires(-5)))), proven(condemning, fencing.Proof{Kind: fencing.NewBoot, At: in(0), BootID: "boot 2"})},
		"it boots, still promised":    {self(), condemning, drained(promised(down(rebooted), fencing.Promise{})), proven(condemning, fencing.Proof{Kind: fencing.NewBoot, At: in(0), BootID: "boot 2"})},
		"the limit comes first":       {self(), condemning, promised(down(), promise(fencing.Revoked, 5, expires(400))), stands(120)},
		"before the limit":            {self(), condemning, promised(down(), promise(fencing.Promised, 0), justBefore), does(fencing.RevokePromise)},
		"at the limit":                {self(), condemning, promised(down(), promise(fencing.Promised, 0), at3m), fails(condemning, fencing.FenceTimedOut, at3m)},
		"a void proof":                {self(), condemned(fencing.Condemning, because(fencing.ProofVoid), voids(2)), promised(down(), promise(fencing.Promised, 0)), does(fencing.RevokePromise)},
		"the third void proof":        {self(), voided, promised(down(), promise(fencing.Promised, 0)), fails(voided, fencing.FreedByOthers)},
		"three, and something else":   {self(), condemned(fencing.Condemning, voids(3)), promised(down(), promise(fencing.Promised, 0)), does(fencing.RevokePromise)},
	})
}

// TestReleaseByPromise: the promise is read again before the release, and the node after that.
func TestReleaseByPromise(t *testing.T) {
	r := condemned(fencing.Releasing, provenByPromise)
	byBoot := condemned(fencing.Releasing, provenByBoot)
	serves := condemned(fencing.Releasing, provenByPromise, released)
	voids := func(r fencing.Record) fencing.Step {
		r.Void, r.Proof = 1, fencing.Proof{}
		return writes(since(r, fencing.Condemning, known(nil, fencing.Power{}), because(fencing.ProofVoid)))
	}
	boots := func(r fencing.Record) fencing.Step {
		return writes(since(r, fencing.Booting, known(nil, fencing.Power{})))
	}
	held := promise(fencing.Revoked, 0, expires(-9))
	check(t, map[string]edge{
		"it is read again":           {self(), r, promised(down(), promise(fencing.Revoked, 1, expires(-9))), does(fencing.ReadPromise)},
		"it can't be read":           {self(), r, promised(down(), promise(fencing.Revoked, 1, failing)), waits(fencing.PromiseNotRead, 7)},
		"the limit comes first":      {self(), r, promised(down(), promise(fencing.Revoked, 1, func(p *fencing.Promise) { p.RetryAt = in(900) })), waits(fencing.PromiseNotRead, 240)},
		"it was freed":               {self(), r, promised(down(), promise(fencing.NoPromise, 0)), voids(r)},
		"it is of another boot":      {self(), r, promised(down(), promise(fencing.Revoked, 0, ofOtherBoot)), voids(r)},
		"the node is read after it":  {self(), r, promised(down(), promise(fencing.Revoked, 0, endedLater)), does(fencing.ReadNode)},
		"the release is recorded":    {self(), r, promised(down(), held), writes(condemned(fencing.Releasing, provenByPromise, released, releasedNow))},
		"a new process goes on":      {self(), serves, promised(down(), promise(fencing.Revoked, 0)), does(fencing.SetOutOfService)},
		"the node is deleted":        {self(deleteNode), serves, promised(down(), held), does(fencing.RemoveNode)},
		"the node seems Ready":       {self(), r, promised(down(ready), held), waits(fencing.NodeReady, 2)},
		"it is Ready anew":           {self(), r, promised(down(rebooted, ready), held), boots(r)},
		"it boots, not read":         {self(), r, drained(promised(down(rebooted), fencing.Promise{})), writes(condemned(fencing.Releasing, provenByPromise, released, releasedNow))},
		"proven by its boot":         {self(), byBoot, drained(promised(down(rebooted), fencing.Promise{})), writes(condemned(fencing.Releasing, provenByBoot, released, releasedNow))},
		"not so any more":            {self(), byBoot, promised(down(), fencing.Promise{}), voids(byBoot)},
		"proven off, Ready anew":     {limits, recorded(fencing.Releasing), known(down(rebooted, ready), commandedOff(20, read(fencing.IsOff, 10), read(fencing.IsOff, 0))), waits(fencing.NodeReady, 2)},
		"the release ends in a boot": {self(), serves, drained(promised(down(outOfService), held)), boots(serves)},
	})
}

// TestFree: the promise is freed at the end, after the node was changed back.
func TestFree(t *testing.T) {
	restoring, aborting := condemned(fencing.Restoring), condemned(fencing.Aborting)
	gone := condemned(fencing.DeletingMachine)
	unread := promise(fencing.Revoked, 1, failing)
	ends := func(r fencing.Record, p fencing.Phase, f func(*fencing.Facts), change ...func(*fencing.Record)) fencing.Step {
		return writes(since(r, p, known(nil, fencing.Power{}, f), change...))
	}
	now := func(*fencing.Facts) {}
	noMachine := func(f *fencing.Facts) { f.Machine = &fencing.Machine{} }
	check(t, map[string]edge{
		"the node comes first":         {self(), restoring, promised(down(rebooted, ready), promise(fencing.Revoked, 0)), does(fencing.RestoreNode)},
		"it is untainted first":        {self(), restoring, promised(down(rebooted, ready, restored), promise(fencing.Revoked, 0)), does(fencing.UntaintNode)},
		"the promise is read":          {self(), restoring, promised(back(), promise(fencing.Revoked, 1)), does(fencing.ReadPromise)},
		"it is freed":                  {self(), restoring, promised(back(), promise(fencing.Revoked, 0)), does(fencing.FreePromise)},
		"others have revoked it":       {self(), restoring, promised(back(), promise(fencing.RevokedByOther, 0)), ends(restoring, fencing.Succeeded, now, backNow)},
		"it is free":                   {self(), restoring, promised(back(), promise(fencing.NoPromise, 0)), ends(restoring, fencing.Succeeded, now, backNow)},
		"it can't be read":             {self(), restoring, promised(back(), unread), waits(fencing.PromiseNotRead, 7)},
		"the limit comes first":        {self(), restoring, promised(back(), promise(fencing.Revoked, 1, func(p *fencing.Promise) { p.RetryAt = in(900) }), justBefore), waits(fencing.PromiseNotRead, 120)},
		"it can't be read for long":    {self(), restoring, promised(back(), promise(fencing.Revoked, 1, func(p *fencing.Promise) { p.RetryAt = in(900) }), at3m), ends(restoring, fencing.Succeeded, at3m, backNow)},
		"an abort frees it":            {self(), aborting, promised(down(), promise(fencing.Revoked, 0)), does(fencing.FreePromise)},
		"an abort has freed it":        {self(), aborting, promised(down(), promise(fencing.NoPromise, 0)), does(fencing.RestoreNode)},
		"an abort, before it revoked":  {self(), condemned(fencing.Aborting, func(r *fencing.Record) { r.Phase = fencing.Aborting }), promised(down(), fencing.Promise{}), does(fencing.ReadPromise)},
		"an abort by power":            {limits, recorded(fencing.Aborting, poweredOn), promised(down(), promise(fencing.Revoked, 0)), does(fencing.RestoreNode)},
		"the machine is gone":          {self(), gone, promised(down(), promise(fencing.Revoked, 0), noMachine), does(fencing.FreePromise)},
		"the machine is gone, freed":   {self(), gone, promised(down(), promise(fencing.NoPromise, 0), noMachine), ends(gone, fencing.Succeeded, now, because(fencing.MachineGone))},
		"nothing was revoked":          {self(), recorded(fencing.Aborting, poweredOn), promised(down(), promise(fencing.Revoked, 0)), does(fencing.RestoreNode)},
		"a fencing by power, restored": {limits, recorded(fencing.Restoring, poweredOn), promised(back(), promise(fencing.Revoked, 0)), ends(recorded(fencing.Restoring, poweredOn), fencing.Succeeded, now, backNow)},
	})
}
