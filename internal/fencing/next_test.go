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
func deleting(n *fencing.Node)     { n.Deleting = true }
func gone(n *fencing.Node)         { *n = fencing.Node{ReadAt: n.ReadAt} }

// recorded is a fencing in a phase that began a minute before the facts of seen().
func recorded(p fencing.Phase, change ...func(*fencing.Record)) fencing.Record {
	r := fencing.Record{Phase: p, Since: start, Attempt: 1, NodeUID: "uid", BootID: "boot", PoweredOff: true}
	if p == fencing.Releasing || p == fencing.PoweringOn || p == fencing.Booting {
		r.Proof = fencing.Proof{Kind: fencing.PowerOff, At: start}
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func released(r *fencing.Record) { r.Released = true }

// commandedNow, releasedNow and backNow are noted in an observation at the time of seen().
func commandedNow(r *fencing.Record) { r.CommandedAt = in(0) }
func commandedAt(ago int) func(*fencing.Record) {
	return func(r *fencing.Record) { r.CommandedAt = in(-ago) }
}
func releasedBefore(r *fencing.Record) { r.ReleasedBefore = true }
func releasedNow(r *fencing.Record)    { r.ReleasedAt = in(0) }
func backNow(r *fencing.Record)        { r.BackAt, r.BackBootID = in(0), "boot 2" }
func provenByBoot(r *fencing.Record) {
	r.Proof = fencing.Proof{Kind: fencing.NewBoot, BootID: "boot 2"}
}
func foreign(r *fencing.Record)       { r.ForeignOutOfService = true }
func secondAttempt(r *fencing.Record) { r.Attempt = 2 }

// voids is a number of void proofs.
func voids(n int) func(*fencing.Record) { return func(r *fencing.Record) { r.Void = n } }

// offIn is a host that was proven off in a boot.
func offIn(boot string) func(*fencing.Record) { return func(r *fencing.Record) { r.OffBootID = boot } }
func machineDeletion(r *fencing.Record)       { r.MachineDeletion = true }

// seen are facts of an observation that began at the start.
func seen(n *fencing.Node, p fencing.Power) fencing.Facts {
	return fencing.Facts{Now: start.Add(time.Minute), Begun: start.Add(time.Minute), Node: n, Power: p}
}

// about are the facts of an observation that has read the machine.
func about(m fencing.Machine) fencing.Facts {
	f := seen(down(), fencing.Power{})
	f.Machine = &m
	return f
}

// leftHost are facts of a host that is left to the provider of its machine.
func leftHost(f fencing.Facts) fencing.Facts {
	f.Power.Left = true
	return f
}

// retriedAt are facts of a host that can be reached again in a number of seconds.
func retriedAt(f fencing.Facts, seconds int) fencing.Facts {
	f.Power.RetryAt = f.Now.Add(time.Duration(seconds) * time.Second)
	return f
}

// drained are facts of an observation that has found nothing on the node.
func drained(f fencing.Facts) fencing.Facts {
	f.Workload = &fencing.Workload{}
	return f
}

// unwanted are facts of a fencing that the health checker no longer wants.
func unwanted(f fencing.Facts) fencing.Facts {
	f.Stopped = true
	return f
}

// onAnotherHost are facts with another host than the recorded one.
func onAnotherHost(f fencing.Facts) fencing.Facts {
	f.HostChanged = true
	return f
}

// turnAt are facts with the turn of the host in a number of seconds.
func turnAt(f fencing.Facts, seconds int) fencing.Facts {
	f.PowerOnAt = f.Now.Add(time.Duration(seconds) * time.Second)
	return f
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

var limits = fencing.Config{Limits: fencing.Limits{PowerOff: 5 * time.Minute, Release: 5 * time.Minute, PowerOn: 5 * time.Minute, Boot: 5 * time.Minute, MachineDeletion: 10 * time.Minute}}

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
		"it has booted before the taint":                      {recorded(fencing.Preparing), seen(down(untainted, rebooted), fencing.Power{}), fencing.Step{Kind: fencing.Write, Record: recorded(fencing.Preparing, func(r *fencing.Record) { r.BootID = "boot 2" })}},
		"it has booted since the taint":                       {recorded(fencing.Preparing), seen(down(rebooted), commandedOff(9)), writes(fencing.PoweringOff, "", commandedAt(9))},
		"another node has its name":                           {recorded(fencing.Preparing), seen(down(recreated), fencing.Power{}), writes(fencing.Failed, fencing.NodeReplaced)},
		"the power-off is recorded":                           {recorded(fencing.Preparing, on), seen(down(), fencing.Power{}), fencing.Step{Kind: fencing.Write, Record: recorded(fencing.Preparing)}},
		"the first command":                                   {recorded(fencing.Preparing), seen(down(), fencing.Power{}), does(fencing.CommandOff)},
		"the first command again":                             {recorded(fencing.Preparing), seen(down(), fencing.Power{RetryAt: in(0)}), does(fencing.CommandOff)},
		"the first command without a node":                    {recorded(fencing.Preparing), seen(down(gone), fencing.Power{}), does(fencing.CommandOff)},
		"the first command has failed":                        {recorded(fencing.Preparing), seen(down(), fencing.Power{RetryAt: in(1)}), writes(fencing.PoweringOff, "", commandedNow)},
		"the first command is acknowledged":                   {recorded(fencing.Preparing), seen(down(), commandedOff(9)), writes(fencing.PoweringOff, "", commandedAt(9))},
		"it was acknowledged in the attempt before":           {recorded(fencing.Preparing, secondAttempt), seen(down(), commandedOff(60)), writes(fencing.PoweringOff, "", commandedNow, secondAttempt)},
		"and the node was replaced since":                     {recorded(fencing.Preparing), seen(down(recreated, untainted), commandedOff(9)), writes(fencing.PoweringOff, "", commandedAt(9))},
		"and it was replaced by another boot":                 {recorded(fencing.Preparing), seen(down(recreated, untainted, rebooted), commandedOff(9)), writes(fencing.PoweringOff, "", commandedAt(9))},
		"an earlier process has sent it":                      {recorded(fencing.Preparing), seen(down(rebooted), fencing.Power{}), writes(fencing.PoweringOff, "", commandedNow)},
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
		"off twice":                                           {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 5), read(fencing.IsOff, 0))), writes(fencing.Releasing, "", proofAt(now), offIn("boot"))},
		"off, on and off":                                     {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 8), read(fencing.IsOn, 4), read(fencing.IsOff, 0))), waits(fencing.PowerOffOnce, 5)},
		"off, unknown and off":                                {recorded(fencing.PoweringOff), seen(down(), commandedOff(9, read(fencing.IsOff, 8), read(fencing.PowerUnknown, 4), read(fencing.IsOff, 0))), waits(fencing.PowerOffOnce, 5)},
		"the first began before the command was acknowledged": {recorded(fencing.PoweringOff), seen(down(), commandedOff(5, read(fencing.IsOff, 5), read(fencing.IsOff, 0))), waits(fencing.PowerOffOnce, 5)},
		"only one began before the command was acknowledged":  {recorded(fencing.PoweringOff), seen(down(), commandedOff(1, read(fencing.IsOff, 1))), waits(fencing.PowerNotOff, 1)},
		"another boot ID": {recorded(fencing.PoweringOff), drained(seen(down(rebooted), commandedOff(9))), writes(fencing.Releasing, "", func(r *fencing.Record) {
			r.Proof = fencing.Proof{Kind: fencing.NewBoot, At: now, BootID: "boot 2"}
		})},
		"another boot ID of another node": {recorded(fencing.PoweringOff), seen(down(rebooted, recreated), commandedOff(9)), does(fencing.ReadPower)},
		"no boot ID":                      {recorded(fencing.PoweringOff), seen(down(func(n *fencing.Node) { n.BootID = "" }), commandedOff(9)), does(fencing.ReadPower)},

		"the power is read again":     {recorded(fencing.Releasing), seen(down(), commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 9))), does(fencing.ReadPower)},
		"it can't be read again":      {recorded(fencing.Releasing), seen(down(), fencing.Power{RetryAt: in(4)}), waits(fencing.PowerNotRead, 4)},
		"the power is on again":       {recorded(fencing.Releasing), seen(down(), commandedOff(30, read(fencing.IsOn, 0))), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"the power is unknown":        {recorded(fencing.Releasing), seen(down(), commandedOff(30, read(fencing.PowerUnknown, 0))), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"on again after the release":  {recorded(fencing.Releasing, released), seen(down(outOfService), commandedOff(30, read(fencing.IsOn, 0))), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void, released)},
		"its taint goes then":         {recorded(fencing.PoweringOff, released, void), seen(down(outOfService), commandedOff(30, read(fencing.IsOff, 9), read(fencing.IsOff, 0))), does(fencing.RemoveOutOfService)},
		"void too often":              {recorded(fencing.PoweringOff, because(fencing.ProofVoid), voids(3)), seen(down(), commandedOff(30)), writes(fencing.Failed, fencing.PoweredOnByOthers, voids(3))},
		"void not too often":          {recorded(fencing.PoweringOff, because(fencing.ProofVoid), voids(2)), seen(down(), commandedOff(30)), does(fencing.ReadPower)},
		"a proof of an unknown kind":  {recorded(fencing.Releasing, func(r *fencing.Record) { r.Proof.Kind = "Silence" }), seen(down(), fresh), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"after a restart":             {recorded(fencing.Releasing), seen(down(), fencing.Power{}.Observe(read(fencing.IsOff, 0))), fencing.Step{Kind: fencing.Write, Record: recorded(fencing.Releasing, released, releasedNow)}},
		"the node was read before":    {recorded(fencing.Releasing), seen(down(func(n *fencing.Node) { n.ReadAt = in(-1) }), fresh), does(fencing.ReadNode)},
		"others removed the taint":    {recorded(fencing.Releasing), seen(down(untainted), fresh), does(fencing.TaintNode)},
		"still Ready":                 {recorded(fencing.Releasing), seen(down(ready), fresh), waits(fencing.NodeReady, 2)},
		"the release":                 {recorded(fencing.Releasing, released), seen(down(), fresh), does(fencing.SetOutOfService)},
		"Ready again":                 {recorded(fencing.Releasing, released), seen(down(ready, outOfService), fresh), does(fencing.RemoveOutOfService)},
		"the workload is counted":     {recorded(fencing.Releasing, released), seen(down(outOfService), fresh), does(fencing.CountWorkload)},
		"nothing is left":             {recorded(fencing.Releasing, released), drained(seen(down(outOfService), fresh)), writes(fencing.PoweringOn, "", released)},
		"a late release, and Ready":   {recorded(fencing.Releasing, releasedBefore), seen(down(ready, outOfService), fresh), does(fencing.RemoveOutOfService)},
		"a late release is recorded":  {recorded(fencing.Releasing, releasedBefore), seen(down(outOfService), fresh), fencing.Step{Kind: fencing.Write, Record: recorded(fencing.Releasing, releasedBefore, released, releasedNow)}},
		"late, and not Ready":         {recorded(fencing.PoweringOff, releasedBefore), seen(down(outOfService), commandedOff(9)), does(fencing.ReadPower)},
		"released by hand at the end": {recorded(fencing.Failed, releasedBefore), seen(down(outOfService), fresh), does(fencing.Finish)},
		"and Ready again":             {recorded(fencing.Failed, releasedBefore), seen(down(outOfService, ready), fresh), does(fencing.RemoveOutOfService)},
		"another boot ID, once more": {recorded(fencing.PoweringOff, released), drained(seen(down(rebooted), commandedOff(9))), writes(fencing.Releasing, "", func(r *fencing.Record) {
			r.Proof, r.ReleasedBefore = fencing.Proof{Kind: fencing.NewBoot, At: now, BootID: "boot 2"}, true
		})},
		"the taint of others, Ready":    {recorded(fencing.Releasing, releasedBefore, foreign), seen(down(ready, outOfService), fresh), writes(fencing.PoweringOn, "", releasedBefore, foreign)},
		"back in service first":         {recorded(fencing.PoweringOn, released), seen(down(outOfService), fresh), does(fencing.RemoveOutOfService)},
		"in service after the end":      {recorded(fencing.Succeeded, released), seen(down(outOfService), fresh), does(fencing.RemoveOutOfService)},
		"the node was deleted":          {recorded(fencing.Releasing, released, deletedNode), seen(down(gone), fresh), does(fencing.CountWorkload)},
		"and nothing is left of it":     {recorded(fencing.Releasing, released, deletedNode), drained(seen(down(gone), fresh)), writes(fencing.PoweringOn, "", released, deletedNode)},
		"and it has registered again":   {recorded(fencing.Releasing, released, deletedNode), seen(down(recreated), fresh), writes(fencing.PoweringOn, "", released, deletedNode)},
		"no node to release":            {recorded(fencing.Releasing), seen(down(gone), fresh), writes(fencing.PoweringOn, "")},
		"the node was replaced":         {recorded(fencing.Releasing), seen(down(recreated, outOfService), fresh), writes(fencing.PoweringOn, "")},
		"others hold it out of service": {recorded(fencing.Releasing, foreign), seen(down(outOfService), fresh), writes(fencing.PoweringOn, "", foreign)},
		"proven by a boot that is gone": {recorded(fencing.Releasing, provenByBoot), seen(down(), fencing.Power{}), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"proven by the boot":            {recorded(fencing.Releasing, provenByBoot, released), drained(seen(down(rebooted), fencing.Power{})), does(fencing.SetOutOfService)},
		"proven by the boot, and Ready": {recorded(fencing.Releasing, provenByBoot), seen(down(rebooted, ready), fencing.Power{}), writes(fencing.PoweringOn, "", provenByBoot)},

		"the power is commanded on":       {recorded(fencing.PoweringOn), seen(down(), fresh), does(fencing.CommandOn)},
		"on is read":                      {recorded(fencing.PoweringOn), seen(down(), commandedOn(1)), does(fencing.ReadPower)},
		"off is read after on":            {recorded(fencing.PoweringOn), seen(down(), commandedOn(5, read(fencing.IsOff, 1))), waits(fencing.PowerNotOn, 1)},
		"on had no effect":                {recorded(fencing.PoweringOn), seen(down(), commandedOn(30, read(fencing.IsOff, 1))), does(fencing.CommandOn)},
		"the power is on again after all": {recorded(fencing.PoweringOn), seen(down(), commandedOn(5, read(fencing.IsOn, 1))), writes(fencing.Booting, "", on)},
		"back without a reading":          {recorded(fencing.PoweringOn), seen(down(rebooted, ready), fencing.Power{}), does(fencing.CommandOn)},
		"Ready in the boot that was off":  {recorded(fencing.Booting, on, offIn("boot 2")), seen(down(rebooted, ready), fencing.Power{}), waits(fencing.NodeNotBack, unto)},
		"the node boots":                  {recorded(fencing.Booting, on), seen(down(), fencing.Power{}), waits(fencing.NodeNotBack, unto)},
		"Ready under its old boot ID":     {recorded(fencing.Booting, on), seen(down(ready), fencing.Power{}), waits(fencing.NodeNotBack, unto)},
		"the node is back":                {recorded(fencing.Booting, on), seen(down(rebooted, ready), fencing.Power{}), writes(fencing.Restoring, "", on, proofAt(start), backNow)},
		"the node is changed back":        {recorded(fencing.Restoring), seen(down(rebooted, ready), fencing.Power{}), does(fencing.RestoreNode)},
		"its taint goes last":             {recorded(fencing.Restoring), seen(down(rebooted, ready, restored), fencing.Power{}), does(fencing.UntaintNode)},
		"the end":                         {recorded(fencing.Restoring), seen(down(rebooted, ready, restored, untainted), fencing.Power{}), writes(fencing.Succeeded, "", backNow)},
		"after the end":                   {recorded(fencing.Succeeded), seen(down(rebooted, ready), fencing.Power{}), does(fencing.Finish)},

		"stopped while it boots":       {recorded(fencing.Booting, on), unwanted(seen(down(), fencing.Power{})), writes(fencing.Aborting, fencing.Stopped, on, proofAt(start))},
		"stopped once it is back":      {recorded(fencing.Booting, on), unwanted(seen(down(rebooted, ready), fencing.Power{})), writes(fencing.Restoring, "", on, proofAt(start), backNow)},
		"stopped while it is restored": {recorded(fencing.Restoring), unwanted(seen(down(rebooted, ready), fencing.Power{})), does(fencing.RestoreNode)},

		"the machine is read":       {recorded(fencing.DeletingMachine), seen(down(), fencing.Power{}), does(fencing.ReadMachine)},
		"the machine can't be read": {recorded(fencing.DeletingMachine), about(fencing.Machine{Failed: true, RetryAt: in(3)}), waits(fencing.MachineNotRead, 3)},
		"the machine is to go":      {recorded(fencing.DeletingMachine), about(fencing.Machine{Exists: true}), fencing.Step{Kind: fencing.Write, Record: recorded(fencing.DeletingMachine, machineDeletion)}},
		"the machine goes":          {recorded(fencing.DeletingMachine, machineDeletion), about(fencing.Machine{Exists: true}), does(fencing.RemoveMachine)},
		"the machine is going":      {recorded(fencing.DeletingMachine), about(fencing.Machine{Exists: true, Deleting: true, Kept: fencing.KeptOtherNode}), waits(fencing.MachineNotGone, 10)},
		"the machine must be kept":  {recorded(fencing.DeletingMachine), about(fencing.Machine{Exists: true, Kept: fencing.KeptControlPlane}), writes(fencing.Failed, fencing.KeptControlPlane)},
		"the machine is gone":       {recorded(fencing.DeletingMachine), about(fencing.Machine{Kept: fencing.NoMachine}), does(fencing.LeaveHost)},
		"and its host is left":      {recorded(fencing.DeletingMachine), leftHost(about(fencing.Machine{Kept: fencing.NoMachine})), fencing.Step{Kind: fencing.Write, Record: recorded(fencing.DeletingMachine, on)}},
		"nothing is left to do":     {recorded(fencing.DeletingMachine, on), about(fencing.Machine{Kept: fencing.NoMachine}), writes(fencing.Succeeded, fencing.MachineGone, on)},
		"its host can't be left":    {recorded(fencing.DeletingMachine), retriedAt(about(fencing.Machine{}), 3), waits(fencing.PowerNotRead, 3)},
		"and then it is left":       {recorded(fencing.DeletingMachine), retriedAt(about(fencing.Machine{}), 0), does(fencing.LeaveHost)},
		"another host is powered":   {recorded(fencing.Releasing), onAnotherHost(seen(down(), fresh)), writes(fencing.PoweringOff, fencing.ProofVoid, noProof, void)},
		"other hosts go first":      {recorded(fencing.PoweringOn), turnAt(seen(down(), fresh), 20), waits(fencing.PowerOnNotDue, 20)},
		"its turn has come":         {recorded(fencing.PoweringOn), turnAt(seen(down(), fresh), 0), does(fencing.CommandOn)},
		"its turn came once":        {recorded(fencing.PoweringOn), turnAt(seen(down(), commandedOn(1)), 20), does(fencing.ReadPower)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, fencing.Next(limits, c.record, c.facts)); d != "" {
				t.Errorf("the next step differs from the wanted one (-wanted +got):\n%s", d)
			}
		})
	}
}

