package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Bounds end an exploration.
type Bounds struct {
	// Depth is how many steps a story may have.
	Depth int
	// SettleEvery has one state in so many come to rest. 0 is none.
	SettleEvery int
}

// Result is what an exploration has found.
type Result struct {
	// States is how many different ones there were, Steps how many were taken.
	States, Steps, Settled int
	// Deletions is the most that were accepted in one story, Requests the most that were created.
	Deletions, Requests int
	// Ticks is how much time has passed in a walk.
	Ticks int
	// Complaint is the first broken promise, and Trace the shortest story that leads to it.
	Complaint string
	Trace     []Step
}

// Story returns the trace, a line for each step, and the complaint.
func (r Result) Story() string {
	var b strings.Builder
	for i, s := range r.Trace {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s)
	}
	fmt.Fprintf(&b, "     %s\n", r.Complaint)
	return b.String()
}

type fingerprint [16]byte

// visit is how a state was reached first.
type visit struct {
	from int
	step Step
}

// Explore walks breadth first through every interleaving of steps, each state once.
func Explore(start *Universe, b Bounds) Result {
	var result Result
	seen := map[fingerprint]bool{start.fingerprint(): true}
	visits := []visit{{from: -1}}
	frontier, places := []*Universe{start}, []int{0}
	for depth := 0; depth < b.Depth && len(frontier) > 0; depth++ {
		var next []*Universe
		var nextPlaces []int
		for i, u := range frontier {
			for _, s := range u.Steps() {
				after := u.After(s)
				result.Steps++
				result.Deletions, result.Requests = max(result.Deletions, after.deletions), max(result.Requests, after.requested)
				if after.complaint == "" && !remember(seen, after) {
					continue
				}
				visits = append(visits, visit{places[i], s})
				if b.SettleEvery > 0 && len(visits)%b.SettleEvery == 0 && after.complaint == "" {
					result.Settled++
					if after.complaint = after.Settle(); after.complaint != "" {
						visits = append(visits, visit{len(visits) - 1, Step{Kind: Rest}})
					}
				}
				if after.complaint != "" {
					result.States, result.Complaint, result.Trace = len(visits), after.complaint, trace(visits)
					return result
				}
				next, nextPlaces = append(next, after), append(nextPlaces, len(visits)-1)
			}
			frontier[i] = nil
		}
		frontier, places = next, nextPlaces
	}
	result.States = len(visits)
	return result
}

func remember(seen map[fingerprint]bool, u *Universe) bool {
	key := u.fingerprint()
	if seen[key] {
		return false
	}
	seen[key] = true
	return true
}

// trace returns the steps that lead to the last visit.
func trace(visits []visit) []Step {
	var steps []Step
	for i := len(visits) - 1; visits[i].from >= 0; i = visits[i].from {
		steps = append(steps, visits[i].step)
	}
	slices.Reverse(steps)
	return steps
}

// Walk takes random steps, and lets the universe come to rest at the end.
func Walk(start *Universe, dice *rand.Rand, length int) Result {
	result := Result{States: 1}
	u := start
	for range length {
		steps := u.Steps()
		if len(steps) == 0 {
			break
		}
		s := steps[dice.IntN(len(steps))]
		u = u.After(s)
		result.Steps++
		result.Trace = append(result.Trace, s)
		result.Ticks = u.truth.now
		if u.complaint != "" {
			result.Complaint = u.complaint
			return result
		}
	}
	if result.Complaint = u.Settle(); result.Complaint != "" {
		result.Trace = append(result.Trace, Step{Kind: Rest})
	}
	result.Settled, result.Deletions, result.Requests = 1, u.deletions, u.requested
	return result
}

// fingerprint returns the same for two universes in which the same can happen.
func (u *Universe) fingerprint() fingerprint {
	b := dump(make([]byte, 0, 4096), reflect.ValueOf(u.truth.machines))
	b = dump(b, reflect.ValueOf(u.truth.ledger))
	b = dump(b, reflect.ValueOf(u.truth.requests))
	b = dump(b, reflect.ValueOf(u.truth.edition))
	b = dump(b, reflect.ValueOf(u.truth.quorum))
	b = dump(b, reflect.ValueOf(u.truth.leases))
	b = dump(b, reflect.ValueOf(u.truth.recordedAt))
	b = dump(b, reflect.ValueOf(u.truth.seconds))
	b = dump(b, reflect.ValueOf(u.left))
	b = dump(b, reflect.ValueOf(u.shown))
	b = binary.AppendVarint(binary.AppendVarint(b, int64(u.truth.now)), int64(u.truth.ahead))
	b = binary.AppendVarint(b, int64(u.truth.nodesAhead))
	for _, e := range u.engines {
		b = dump(b, reflect.ValueOf(e.machines))
		b = dump(b, reflect.ValueOf(e.nodes))
		b = dump(b, reflect.ValueOf(e.ledger))
		b = dump(b, reflect.ValueOf(e.requests))
		b = dump(b, reflect.ValueOf(e.inStep))
		b = binary.AppendVarint(b, int64(e.outOfStep))
		b = dump(b, reflect.ValueOf(e.passed))
		b = dump(b, reflect.ValueOf(e.edition))
		b = dump(b, reflect.ValueOf(e.skew))
		b = dump(b, reflect.ValueOf(e.dates))
		b = append(b, e.digest()...)
		b = append(b, e.stepped.digest()...)
	}
	sum := sha256.Sum256(b)
	return fingerprint(sum[:16])
}

// dump writes a value in a way that is the same for equal values.
func dump(b []byte, v reflect.Value) []byte {
	switch kind := v.Kind(); {
	case kind == reflect.Bool && v.Bool():
		return append(b, 1)
	case kind == reflect.Bool:
		return append(b, 0)
	case v.CanInt():
		return binary.AppendVarint(b, v.Int())
	case v.CanUint():
		return binary.AppendUvarint(b, v.Uint())
	case kind == reflect.String:
		return append(append(b, v.String()...), 0)
	case kind == reflect.Slice || kind == reflect.Array:
		b = binary.AppendVarint(b, int64(v.Len()))
		for i := range v.Len() {
			b = dump(b, v.Index(i))
		}
		return b
	case kind == reflect.Struct:
		return dumpStruct(b, v)
	case kind == reflect.Pointer:
		return dump(b, v.Elem())
	case kind == reflect.Map:
		return dumpMap(b, v)
	}
	return append(b, '?')
}

func dumpStruct(b []byte, v reflect.Value) []byte {
	fields := v.NumField()
	if v.Type() == reflect.TypeFor[time.Time]() {
		fields = 2 // all but the location, which is a pointer
	}
	for i := range fields {
		b = dump(b, v.Field(i))
	}
	return b
}

func dumpMap(b []byte, v reflect.Value) []byte {
	entries := make([]string, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		entries = append(entries, string(dump(dump(nil, it.Key()), it.Value())))
	}
	slices.Sort(entries)
	for _, e := range entries {
		b = append(append(b, e...), ';')
	}
	return append(b, '.')
}

// Disturb lets something happen to the machines between two writes of a pass, now and then.
func (u *Universe) Disturb(dice *rand.Rand) {
	if dice.IntN(3) > 0 {
		return
	}
	var steps []Step
	for m := range u.truth.machines {
		steps = u.machineSteps(steps, m)
	}
	if len(steps) > 0 {
		s := steps[dice.IntN(len(steps))]
		u.left[s.Kind]--
		u.happen(s)
	}
}
