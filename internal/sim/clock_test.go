package sim

import (
	"testing"
	"time"
)

// TestClockThatIsFast: such a clock shows another time, and as much time passes by it.
func TestClockThatIsFast(t *testing.T) {
	t.Parallel()
	before, after := fastAt(1, -time.Hour), fastAt(3, 4*time.Second)
	if got := after.Round(0); !got.Equal(at(3).Add(4 * time.Second)) {
		t.Errorf("it shows %s at tick 3, want 4 s more than %s", got, at(3))
	}
	if passed := after.Sub(before); passed != Ticks(2) {
		t.Errorf("%s have passed, want %s", passed, Ticks(2))
	}
}
