package fencing_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/fencing"
)

func stopped(f *fencing.Facts)     { f.Stopped = true }
func deleted(f *fencing.Facts)     { f.Deleting = true }
func atTheLimit(f *fencing.Facts)  { f.Now = start.Add(5 * time.Minute) }
func beforeLimit(f *fencing.Facts) { f.Now = start.Add(5*time.Minute - 1) }
func left(w fencing.Workload) func(*fencing.Facts) {
	return func(f *fencing.Facts) { f.Workload = &w }
}

func poweredOn(r *fencing.Record)     { r.PoweredOff = false }
func deleteMachine(c *fencing.Config) { c.DeleteMachine = true }
func deletedNode(r *fencing.Record)   { r.DeletedNode = true }
func noNode(r *fencing.Record)        { r.NodeUID, r.BootID = "", "" }
func noBootID(r *fencing.Record)      { r.BootID = "" }
func because(why fencing.Reason) func(*fencing.Record) {
	return func(r *fencing.Record) { r.Reason = why }
}

func withoutBootID(n *fencing.Node) { n.BootID = "" }
func withoutUID(n *fencing.Node)    { n.UID = "" }

// edge is one step, by what is recorded and what is known.
type edge struct {
	config fencing.Config
	record fencing.Record
	facts  fencing.Facts
	want   fencing.Step
}

// known are the facts of seen(), with changes.
func known(n *fencing.Node, p fencing.Power, change ...func(*fencing.Facts)) fencing.Facts {
	f := seen(n, p)
	for _, c := range change {
		c(&f)
	}
	return f
}

// writes is the step that records a record.
func writes(r fencing.Record) fencing.Step { return fencing.Step{Kind: fencing.Write, Record: r} }

// since is a record with another phase, which begins with the facts.
func since(r fencing.Record, p fencing.Phase, f fencing.Facts, change ...func(*fencing.Record)) fencing.Record {
	r.Phase, r.Since = p, f.Now
	return changed(r, change...)
}

func changed(r fencing.Record, change ...func(*fencing.Record)) fencing.Record {
	for _, c := range change {
		c(&r)
	}
	return r
}

func with(change ...func(*fencing.Config)) fencing.Config {
	c := limits
	for _, f := range change {
		f(&c)
	}
	return c
}

func check(t *testing.T, edges map[string]edge) {
	t.Helper()
	for name, e := range edges {
		if d := cmp.Diff(e.want, fencing.Next(e.config, e.record, e.facts)); d != "" {
			t.Errorf("%s: the next step differs from the wanted one (-wanted +got):\n%s", name, d)
		}
	}
}

// back is a node that runs again, and has nothing left of the fencing.
func back() *fencing.Node { return down(rebooted, ready, restored, untainted) }

