package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
)

const (
	healthType   = clusterv1.MachineHealthCheckSucceededCondition
	externalType = clusterv1.MachineExternallyRemediatedCondition
)

// urgency orders the updates of machines.
type urgency int

// The urgencies, the most urgent first.
const (
	// statusChanges is for a machine that has failed or recovered.
	statusChanges urgency = iota + 1
	// neverWritten is for a machine without the condition.
	neverWritten
	// messageChanges is for a machine that fails for another reason, or whose message changes.
	messageChanges
)

// machineUpdate has the condition changes of one machine.
type machineUpdate struct {
	machine *clusterapi.Machine
	changes []clusterapi.Change
	urgency urgency
}

// judgedMachine is one machine with its verdict.
type judgedMachine struct {
	machine *clusterapi.Machine
	target  *core.Target
	policy  *core.Policy
	core.CombinedVerdict

	now    time.Time
	passed []clusterapi.Change
}

// update returns the condition changes of a machine, and false if there are none.
func (j *judgedMachine) update() (machineUpdate, bool) {
	m := j.machine
	// A criterion that can't be read may apply, so no machine is known to be healthy.
	if m == nil || m.DeletionTimestamp != nil || m.Skipped() || j.policy.Unparsable {
		return machineUpdate{}, false
	}
	changes := slices.Concat(j.healthCondition(), j.externalCondition())
	if !m.Differs(changes) {
		return machineUpdate{}, false
	}
	return machineUpdate{machine: m, changes: changes, urgency: urgencyOf(m, changes)}, true
}

// healthCondition returns the change of HealthCheckSucceeded. A suspect machine keeps its condition. So does a machine
// for which a remedy is called in this pass, since the remedy writes both conditions together. A paused health check
// only takes failures back.
func (j *judgedMachine) healthCondition() []clusterapi.Change {
	current := j.machine.Mark(clusterapi.Current, healthType)
	failedBefore := current != nil && current.Status == string(metav1.ConditionFalse)
	if j.policy.Paused && !failedBefore {
		return nil
	}
	switch j.Verdict.Health {
	case core.Healthy:
		if (j.Verdict.Reason == core.Premature && current != nil) || (j.RequestsWithdrawn && !requestsExternal(j.policy)) {
			return nil
		}
		return j.passed
	case core.Unhealthy:
		if j.RemedyCalled && !requestsExternal(j.policy) {
			return nil
		}
		return clusterapi.HealthCheckFailed(j.machine, j.machine.Node, j.policy.Criteria.FindingsBy(&j.Verdict, j.target, j.now))
	case core.Suspect, core.Undetermined, core.Gone:
	}
	return nil
}

// ownExternalReasons are the reasons of ExternallyRemediated that this dialect writes and removes.
var ownExternalReasons = [...]string{
	clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason,
	clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason,
}

// externalCondition returns the change of the condition ExternallyRemediated. A condition that the remediator itself
// has written stays.
func (j *judgedMachine) externalCondition() []clusterapi.Change {
	mark := j.machine.Mark(clusterapi.Current, externalType)
	ours := mark != nil && mark.Status == string(metav1.ConditionFalse) && slices.Contains(ownExternalReasons[:], mark.Reason)
	requested := requestsExternal(j.policy) || (j.Repair != nil && machineConditions().Requests(j.Repair))
	settled := j.Verdict.Health == core.Healthy && j.Verdict.Reason != core.Premature
	if mark != nil && !ours {
		return nil
	}
	if ours && (settled || !requested) {
		return []clusterapi.Change{{In: clusterapi.Current, Type: externalType}}
	}
	if w := j.requestCondition(); requested && w.Reason != "" {
		return []clusterapi.Change{{In: clusterapi.Current, Type: externalType, Content: &w}}
	}
	return nil
}

