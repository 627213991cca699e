package baremetalhost_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/fencing"
)

// world is a host with Ironic and the loop of Metal3's operator (docs/reference/metal3.md#loop). Ironic records the power when it reads it,
// and when it has changed it. The operator reads the BareMetalHost, then Ironic's record, and writes the status of what it has read. Any
// steps of others may come in between.
type world struct {
	*api

	on bool
	// record is the power as Ironic has recorded it. It has none after a BMC didn't answer.
	record fencing.PowerState
	// offSince is set if the host was off at some time since Ironic has read or changed its power.
	offSince bool
	// wasOff is set if the host was off since the annotation was written last, or before that since Ironic's last read.
	wasOff bool
	// seen is the version that the operator has read, as of that version, and found is the record that it has read since.
	seen     map[string]any
	version  int
	found    fencing.PowerState
	measured bool
}

func newWorld(on, reported bool) *world {
	w := &world{api: newAPI(powered(reported)), on: on}
	w.reads(true)
	return w
}

// steps are what the operator and others do.
var steps = map[string]func(*world){
	"the operator reads the object": func(w *world) {
		w.seen, w.version, w.measured = (&unstructured.Unstructured{Object: w.object}).DeepCopy().Object, w.api.version, false
	},
	"the operator reads the record": func(w *world) {
		if w.seen != nil && !w.measured {
			w.found, w.measured = w.record, true
		}
	},
	"the operator ends its round": (*world).ends,
	"the operator's Ironic reads": func(w *world) { w.reads(true) },
	"the BMC gives no answer":     func(w *world) { w.reads(false) },
	"a person turns it off":       func(w *world) { w.power(false) },
	"a person turns it on":        func(w *world) { w.power(true) },
	"it is paused":                func(w *world) { w.change(annotated(paused, "")) },
	"it is no longer paused":      func(w *world) { w.change(unset("metadata", "annotations", paused)) },
	"the annotation is removed":   func(w *world) { w.change(unset("metadata", "annotations", own)) },
	"others keep it off":          func(w *world) { w.change(annotated(others, hard)) },
	"others let it go":            func(w *world) { w.change(unset("metadata", "annotations", others)) },
	"its owner wants it off":      func(w *world) { w.change(set(false, "spec", "online")) },
	"its owner lets it go":        func(w *world) { w.change(set(true, "spec", "online")) },
	"another consumer takes it":   func(w *world) { w.change(consumed("other")) },
	"the consumer lets it go":     func(w *world) { w.change(unconsumed) },
}

func (w *world) power(on bool) {
	w.on = on
	w.offSince, w.wasOff = w.offSince || !on, w.wasOff || !on
}

// reads has Ironic read the power.
func (w *world) reads(answers bool) {
	if !answers {
		w.record = fencing.PowerUnknown
		return
	}
	w.record, w.offSince = state(w.on), !w.on
}

func state(on bool) fencing.PowerState {
	if on {
		return fencing.IsOn
	}
	return fencing.IsOff
}

// manageableIn returns the status of the condition of a BareMetalHost, or nothing.
func manageableIn(o map[string]any) any {
	said, _, _ := unstructured.NestedSlice(o, "status", "conditions")
	for _, item := range said {
		if c, is := item.(map[string]any); is {
			return c["status"]
		}
	}
	return nil
}

// ends writes what the operator has read, or has Ironic change the power. A write for an older version is refused.
func (w *world) ends() {
	if w.seen == nil || !w.measured {
		return
	}
	seen := w.seen
	w.seen = nil
	annotations, _, _ := unstructured.NestedStringMap(seen, "metadata", "annotations")
	if _, is := annotations[paused]; is {
		return
	}
	manageable := "True"
	if w.found == fencing.PowerUnknown {
		manageable = "False"
	}
	told := manageableIn(seen) == manageable
	reported, _, _ := unstructured.NestedBool(seen, "status", "poweredOn")
	online, _, _ := unstructured.NestedBool(seen, "spec", "online")
	wanted := online
	for name := range annotations {
		wanted = wanted && !strings.HasPrefix(name, "reboot.metal3.io")
	}
	switch {
	case w.found != fencing.PowerUnknown && w.found != state(reported):
		reported, told = !reported, false
	case reported == wanted:
	case w.record == state(wanted):
		reported, told = online, false // the operator believes that, and reads nothing
	default:
		w.power(wanted)
		w.reads(true)
	}
	if !told && w.version == w.api.version {
		w.change(both(powered(reported), conditions("Manageable", manageable, "x")))
	}
}