// TestAbort: a fencing that is stopped or deleted takes back what it did, in order.
func TestAbort(t *testing.T) {
	none := fencing.Power{}
	booting := recorded(fencing.Booting, poweredOn)
	aborting := recorded(fencing.Aborting)
	on := recorded(fencing.Aborting, poweredOn)
	removed := recorded(fencing.Aborting, poweredOn, deletedNode)
	serving := recorded(fencing.Aborting, poweredOn, released)
	isOn := commandedOn(5, read(fencing.IsOn, 1))
	ends := func(r fencing.Record, f fencing.Facts) fencing.Step {
		return writes(since(r, fencing.Aborted, f))
	}
	check(t, map[string]edge{
		"nothing was done":                  {limits, fencing.Record{}, known(down(), none, stopped), does(fencing.Finish)},
		"it is stopped":                     {limits, booting, known(down(), none, stopped), writes(since(booting, fencing.Aborting, known(nil, none), because(fencing.Stopped)))},
		"it is deleted":                     {limits, booting, known(down(), none, deleted), writes(since(booting, fencing.Aborting, known(nil, none), because(fencing.Deleted)))},
		"its taint goes first":              {limits, recorded(fencing.Releasing, released), known(down(outOfService), none, stopped), does(fencing.RemoveOutOfService)},
		"the taint of others stays":         {limits, recorded(fencing.Aborting, poweredOn, foreign, released), known(down(outOfService), none), does(fencing.RestoreNode)},
		"the power is commanded on":         {limits, aborting, known(down(), none), does(fencing.CommandOn)},
		"it is deleted meanwhile":           {limits, aborting, known(down(), none, deleted), does(fencing.CommandOn)},
		"the power was on before":           {limits, aborting, known(down(), none.Observe(read(fencing.IsOn, 1))), does(fencing.CommandOn)},
		"the power is off still":            {limits, aborting, known(down(), commandedOn(5, read(fencing.IsOff, 1))), waits(fencing.PowerNotOn, 1)},
		"the power is on":                   {limits, aborting, known(down(), isOn), writes(on)},
		"the power is awaited to its limit": {limits, aborting, known(down(), fencing.Power{RetryAt: in(900)}, beforeLimit), fencing.Step{Kind: fencing.Wait, Reason: fencing.PowerNotRead, Until: in(240)}},
		"the power is awaited no longer":    {limits, aborting, known(down(), fencing.Power{RetryAt: in(900)}, atTheLimit), does(fencing.RestoreNode)},
		"the host is to stay off":           {with(off), aborting, known(down(), none), does(fencing.RestoreNode)},
		"the node is changed back":          {limits, on, known(down(), none), does(fencing.RestoreNode)},
		"it is untainted":                   {limits, on, known(down(restored), none), does(fencing.UntaintNode)},
		"the end":                           {limits, on, known(back(), none), writes(since(on, fencing.Aborted, known(nil, none), backNow))},
		"the node is gone":                  {limits, serving, known(down(gone), none), ends(serving, known(nil, none))},

		"the node was deleted":           {with(deleteNode), removed, known(down(gone), none), waits(fencing.NodeNotBack, 540)},
		"the node is back":               {with(deleteNode), removed, known(down(), none), does(fencing.RestoreNode)},
		"it was not deleted":             {with(deleteNode), on, known(down(gone), none), ends(on, known(nil, none))},
		"it was deleted, to stay off":    {with(deleteNode, off), removed, known(down(gone), none), ends(removed, known(nil, none))},
		"the node is awaited to a limit": {with(deleteNode), removed, known(down(gone), none, func(f *fencing.Facts) { f.Now = start.Add(10*time.Minute - 1) }), waits(fencing.NodeNotBack, 540)},
		"the node is awaited no longer": {
			with(deleteNode), removed, known(down(gone), none, func(f *fencing.Facts) { f.Now = start.Add(10 * time.Minute) }),
			writes(since(removed, fencing.Aborted, fencing.Facts{Now: start.Add(10 * time.Minute)})),
		},
	})
}

// TestAfterTheEnd: a fencing that has ended does nothing more when it is stopped, and takes back what it left when it is deleted.
func TestAfterTheEnd(t *testing.T) {
	none := fencing.Power{}
	undone := recorded(fencing.Aborted, poweredOn)
	edges := map[string]edge{
		"undone, and the node is back with its changes":    {limits, undone, known(down(), none, deleted), does(fencing.RestoreNode)},
		"undone, and the node is back changed":             {limits, undone, known(down(untainted), none, stopped), does(fencing.RestoreNode)},
		"undone, and the node is back tainted":             {limits, undone, known(down(restored), none, stopped), does(fencing.UntaintNode)},
		"undone, and the node is as before":                {limits, undone, known(back(), none, deleted), does(fencing.Finish)},
		"undone, and neither stopped nor deleted any more": {limits, undone, known(down(), none), does(fencing.RestoreNode)},
		"undone, and there is no node":                     {limits, undone, known(down(gone), none, deleted), does(fencing.Finish)},
	}
	for _, p := range []fencing.Phase{fencing.Succeeded, fencing.Failed} {
		r := recorded(p, poweredOn)
		edges[string(p)+", and stopped"] = edge{limits, r, known(down(), none, stopped), does(fencing.Finish)}
		edges[string(p)+", and deleted"] = edge{limits, r, known(down(), none, deleted), writes(since(r, fencing.Aborting, known(nil, none), because(fencing.Deleted)))}
		edges[string(p)] = edge{limits, r, known(down(), none), does(fencing.Finish)}
	}
	check(t, edges)
	for p, want := range map[fencing.Phase]bool{
		"": false, fencing.Preparing: false, fencing.Restoring: false, fencing.Aborting: false, fencing.DeletingMachine: false,
		fencing.Succeeded: true, fencing.Failed: true, fencing.Aborted: true,
	} {
		if p.Final() != want {
			t.Errorf("phase %q is final: %t", p, p.Final())
		}
	}
}

