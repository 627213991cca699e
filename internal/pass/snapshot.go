package pass

import "github.com/fettle-io/fettle/internal/core"

// Snapshot is what the caches show.
type Snapshot struct {
	// Clock is read before anything else.
	Clock    ClockReading
	Policies []core.Policy
	// Cluster is as the dialects and fact sources see it. Unless it is observed, the pass only reports why not.
	Cluster core.Cluster
	// PolicyDialect is the index in Config.Dialects of the dialect of each policy, and TargetDialect of each target.
	PolicyDialect map[core.ID]int
	TargetDialect []int
	// Kinds are the kinds of targets that are observed.
	Kinds map[string]bool
	// Unknown has the indices of the dialects that don't know what they would observe.
	Unknown []int
}

// NewSnapshot returns a snapshot of the observations of all dialects, in the order of Config.Dialects, and of the repairs
// in the cache. Synced reports whether that cache is in sync. The cluster is observed where all of it is known and at least
// one dialect is served. Fact sources may then add to the cluster.
func NewSnapshot(clock ClockReading, observations []core.Observation, repairs []core.Repair, synced core.Tri) Snapshot {
	s := Snapshot{Clock: clock, PolicyDialect: map[core.ID]int{}, Kinds: map[string]bool{}}
	for dialect := range observations {
		switch o := &observations[dialect]; o.Observed {
		case core.Yes:
			s.Kinds[o.Kind] = true
			s.add(dialect, o)
		case core.Unknown: // it may have a policy that applies to these targets
			s.Unknown = append(s.Unknown, dialect)
		case core.No:
		}
	}
	if len(s.Unknown) > 0 || len(s.Kinds) == 0 || synced != core.Yes {
		return s
	}
	s.Cluster.Observed, s.Cluster.ClockAgrees, s.Cluster.Repairs = core.Yes, clock.Agrees, repairs
	core.LimitVerdicts(s.Policies, s.Cluster.Targets, core.MaxVerdicts(len(s.Cluster.Targets)))
	return s
}

// add adds the observation of one dialect.
func (s *Snapshot) add(dialect int, o *core.Observation) {
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
		s.PolicyDialect[p.ID] = dialect
	}
	s.Cluster.Targets = append(s.Cluster.Targets, o.Targets...)
	s.Cluster.Requests = append(s.Cluster.Requests, o.Requests...)
	if o.Upgrading != core.Unknown || o.UpgradingWhy != "" {
		s.Cluster.Upgrading, s.Cluster.UpgradingWhy = o.Upgrading, o.UpgradingWhy
	}
	for range o.Targets {
		s.TargetDialect = append(s.TargetDialect, dialect)
	}
}
