package clock

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// meterFixture is a meter and an API server, each with its clocks.
type meterFixture struct {
	*Meter

	// passed is the time of the monotonic clock, and ahead is how far Fettle's clock is ahead of
	// the API server's.
	passed, ahead time.Duration
	// takes is the duration of a request, and late is the part of it after the date was written.
	takes, late time.Duration
	change      func(*http.Response)
	woken       int
}

func newMeterFixture() *meterFixture {
	r := &meterFixture{change: func(*http.Response) {}}
	r.Meter = NewMeter(Config{
		Now:     func() time.Time { return noon.Add(r.passed + r.ahead) },
		Elapsed: func() time.Duration { return r.passed },
		Log:     logr.Discard(),
	})
	r.Wake(func() { r.woken++ })
	return r
}

// ask makes one request.
func (r *meterFixture) ask(t interface{ Fatal(args ...any) }) core.Tri {
	next := roundTripper(func(*http.Request) (*http.Response, error) {
		r.passed += r.takes - r.late
		date := noon.Add(r.passed).Format(http.TimeFormat)
		r.passed += r.late
		response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {date}}}
		r.change(response)
		return response, nil
	})
	request, _ := http.NewRequest(http.MethodGet, "https://api.example", http.NoBody)
	if _, err := r.Wrap(next).RoundTrip(request); err != nil {
		t.Fatal(err)
	}
	return r.Agrees()
}

// TestI05MeasuredByOneAnswer: the first answer counts at once, within its uncertainty.
func TestI05MeasuredByOneAnswer(t *testing.T) {
	cases := map[string]struct {
		ahead, takes, late time.Duration
		want               core.Tri
	}{
		"the same":                        {0, 0, 0, core.Yes},
		"a little ahead":                  {3900 * time.Millisecond, 0, 0, core.Yes},
		"a little behind":                 {-3900 * time.Millisecond, 0, 0, core.Yes},
		"an hour ahead":                   {time.Hour, 0, 0, core.No},
		"an hour behind":                  {-time.Hour, 0, 0, core.No},
		"a year ahead, told late":         {365 * 24 * time.Hour, time.Minute, time.Minute, core.No},
		"at the limit":                    {core.MaxSkew + 100*time.Millisecond, 0, 0, core.Unknown},
		"the same, told late":             {0, 3 * time.Second, 3 * time.Second, core.Yes},
		"the same, told too late to know": {0, 10 * time.Second, 10 * time.Second, core.Unknown},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			r := newMeterFixture()
			if got := r.Agrees(); got != core.Unknown {
				t.Errorf("before the first answer it agrees: %s", got)
			}
			r.passed, r.ahead, r.takes, r.late = 900*time.Millisecond, tc.ahead, tc.takes, tc.late
			if got := r.ask(t); got != tc.want {
				t.Errorf("it agrees: %s, want %s (%+v)", got, tc.want, r.Meter.ahead)
			}
		})
	}
}

// TestI05MeasureIsNeverWrong: whatever answers come when, the real difference is within the range.
func TestI05MeasureIsNeverWrong(t *testing.T) {
	upTo := func(r *rapid.T, most time.Duration, what string) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(most)).Draw(r, what))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newMeterFixture()
		r.ahead = upTo(t, 20*time.Second, "ahead") - 10*time.Second
		for range rapid.IntRange(1, 10).Draw(t, "answers") {
			r.passed += upTo(t, time.Minute, "pause")
			r.takes = upTo(t, 5*time.Second, "takes")
			r.late = time.Duration(rapid.Float64Range(0, 1).Draw(t, "late") * float64(r.takes))
			if rapid.IntRange(0, 4).Draw(t, "set") == 0 {
				r.ahead += upTo(t, 20*time.Second, "by") - 10*time.Second
			}
			agrees := r.ask(t)
			if within := r.ahead.Abs() <= core.MaxSkew; (agrees == core.Yes && !within) || (agrees == core.No && within) {
				t.Fatalf("it is ahead by %s and agrees: %s (%+v)", r.ahead, agrees, r.Meter.ahead)
			}
		}
	})
}

// TestAnswersTogether: a difference near the limit is known after a few answers, since each comes
// at another fraction of a second.
func TestAnswersTogether(t *testing.T) {
	for ahead, want := range map[time.Duration]core.Tri{core.MaxSkew - 200*time.Millisecond: core.Yes, core.MaxSkew + 200*time.Millisecond: core.No} {
		r := newMeterFixture()
		r.ahead = ahead
		for range 12 {
			r.passed += 2100 * time.Millisecond
			r.ask(t)
		}
		if got := r.Agrees(); got != want {
			t.Errorf("%s ahead it agrees: %s, want %s (%+v)", ahead, got, want, r.Meter.ahead)
		}
		r.takes, r.late = time.Minute, time.Second
		if got := r.ask(t); got != want {
			t.Errorf("after a slow answer it agrees: %s, want %s", got, want)
		}
	}
}