// TestRelease: the workload of a node is awaited to a limit, and what released it is taken back then.
func TestRelease(t *testing.T) {
	fresh := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
	none := fencing.Power{}
	pending, done := recorded(fencing.Releasing), recorded(fencing.Releasing, released)
	now := known(nil, none)
	check(t, map[string]edge{
		"others have the taint now":   {limits, pending, known(down(outOfService), fresh), writes(recorded(fencing.Releasing, released, releasedNow))},
		"the node is to be deleted":   {with(deleteNode), done, known(down(), fresh), does(fencing.RemoveNode)},
		"a finalizer keeps the node":  {with(deleteNode), done, known(down(deleting), fresh), waits(fencing.NodeNotGone, 5)},
		"others delete it":            {limits, done, known(down(deleting), fresh), does(fencing.SetOutOfService)},
		"it can't be counted":         {limits, done, known(down(outOfService), fresh, left(fencing.Workload{Failed: true, RetryAt: in(7)})), waits(fencing.WorkloadNotCounted, 7)},
		"it can't be counted at all":  {limits, done, known(down(outOfService), fresh, left(fencing.Workload{Failed: true})), waits(fencing.WorkloadNotCounted, 240)},
		"a pod is left":               {limits, done, known(down(outOfService), fresh, left(fencing.Workload{Pods: 1})), waits(fencing.WorkloadLeft, 5)},
		"a volume is left":            {limits, done, known(down(outOfService), fresh, left(fencing.Workload{Volumes: 1})), waits(fencing.WorkloadLeft, 5)},
		"the host is to stay off":     {with(off), pending, known(down(gone), fresh), writes(since(pending, fencing.Succeeded, now))},
		"without a boot ID before":    {limits, recorded(fencing.PoweringOff, noBootID), known(down(rebooted), commandedOff(9)), does(fencing.ReadPower)},
		"nothing tells that it is on": {limits, recorded(fencing.PoweringOn), known(down(), none.Observe(read(fencing.IsOn, 1))), does(fencing.CommandOn)},
	})
}

// TestReleaseEndsOnce: a node without workload is not tainted again once its taint is removed.
func TestReleaseEndsOnce(t *testing.T) {
	fresh := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
	for name, tc := range map[string]struct {
		change func(*fencing.Facts)
		why    fencing.Reason
	}{
		"nothing is left":            {left(fencing.Workload{}), ""},
		"a pod is left at the limit": {func(f *fencing.Facts) { left(fencing.Workload{Pods: 1})(f); atTheLimit(f) }, fencing.ReleaseTimedOut},
	} {
		f := known(down(outOfService), fresh, tc.change)
		done := recorded(fencing.Releasing, released)
		ended := writes(since(done, fencing.PoweringOn, f, because(tc.why)))
		if d := cmp.Diff(ended, fencing.Next(limits, done, f)); d != "" {
			t.Errorf("%s: the end of the release is to be recorded (-wanted +got):\n%s", name, d)
		}
		f.Workload = nil
		if d := cmp.Diff(does(fencing.RemoveOutOfService), fencing.Next(limits, ended.Record, f)); d != "" {
			t.Errorf("%s: the taint is to be removed (-wanted +got):\n%s", name, d)
		}
		f.Node.OutOfService = false
		if d := cmp.Diff(does(fencing.CommandOn), fencing.Next(limits, ended.Record, f)); d != "" {
			t.Errorf("%s: the power is to be turned on (-wanted +got):\n%s", name, d)
		}
	}
}

