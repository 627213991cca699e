package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/engine"
)

// leaseName is the name of the Lease for leader election.
const leaseName = "fettle"

// errLeaseLost ends a process that may no longer be the only one to act.
var errLeaseLost = errors.New("the lease was not renewed in time, so another replica may lead by now; this one ends")

// leaderLease records its last renewal. The elector stops a leader only after it has tried to
// release the lease. With an API server that doesn't answer, another replica may lead before.
type leaderLease struct {
	resourcelock.Interface

	now      func() time.Time
	deadline time.Duration

	mu      sync.Mutex
	renewed time.Time
}

func newLease(config *rest.Config, o controllerOptions) (*leaderLease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding a name for this replica: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.leaderElectionNamespace, leaseName, identity, config, o.renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease: %w", err)
	}
	return &leaderLease{Interface: lock, now: time.Now, deadline: o.renewDeadline}, nil
}

// Create creates the Lease.
func (l *leaderLease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.recordRenewal(r, func() error { return l.Interface.Create(ctx, r) })
}

// Update acquires, renews or releases the Lease.
func (l *leaderLease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.recordRenewal(r, func() error { return l.Interface.Update(ctx, r) })
}

// recordRenewal writes the Lease and records the time before the write. Other replicas count from a
// later time.
func (l *leaderLease) recordRenewal(r resourcelock.LeaderElectionRecord, write func() error) error {
	at := l.now()
	err := write()
	if err == nil && r.HolderIdentity == l.Identity() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = at
	}
	return err
}

// remaining returns how long this replica may rely on the lease. The wall clock counts too: other
// clocks stand still while the computer is suspended, and another replica leads.
func (l *leaderLease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline - core.Elapsed(l.renewed, l.now())
}

// lost reports whether this replica has led and can't rely on the lease any more. A replica that
// never led has lost nothing.
func (l *leaderLease) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && core.Elapsed(l.renewed, l.now()) >= l.deadline
}

// whileHeld returns a context that ends with the cause errLeaseLost when this replica can't rely on
// the lease any more. The lease is nil without leader election.
func (l *leaderLease) whileHeld(ctx context.Context) (context.Context, context.CancelFunc) {
	if l == nil {
		return context.WithCancel(ctx)
	}
	held, lose := context.WithCancelCause(ctx)
	go func() {
		for left := l.remaining(); left > 0; left = l.remaining() {
			timer := time.NewTimer(left)
			select {
			case <-held.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
		lose(errLeaseLost)
	}()
	return held, func() { lose(nil) }
}

// leader runs the loop while this replica leads.
type leader struct {
	loop    *engine.Loop
	metrics *engine.Metrics
	log     logr.Logger
	// lease is nil when there is no election.
	lease *leaderLease
}

// Start runs the loop until the context ends. It returns an error if the lease is lost.
func (l *leader) Start(ctx context.Context) error {
	ctx, end := l.lease.whileHeld(ctx)
	defer end()
	l.log.Info("this replica leads; it acts from now on")
	l.metrics.SetLeader(true)
	err := l.loop.Start(ctx)
	l.metrics.SetLeader(false)
	l.log.Info("this replica acts no more")
	if errors.Is(context.Cause(ctx), errLeaseLost) {
		return errLeaseLost
	}
	return err
}

// NeedLeaderElection keeps replicas that don't lead from acting.
func (*leader) NeedLeaderElection() bool { return true }

// leaderOnly runs another part of the controller while this replica leads. It leaves the loss of
// the lease to leader to report.
type leaderOnly struct {
	part interface{ Start(context.Context) error }
	// lease is nil when there is no election.
	lease *leaderLease
}

// Start runs the part until the context ends or the lease is lost.
func (h leaderOnly) Start(ctx context.Context) error {
	ctx, end := h.lease.whileHeld(ctx)
	defer end()
	return h.part.Start(ctx)
}

// NeedLeaderElection keeps replicas that don't lead from acting.
func (leaderOnly) NeedLeaderElection() bool { return true }

func (o *controllerOptions) checkElection() error {
	if !o.leaderElect {
		return nil
	}
	var problems []error
	if o.leaseDuration <= o.renewDeadline {
		problems = append(problems, fmt.Errorf("--leader-elect-lease-duration is %s; it must be longer than --leader-elect-renew-deadline, %s, or two replicas would act at a time", o.leaseDuration, o.renewDeadline))
	}
	// The elector waits up to 1.2 times its period.
	if o.retryPeriod <= 0 || o.renewDeadline <= o.retryPeriod*12/10 {
		problems = append(problems, fmt.Errorf("--leader-elect-retry-period is %s; it must be above zero, and 1.2 times as much less than --leader-elect-renew-deadline, %s", o.retryPeriod, o.renewDeadline))
	}
	if len(validation.IsDNS1123Label(o.leaderElectionNamespace)) > 0 {
		problems = append(problems, fmt.Errorf("--leader-election-namespace is %q; it must name the namespace of the lease, such as fettle-system", o.leaderElectionNamespace))
	}
	return errors.Join(problems...)
}
