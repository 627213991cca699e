package core_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// FuzzDecide draws worlds. No function may panic, and no decision may break a promise. The first
// byte says whether adapters could make such a world.
func FuzzDecide(f *testing.F) {
	for _, seed := range fuzzSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := byteDice(data)
		if d(2) == 1 {
			survive(t, drawWildWorld(d))
			return
		}
		w := drawWorld(d)
		survive(t, w)
		decision := w.decide()
		for _, check := range []fact{
			unknownNeverActs, oneRepairPerTarget, limitsHold, oneOfTheControlPlane, criterionHeld, everythingHasAReason,
			onlyItsOwn, neverANamesake, recoveryIsNotHeldBack,
		} {
			if wrong := check(w, decision); wrong != "" {
				t.Errorf("%s\nworld: %+v\ndecision: %+v", wrong, w, decision)
			}
		}
		other := shuffled(d, w)
		if diff := cmp.Diff(spoken(w, decision), spoken(other, other.decide())); diff != "" {
			t.Errorf("another order of input gives another decision (-one +other):\n%s", diff)
		}
	})
}

// survive calls every pure function on a world. None may panic, and each must return a text.
func survive(t *testing.T, w world) {
	t.Helper()
	var m core.Expectations
	var j core.Deduplicator
	for range 2 {
		cluster := w.cluster
		cluster.Targets, cluster.Repairs = slices.Clone(cluster.Targets), slices.Clone(cluster.Repairs)
		m.Overlay(&cluster, w.now)
		m.OverlayTests(w.policies, &cluster, w.now)
		d := core.Decide(w.policies, cluster, w.now)
		for _, h := range j.NewEvents(w.policies, &cluster, d) {
			if h.Text == "" {
				t.Errorf("news without a text: %+v", h)
			}
		}
		for i := range d.Tallies {
			if allowed := d.Tallies[i].RepairsAllowed(); allowed < 0 || (allowed > 0 && !d.Tallies[i].Permitted) {
				t.Errorf("%d repairs are allowed by %+v", allowed, d.Tallies[i])
			}
		}
		for _, s := range d.Starts {
			m.ExpectDeletion(cluster.Targets[s.Target].ID)
			m.KeepNodeGone(cluster.Targets[s.Target].ID, cluster.Targets[s.Target].Node.Name, w.now)
		}
		core.Retention{}.Expired(&cluster, d.Verdicts, w.now)
	}
}

// fuzzSeeds returns worlds of growing size: all dice alike, and rising ones.
func fuzzSeeds() [][]byte {
	seeds := [][]byte{nil}
	for _, kind := range []byte{0, 1} {
		for _, b := range []byte{0, 1, 3, 5, 8, 17, 200} {
			seed := make([]byte, 400)
			for i := range seed {
				seed[i] = b
			}
			seed[0] = kind
			seeds = append(seeds, seed)
		}
		for step := range byte(12) {
			seed := make([]byte, 600)
			for i := range seed {
				seed[i] = byte(i)*(2*step+1) + step
			}
			seed[0] = kind
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// TestDecideIsTotal decides on extreme inputs.
func TestDecideIsTotal(t *testing.T) {
	p := policy("p", []int{-1, 0, 0, 7})
	p.Criteria.Conditions = nil
	for name, w := range map[string]world{
		"nothing at all":         {},
		"members beyond targets": {policies: []core.Policy{p}, cluster: clusterOf(nil), now: noon},
		"a member named twice":   {policies: []core.Policy{p}, cluster: clusterOf([]core.Target{machine("m", failed(noon))}), now: noon},
		"targets without IDs":    {policies: []core.Policy{policy("p", all(2))}, cluster: clusterOf(make([]core.Target, 2)), now: noon},
		"repairs without IDs":    {policies: []core.Policy{policy("p", all(2))}, cluster: clusterOf(make([]core.Target, 2), make([]core.Repair, 2)...), now: noon},
		"no policies":            {cluster: clusterOf(machines(2, 2, dead)), now: noon},
		"a policy of zero value": {policies: make([]core.Policy, 1), cluster: clusterOf(machines(1, 1, dead)), now: noon},
	} {
		t.Run(name, func(t *testing.T) { survive(t, w) })
	}
}
