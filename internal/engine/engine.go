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

// Config configures an Engine. Every field is required but ClusterKey, FactSources, Quorum,
// NodeLeases, Siblings and Metrics.
type Config struct {
	// ClusterKey names the cluster in Metrics that several engines share. It may be empty where
	// there is one engine.
	ClusterKey string
	// A dialect may also implement ConditionWriter, BlockedReporter and ConfirmationWithdrawer.
	Dialects      []Dialect
	Ledger        Ledger
	LiveRepairs   LiveRepairs
	RepairDeleter RepairDeleter
	// FactSources add facts in this order, after all dialects.
	FactSources []FactSource
	// Without Quorum nothing is known about it, and no member of the control plane is repaired.
	Quorum Quorum
	// Without NodeLeases, repairs hold no leases.
	NodeLeases NodeLeases
	// Siblings returns the machine of a node that is no target itself. The ID is zero where the
	// node has no machine. The result is false while that is unknown. Siblings may be nil.
	Siblings func(core.Target) (core.ID, bool)
	// Remedies has each remedy under its name in the steps of policies.
	Remedies map[string]Remedy
	// Retention bounds how long finished repairs are kept.
	Retention core.Retention
	// Now is Fettle's clock, and Clock compares it with the API server's.
	Now   func() time.Time
	Clock Clock
	Log   logr.Logger
	// Without Metrics, nothing is counted.
	Metrics *Metrics
}

// Engine runs the passes over one cluster. Its methods must not be called concurrently.
type Engine struct {
	Config

	state pass.State
}

// New returns an engine without expectations.
func New(c Config) *Engine {
	return &Engine{Config: c}
}

// pass runs one pass.
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

// passConfig returns the configuration of a pass: which ports there are.
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
		_, reportsBlocked := dialect.(BlockedReporter)
		_, marks := dialect.(ConditionWriter)
		_, confirms := dialect.(ConfirmationWithdrawer)
		c.Dialects = append(c.Dialects, pass.Dialect{ReportsBlocked: reportsBlocked, WritesConditions: marks, WithdrawsConfirmations: confirms})
	}
	return c
}

// decide calls the core and measures its time.
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

// observe takes the snapshot of a pass. The snapshot has no facts if a dialect fails.
func (e *Engine) observe() (pass.Snapshot, error) {
	clock := e.readClock()
	observations := make([]core.Observation, len(e.Dialects))
	for i, dialect := range e.Dialects {
		var err error
		if observations[i], err = dialect.Observe(); err != nil {
			return pass.Snapshot{Clock: clock}, fmt.Errorf("observing the cluster: %w", err)
		}
	}
	repairs, synced := e.Ledger.Repairs()
	s := pass.NewSnapshot(clock, observations, repairs, synced)
	if s.Cluster.Observed != core.Yes {
		return s, nil
	}
	for _, facts := range e.FactSources {
		facts.AddFacts(s.Policies, &s.Cluster)
	}
	return s, nil
}
