package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// policyOf returns a policy of a namespace that selects the first targets.
func policyOf(namespace, name string, members int) core.Policy {
	p := core.Policy{ID: core.ID{Kind: "MachineHealthCheck", Namespace: namespace, Name: name, UID: namespace + "-" + name}, Created: noon.Add(-time.Hour)}
	for i := range members {
		p.Members = append(p.Members, i)
	}
	return p
}

// recorded returns the policies whose statuses were written, in order.
func recorded(did []string) []string {
	var names []string
	for _, line := range did {
		if name, is := strings.CutPrefix(line, "record "); is {
			names = append(names, name)
		}
	}
	return names
}

// TestI15StatusesTakeTurns: the time for writing statuses is bounded, and the policies of one
// namespace don't use it up.
func TestI15StatusesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("m", dead))
		own := s.machines.observation.Policies[0]
		own.Created = noon
		s.machines.observation.Policies = nil
		for i := range 10 {
			p := policyOf("a-tenant", fmt.Sprintf("flood-%d", i), 0)
			s.machines.observation.Policies = append(s.machines.observation.Policies, p)
			s.wait["record "+p.ID.Name] = func(ctx context.Context) error { return withGrace(ctx, time.Second) }
		}
		s.wait["record "+own.ID.Name] = func(ctx context.Context) error { return withGrace(ctx, time.Second) }
		s.machines.observation.Policies = append(s.machines.observation.Policies, own)
		did, _, err := s.tryPass()
		if names := recorded(did); err == nil || len(names) < 2 || names[1] != own.ID.Name {
			t.Errorf("statuses were written in this order: %v (%v)", names, err)
		}
		if !slices.Contains(did, "begin m") {
			t.Errorf("the machine of another namespace was not repaired: %v", did)
		}
	})
}

// TestI15StatusesOfTheOverlookedAreWrittenBitByBit: one pass writes a bounded number of statuses of
// policies beyond the bound. Passes follow until all are written, and no longer.
func TestI15StatusesOfTheOverlookedAreWrittenBitByBit(t *testing.T) {
	s := newFixture(t)
	targets := many(200)
	for i := range targets {
		targets[i] = machine(targets[i].ID.Name)
	}
	s.machines.observes(targets...)
	s.machines.observation.Policies = nil
	for i := range 1000 {
		s.machines.observation.Policies = append(s.machines.observation.Policies, policyOf("tenant", fmt.Sprintf("flood-%04d", i), len(targets)))
	}
	const judged, bit = 497, 200
	for pass, want := range []int{judged + bit, judged + 2*bit, 1000} {
		did, next := s.pass()
		if got := len(recorded(did)); got != want {
			t.Errorf("pass %d wrote %d statuses, want %d", pass, got, want)
		}
		if due := !next.IsZero(); due != (want < 1000) {
			t.Errorf("after pass %d the next is due at %s", pass, next)
		}
	}
}
