package fencing_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/fencing"
)

// down is a node that doesn't answer, as the fencing of recorded() found it.
func down(change ...func(*fencing.Node)) *fencing.Node {
	n := &fencing.Node{ReadAt: start.Add(time.Minute), Exists: true, UID: "uid", BootID: "boot", Tainted: true, Changed: true}
	for _, f := range change {
		f(n)
	}
	return n
}

func ready(n *fencing.Node)        { n.Ready = true }
func outOfService(n *fencing.Node) { n.OutOfService = true }
func untainted(n *fencing.Node)    { n.Tainted = false }
func restored(n *fencing.Node)     { n.Changed = false }
func rebooted(n *fencing.Node)     { n.BootID = "boot 2" }
func recreated(n *fencing.Node)    { n.UID = "uid 2" }
func gone(n *fencing.Node)         { *n = fencing.Node{ReadAt: n.ReadAt} }

// recorded is a fencing in a phase that began a minute before the facts of seen().
func recorded(p fencing.Phase, change ...func(*fencing.Record)) fencing.Record {
	r := fencing.Record{Phase: p, Since: start, Attempt: 1, NodeUID: "uid", BootID: "boot", PoweredOff: p != fencing.Preparing}
	if p == fencing.Releasing || p == fencing.PoweringOn || p == fencing.Booting {
		r.Proof = fencing.Proof{Kind: fencing.PowerOff, At: start}
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func released(r *fencing.Record) { r.Released = true }
func drained(r *fencing.Record)  { r.Released, r.Drained = true, true }
func provenByBoot(r *fencing.Record) {
	r.Proof = fencing.Proof{Kind: fencing.NewBoot, BootID: "boot 2"}
}
func foreign(r *fencing.Record)       { r.ForeignOutOfService = true }
func secondAttempt(r *fencing.Record) { r.Attempt = 2 }

// seen are facts of a look that began at the start.
func seen(n *fencing.Node, p fencing.Power) fencing.Facts {
	return fencing.Facts{Now: start.Add(time.Minute), Begun: start.Add(time.Minute), Node: n, Power: p}
}

// read is a reading that began a number of seconds before the facts of seen().
func read(s fencing.PowerState, ago int) fencing.Reading {
	at := start.Add(time.Minute - time.Duration(ago)*time.Second)
	return fencing.Reading{Begun: at, Ended: at, State: s}
}

// commandedOff is a power whose command was acknowledged a number of seconds ago, with the readings since.
func commandedOff(ago int, readings ...fencing.Reading) fencing.Power {
	p := fencing.Power{}.CommandedOff(start.Add(time.Minute - time.Duration(ago)*time.Second))
	for _, r := range readings {
		p = p.Observe(r)
	}
	return p
}

func commandedOn(ago int, readings ...fencing.Reading) fencing.Power {
	p := fencing.Power{}.CommandedOn(start.Add(time.Minute - time.Duration(ago)*time.Second))
	for _, r := range readings {
		p = p.Observe(r)
	}
	return p
}

var limits = fencing.Config{Limits: fencing.Limits{PowerOff: 5 * time.Minute, Release: 5 * time.Minute, PowerOn: 5 * time.Minute, Boot: 5 * time.Minute}}

func in(seconds int) time.Time { return start.Add(time.Minute + time.Duration(seconds)*time.Second) }

// waits is a step that waits for a number of seconds.
func waits(why fencing.Reason, seconds int) fencing.Step {
	return fencing.Step{Kind: fencing.Wait, Reason: why, Until: in(seconds)}
}

func does(k fencing.StepKind) fencing.Step { return fencing.Step{Kind: k} }

// TestNext: each step, by what is recorded and what is known.
func TestNext(t *testing.T) {
	const unto = 4 * 60 // the seconds to the limit of a phase
	now := start.Add(time.Minute)
	writes := func(p fencing.Phase, why fencing.Reason, change ...func(*fencing.Record)) fencing.Step {
		r := recorded(p, change...)
		r.Since, r.Reason = now, why
		return fencing.Step{Kind: fencing.Write, Record: r}
	}
	noProof := func(r *fencing.Record) { r.Proof = fencing.Proof{} }
	void := func(r *fencing.Record) { r.Void = 1 }
	on := func(r *fencing.Record) { r.PoweredOff = false }
	proofAt := func(at time.Time) func(*fencing.Record) {
		return func(r *fencing.Record) { r.Proof = fencing.Proof{Kind: fencing.PowerOff, At: at} }
	}
	fresh := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
	cases := map[string]struct {
		record fencing.Record
		facts  fencing.Facts
		want   fencing.Step
	}{
		"nothing is read":                                     {fencing.Record{}, seen(nil, fencing.Power{}), does(fencing.ReadNode)},
		"the node can't be read":                              {recorded(fencing.Releasing), seen(&fencing.Node{Failed: true, RetryAt: in(3)}, fencing.Power{}), waits(fencing.NodeNotRead, 3)},
		"the node is recorded":                                {fencing.Record{}, seen(down(untainted), fencing.Power{}), writes(fencing.Preparing, "")},
		"a taint of others":                                   {fencing.Record{}, seen(down(outOfService), fencing.Power{}), writes(fencing.Preparing, "", foreign)},
		"there is no node":                                    {fencing.Record{}, seen(down(gone), fencing.Power{}), writes(fencing.Preparing, "", func(r *fencing.Record) { r.NodeUID, r.BootID = "", "" })},
		"the node is tainted":                                 {recorded(fencing.Preparing), seen(down(untainted), fencing.Power{}), does(fencing.TaintNode)},
		"another node has its name":                           {recorded(fencing.Preparing), seen(down(recreated), fencing.Power{}), writes(fencing.Failed, fencing.NodeReplaced, on)},
		"the power-off is recorded":                           {recorded(fencing.Preparing), seen(down(), fencing.Power{}), writes(fencing.PoweringOff, "")},
		"the node is gone":                                    {recorded(fencing.Preparing), seen(down(gone), fencing.Power{}), writes(fencing.PoweringOff, "")},
		"the power is commanded off":                          {recorded(fencing.PoweringOff), seen(down(), fencing.Power{}), does(fencing.CommandOff)},
		"a reading before the command":                        {recorded(fencing.PoweringOff), seen(down(), fencing.Power{}.Observe(read(fencing.IsOff, 20)).Observe(read(fencing.IsOff, 0))), does(fencing.CommandOff)},
		"the power is read":                                   {recorded(fencing.PoweringOff), seen(down(), commandedOff(1)), does(fencing.ReadPower)},
		"the BMC can't be reached":                            {recorded(fencing.PoweringOff), seen(down(), fencing.Power{RetryAt: in(9)}), waits(fencing.PowerNotRead, 9)},
		"the BMC can't be reached for long":                   {recorded(fencing.PoweringOff), seen(down(), fencing.Power{RetryAt: in(900)}), waits(fencing.PowerNotRead, unto)},
		"the power is on":                                     {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOn, 1))), waits(fencing.PowerNotOff, 1)},
		"the power is on after a while":                       {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOn, 2))), does(fencing.ReadPower)},
		"the command had no effect":                           {recorded(fencing.PoweringOff), seen(down(), commandedOff(30, read(fencing.IsOn, 0))), does(fencing.CommandOff)},
		"the command takes long":                              {recorded(fencing.PoweringOff), seen(down(), commandedOff(30, read(fencing.PowerUnknown, 1))), waits(fencing.PowerNotOff, 1)},
		"off once":                                            {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 2))), waits(fencing.PowerOffOnce, 3)},
		"off once, long ago":                                  {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 5))), does(fencing.ReadPower)},
		"off twice, too soon":                                 {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 4), read(fencing.IsOff, 0))), waits(fencing.PowerOffOnce, 1)},
		"off twice":                                           {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 5), read(fencing.IsOff, 0))), writes(fencing.Releasing, "", proofAt(now))},
		"off, on and off":                                     {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 8), read(fencing.IsOn, 4), read(fencing.IsOff, 0))), waits(fencing.PowerOffOnce, 5)},
		"off, unknown and off":                                {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 8), read(fencing.PowerUnknown, 4), read(fencing.IsOff, 0))), waits(fencing.PowerOffOnce, 5)},
		"the first began before the command was acknowledged": {recorded(fencing.PoweringOff), seen(down(), commandedOff(5, read(fencing.IsOff, 5), read(fencing.IsOff, 0))), waits(fencing.PowerOffOnce, 5)},
		"only one began before the command was acknowledged":  {recorded(fencing.PoweringOff), seen(down(), commandedOff(1, read(fencing.IsOff, 1))), waits(fencing.PowerNotOff, 1)},
		"another boot ID": {recorded(fencing.PoweringOff), seen(down(rebooted), commandedOff(9)), writes(fencing.Releasing, "", func(r *fencing.Record) {
			r.Proof = fencing.Proof{Kind: fencing.NewBoot, At: now, BootID: "boot 2"}
		})},
		"another boot ID of another node": {recorded(fencing.PoweringOff), seen(down(rebooted, recreated), commandedOff(9)), does(fencing.ReadPower)},
		"no boot ID":                      {recorded(fencing.PoweringOff), seen(down(func(n *fencing.Node) { n.BootID = "" }), commandedOff(9)), does(fencing.ReadPower)},

		"the power is read again":       {recorded(fencing.Releasing), seen(down(), commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 9))), does(fencing.ReadPower)},
		"it can't be read again":        {recorded(fencing.Releasing), seen(down(), fencing.Power{RetryAt: in(4)}), waits(fencing.PowerNotRead, 4)},
		"the power is on again":         {recorded(fencing.Releasing), seen(down(), commandedOff(30, read(fencing.IsOn, 0))), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"the power is unknown":          {recorded(fencing.Releasing), seen(down(), commandedOff(30, read(fencing.PowerUnknown, 0))), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"on again after it is drained":  {recorded(fencing.Releasing, drained), seen(down(), commandedOff(30, read(fencing.IsOn, 0))), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"on again after the release":    {recorded(fencing.Releasing, released), seen(down(outOfService), commandedOff(30, read(fencing.IsOn, 0))), does(fencing.RemoveOutOfService)},
		"after a restart":               {recorded(fencing.Releasing), seen(down(), fencing.Power{}.Observe(read(fencing.IsOff, 0))), fencing.Step{Kind: fencing.Write, Record: recorded(fencing.Releasing, released)}},
		"the node was read before":      {recorded(fencing.Releasing), seen(down(func(n *fencing.Node) { n.ReadAt = in(-1) }), fresh), does(fencing.ReadNode)},
		"others removed the taint":      {recorded(fencing.Releasing), seen(down(untainted), fresh), does(fencing.TaintNode)},
		"still Ready":                   {recorded(fencing.Releasing), seen(down(ready), fresh), waits(fencing.NodeReady, 2)},
		"the release":                   {recorded(fencing.Releasing, released), seen(down(), fresh), does(fencing.SetOutOfService)},
		"Ready again":                   {recorded(fencing.Releasing, released), seen(down(ready, outOfService), fresh), does(fencing.RemoveOutOfService)},
		"the workload is counted":       {recorded(fencing.Releasing, released), seen(down(outOfService), fresh), does(fencing.CountWorkload)},
		"no node to release":            {recorded(fencing.Releasing), seen(down(gone), fresh), writes(fencing.PoweringOn, "")},
		"the node was replaced":         {recorded(fencing.Releasing), seen(down(recreated, outOfService), fresh), writes(fencing.PoweringOn, "")},
		"others hold it out of service": {recorded(fencing.Releasing, foreign), seen(down(outOfService), fresh), writes(fencing.PoweringOn, "", foreign)},
		"proven by a boot that is gone": {recorded(fencing.Releasing, provenByBoot), seen(down(), fencing.Power{}), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"proven by the boot":            {recorded(fencing.Releasing, provenByBoot, released), seen(down(rebooted), fencing.Power{}), does(fencing.SetOutOfService)},
		"proven by the boot, and Ready": {recorded(fencing.Releasing, provenByBoot), seen(down(rebooted, ready), fencing.Power{}), writes(fencing.Booting, "", provenByBoot, on)},

		"the power is commanded on":       {recorded(fencing.PoweringOn), seen(down(), fresh), does(fencing.CommandOn)},
		"on is read":                      {recorded(fencing.PoweringOn), seen(down(), commandedOn(1)), does(fencing.ReadPower)},
		"off is read after on":            {recorded(fencing.PoweringOn), seen(down(), commandedOn(5, read(fencing.IsOff, 1))), waits(fencing.PowerNotOn, 1)},
		"on had no effect":                {recorded(fencing.PoweringOn), seen(down(), commandedOn(30, read(fencing.IsOff, 1))), does(fencing.CommandOn)},
		"the power is on again after all": {recorded(fencing.PoweringOn), seen(down(), commandedOn(5, read(fencing.IsOn, 1))), writes(fencing.Booting, "", on)},
		"back without a reading":          {recorded(fencing.PoweringOn), seen(down(rebooted, ready), fencing.Power{}), writes(fencing.Booting, "", on)},
		"the node boots":                  {recorded(fencing.Booting, on), seen(down(), fencing.Power{}), waits(fencing.NodeNotBack, unto)},
		"Ready under its old boot ID":     {recorded(fencing.Booting, on), seen(down(ready), fencing.Power{}), waits(fencing.NodeNotBack, unto)},
		"the node is back":                {recorded(fencing.Booting, on), seen(down(rebooted, ready), fencing.Power{}), writes(fencing.Restoring, "", on, proofAt(start))},
		"the node is changed back":        {recorded(fencing.Restoring), seen(down(rebooted, ready), fencing.Power{}), does(fencing.RestoreNode)},
		"its taint goes last":             {recorded(fencing.Restoring), seen(down(rebooted, ready, restored), fencing.Power{}), does(fencing.UntaintNode)},
		"the end":                         {recorded(fencing.Restoring), seen(down(rebooted, ready, restored, untainted), fencing.Power{}), writes(fencing.Succeeded, "")},
		"after the end":                   {recorded(fencing.Succeeded), seen(down(rebooted, ready), fencing.Power{}), does(fencing.Finish)},
		"the machine goes":                {recorded(fencing.DeletingMachine), seen(down(), fencing.Power{}), does(fencing.RemoveMachine)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, fencing.Next(limits, c.record, c.facts)); d != "" {
				t.Errorf("the next step differs from the wanted one (-wanted +got):\n%s", d)
			}
		})
	}
}