// TestEdges of what counts as the recorded node, as a node that runs again, and as a power that is on.
func TestEdges(t *testing.T) {
	none := fencing.Power{}
	booting := recorded(fencing.Booting, poweredOn)
	unnamed := recorded(fencing.Preparing, noNode)
	anew := recorded(fencing.PoweringOn, released)
	now := known(nil, none)
	check(t, map[string]edge{
		"two nodes without a UID":    {limits, unnamed, known(down(withoutUID), none), writes(since(unnamed, fencing.Failed, now, because(fencing.NodeReplaced)))},
		"Ready without a boot ID":    {limits, booting, known(down(ready, withoutBootID), none), waits(fencing.NodeNotBack, 240)},
		"not Ready after a boot":     {limits, booting, known(down(rebooted), none), waits(fencing.NodeNotBack, 240)},
		"the taint is of others":     {limits, recorded(fencing.Booting, poweredOn, released, foreign), known(down(ready, outOfService), none), waits(fencing.NodeNotBack, 240)},
		"the taint is of another":    {limits, recorded(fencing.Booting, poweredOn, released), known(down(ready, outOfService, recreated), none), waits(fencing.NodeNotBack, 240)},
		"the BMC can't be reached":   {limits, anew, known(down(), fencing.Power{RetryAt: in(9)}), waits(fencing.PowerNotRead, 9)},
		"on is neither read nor off": {limits, anew, known(down(), commandedOn(60, read(fencing.PowerUnknown, 1))), waits(fencing.PowerNotOn, 1)},
		"the fencing is undone":      {limits, recorded(fencing.Aborting), known(down(), none), does(fencing.CommandOn)},
		"no time to try again":       {limits, anew, known(&fencing.Node{Failed: true}, none), fencing.Step{Kind: fencing.Wait, Reason: fencing.NodeNotRead}},
	})
}

// TestProofNeedsBothReadings (I13): no single reading is a proof, whatever the rest says.
func TestProofNeedsBothReadings(t *testing.T) {
	r := recorded(fencing.PoweringOff)
	for name, change := range map[string]func(*fencing.Power){
		"the last reading is not Off":  func(p *fencing.Power) { p.Last.State = fencing.IsOn },
		"the first reading is not Off": func(p *fencing.Power) { p.FirstOff.State = fencing.PowerUnknown },
		"the first reading is too old": func(p *fencing.Power) { p.FirstOff.Begun = p.Off },
		"nothing was commanded":        func(p *fencing.Power) { p.Off = time.Time{} },
	} {
		p := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
		change(&p)
		if got := fencing.Next(limits, r, seen(down(), p)); got.Kind == fencing.Write {
			t.Errorf("%s, and the next phase is %s by %+v", name, got.Record.Phase, got.Record.Proof)
		}
	}
}

// TestAPowerOnThatMayHaveFailedEndsAProof (I13): nothing that was read before the power was commanded on is part of a proof.
func TestAPowerOnThatMayHaveFailedEndsAProof(t *testing.T) {
	proof := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
	after := proof.MayBeOn()
	if d := cmp.Diff(fencing.Power{Last: proof.Last}, after); d != "" {
		t.Errorf("the power after it (-wanted +got):\n%s", d)
	}
	check(t, map[string]edge{
		"at once":               {limits, recorded(fencing.PoweringOff), known(down(), after), does(fencing.CommandOff)},
		"after another reading": {limits, recorded(fencing.PoweringOff), known(down(), after.Observe(read(fencing.IsOff, 0))), does(fencing.CommandOff)},
	})
}

// TestMissingNodesHaveNothing: of a node that doesn't exist no other field counts.
func TestMissingNodesHaveNothing(t *testing.T) {
	powers := []fencing.Power{{}, commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0)), commandedOn(5, read(fencing.IsOn, 1))}
	phases := []fencing.Phase{
		"", fencing.Preparing, fencing.PoweringOff, fencing.Releasing, fencing.PoweringOn, fencing.Booting, fencing.Restoring,
		fencing.Aborting, fencing.DeletingMachine, fencing.Succeeded, fencing.Failed, fencing.Aborted,
	}
	for _, phase := range phases {
		for _, p := range powers {
			for _, change := range []func(*fencing.Facts){func(*fencing.Facts) {}, stopped, deleted} {
				for _, r := range []fencing.Record{recorded(phase, poweredOn), recorded(phase, released)} {
					want := fencing.Next(limits, r, known(down(gone), p, change))
					for _, boot := range []func(*fencing.Node){rebooted, func(*fencing.Node) {}} {
						n := down(boot, ready, outOfService)
						n.Exists = false
						if d := cmp.Diff(want, fencing.Next(limits, r, known(n, p, change))); d != "" {
							t.Errorf("in phase %q the step differs from that without a node (-wanted +got):\n%s", phase, d)
						}
					}
				}
			}
		}
	}
}

