package clock

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// TestI05LimitsOfASpan: the clocks agree if all of the range is allowed, and differ if none is.
func TestI05LimitsOfASpan(t *testing.T) {
	const most = core.MaxSkew
	for s, want := range map[skewRange]core.Tri{
		{-most, most}:              core.Yes,
		{0, most}:                  core.Yes,
		{-most, 0}:                 core.Yes,
		{-most - 1, most}:          core.Unknown,
		{-most, most + 1}:          core.Unknown,
		{-most - 1, 0}:             core.Unknown,
		{0, most + 1}:              core.Unknown,
		{most, most + 1}:           core.Unknown,
		{most + 1, most + 2}:       core.No,
		{-most - 1, -most}:         core.Unknown,
		{-most - 2, -most - 1}:     core.No,
		{-3 * most / 2, -most - 1}: core.No,
		{-most - 1, most + 1}:      core.Unknown,
	} {
		if got := s.agrees(); got != want {
			t.Errorf("from %s to %s ahead they agree: %s, want %s", s.min, s.max, got, want)
		}
	}
}

// TestMeasurementsThatMeet: measurements that meet in one difference agree on it. Otherwise the
// later one counts.
func TestMeasurementsThatMeet(t *testing.T) {
	for later, want := range map[skewRange]skewRange{{5, 9}: {5, 5}, {4, 9}: {4, 5}, {6, 9}: {6, 9}, {-3, 0}: {0, 0}, {-3, -1}: {-3, -1}} {
		if got := (skewRange{0, 5}).intersect(later); got != want {
			t.Errorf("0 to 5 and %d to %d make %d to %d, want %d to %d", later.min, later.max, got.min, got.max, want.min, want.max)
		}
	}
}

// TestSuccessesTell: each successful answer counts, and no other.
func TestSuccessesTell(t *testing.T) {
	for code, want := range map[int]core.Tri{
		199: core.Unknown, 200: core.Yes, 201: core.Yes, 299: core.Yes, 300: core.Unknown, 301: core.Unknown,
	} {
		r := newMeterFixture()
		r.change = func(response *http.Response) { response.StatusCode = code }
		if got := r.ask(t); got != want {
			t.Errorf("after an answer with code %d they agree: %s, want %s", code, got, want)
		}
	}
}

// TestStepsAreLoggedOnce: a step of a second or more is logged and wakes. So does each change between
// agreement, difference and unknown.
func TestStepsAreLoggedOnce(t *testing.T) {
	r := newMeterFixture()
	var said []string
	r.Log = funcr.NewJSON(func(line string) { said = append(said, line) }, funcr.Options{
		RenderBuiltinsHook: func(list []any) []any { return list[len(list)-2:] },
		RenderValuesHook:   func([]any) []any { return nil },
		RenderArgsHook:     func([]any) []any { return nil },
	})
	r.ask(t)
	r.ask(t)
	if want := []string{`{"msg":"Fettle's clock agrees with the API server's"}`}; !slices.Equal(said, want) {
		t.Errorf("after two answers it says %q, want %q", said, want)
	}
	for step, want := range map[time.Duration]int{minStep - 1: 0, minStep: 1, minStep + 1: 1, 1 - minStep: 0, -minStep: 1} {
		said, r.woken = nil, 0
		r.ahead += step
		r.check()
		if len(said) != want || r.woken != want {
			t.Errorf("after a step of %s it says %q and wakes %d times, want %d", step, said, r.woken, want)
		}
	}
}

// TestFirstLookSeesNoStep: the first check compares with the clock at the meter's creation.
func TestFirstLookSeesNoStep(t *testing.T) {
	r := newMeterFixture()
	r.check()
	if r.woken != 0 {
		t.Errorf("the first look wakes %d times", r.woken)
	}
}

// TestStartLooksEachSecond, also on replicas that don't lead.
func TestStartLooksEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now() //nolint:forbidigo // a clock of the test's own
		r := &meterFixture{}
		r.Meter = NewMeter(Config{
			Now:     func() time.Time { return noon.Add(r.ahead + time.Since(began)) }, //nolint:forbidigo // the same
			Elapsed: func() time.Duration { return time.Since(began) },                 //nolint:forbidigo // the same
		})
		if r.NeedLeaderElection() {
			t.Error("only the leader measures")
		}
		woken := make(chan time.Duration, 9)
		r.Wake(func() { woken <- time.Since(began) }) //nolint:forbidigo // the same
		r.ahead = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Start(ctx) }()
		if got := <-woken; got != time.Second {
			t.Errorf("a step is noticed after %s, want one second", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ends with %v", err)
		}
	})
}

// TestMetricIsDescribed, so that no other metric can have its name.
func TestMetricIsDescribed(t *testing.T) {
	described := make(chan *prometheus.Desc, 2)
	newMeterFixture().Describe(described)
	if len(described) != 1 {
		t.Errorf("it describes %d series, want 1", len(described))
	}
}
