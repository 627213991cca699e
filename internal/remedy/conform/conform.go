package conform

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

// Remedy is what the engine asks of a remedy.
type Remedy interface {
	Begin(ctx context.Context, o core.Order) (core.Beginning, error)
}

// petitioner is a remedy whose requests stand until they are withdrawn.
type petitioner interface {
	Remedy
	Stop(ctx context.Context, r core.Request, at time.Time) error
	Withdraw(ctx context.Context, r core.Request) error
}

// Fixture is how one remedy is tested. Every field is required but Request, Replace and Endless.
type Fixture struct {
	// Objects are what is there.
	Objects []*unstructured.Unstructured
	// Order asks for a step about a target that is there, as it was judged.
	Order core.Order
	// New makes the remedy. Its caches show what the server has now.
	New func(t *testing.T, s *Server) Remedy
	// Lose takes away what the step can't do without.
	Lose func(s *Server)
	// Swap puts a namesake in the place of what the step would touch or make.
	Swap func(s *Server)
	// Request gives the request that was made for the order, for remedies whose requests stand.
	Request func(s *Server) core.Request
	// Replace puts a namesake in the place of the object by which it is asked. Nil gives that object another UID.
	Replace func(s *Server)
	// Endless is set for a remedy whose requests are never told to stop.
	Endless bool
}

// Run tests that a remedy does what every remedy must do.
func Run(t *testing.T, f Fixture) {
	t.Helper()
	t.Run("begins once", f.beginsOnce)
	t.Run("finds nothing to begin with", f.findsNothing)
	t.Run("leaves a namesake alone", f.leavesNamesakesAlone)
	t.Run("insists on a UID", f.insistsOnUID)
	t.Run("tells what failed", f.tellsWhatFailed)
	if _, stands := f.New(t, NewServer(f.Objects...)).(petitioner); !stands {
		return
	}
	t.Run("takes a request back once", f.takesBackOnce)
	t.Run("takes back nothing of others", f.takesBackNothingOfOthers)
	t.Run("tells what could not be taken back", f.tellsWhatStands)
}

// errDown is not an answer of the API server.
var errDown = errors.New("the API server is down")

// wantUntouched runs what must change nothing.
func wantUntouched(t *testing.T, s *Server, do func()) {
	t.Helper()
	before := s.shows(t)
	do()
	if after := s.shows(t); after != before {
		t.Errorf("what the API server has was\n%s\nand is\n%s", before, after)
	}
}

// beginsOnce: beginning once more, for the same order, is harmless, and no error.
func (f *Fixture) beginsOnce(t *testing.T) {
	s := NewServer(f.Objects...)
	r := f.New(t, s)
	before := s.shows(t)
	if answer, err := r.Begin(t.Context(), f.Order); answer != core.Accepted || err != nil {
		t.Fatalf("it answers %s, %v; want accepted", answer, err)
	}
	if s.shows(t) == before {
		t.Fatal("it accepts, and has done nothing")
	}
	wantUntouched(t, s, func() {
		if answer, err := r.Begin(t.Context(), f.Order); (answer != core.Accepted && answer != core.Stale) || err != nil {
			t.Errorf("once more it answers %s, %v; want accepted, or stale", answer, err)
		}
	})
}

// findsNothing: what is gone, or has changed, is an answer and no error.
func (f *Fixture) findsNothing(t *testing.T) {
	s := NewServer(f.Objects...)
	f.Lose(s)
	r := f.New(t, s)
	wantUntouched(t, s, func() {
		if answer, err := r.Begin(t.Context(), f.Order); (answer != core.Vanished && answer != core.Stale) || err != nil {
			t.Errorf("it answers %s, %v; want vanished, or stale", answer, err)
		}
	})
}

// leavesNamesakesAlone: I11.
func (f *Fixture) leavesNamesakesAlone(t *testing.T) {
	s := NewServer(f.Objects...)
	f.Swap(s)
	r := f.New(t, s)
	wantUntouched(t, s, func() {
		if answer, err := r.Begin(t.Context(), f.Order); answer == core.Accepted || (answer == 0 && err == nil) {
			t.Errorf("it answers %s, %v; want stale, or an error", answer, err)
		}
	})
}

