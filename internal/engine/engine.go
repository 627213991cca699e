package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// Config is what an engine needs. Every field is required but Cluster, FactSources, Quorum, NodeLeases, Siblings and Metrics.
type Config struct {
	// ClusterKey names the fleet among those that share Metrics; it may be empty where there is one.
	ClusterKey string
	// Dialects may be Confirmers too.
	Dialects      []Dialect
	Ledger        Ledger
	LiveRepairs   LiveRepairs
	RepairDeleter RepairDeleter
	// FactSources are asked in their order, after all dialects.
	FactSources []FactSource
	// Quorum may be nil, and then nothing is known of it: no member of the control plane is repaired.
	Quorum Quorum
	// NodeLeases may be nil, and then no leases are held.
	NodeLeases NodeLeases
	// Siblings returns the machine of a node that is no target itself, the zero ID for none, and false while that is not
	// known. It may be nil.
	Siblings func(core.Target) (core.ID, bool)
	// Remedies by the name that a ladder calls them.
	Remedies map[string]Remedy
	// Retention bounds how long finished repairs are kept.
	Retention core.Retention
	// Now is the clock, and Clock compares it with that of the API server.
	Now   func() time.Time
	Clock Clock
	Log   logr.Logger
	// Metrics may be nil, and then nothing is counted.
	Metrics *Metrics
}

// Engine keeps one fleet. Its methods must not be called concurrently.
type Engine struct {
	Config

	state pass.State
}

// New makes an engine that remembers nothing yet.
func New(c Config) *Engine {
	return &Engine{Config: c}
}

// pass is Pass without its measures.
func (e *Engine) pass(ctx context.Context) (time.Time, error) {
	snapshot, unobserved := e.observe()
	if snapshot.Cluster.Observed != core.Yes {
		e.Metrics.clearGauges(e.ClusterKey)
	}
	p := pass.New(e.passConfig(e.decide), &e.state, snapshot)
	if err := e.run(ctx, p); err != nil {
		return time.Time{}, err
	}
	return p.Next(), errors.Join(unobserved, joinFailures(p))
}

// joinFailures joins the errors of a pass.
func joinFailures(p *pass.Pass) error {
	var errs []error
	for _, stage := range p.Failures() {
		errs = append(errs, joinErrors(stage))
	}
	return errors.Join(errs...)
}

// passConfig says what a pass may count on.
func (e *Engine) passConfig(decide func([]core.Policy, core.Cluster, time.Time) core.Decision) pass.Config {
	c := pass.Config{
		Remedies: make(map[string]bool, len(e.Remedies)), Leases: e.NodeLeases != nil, Quorum: e.Quorum != nil, Siblings: e.Siblings != nil,
		Samples: e.Metrics != nil, Retention: e.Retention, Decide: decide,
	}
	for name, remedy := range e.Remedies {
		_, withdraws := remedy.(RequestRemedy)
		if remedy != nil {
			c.Remedies[name] = withdraws
		}
	}
	for _, dialect := range e.Dialects {
		_, standsBy := dialect.(BlockedReporter)
		_, marks := dialect.(ConditionWriter)
		_, confirms := dialect.(ConfirmationWithdrawer)
		c.Dialects = append(c.Dialects, pass.Dialect{ReportsBlocked: standsBy, WritesConditions: marks, RemovesConfirmations: confirms})
	}
	return c
}

// decide decides, and measures how long that takes.
func (e *Engine) decide(policies []core.Policy, cluster core.Cluster, now time.Time) core.Decision {
	began := e.Now()
	d := core.Decide(policies, cluster, now)
	e.Metrics.observeDecision(e.Now().Sub(began))
	return d
}

// readClock reads the clocks.
func (e *Engine) readClock() pass.ClockReading {
	now := e.Now()
	return pass.ClockReading{Now: now, Agrees: e.Clock.Agrees(), Corrected: e.Clock.Corrected(now)}
}

// observe takes the snapshot that the pass decides on. When a dialect fails, nothing is observed.
func (e *Engine) observe() (pass.Snapshot, error) {
	s := pass.Snapshot{Clock: e.readClock(), PolicyDialect: map[core.ID]int{}, Kinds: map[string]bool{}}
	for source, dialect := range e.Dialects {
		o, err := dialect.Observe()
		if err != nil {
			return pass.Snapshot{Clock: s.Clock}, fmt.Errorf("observing the fleet: %w", err)
		}
		switch o.Observed {
		case core.Yes:
			s.Kinds[o.Kind] = true
			addObservation(&s, source, o)
		case core.Unknown: // it may have a policy that leads, or whose limits hold
			s.Unknown = append(s.Unknown, source)
		case core.No:
		}
	}
	repairs, synced := e.Ledger.Repairs()
	if len(s.Unknown) > 0 || len(s.Kinds) == 0 || synced != core.Yes {
		return s, nil
	}
	s.Cluster.Observed, s.Cluster.ClockAgrees, s.Cluster.Repairs = core.Yes, e.Clock.Agrees(), repairs
	core.LimitVerdicts(s.Policies, s.Cluster.Targets, core.MaxVerdicts(len(s.Cluster.Targets)))
	for _, facts := range e.FactSources {
		facts.AddFacts(s.Policies, &s.Cluster)
	}
	return s, nil
}

// addObservation adds to a snapshot what one dialect observes.
func addObservation(s *pass.Snapshot, source int, o core.Observation) {
	first := len(s.Cluster.Targets)
	for i := range o.Policies {
		p := o.Policies[i]
		if first > 0 {
			members := make([]int, len(p.Members))
			for j, m := range p.Members {
				members[j] = m + first
			}
			p.Members = members
		}
		s.Policies = append(s.Policies, p)
		s.PolicyDialect[p.ID] = source
	}
	s.Cluster.Targets = append(s.Cluster.Targets, o.Targets...)
	s.Cluster.Requests = append(s.Cluster.Requests, o.Requests...)
	if o.Upgrading != core.Unknown || o.UpgradingWhy != "" {
		s.Cluster.Upgrading, s.Cluster.UpgradingWhy = o.Upgrading, o.UpgradingWhy
	}
	for range o.Targets {
		s.TargetDialect = append(s.TargetDialect, source)
	}
}
