package sim_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/sim"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoak goes on; 0 for a fixed number of worlds")
	soakSeed = flag.Uint64("seed", 1, "the seed of the first world of TestSoak")
	soakOne  = flag.Bool("one", false, "TestSoak plays the world of the seed alone")
)

// soaked is how many worlds TestSoak plays when it is not told for how long.
const soaked = 1500

// stories is how many violations TestSoak prints the story of. It counts the others.
const stories = 3

// TestSoak plays a random story in each random world. A violation prints the command that replays it, and ends nothing.
func TestSoak(t *testing.T) {
	var sum sim.Tally
	seed := *soakSeed
	violations := 0
	for more := soaking(t); more(); seed++ {
		dice := rand.New(rand.NewPCG(seed, 15))
		world := randomWorld(dice)
		result := sim.Walk(sim.New(world), dice, 150)
		sum.Add(&world, &result)
		if result.Complaint == "" {
			continue
		}
		replay := fmt.Sprintf("replay it by: go test ./internal/sim -run TestSoak -seed=%d -one -v", seed)
		violations++
		if violations > stories {
			t.Errorf("%s\n%s", replay, result.Complaint)
			continue
		}
		t.Errorf("%s\n%s", replay, result.Story())
	}
	t.Logf("from seed %d: %s", *soakSeed, sum.String())
	if lacking := sum.Lacking(); len(lacking) > 0 && seed-*soakSeed >= soaked {
		t.Errorf("no story has had %s", strings.Join(lacking, ", "))
	}
}

// soaking returns a function that reports whether TestSoak plays another world.
func soaking(t *testing.T) func() bool {
	t.Helper()
	if *soakFor > 0 && !*soakOne {
		until, cancel := context.WithTimeout(t.Context(), *soakFor)
		t.Cleanup(cancel)
		return func() bool { return until.Err() == nil }
	}
	left := soaked
	if testing.Short() {
		left /= 10
	}
	if *soakOne {
		left = 1
	}
	return func() bool { left--; return left >= 0 }
}