// TestRetry: each attempt fences the node as it is at its start, also a node that has registered again.
func TestRetry(t *testing.T) {
	none := fencing.Power{}
	now := known(nil, none)
	second := recorded(fencing.Preparing, secondAttempt, because(fencing.BootTimedOut))
	anew := second
	anew.NodeUID, anew.BootID = "uid 2", "boot"
	failed := recorded(fencing.Booting, poweredOn, offIn("boot 2"), foreign)
	late := func(f *fencing.Facts) { f.Now = start.Add(5 * time.Minute) }
	again := fencing.Record{Phase: fencing.Preparing, Since: start.Add(5 * time.Minute), Attempt: 2, Reason: fencing.BootTimedOut}
	retries := limits
	retries.Retries = 1
	kept := with(off)
	kept.Retries = 1
	ours := recorded(fencing.Preparing, secondAttempt, releasedBefore, because(fencing.ReleaseTimedOut), func(r *fencing.Record) { r.Since = start.Add(5 * time.Minute) })
	check(t, map[string]edge{
		"the node was replaced before the first command": {limits, recorded(fencing.Preparing), known(down(recreated), none), writes(since(recorded(fencing.Preparing), fencing.Failed, now, because(fencing.NodeReplaced)))},
		"it has registered again":                        {limits, second, known(down(recreated), none), writes(anew)},
		"it has not":                                     {limits, second, known(down(untainted), none), does(fencing.TaintNode)},
		"it is gone":                                     {limits, second, known(down(gone), none), does(fencing.CommandOff)},
		"a boot does not keep a host off":                {with(off), recorded(fencing.Preparing), known(down(rebooted), none), does(fencing.CommandOff)},
		"there is no node to fence again":                {retries, failed, known(down(gone), none, late), writes(again)},
		"a late release is not of others":                {kept, recorded(fencing.Releasing, releasedBefore), known(down(outOfService), none, late), writes(ours)},
		"but it is on a node that has registered again":  {limits, changed(second, releasedBefore), known(down(outOfService, recreated), none), writes(changed(anew, foreign))},
		"and what was released is of the node before":    {limits, changed(second, released), known(down(recreated), none), writes(anew)},
		"it stays released while there is no node":       {retries, changed(failed, released), known(down(gone), none, late), writes(changed(again, released))},
		"a host that is to stay off needs no new boot":   {with(off), recorded(fencing.PoweringOff), known(down(rebooted), commandedOff(9)), does(fencing.ReadPower)},
	})
}