// TestI05ClockThatIsSet: the next check or answer shows a step of either clock, and its reversal.
func TestI05ClockThatIsSet(t *testing.T) {
	r := newMeterFixture()
	r.ask(t)
	r.check()
	for i, step := range []time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour} {
		r.ahead += step
		want := core.No
		if i%2 == 1 {
			want = core.Yes
		}
		if got := r.Agrees(); got != want {
			t.Errorf("once Fettle's clock was set by %s it agrees: %s", step, got)
		}
		r.woken = 0
		r.check()
		r.check()
		if r.woken != 1 {
			t.Errorf("it woke %d times", r.woken)
		}
	}
	theirs := time.Hour
	r.change = func(response *http.Response) {
		response.Header.Set("Date", noon.Add(r.passed+theirs).Format(http.TimeFormat))
	}
	r.woken = 0
	if got := r.ask(t); got != core.No || r.woken != 1 {
		t.Errorf("once the API server's clock was set it agrees: %s, and it woke %d times", got, r.woken)
	}
	theirs = 0
	if got := r.ask(t); got != core.Yes || r.woken != 2 {
		t.Errorf("once that was undone it agrees: %s, and it woke %d times", got, r.woken)
	}
}

// TestSmallStepsWake: a deadline follows the clock as it was set.
func TestSmallStepsWake(t *testing.T) {
	r := newMeterFixture()
	r.ask(t)
	r.woken = 0
	for step, want := range map[time.Duration]int{100 * time.Millisecond: 0, 2 * time.Second: 1, -2 * time.Second: 1} {
		before := r.woken
		r.ahead += step
		r.passed += time.Minute
		r.check()
		if r.woken-before != want {
			t.Errorf("a step of %s wakes %d times, want %d", step, r.woken-before, want)
		}
	}
}

// TestAnswersThatTellNothing have no date of an API server.
func TestAnswersThatTellNothing(t *testing.T) {
	for sentence, change := range map[string]func(*http.Response){
		"no date":             func(r *http.Response) { r.Header.Del("Date") },
		"a date that is none": func(r *http.Response) { r.Header.Set("Date", "yesterday") },
		"a failure":           func(r *http.Response) { r.StatusCode = http.StatusServiceUnavailable },
		"a cached answer":     func(r *http.Response) { r.Header.Set("Age", "3600") },
	} {
		r := newMeterFixture()
		r.change = change
		if got := r.ask(t); got != core.Unknown {
			t.Errorf("by %s it agrees: %s", sentence, got)
		}
		r.change = func(*http.Response) {}
		r.ask(t)
		r.ahead, r.change = time.Minute, change
		r.passed += time.Minute
		if got := r.ask(t); got != core.No {
			t.Errorf("by %s it agrees again: %s", sentence, got)
		}
	}
}

// TestCorrected: the time of a clock that is known to be wrong is corrected within a second. Other
// times stay.
func TestCorrected(t *testing.T) {
	present := time.Now() //nolint:forbidigo // nothing else carries what a monotonic clock shows
	for ahead, within := range map[time.Duration]time.Duration{time.Second: 0, 2 * time.Hour: time.Second, -2 * time.Hour: time.Second} {
		r := newMeterFixture()
		r.ahead = ahead
		if got := r.Corrected(present); !got.Equal(present) {
			t.Errorf("before the first answer %s is corrected to %s", present, got)
		}
		r.ask(t)
		r.passed += time.Minute
		got := r.Corrected(present)
		if within == 0 && !got.Equal(present) {
			t.Errorf("%s ahead, %s is corrected to %s", ahead, present, got)
		}
		if want := present.Add(-ahead).Round(0); within != 0 && (got.String() != got.Round(0).String() || got.Sub(want).Abs() > within) {
			t.Errorf("%s ahead, %s is corrected to %s, want %s", ahead, present, got, want)
		}
	}
	r := newMeterFixture()
	r.ask(t)
	r.ahead = time.Hour
	if got, want := r.Corrected(present), present.Add(-time.Hour).Round(0); got.Sub(want).Abs() > time.Second {
		t.Errorf("just after the clock was set, %s is corrected to %s, want %s", present, got, want)
	}
}

func TestMetric(t *testing.T) {
	r := newMeterFixture()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Meter)
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("before the first answer there are %v (%v)", families, err)
	}
	r.ahead = 90 * time.Second
	r.ask(t)
	r.passed += 500 * time.Millisecond
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "fettle_clock_skew_seconds" {
		t.Fatalf("there are %v (%v)", families, err)
	}
	if got := families[0].GetMetric()[0].GetGauge().GetValue(); got != 89.5 {
		t.Errorf("it is ahead by %f seconds, want 89.5", got)
	}
}
