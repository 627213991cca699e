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

// urgency orders what is to be written on machines.
type urgency int

// The urgencies.
const (
	// turning: a machine has failed or recovered.
	turning urgency = iota + 1
	// first: nothing was ever written on it.
	first
	// rewording: it fails for another reason, or something else is to be said.
	rewording
)

// marking is what is to be written on one machine.
type marking struct {
	machine *clusterapi.Machine
	changes []clusterapi.Change
	urgency urgency
}

// judged is one machine as it was judged.
type judged struct {
	machine *clusterapi.Machine
	target  *core.Target
	policy  *core.Policy
	core.Judgement

	now    time.Time
	passed []clusterapi.Change
}

// markingOf says what is to be written on a machine, and false when nothing is.
func (j *judged) markingOf() (marking, bool) {
	m := j.machine
	// What can't be read may be a criterion, so nobody is known to be well.
	if m == nil || m.DeletionTimestamp != nil || m.Skipped() || j.policy.Illegible {
		return marking{}, false
	}
	changes := slices.Concat(j.health(), j.outside())
	if !m.Differs(changes) {
		return marking{}, false
	}
	return marking{machine: m, changes: changes, urgency: urgencyOf(m, changes)}, true
}

// health says what becomes of the condition of a machine's health. Who may be about to fail keeps what it has, and so does
// whoever a remedy is called for in this pass: that says it together with what it asks, or takes back. A paused health
// check takes back alone, and says nothing new of anybody.
func (j *judged) health() []clusterapi.Change {
	current := j.machine.Mark(clusterapi.Current, healthType)
	failedBefore := current != nil && current.Status == string(metav1.ConditionFalse)
	if j.policy.Paused && !failedBefore {
		return nil
	}
	switch j.Verdict.Health {
	case core.Healthy:
		if (j.Verdict.Reason == core.Premature && current != nil) || (j.Settles && !asksOutside(j.policy)) {
			return nil
		}
		return j.passed
	case core.Unhealthy:
		if j.Begins && !asksOutside(j.policy) {
			return nil
		}
		return clusterapi.Failed(j.machine, j.machine.Node, j.policy.Criteria.FindingsBy(&j.Verdict, j.target, j.now))
	case core.Suspect, core.Undetermined, core.Gone:
	}
	return nil
}

// oursOutside are the reasons that are this dialect's to write, and to take away.
var oursOutside = [...]string{
	clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason,
	clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason,
}

// outside says what becomes of the condition by which a machine is left to an outside remediator. What the remediator
// has written itself stays.
func (j *judged) outside() []clusterapi.Change {
	mark := j.machine.Mark(clusterapi.Current, externalType)
	ours := mark != nil && mark.Status == string(metav1.ConditionFalse) && slices.Contains(oursOutside[:], mark.Reason)
	asks := asksOutside(j.policy) || (j.Repair != nil && conditionWords().Requests(j.Repair))
	settled := j.Verdict.Health == core.Healthy && j.Verdict.Reason != core.Premature
	if mark != nil && !ours {
		return nil
	}
	if ours && (settled || !asks) {
		return []clusterapi.Change{{In: clusterapi.Current, Type: externalType}}
	}
	if w := j.asked(); asks && w.Reason != "" {
		return []clusterapi.Change{{In: clusterapi.Current, Type: externalType, Words: &w}}
	}
	return nil
}

// asked says how it stands with asking an outside remediator, without a reason when there is nothing to say.
func (j *judged) asked() clusterapi.Words {
	w := clusterapi.Words{Status: string(metav1.ConditionFalse)}
	step, _ := conditionWords().RequestStep(j.policy)
	switch {
	case j.Verdict.Health != core.Unhealthy:
	case j.Asked:
		w.Reason = clusterv1.MachineExternallyRemediatedWaitingForRemediationReason
	case j.Repair != nil && conditionWords().Refused(j.Repair):
		w.Reason = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason
		w.Message = fmt.Sprintf("No remediation object could be created; it is tried again after a pause; kubectl -n %s describe repair %s says why", j.Repair.Namespace, j.Repair.Name)
	case step.Problem != "" && !step.Pending && !j.policy.Paused:
		w.Reason = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason // Cluster API has no reason for a template that can't be used
		if step.Missing {
			w.Reason = clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason
		}
		w.Message = "No remediator can be asked: " + step.Problem
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
		case was == nil && c.Words.Status == string(metav1.ConditionTrue):
			return first
		case was == nil || was.Status != c.Words.Status:
			return turning
		}
	}
	return rewording
}

// parallelWrites bounds how many machines are written on at a time.
const parallelWrites = 8

// mostMarks bounds how many machines are written on in one pass. The others have their turn in the next.
const mostMarks = 100

// Mark writes on machines how they were judged, where that differs from what they say.
func (f *Fleet) Mark(ctx context.Context, policies []core.Policy, fleet *core.Fleet, judgements []core.Judgement) (bool, error) {
	r := f.client.roomOf(f.cluster)
	machines := r.machinesOf(fleet.Targets)
	now, passed := f.client.Now(), clusterapi.Passed()
	var markings []marking
	for i := range judgements {
		j := judged{
			machine: machines[judgements[i].Target], target: &fleet.Targets[judgements[i].Target],
			policy: &policies[judgements[i].Policy], Judgement: judgements[i], now: now, passed: passed,
		}
		if m, differs := j.markingOf(); differs {
			markings = append(markings, m)
		}
	}
	slices.SortStableFunc(markings, func(a, b marking) int { return int(a.urgency - b.urgency) })
	more := len(markings) > mostMarks
	again, err := f.write(ctx, r, markings[:min(len(markings), mostMarks)])
	return more || again, err
}

// writeTimeout is how long one patch may take.
const writeTimeout = 5 * time.Second

// write makes the patches, of those that can't begin at once only what begins before the context ends. A machine that
// has changed meanwhile is to be judged again, and one that is gone needs none.
func (f *Fleet) write(ctx context.Context, r *room, markings []marking) (again bool, err error) {
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
			err := contain.Run(func() error { return f.writeOne(ctx, r, m) })
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
	return again, joined(errs)
}

// writeOne makes one patch, also when the context has ended.
func (f *Fleet) writeOne(ctx context.Context, r *room, m marking) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	now, err := f.client.machines.Write(limited, m.machine, m.changes)
	if err == nil {
		r.wroteMachine(now)
	}
	return err
}

// joined tells the first of many errors, and how many there are: when one write fails, often all do.
func joined(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%d machines could not be marked, the first since: %w", len(errs), errs[0])
}
