package served

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"The Part": {things}})
		ready := func(sentence string, want bool) {
			t.Helper()
			synctest.Wait()
			if err := m.waker.Checks()["the-part"](nil); (err == nil) != want {
				t.Errorf("%s: ready %t (%v)", sentence, err == nil, err)
			}
		}
		ready("whoever sleeps waits for nothing", true)
		m.answers("The Part", nil, false)
		m.defines(things)
		ready("it wakes, and its caches are filling", false)
		m.answers("The Part", nil, true)
		ready("they are full", true)
		m.handler.OnDelete(definition(things))
		m.answers("The Part", nil, false)
		ready("what it needs is gone, so it has nothing to wait for", true)
		m.stop()
	})
}

func TestNothingIsReadyBeforeTheClusterIsKnown(t *testing.T) {
	w := &Waker{Parts: []Part{{Name: "a"}, {Name: "b c"}}}
	if diff := cmp.Diff([]string{"a", "b-c"}, slices.Sorted(maps.Keys(w.Checks()))); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	for name, check := range w.Checks() {
		if err := check(nil); err == nil {
			t.Errorf("%s is ready", name)
		}
	}
}