// TestWorlds: in any order of steps, a host that is read as off was off after the annotation was written. Or it was off before that, since
// Ironic has read its power last.
func TestWorlds(t *testing.T) {
	t.Parallel()
	seeds, proofs, old := uint64(3000), 0, 0
	if testing.Short() {
		seeds = 600
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(random.IntN(2) == 0, random.IntN(2) == 0)
		written := false // whether the host was off after the annotation was written
		h := w.host()
		names := slices.Sorted(maps.Keys(steps))
		for _, name := range slices.Clone(names) { // the operator is at work most of the time
			if strings.HasPrefix(name, "the operator") || strings.HasSuffix(name, "no longer paused") || strings.HasSuffix(name, "let it go") || strings.HasSuffix(name, "lets it go") {
				names = append(names, slices.Repeat([]string{name}, 9)...)
			}
		}
		var trace []string
		for range 200 {
			switch n := random.IntN(len(names) + 36); {
			case n < len(names):
				trace = append(trace, names[n])
				steps[names[n]](w)
				written = written || !w.on
			case n == len(names):
				trace = append(trace, "restart")
				h = w.host()
			case n <= len(names)+6:
				before := w.annotation(own)
				trace = append(trace, "off")
				_, _ = h.Off(t.Context(), first)
				if w.annotation(own) != before {
					w.wasOff, written = w.offSince, !w.on
				}
			default:
				trace = append(trace, "read")
				r, _ := h.Read(t.Context(), first)
				if r.State != fencing.IsOff {
					continue
				}
				proofs++
				if !written {
					old++
				}
				if !w.wasOff {
					t.Fatalf("seed %d: it is read as off, and was not off since Ironic's last read before the annotation was written\n%s", seed, strings.Join(trace, "\n"))
				}
			}
		}
	}
	if proofs < int(seeds)/30 || old == 0 && !testing.Short() {
		t.Errorf("it was read as off %d times, and %d times for an old record, so this shows nothing", proofs, old)
	}
}

// TestOldRecord shows the limit of what a BareMetalHost proves (docs/fencing.md#through-a-baremetalhost). Ironic has recorded that the host is
// off. A person powers it on before Ironic reads it again, and before Fettle requests that it is powered off.
func TestOldRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(true, true)
	does := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if steps[name] == nil {
				t.Fatalf("there is no step %q", name)
			}
			steps[name](w)
		}
	}
	does("a person turns it off", "the operator's Ironic reads", "a person turns it on")
	h := w.host()
	if _, failure := h.Off(t.Context(), first); failure.Failed() {
		t.Fatal(failure)
	}
	round := []string{"the operator reads the object", "the operator reads the record", "the operator ends its round"}
	does(round...)
	if r, _ := h.Read(t.Context(), first); r.State != fencing.IsOff || !w.on {
		t.Errorf("the record is read as %v, and the host is on: %t", r.State, w.on)
	}
	does("the operator's Ironic reads")
	does(round...)
	if r, _ := h.Read(t.Context(), first); r.State != fencing.IsOn {
		t.Errorf("after Ironic's next read it is %v", r.State)
	}
	does(round...)
	does(round...)
	if r, _ := h.Read(t.Context(), first); r.State != fencing.IsOff || w.on {
		t.Errorf("it is read as %v, and is on: %t", r.State, w.on)
	}
}