// TestAbortOfDeletions: the deletions, done or due, decide about the host and the node.
func TestAbortOfDeletions(t *testing.T) {
	none := fencing.Power{}
	deleting, kept := recorded(fencing.DeletingMachine, machineDeletion), recorded(fencing.DeletingMachine)
	leaves := recorded(fencing.Aborting, machineDeletion)
	going := func(f *fencing.Facts) { f.Machine = &fencing.Machine{Exists: true, Deleting: true} }
	stands := func(f *fencing.Facts) { f.Machine = &fencing.Machine{Exists: true} }
	unread := func(f *fencing.Facts) { f.Machine = &fencing.Machine{Failed: true, RetryAt: in(3)} }
	isLeft := func(f *fencing.Facts) { f.Power.Left = true }
	fails := func(f *fencing.Facts) { f.Power.RetryAt = f.Now.Add(time.Second) }
	late := func(f *fencing.Facts) { f.Now = leaves.Since.Add(limits.Limits.PowerOn) }
	now := known(nil, none)
	aborting := recorded(fencing.Aborting)
	ended := recorded(fencing.Succeeded, poweredOn)
	check(t, map[string]edge{
		"its machine is going":                     {limits, deleting, known(down(), none, deleted), writes(since(deleting, fencing.Aborting, now, because(fencing.Deleted)))},
		"and its host is left to the provider":     {limits, leaves, known(down(), none, deleted, going), does(fencing.LeaveHost)},
		"also where it is to stay off":             {with(off), leaves, known(down(), none, deleted, going), does(fencing.LeaveHost)},
		"whether its machine is going is read":     {limits, leaves, known(down(), none, deleted), does(fencing.ReadMachine)},
		"that can't be read":                       {limits, leaves, known(down(), none, deleted, unread), waits(fencing.MachineNotRead, 3)},
		"that can't be read for long":              {limits, leaves, known(down(), none, deleted, late, unread), does(fencing.LeaveHost)},
		"its machine is gone":                      {limits, leaves, known(down(), none, deleted, func(f *fencing.Facts) { f.Machine = &fencing.Machine{} }), does(fencing.LeaveHost)},
		"its machine was never deleted":            {limits, leaves, known(down(), none, deleted, stands), writes(aborting)},
		"a host that is on is left too":            {limits, leaves, known(down(), commandedOn(5, read(fencing.IsOn, 1)), deleted, going), does(fencing.LeaveHost)},
		"its host is left":                         {limits, leaves, known(down(), none, deleted, going, isLeft), writes(recorded(fencing.Aborting, machineDeletion, poweredOn))},
		"its host can't be left":                   {limits, leaves, known(down(), none, deleted, going, fails), waits(fencing.PowerNotRead, 1)},
		"and is given up":                          {limits, leaves, known(down(), none, deleted, going, late, fails), does(fencing.RestoreNode)},
		"but not before that was tried":            {limits, leaves, known(down(), none, deleted, going, late), does(fencing.LeaveHost)},
		"a host that is left already":              {limits, recorded(fencing.Aborting, machineDeletion, poweredOn), known(down(), none, deleted), does(fencing.RestoreNode)},
		"its machine is not":                       {limits, kept, known(down(), none, deleted), writes(since(kept, fencing.Aborting, now, because(fencing.Deleted)))},
		"a node that serves is changed back first": {limits, aborting, known(down(ready, untainted), none), does(fencing.RestoreNode)},
		"and untainted first":                      {limits, aborting, known(down(ready, restored), none), does(fencing.UntaintNode)},
		"and then its host is powered on":          {limits, aborting, known(back(), none), does(fencing.CommandOn)},
		"a success has nothing to take back":       {limits, ended, known(back(), none, deleted), does(fencing.Finish)},
		"a host that was left off does":            {limits, recorded(fencing.Succeeded), known(back(), none, deleted), writes(since(recorded(fencing.Succeeded), fencing.Aborting, now, because(fencing.Deleted)))},
		"nothing of a failure is taken back yet":   {limits, recorded(fencing.Failed), known(back(), none, stopped), does(fencing.Finish)},
		"and then it is":                           {limits, recorded(fencing.Failed), known(back(), none, deleted), writes(since(recorded(fencing.Failed), fencing.Aborting, now, because(fencing.Deleted)))},
	})
}

