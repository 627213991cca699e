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

// world is a host with the loop of Metal3's operator, which reads the BareMetalHost, then the power, and writes the status of what it has
// read. Any steps of others may come in between.
type world struct {
	*api

	on bool
	// wasOff is set if the host was off since the annotation was written last.
	wasOff bool
	// seen is the version that the operator has read, as of that version, and found is the power that it has read since.
	seen     map[string]any
	version  int
	found    bool
	measured bool
}

// steps are what the operator and others do.
var steps = map[string]func(*world){
	"the operator reads the object": func(w *world) {
		w.seen, w.version, w.measured = (&unstructured.Unstructured{Object: w.object}).DeepCopy().Object, w.api.version, false
	},
	"the operator reads the power": func(w *world) {
		if w.seen != nil && !w.measured {
			w.found, w.measured = w.on, true
		}
	},
	"the operator ends its round": (*world).ends,
	"a person turns it off":       func(w *world) { w.power(false) },
	"a person turns it on":        func(w *world) { w.power(true) },
	"it is paused":                func(w *world) { w.change(annotated(paused, "")) },
	"it is no longer paused":      func(w *world) { w.change(unset("metadata", "annotations", paused)) },
	"the annotation is removed":   func(w *world) { w.change(unset("metadata", "annotations", own)) },
	"others keep it off":          func(w *world) { w.change(annotated(others, hard)) },
	"others let it go":            func(w *world) { w.change(unset("metadata", "annotations", others)) },
}

func (w *world) power(on bool) {
	w.on = on
	w.wasOff = w.wasOff || !on
}

// ends writes the power that the operator has read, or commands what is wanted. A write for an older version is refused.
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
	if reported, _, _ := unstructured.NestedBool(seen, "status", "poweredOn"); reported != w.found {
		if w.version == w.api.version {
			w.change(powered(w.found))
		}
		return
	}
	wanted := true
	for name := range annotations {
		wanted = wanted && !strings.HasPrefix(name, "reboot.metal3.io")
	}
	w.power(wanted)
}

// TestWorlds: in any order of steps, a host that is read as off was off after the annotation was written.
func TestWorlds(t *testing.T) {
	t.Parallel()
	seeds, proofs := uint64(1500), 0
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &world{api: newAPI(powered(random.IntN(2) == 0)), on: random.IntN(2) == 0}
		h := w.host()
		names := slices.Sorted(maps.Keys(steps))
		for _, name := range slices.Clone(names) { // the operator is at work most of the time
			if strings.HasPrefix(name, "the operator") || strings.HasSuffix(name, "no longer paused") || strings.HasSuffix(name, "let it go") {
				names = append(names, name, name, name, name)
			}
		}
		var trace []string
		for range 100 {
			switch n := random.IntN(len(names) + 12); {
			case n < len(names):
				trace = append(trace, names[n])
				steps[names[n]](w)
			case n == len(names):
				trace = append(trace, "restart")
				h = w.host()
			case n <= len(names)+2:
				before := w.annotation(own)
				trace = append(trace, "off")
				_, _ = h.Off(t.Context(), first)
				if w.annotation(own) != before {
					w.wasOff = !w.on
				}
			default:
				trace = append(trace, "read")
				r, _ := h.Read(t.Context(), first)
				if r.State != fencing.IsOff {
					continue
				}
				proofs++
				if !w.wasOff {
					t.Fatalf("seed %d: it is read as off, and was never off since the annotation was written\n%s", seed, strings.Join(trace, "\n"))
				}
			}
		}
	}
	if proofs < int(seeds)/30 {
		t.Errorf("it was read as off %d times, so this shows nothing", proofs)
	}
}
