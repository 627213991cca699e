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

// Remedy is the engine's interface of a remedy.
type Remedy interface {
	Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error)
}

// requester is a remedy whose requests stand until they are withdrawn.
type requester interface {
	Remedy
	Stop(ctx context.Context, r core.Request, at time.Time) error
	Withdraw(ctx context.Context, r core.Request) (core.RemedyResult, error)
}

// Fixture describes how to test one remedy. Every field is required but Request, ReplaceRequest and NeverStopped.
type Fixture struct {
	// Objects are what the API server has at first.
	Objects []*unstructured.Unstructured
	// Call is a call of the remedy for a target that exists, as it was judged.
	Call core.RemedyCall
	// New makes the remedy. Its caches show the present objects of the server.
	New func(t *testing.T, s *Server) Remedy
	// RemovePrerequisite removes an object that the step can't do without.
	RemovePrerequisite func(s *Server)
	// InsertNamesake puts a namesake in the place of the object that the step would change or create.
	InsertNamesake func(s *Server)
	// Request returns the request that the call has made, for remedies whose requests stand.
	Request func(s *Server) core.Request
	// ReplaceRequest puts a namesake in the place of the object that holds the request. If it is nil, that object gets
	// another UID.
	ReplaceRequest func(s *Server)
	// NeverStopped is set for a remedy that ignores the end of a request's time.
	NeverStopped bool
}

// Run tests that a remedy does what every remedy must do.
func Run(t *testing.T, f Fixture) {
	t.Helper()
	t.Run("begins once", f.beginsOnce)
	t.Run("finds nothing to begin with", f.reportsAbsence)
	t.Run("leaves a namesake alone", f.sparesNamesakes)
	t.Run("insists on a UID", f.requiresUID)
	t.Run("tells what failed", f.returnsErrors)
	if _, stands := f.New(t, NewServer(f.Objects...)).(requester); !stands {
		return
	}
	t.Run("takes a request back once", f.withdrawsOnce)
	t.Run("takes back nothing of others", f.sparesOtherRequests)
	t.Run("tells what could not be taken back", f.returnsWithdrawalErrors)
}

// errDown is an error that doesn't come from the API server.
var errDown = errors.New("the API server is down")

// wantUntouched calls a function, and fails the test if that changes any object.
func wantUntouched(t *testing.T, s *Server, do func()) {
	t.Helper()
	before := s.dump(t)
	do()
	if after := s.dump(t); after != before {
		t.Errorf("what the API server has was\n%s\nand is\n%s", before, after)
	}
}

// beginsOnce tests that a second call for the same step changes nothing, and is no error.
func (f *Fixture) beginsOnce(t *testing.T) {
	s := NewServer(f.Objects...)
	r := f.New(t, s)
	before := s.dump(t)
	if answer, err := r.Start(t.Context(), f.Call); answer != core.Accepted || err != nil {
		t.Fatalf("it answers %s, %v; want accepted", answer, err)
	}
	if s.dump(t) == before {
		t.Fatal("it accepts, and has done nothing")
	}
	wantUntouched(t, s, func() {
		if answer, err := r.Start(t.Context(), f.Call); (answer != core.Accepted && answer != core.Stale) || err != nil {
			t.Errorf("once more it answers %s, %v; want accepted, or stale", answer, err)
		}
	})
}

// reportsAbsence tests that a missing or changed object is a result, and no error.
func (f *Fixture) reportsAbsence(t *testing.T) {
	s := NewServer(f.Objects...)
	f.RemovePrerequisite(s)
	r := f.New(t, s)
	wantUntouched(t, s, func() {
		if answer, err := r.Start(t.Context(), f.Call); (answer != core.Vanished && answer != core.Stale) || err != nil {
			t.Errorf("it answers %s, %v; want vanished, or stale", answer, err)
		}
	})
}

// sparesNamesakes tests I11.
func (f *Fixture) sparesNamesakes(t *testing.T) {
	s := NewServer(f.Objects...)
	f.InsertNamesake(s)
	r := f.New(t, s)
	wantUntouched(t, s, func() {
		if answer, err := r.Start(t.Context(), f.Call); answer == core.Accepted || (answer == 0 && err == nil) {
			t.Errorf("it answers %s, %v; want stale, or an error", answer, err)
		}
	})
}

// requiresUID tests that the remedy does nothing by a name alone (I11).
func (f *Fixture) requiresUID(t *testing.T) {
	s := NewServer(f.Objects...)
	r := f.New(t, s)
	noUID := f.Call
	noUID.Target.ID.UID = ""
	wantUntouched(t, s, func() {
		if answer, err := r.Start(t.Context(), noUID); answer != 0 || err == nil {
			t.Errorf("for a target without UID it answers %s, %v; want an error", answer, err)
		}
	})
}

// returnsErrors tests that the remedy wraps errors, so that callers can tell them apart.
func (f *Fixture) returnsErrors(t *testing.T) {
	s := NewServer(f.Objects...)
	r := f.New(t, s)
	s.failure = errDown
	if answer, err := r.Start(t.Context(), f.Call); answer != 0 || !errors.Is(err, errDown) {
		t.Errorf("it answers %s, %v; want that the API server is down", answer, err)
	}
}

// requested returns a server on which a request was made, the remedy, and the request.
func (f *Fixture) requested(t *testing.T) (*Server, requester, core.Request) {
	t.Helper()
	s := NewServer(f.Objects...)
	r, stands := f.New(t, s).(requester)
	if answer, err := r.Start(t.Context(), f.Call); !stands || answer != core.Accepted || err != nil {
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

// calls returns the two calls about a request, by their names in messages.
func calls(r requester, request core.Request) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		stopping: func(ctx context.Context) error { return r.Stop(ctx, request, noon) },
		"withdrawing": func(ctx context.Context) error {
			_, err := r.Withdraw(ctx, request)
			return err
		},
	}
}

// withdrawsOnce tests that stopping and withdrawing are idempotent.
func (f *Fixture) withdrawsOnce(t *testing.T) {
	for name := range calls(nil, core.Request{}) {
		if f.NeverStopped && name == stopping {
			continue
		}
		s, r, request := f.requested(t)
		call := calls(r, request)[name]
		before := s.dump(t)
		if err := call(t.Context()); err != nil || s.dump(t) == before {
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
	s, r, request := f.requested(t)
	request.Leaving, request.Stopped = true, noon
	wantUntouched(t, s, func() {
		for name, call := range calls(r, request) {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s what is leaving and was stopped fails: %v", name, err)
			}
		}
	})
}

// sparesOtherRequests tests that a namesake of a request stays, and so does a request without a UID (I10, I11).
func (f *Fixture) sparesOtherRequests(t *testing.T) {
	s, r, request := f.requested(t)
	if f.ReplaceRequest != nil {
		f.ReplaceRequest(s)
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

// returnsWithdrawalErrors tests that stopping and withdrawing wrap errors.
func (f *Fixture) returnsWithdrawalErrors(t *testing.T) {
	s, r, request := f.requested(t)
	s.failure = errDown
	for name, call := range calls(r, request) {
		if f.NeverStopped && name == stopping {
			continue
		}
		if err := call(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("%s tells %v, want that the API server is down", name, err)
		}
	}
}