// TestLimits: no phase lasts longer than its limit.
func TestLimits(t *testing.T) {
	late := func(f fencing.Facts) fencing.Facts {
		f.Now = start.Add(5 * time.Minute)
		f.Begun = f.Now
		return f
	}
	atLimit := fencing.Power{}.Observe(fencing.Reading{Begun: start.Add(5 * time.Minute), Ended: start.Add(5 * time.Minute), State: fencing.IsOff})
	node := func(change ...func(*fencing.Node)) *fencing.Node {
		return down(append(change, func(n *fencing.Node) { n.ReadAt = start.Add(5 * time.Minute) })...)
	}
	retries := limits
	retries.Retries = 1
	deletes := limits
	deletes.DeleteMachine = true
	cases := map[string]struct {
		config fencing.Config
		record fencing.Record
		node   *fencing.Node
		power  fencing.Power
		phase  fencing.Phase
		why    fencing.Reason
		number int
	}{
		"no proof":                       {limits, recorded(fencing.PoweringOff), node(), fencing.Power{}, fencing.Failed, fencing.PowerOffTimedOut, 1},
		"no proof, and a retry":          {retries, recorded(fencing.PoweringOff), node(), fencing.Power{}, fencing.PoweringOff, fencing.PowerOffTimedOut, 2},
		"no proof, and no more retries":  {retries, recorded(fencing.PoweringOff, secondAttempt), node(), fencing.Power{}, fencing.Failed, fencing.PowerOffTimedOut, 2},
		"no proof, and the machine goes": {deletes, recorded(fencing.PoweringOff), node(), fencing.Power{}, fencing.DeletingMachine, fencing.PowerOffTimedOut, 1},
		"still Ready":                    {limits, recorded(fencing.Releasing), node(ready), atLimit, fencing.PoweringOn, fencing.ReleaseTimedOut, 1},
		"pods are left":                  {limits, recorded(fencing.Releasing, released), node(), atLimit, fencing.PoweringOn, fencing.ReleaseTimedOut, 1},
		"the power stays off":            {limits, recorded(fencing.PoweringOn), node(), atLimit, fencing.Failed, fencing.PowerOnTimedOut, 1},
		"the node does not boot":         {limits, recorded(fencing.Booting), node(), fencing.Power{}, fencing.Failed, fencing.BootTimedOut, 1},
		"it does not boot, and a retry":  {retries, recorded(fencing.Booting, released, drained), node(), fencing.Power{}, fencing.PoweringOff, fencing.BootTimedOut, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := fencing.Next(c.config, c.record, late(seen(c.node, c.power)))
			r := got.Record
			if got.Kind != fencing.Write || r.Phase != c.phase || r.Reason != c.why || r.Attempt != c.number {
				t.Errorf("the step is %+v, want phase %s of attempt %d since %s", got, c.phase, c.number, c.why)
			}
			if c.number > c.record.Attempt && (r.Proof.Kind != "" || r.Released || r.Drained || !r.PoweredOff) {
				t.Errorf("another attempt begins with %+v", r)
			}
		})
	}
}