// TestReleaseOfANodeThatWasDeleted by Fettle, or by others.
func TestReleaseOfANodeThatWasDeleted(t *testing.T) {
	fresh := commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0))
	now := known(nil, fresh)
	pending := recorded(fencing.Releasing)
	again := recorded(fencing.Releasing, deletedNode)
	byTaint := recorded(fencing.Releasing, released)
	booted := recorded(fencing.Releasing, provenByBoot)
	check(t, map[string]edge{
		"its deletion is recorded":               {with(deleteNode), pending, known(down(), fresh), writes(recorded(fencing.Releasing, released, deletedNode, releasedNow))},
		"a taint is no deletion":                 {limits, pending, known(down(), fresh), writes(recorded(fencing.Releasing, released, releasedNow))},
		"an earlier deletion stands":             {limits, again, known(down(), fresh), writes(recorded(fencing.Releasing, released, deletedNode, releasedNow))},
		"a node that runs anew is not deleted":   {with(deleteNode), booted, drained(known(down(rebooted), fencing.Power{})), writes(recorded(fencing.Releasing, provenByBoot, released, releasedNow))},
		"it gets the taint":                      {with(deleteNode), recorded(fencing.Releasing, provenByBoot, released), drained(known(down(rebooted), fencing.Power{})), does(fencing.SetOutOfService)},
		"it was proven off in that boot":         {with(deleteNode), recorded(fencing.Releasing, released, offIn("boot 2")), known(down(rebooted), fresh), does(fencing.RemoveNode)},
		"others have deleted a released node":    {limits, byTaint, known(down(gone), fresh), writes(since(byTaint, fencing.PoweringOn, now))},
		"deleted in an attempt before":           {limits, again, known(down(gone), fresh), writes(since(again, fencing.PoweringOn, now))},
		"a new boot is no proof by the power":    {limits, pending, known(down(rebooted), fencing.Power{}), does(fencing.ReadPower)},
		"the boot that was the proof is gone":    {limits, booted, known(down(), fencing.Power{}), writes(since(booted, fencing.PoweringOff, now, because(fencing.ProofVoid), func(r *fencing.Record) { r.Proof, r.Void = fencing.Proof{}, 1 }))},
		"stopped in a boot that is not back yet": {limits, recorded(fencing.Booting, poweredOn), known(down(ready), fencing.Power{}, stopped), writes(since(recorded(fencing.Booting, poweredOn), fencing.Aborting, now, because(fencing.Stopped)))},
		"stopped while it is released":           {limits, pending, known(down(rebooted, ready), fresh, stopped), writes(since(pending, fencing.Aborting, now, because(fencing.Stopped)))},
		"a node without a boot ID is not back":   {limits, recorded(fencing.Booting, poweredOn, offIn("boot")), known(down(ready, withoutBootID), fencing.Power{}), waits(fencing.NodeNotBack, 240)},
	})
}

// TestPodsThatTolerateTheTaint may have started in a new boot, so that it is no proof that the pods have stopped. A node that is Ready is not released.
func TestPodsThatTolerateTheTaint(t *testing.T) {
	left := func(w fencing.Workload) func(*fencing.Facts) { return func(f *fencing.Facts) { f.Workload = &w } }
	tolerant, unknown := left(fencing.Workload{Tolerant: 1}), left(fencing.Workload{Failed: true, RetryAt: in(3)})
	stopping, booted := recorded(fencing.PoweringOff), recorded(fencing.Releasing, provenByBoot)
	now := known(nil, fencing.Power{})
	proven := stopping
	proven.Proof = fencing.Proof{Kind: fencing.NewBoot, At: in(0), BootID: "boot 2"}
	void := func(r *fencing.Record) { r.Proof, r.Void = fencing.Proof{}, 1 }
	check(t, map[string]edge{
		"they are counted first":              {limits, stopping, known(down(rebooted), commandedOff(9)), does(fencing.CountWorkload)},
		"the power is the proof then":         {limits, stopping, known(down(rebooted), commandedOff(9), tolerant), does(fencing.ReadPower)},
		"also where they can't be counted":    {limits, stopping, known(down(rebooted), commandedOff(9), unknown), does(fencing.ReadPower)},
		"a node that is Ready needs no count": {limits, stopping, known(down(rebooted, ready), commandedOff(9)), writes(since(proven, fencing.Releasing, now))},
		"counted again before the release":    {limits, booted, known(down(rebooted), fencing.Power{}), does(fencing.CountWorkload)},
		"one has come":                        {limits, booted, known(down(rebooted), fencing.Power{}, tolerant), writes(since(booted, fencing.PoweringOff, now, because(fencing.ProofVoid), void))},
		"it can't be counted again":           {limits, booted, known(down(rebooted), fencing.Power{}, unknown), waits(fencing.WorkloadNotCounted, 3)},
		"Ready before the release":            {limits, booted, known(down(rebooted, ready), fencing.Power{}, tolerant), writes(since(booted, fencing.PoweringOn, now))},
		"by promise, they are held":           {self(), condemned(fencing.Condemning), promised(down(rebooted), fencing.Promise{}, tolerant), does(fencing.ReadPromise)},
	})
}

// TestTried: a reading from before the command is no outcome of a power-on.
func TestTried(t *testing.T) {
	f := known(down(), fencing.Power{}.Observe(read(fencing.IsOff, 1)), func(f *fencing.Facts) { f.Now = start.Add(time.Hour) })
	if got := fencing.Next(limits, recorded(fencing.PoweringOn), f); got.Kind != fencing.CommandOn {
		t.Errorf("after the limit, with a reading alone: %+v", got)
	}
}