// requestCondition returns the state of the request to an external remediator. Its reason is empty if there is nothing
// to report.
func (j *judgedMachine) requestCondition() clusterapi.ConditionContent {
	w := clusterapi.ConditionContent{Status: string(metav1.ConditionFalse)}
	step, _ := machineConditions().RequestStep(j.policy)
	switch {
	case j.Verdict.Health != core.Unhealthy:
	case j.HasRequest:
		w.Reason = clusterv1.MachineExternallyRemediatedWaitingForRemediationReason
	case j.Repair != nil && machineConditions().Refused(j.Repair):
		w.Reason = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason
		w.Message = fmt.Sprintf("No remediation object could be created; it is tried again after a pause; kubectl -n %s describe repair %s says why", j.Repair.Namespace, j.Repair.Name)
	case step.Problem != "" && !step.Pending && !j.policy.Paused:
		w.Reason = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason // Cluster API has no reason for a template that can't be used
		if step.Missing {
			w.Reason = clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason
		}
		w.Message = "Fettle can't request a remediation: " + step.Problem
	}
	return w
}

func urgencyOf(m *clusterapi.Machine, changes []clusterapi.Change) urgency {
	for i := range changes {
		c := &changes[i]
		if c.Type != healthType || c.In != clusterapi.Current {
			continue
		}
		switch was := m.Mark(c.In, c.Type); {
		case was == nil && c.Content.Status == string(metav1.ConditionTrue):
			return neverWritten
		case was == nil || was.Status != c.Content.Status:
			return statusChanges
		}
	}
	return messageChanges
}

// parallelWrites bounds how many patches run at a time.
const parallelWrites = 8

// maxUpdates bounds how many machines one pass writes to. The next pass writes to the others.
const maxUpdates = 100

// WriteConditions writes verdicts to the conditions of machines, where they differ.
func (d *Dialect) WriteConditions(ctx context.Context, policies []core.Policy, cluster *core.Cluster, judgements []core.CombinedVerdict) (bool, error) {
	s := d.client.storeOf(d.cluster)
	machines := s.machinesOf(cluster.Targets)
	now, passed := d.client.Now(), clusterapi.HealthCheckSucceeded()
	var markings []machineUpdate
	for i := range judgements {
		j := judgedMachine{
			machine: machines[judgements[i].Target], target: &cluster.Targets[judgements[i].Target],
			policy: &policies[judgements[i].Policy], CombinedVerdict: judgements[i], now: now, passed: passed,
		}
		if m, differs := j.update(); differs {
			markings = append(markings, m)
		}
	}
	slices.SortStableFunc(markings, func(a, b machineUpdate) int { return int(a.urgency - b.urgency) })
	more := len(markings) > maxUpdates
	again, err := d.write(ctx, s, markings[:min(len(markings), maxUpdates)])
	return more || again, err
}

// writeTimeout bounds the time of one patch.
const writeTimeout = 5 * time.Second

// write makes the patches. When the context ends, it starts no more than the first parallelWrites. It returns true if a
// machine has changed meanwhile and must be judged again. A missing machine needs no patch.
func (d *Dialect) write(ctx context.Context, s *store, markings []machineUpdate) (again bool, err error) {
	var (
		mu    sync.Mutex
		errs  []error
		group errgroup.Group
	)
	group.SetLimit(parallelWrites)
	for i, m := range markings {
		group.Go(func() error {
			if i >= parallelWrites && ctx.Err() != nil {
				mu.Lock()
				defer mu.Unlock()
				again = true
				return nil
			}
			err := contain.Run(func() error { return d.writeOne(ctx, s, m) })
			if err == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsNotFound(err):
			case apierrors.IsConflict(err):
				again = true
			default:
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	return again, joinErrors(errs)
}

// writeOne makes one patch, even if the context has ended.
func (d *Dialect) writeOne(ctx context.Context, s *store, m machineUpdate) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	now, err := d.client.machines.Write(limited, m.machine, m.changes)
	if err == nil {
		s.storeWrittenMachine(now)
	}
	return err
}

// joinErrors returns the first of many errors and their number. When one write fails, often all fail.
func joinErrors(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%d machines could not be marked, the first since: %w", len(errs), errs[0])
}
