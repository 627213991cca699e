package owner

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/remedy/conform"
)

// counted is a server that counts the writes of statuses, and refuses each with an error if there is one.
type counted struct {
	*conform.Server

	writes int
	refuse error
}

func (s *counted) Status() client.SubResourceWriter { return countedStatus{s.Server.Status(), s} }

type countedStatus struct {
	client.SubResourceWriter

	s *counted
}

func (w countedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	w.s.writes++
	if w.s.refuse != nil {
		return w.s.refuse
	}
	return w.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// countedClient returns a client whose cache has the machine, with its server.
func countedClient(t *testing.T, text string) (*Client, *counted) {
	t.Helper()
	s := &counted{Server: conform.NewServer(parse(t, text))}
	c := newClient(t, s.Server)
	c.Writer.Statuses = s
	return c, s
}

// TestI11NothingIsMarkedWithoutUIDAndRevision, since a namesake could be marked, or a machine that has changed.
func TestI11NothingIsMarkedWithoutUIDAndRevision(t *testing.T) {
	for sentence, change := range map[string]func(*core.RemedyCall){
		"no UID":      func(o *core.RemedyCall) { o.Target.ID.UID = "" },
		"no revision": func(o *core.RemedyCall) { o.Target.Revision = "" },
	} {
		c, s := countedClient(t, plain)
		if answer, err := c.Start(t.Context(), order(change)); answer != 0 || err == nil || s.writes != 0 {
			t.Errorf("%s: got %s, %v after %d writes", sentence, answer, err, s.writes)
		}
	}
}

// TestMarksOfWhatTheCacheStillHas: the API server has the last word on what there is.
func TestMarksOfWhatTheCacheStillHas(t *testing.T) {
	changed := parse(t, plain)
	changed.SetResourceVersion("8")
	for sentence, tc := range map[string]struct {
		now  *unstructured.Unstructured
		want core.RemedyResult
	}{
		"the machine is gone":     {nil, core.Vanished},
		"the machine has changed": {changed, core.Stale},
	} {
		c, s := countedClient(t, plain)
		s.Remove(parse(t, plain))
		if tc.now != nil {
			s.Put(tc.now)
		}
		if answer, err := c.Start(t.Context(), order()); answer != tc.want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", sentence, answer, err, tc.want)
		}
	}
}

// TestMarksAreTakenBackOnce: one write takes a mark back, and the cache has it at once.
func TestMarksAreTakenBackOnce(t *testing.T) {
	c, s := countedClient(t, with(requestedNow, requestedBefore))
	r := requestOn(c.Machine(core.ID{}))
	for range 2 {
		if _, err := c.Withdraw(t.Context(), r); err != nil || s.writes != 1 {
			t.Fatalf("got %v after %d writes, want 1", err, s.writes)
		}
	}
	if mark := c.Machine(core.ID{}).OwnerRequest(); mark != nil {
		t.Errorf("the cache still has the mark %+v", mark)
	}
}

// TestMarksOfMachinesThatAreGone leave nothing to take back.
func TestMarksOfMachinesThatAreGone(t *testing.T) {
	c, s := countedClient(t, with(requestedNow, ""))
	r := requestOn(c.Machine(core.ID{}))
	s.Remove(parse(t, plain))
	if _, err := c.Withdraw(t.Context(), r); err != nil || s.writes != 1 {
		t.Errorf("of a machine in the cache: got %v after %d writes", err, s.writes)
	}
	c.Config.Machine = func(core.ID) *clusterapi.Machine { return nil }
	if _, err := c.Withdraw(t.Context(), r); err != nil || s.writes != 1 {
		t.Errorf("of a machine that is not in the cache: got %v after %d writes", err, s.writes)
	}
}

// TestMarksOfMachinesThatKeepChanging are tried a few times, and then later.
func TestMarksOfMachinesThatKeepChanging(t *testing.T) {
	c, s := countedClient(t, with(requestedNow, ""))
	s.refuse = apierrors.NewConflict(clusterapi.MachineKind.GroupVersion().WithResource("machines").GroupResource(), "m", errors.New("it has changed"))
	_, err := c.Withdraw(t.Context(), requestOn(c.Machine(core.ID{})))
	if err == nil || !strings.Contains(err.Error(), "it changes all the time") || s.writes != 4 {
		t.Errorf("got %v after %d writes, want an error after 4", err, s.writes)
	}
}

// TestMarksOfHealthyMachines: one write takes the mark back and says that the machine is healthy.
func TestMarksOfHealthyMachines(t *testing.T) {
	for sentence, tc := range map[string]struct {
		machine string
		writes  int
		healthy bool
	}{
		"a mark that stands":                 {with(requestedNow, requestedBefore), 1, true},
		"a mark that the owner has answered": {with(deletingNow, ""), 0, false},
	} {
		c, s := countedClient(t, tc.machine)
		r := requestOn(c.Machine(core.ID{}))
		r.TargetHealthy = true
		if _, err := c.Withdraw(t.Context(), r); err != nil || s.writes != tc.writes {
			t.Errorf("%s: got %v after %d writes, want %d", sentence, err, s.writes, tc.writes)
		}
		u := s.Object(clusterapi.MachineKind, "clusters", "m")
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		healthy := false
		for _, each := range list {
			condition, _ := each.(map[string]any)
			healthy = healthy || condition["type"] == "HealthCheckSucceeded" && condition["status"] == "True"
		}
		if healthy != tc.healthy {
			t.Errorf("%s: the conditions are %v", sentence, list)
		}
	}
}
