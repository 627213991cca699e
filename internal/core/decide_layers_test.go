package core

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestIndexesStayAsTheyAreBuilt: a decision of every kind changes counts, and no index below them.
func TestIndexesStayAsTheyAreBuilt(t *testing.T) {
	old := nodeTarget("old", "False")
	repaired, healthy, sick := nodeTarget("repaired", "False"), nodeTarget("healthy", "True"), nodeTarget("sick", "False")
	owner := ID{Kind: "MachineSet", Name: "pool", UID: "pool-uid"}
	sick.Owner = owner
	sick.Lease = Lease{}
	p := askingPolicy("p", all(3), reboots)
	ended := repairOf(&p, old.ID, func(r *Repair) { r.Owner, r.Ended, r.Outcome = owner, r.Started, Succeeded })
	f := observed(
		[]Target{repaired, healthy, sick},
		[]Repair{repairOf(&p, repaired.ID), repairOf(&p, goneID), ended},
		requestOf(&p, healthy.ID, reboots), requestOf(&p, goneID, reboots, ofReplacing),
	)
	f.Leases = []NodeLease{{Node: "elsewhere", Holder: HolderOf(p.ID)}}
	p.Holder = HolderOf(p.ID)
	built, used := plannerOf([]Policy{p}, f), plannerOf([]Policy{p}, f)
	used.decide()
	if d := used.decision; len(d.Starts) == 0 || len(d.StepStarts) == 0 || len(d.Withdrawals) == 0 || len(d.LeaseReleases) == 0 {
		t.Fatalf("the decision lacks a kind of actions: %+v", d)
	}
	if built.tallies[0].InFlight == used.tallies[0].InFlight || len(used.startedPools) == 0 {
		t.Error("the starts are not counted")
	}
	if len(used.awaitingReplacement) == 0 || len(used.pools) == 0 {
		t.Error("the indexes have too little")
	}
	everything := cmp.Exporter(func(reflect.Type) bool { return true })
	lazy := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().Type().Kind() == reflect.Func || p.Last().Type() == reflect.TypeFor[*timer]()
	}, cmp.Ignore())
	if diff := cmp.Diff(built.replacementIndex, used.replacementIndex, everything, lazy); diff != "" {
		t.Errorf("the decision changes indexes (-built +used):\n%s", diff)
	}
}