// insistsOnUID: nothing is done to whoever has a name (I11).
func (f *Fixture) insistsOnUID(t *testing.T) {
	s := NewServer(f.Objects...)
	r := f.New(t, s)
	nobody := f.Order
	nobody.Target.ID.UID = ""
	wantUntouched(t, s, func() {
		if answer, err := r.Begin(t.Context(), nobody); answer != 0 || err == nil {
			t.Errorf("for a target without UID it answers %s, %v; want an error", answer, err)
		}
	})
}

// tellsWhatFailed: an error is given on as it is, so that it can be told from others.
func (f *Fixture) tellsWhatFailed(t *testing.T) {
	s := NewServer(f.Objects...)
	r := f.New(t, s)
	s.refuse = errDown
	if answer, err := r.Begin(t.Context(), f.Order); answer != 0 || !errors.Is(err, errDown) {
		t.Errorf("it answers %s, %v; want that the API server is down", answer, err)
	}
}

// asked is a server on which a request was made, and the request.
func (f *Fixture) asked(t *testing.T) (*Server, petitioner, core.Request) {
	t.Helper()
	s := NewServer(f.Objects...)
	r, stands := f.New(t, s).(petitioner)
	if answer, err := r.Begin(t.Context(), f.Order); !stands || answer != core.Accepted || err != nil {
		t.Fatalf("it answers %s, %v; want accepted", answer, err)
	}
	request := f.Request(s)
	if request.ID.UID == "" {
		t.Fatalf("the request is %+v", request)
	}
	return s, r, request
}

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

const stopping = "stopping"

// calls are the two that are about a request, by what they are called in a message.
func calls(r petitioner, request core.Request) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		stopping:      func(ctx context.Context) error { return r.Stop(ctx, request, noon) },
		"withdrawing": func(ctx context.Context) error { return r.Withdraw(ctx, request) },
	}
}

func (f *Fixture) takesBackOnce(t *testing.T) {
	for name := range calls(nil, core.Request{}) {
		if f.Endless && name == stopping {
			continue
		}
		s, r, request := f.asked(t)
		call := calls(r, request)[name]
		before := s.shows(t)
		if err := call(t.Context()); err != nil || s.shows(t) == before {
			t.Errorf("%s fails, or does nothing: %v", name, err)
		}
		wantUntouched(t, s, func() {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s once more fails: %v", name, err)
			}
		})
		clear(s.objects)
		if err := call(t.Context()); err != nil {
			t.Errorf("%s what is gone fails: %v", name, err)
		}
	}
	s, r, request := f.asked(t)
	request.Leaving, request.Stopped = true, noon
	wantUntouched(t, s, func() {
		for name, call := range calls(r, request) {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s what is leaving and was stopped fails: %v", name, err)
			}
		}
	})
}

// takesBackNothingOfOthers: a namesake of a request stays, and so does whatever has no UID (I10, I11).
func (f *Fixture) takesBackNothingOfOthers(t *testing.T) {
	s, r, request := f.asked(t)
	if f.Replace != nil {
		f.Replace(s)
	}
	for _, u := range s.objects {
		if string(u.GetUID()) == request.ID.UID {
			u.SetUID(types.UID("another"))
		}
	}
	wantUntouched(t, s, func() {
		for name, call := range calls(r, request) {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s what is another by now fails: %v", name, err)
			}
		}
		request.ID.UID = ""
		for name, call := range calls(r, request) {
			if err := call(t.Context()); err == nil {
				t.Errorf("%s without a UID is no error", name)
			}
		}
	})
}

func (f *Fixture) tellsWhatStands(t *testing.T) {
	s, r, request := f.asked(t)
	s.refuse = errDown
	for name, call := range calls(r, request) {
		if f.Endless && name == stopping {
			continue
		}
		if err := call(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("%s tells %v, want that the API server is down", name, err)
		}
	}
}