// TestLimitAfterTheTurn: the limit of powering on counts from the turn of the host, where that comes later.
func TestLimitAfterTheTurn(t *testing.T) {
	r := recorded(fencing.PoweringOn)
	f := seen(down(), commandedOn(5, read(fencing.PowerUnknown, 3)))
	f.PowerOnTurn = r.Since.Add(time.Minute)
	for _, f.Deleting = range []bool{false, true} {
		if f.Deleting {
			r.Phase = fencing.Aborting
		}
		f.Now = f.PowerOnTurn.Add(limits.Limits.PowerOn - 1)
		if got := fencing.Next(limits, r, f); got.Kind != fencing.ReadPower {
			t.Errorf("before the limit, deleting %t: %+v", f.Deleting, got)
		}
		f.Now = f.Now.Add(1)
		if got := fencing.Next(limits, r, f); got.Kind == fencing.ReadPower {
			t.Errorf("at the limit, deleting %t: %+v", f.Deleting, got)
		}
	}
}

// TestLimitOfAProcessThatWasAway: a power-on is tried once, and its outcome read, also after the limit.
func TestLimitOfAProcessThatWasAway(t *testing.T) {
	for phase, deleting := range map[fencing.Phase]bool{fencing.PoweringOn: false, fencing.Aborting: true} {
		f := seen(down(), fencing.Power{})
		f.Now, f.Deleting = start.Add(time.Hour), deleting
		r := recorded(phase)
		if got := fencing.Next(limits, r, f); got.Kind != fencing.CommandOn {
			t.Errorf("in phase %s: %+v", phase, got)
		}
		f.Power = f.Power.CommandedOn(f.Now)
		if got := fencing.Next(limits, r, f); got.Kind != fencing.ReadPower {
			t.Errorf("after the command, in phase %s: %+v", phase, got)
		}
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
	stillOff := fencing.Power{}.CommandedOn(start).Observe(atLimit.Last)
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
		"no proof, and a retry":          {retries, recorded(fencing.PoweringOff), node(), fencing.Power{}, fencing.Preparing, fencing.PowerOffTimedOut, 2},
		"no proof, and no more retries":  {retries, recorded(fencing.PoweringOff, secondAttempt), node(), fencing.Power{}, fencing.Failed, fencing.PowerOffTimedOut, 2},
		"no proof, and the machine goes": {deletes, recorded(fencing.PoweringOff), node(), fencing.Power{}, fencing.DeletingMachine, fencing.PowerOffTimedOut, 1},
		"still Ready":                    {limits, recorded(fencing.Releasing), node(ready), atLimit, fencing.PoweringOn, fencing.ReleaseTimedOut, 1},
		"pods are left":                  {limits, recorded(fencing.Releasing, released), node(), atLimit, fencing.PoweringOn, fencing.ReleaseTimedOut, 1},
		"pods of a deleted node":         {limits, recorded(fencing.Releasing, released, deletedNode), node(gone), atLimit, fencing.PoweringOn, fencing.ReleaseTimedOut, 1},
		"the power stays off":            {limits, recorded(fencing.PoweringOn), node(), stillOff, fencing.Failed, fencing.PowerOnTimedOut, 1},
		"the power can't be read":        {limits, recorded(fencing.PoweringOn), node(), fencing.Power{RetryAt: start.Add(6 * time.Minute)}, fencing.Failed, fencing.PowerOnTimedOut, 1},
		"others have powered it on":      {limits, recorded(fencing.PoweringOn), node(rebooted, ready), fencing.Power{RetryAt: start.Add(6 * time.Minute)}, fencing.Booting, fencing.PowerOnTimedOut, 1},
		"released, and it can't be read": {limits, recorded(fencing.Releasing, released), node(outOfService), fencing.Power{RetryAt: start.Add(6 * time.Minute)}, fencing.PoweringOn, fencing.ReleaseTimedOut, 1},
		"the node does not boot":         {limits, recorded(fencing.Booting), node(), fencing.Power{}, fencing.Failed, fencing.BootTimedOut, 1},
		"it does not boot, and a retry":  {retries, recorded(fencing.Booting, released), node(), fencing.Power{}, fencing.Preparing, fencing.BootTimedOut, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := fencing.Next(c.config, c.record, late(seen(c.node, c.power)))
			r := got.Record
			if got.Kind != fencing.Write || r.Phase != c.phase || r.Reason != c.why || r.Attempt != c.number {
				t.Errorf("the step is %+v, want phase %s of attempt %d since %s", got, c.phase, c.number, c.why)
			}
			if c.number > c.record.Attempt && (r.Proof.Kind != "" || r.BootID != c.node.BootID) {
				t.Errorf("another attempt begins with %+v", r)
			}
		})
	}
}
