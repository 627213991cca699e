package core_test

import (
	"reflect"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// eachNodeFact calls f with one fact of a node after another set.
func eachNodeFact(f func(name string, set func(*core.NodeFacts))) {
	for i := range reflect.TypeFor[core.NodeFacts]().NumField() {
		f(reflect.TypeFor[core.NodeFacts]().Field(i).Name, func(facts *core.NodeFacts) {
			reflect.ValueOf(facts).Elem().Field(i).SetBool(true)
		})
	}
}

// TestI1NodeFactsOfTheCacheHoldOn: a fact of the cache holds a target back although a live read does not find it. A
// fact that only the live read finds counts at once.
func TestI1NodeFactsOfTheCacheHoldOn(t *testing.T) {
	eachNodeFact(func(name string, set func(*core.NodeFacts)) {
		var reported core.NodeFacts
		set(&reported)
		for _, in := range []string{"cache", "live read"} {
			x := machine("x", dead)
			live := x.Node
			if in == "cache" {
				x.Node.NodeFacts = reported
			} else {
				live.NodeFacts = reported
			}
			x.ApplyLiveRead(live, noon)
			if x.Node.NodeFacts != reported {
				t.Errorf("%s is told by the %s alone, and the target has %+v", name, in, x.Node.NodeFacts)
			}
		}
	})
}

// TestReadAheadEndsWithEachFact: a live read of a node counts no more once the cache differs in any fact.
func TestReadAheadEndsWithEachFact(t *testing.T) {
	eachNodeFact(func(name string, set func(*core.NodeFacts)) {
		var m core.Expectations
		x := machine("x", dead)
		live := x.Node
		set(&live.NodeFacts)
		m.KeepNodeRead(x.ID, live, noon)
		x.NodeReadAt = x.NodeReadAt.AddDate(-1, 0, 0)
		if got := laid(&m, noon, []core.Target{x}).Targets[0].NodeReadAt; got.Equal(noon) {
			t.Errorf("%s differs, and the live read counts", name)
		}
	})
}
