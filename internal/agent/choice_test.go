package agent

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestRankedByControl: every node of the control plane precedes each other one, whatever their turns.
func TestRankedByControl(t *testing.T) {
	t.Parallel()
	places := map[string]Place{"c0": {Control: true}, "c1": {Control: true}, "c2": {Control: true}}
	for i := range 30 {
		worker := fmt.Sprint("w", i)
		if got := ranked([]string{"c0", worker, "c1", "c2"}, places); got[3] != worker {
			t.Errorf("the order is %q", got)
		}
	}
}

// TestTurnsOfZones: a zone has had a turn for each node of the control plane in it. Nodes without a zone are in none of these.
func TestTurnsOfZones(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		u, v := fmt.Sprint("u", i), fmt.Sprint("v", i)
		byName := []string{u, v}
		slices.SortFunc(byName, byHash)
		for sentence, tc := range map[string]struct {
			control, zone string
			want          []string
		}{
			"the control plane is in the zone of v": {"z", "z", []string{u, v}},
			"it is in another zone":                 {"y", "z", byName},
			"it is in no zone":                      {"", "z", byName},
			"no node is in a zone":                  {"", "", byName},
		} {
			places := map[string]Place{"c": {Zone: tc.control, Control: true}, v: {Zone: tc.zone}}
			if got := ranked([]string{"c", u, v}, places); got[0] != "c" || !slices.Equal(got[1:], tc.want) {
				t.Errorf("%s: the order is %q, want %q", sentence, got, tc.want)
			}
		}
	}
}

// TestChooseAmongFew: which witnesses are replaced, and when, if few others are fit.
func TestChooseAmongFew(t *testing.T) {
	t.Parallel()
	type names = []string
	if got := choose(names{"e", "b", "c"}, names{"a", "b", "d", "e"}, map[string]bool{"c": true}, 3); !slices.Equal(got, names{"e", "b", "a"}) {
		t.Errorf("one is gone, and another not among the best: the witnesses are %q", got)
	}
	places := map[string]Place{}
	for _, node := range "ABCDE" {
		places[string(node)] = Place{Control: true}
	}
	plane := names{"A", "B", "C", "D", "E"}
	for what, c := range map[string]struct{ fit, want names }{
		"three are fit, and would outlast the plane": {names{"A", "u", "v"}, names{"A", "u", "v"}},
		"five are fit, and take their places later":  {names{"A", "B", "u", "v", "w"}, plane},
	} {
		if got := chooseOf([]int{5, 3}, plane, c.fit, places, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: the witnesses are %q, want %q", what, got, c.want)
		}
	}
}

// leasesOf returns the Leases of nodes that promise something.
func leasesOf(t *testing.T, nodes ...string) []coordinationv1.Lease {
	t.Helper()
	var all []coordinationv1.Lease
	for _, node := range nodes {
		l, err := promiselease.Encode("n", promiselease.Record{
			Lease:   selffence.Lease{State: selffence.Promised, Promise: selffence.Promise{Boot: "0f8fad5b-d9cb-469f-a165-70867728950e", Times: selffence.Times{Watchdog: time.Minute}}},
			Address: netip.MustParseAddrPort("192.0.2.1:9643"), Device: "d",
		}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		l.Name, l.ResourceVersion = node, "7"
		all = append(all, *l)
	}
	return all
}

// TestChosenNeighbours: each node chooses twelve candidates in an order of its own, and none whose name is no node's.
func TestChosenNeighbours(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("n", i))
	}
	orders := map[string]bool{}
	for _, node := range []string{"a", "b", "c"} {
		var chosen []string
		for _, o := range (&Neighbours{node: node}).choose(leasesOf(t, append(names, "../secrets", node)...)) {
			chosen = append(chosen, o.Node)
		}
		if len(chosen) != 12 || slices.Contains(chosen, node) || slices.Contains(chosen, "../secrets") {
			t.Errorf("node %s chooses %q", node, chosen)
		}
		orders[strings.Join(chosen, " ")] = true
	}
	if few := (&Neighbours{node: "a"}).choose(leasesOf(t, "../secrets", "b")); len(few) != 1 {
		t.Errorf("among two, node a chooses %+v", few)
	}
	if len(orders) != 3 {
		t.Errorf("three nodes have %d orders", len(orders))
	}
}

// TestLongNeighbours: a file of 8 KiB is read, and a longer one is not.
func TestLongNeighbours(t *testing.T) {
	t.Parallel()
	const text = `[{"node":"a","address":"192.0.2.1:1","near":false}]`
	for size, want := range map[int]bool{8 << 10: true, 8<<10 + 1: false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, neighbourFile), []byte(text+strings.Repeat(" ", size-len(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, is := NewNeighbours(nil, "n", Directory(dir)).Address("a"); is != want {
			t.Errorf("a file of %d bytes is read: %t", size, is)
		}
	}
}
