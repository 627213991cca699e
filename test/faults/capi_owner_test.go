package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// waiting and leaving are the reasons of a mark that its owner has not answered, and of one on which the owner acts.
const (
	waiting = clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
	leaving = clusterv1.MachineSetMachineRemediationMachineDeletingReason
)

// machineOwner watches the machines, repairs and nodes of a fixture, and plays the owner of the machines. No fault
// touches its watches but a restart of the API server. It does nothing until a test says so.
type machineOwner struct {
	mu      sync.Mutex
	fixture *clusterFixture

	machines map[string]*clusterMachineSeen // by UID
	repairs  repairsSeen
	nodes    map[string][]nodeState // by name
	// dues are by name how many marks each machine should get in all.
	dues  map[string]int
	story []string
	wrong []error
	over  bool
}

// clusterMachineSeen is the history of a machine.
type clusterMachineSeen struct {
	name, uid string
	node      string
	// passed is set while the machine says that its health check has succeeded.
	passed bool
	marks  []*markSeen
	goneAt time.Time
}

// markSeen is one mark of a machine, which requests the replacement from its owner.
type markSeen struct {
	span
	seen   time.Time
	reason string
}

func newMachineOwner(h *clusterFixture) *machineOwner {
	h.t.Helper()
	s := &machineOwner{
		fixture: h, machines: map[string]*clusterMachineSeen{}, repairs: repairsSeen{}, nodes: map[string][]nodeState{}, dues: map[string]int{},
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	follow := func(of *cluster.Cluster, kind schema.GroupVersionKind, saw func(*unstructured.Unstructured, bool)) {
		api, err := client.NewWithWatch(of.Config, client.Options{Scheme: of.Scheme()})
		h.must("preparing the machine owner", err)
		f := &follower{api: api, kind: kind, saw: func(u *unstructured.Unstructured, gone bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.over {
				saw(u, gone)
			}
		}}
		watching.Go(func() { f.follow(ctx) })
	}
	follow(h.Cluster, clusterv1.GroupVersion.WithKind("Machine"), s.sawMachine)
	follow(h.Cluster, v1alpha1.GroupVersion.WithKind("Repair"), s.sawRepair)
	follow(h.workload, corev1.SchemeGroupVersion.WithKind("Node"), s.sawNode)
	h.t.Cleanup(func() { stop(); watching.Wait() })
	return s
}

// isOver stops the watches.
func (s *machineOwner) isOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

func (s *machineOwner) tell(format string, args ...any) {
	s.story = append(s.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func convert(u *unstructured.Unstructured, into any) error {
	body, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (s *machineOwner) sawMachine(u *unstructured.Unstructured, gone bool) {
	if u.GetNamespace() != s.fixture.name {
		return
	}
	m := &clusterv1.Machine{}
	if err := convert(u, m); err != nil {
		s.wrong = append(s.wrong, fmt.Errorf("machine %s can't be read: %w", u.GetName(), err))
		return
	}
	seen := s.machines[string(m.UID)]
	if seen == nil {
		seen = &clusterMachineSeen{name: m.Name, uid: string(m.UID)}
		s.machines[seen.uid] = seen
	}
	seen.node = m.Status.NodeRef.Name
	seen.passed = meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	s.sawMark(seen, m)
	if gone {
		seen.goneAt = time.Now()
		s.tell("machine %s is gone", m.Name)
	}
}

// sawMark compares a machine's mark with the last one.
func (s *machineOwner) sawMark(seen *clusterMachineSeen, m *clusterv1.Machine) {
	request := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
	if request != nil && request.Status != metav1.ConditionFalse {
		request = nil
	}
	switch before := seen.mark(); {
	case request == nil && before != nil:
		before.to = revision(m)
		s.tell("machine %s requests nothing any more", m.Name)
		if before.reason == leaving {
			s.wrong = append(s.wrong, fmt.Errorf("the mark of machine %s was withdrawn, and its owner had begun", m.Name))
		}
	case request != nil && before == nil:
		seen.marks = append(seen.marks, &markSeen{span: span{from: revision(m)}, seen: time.Now(), reason: request.Reason})
		s.tell("machine %s requests its replacement", m.Name)
		if !meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition) {
			s.wrong = append(s.wrong, fmt.Errorf("machine %s requests its replacement, and does not say why: %+v", m.Name, m.Status.Conditions))
		}
	case request != nil && before.reason != request.Reason:
		s.tell("the owner of machine %s says %s", m.Name, request.Reason)
		if request.Reason == waiting {
			s.wrong = append(s.wrong, fmt.Errorf("what the owner of machine %s has answered was overwritten", m.Name))
		}
		before.reason = request.Reason
	}
}

// mark returns the mark that the machine has now, or nil.
func (m *clusterMachineSeen) mark() *markSeen {
	if n := len(m.marks); n > 0 && m.marks[n-1].to == 0 {
		return m.marks[n-1]
	}
	return nil
}

func (s *machineOwner) sawRepair(u *unstructured.Unstructured, gone bool) {
	r := &v1alpha1.Repair{}
	if u.GetNamespace() != s.fixture.name || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r) != nil {
		return
	}
	turned, wrong := s.repairs.see(r, gone)
	if wrong != nil {
		s.wrong = append(s.wrong, wrong)
	}
	if turned {
		s.tell("repair %s of %s is %s %s", r.Name, r.Spec.Target.Name, r.Status.Phase, r.Status.Message)
	}
}

func (s *machineOwner) sawNode(u *unstructured.Unstructured, gone bool) {
	if u.GetLabels()["fixture"] != s.fixture.name {
		return
	}
	name := u.GetName()
	now := nodeState{from: revision(u), seen: time.Now(), well: isReady(u), gone: gone}
	if n := len(s.nodes[name]); n > 0 && s.nodes[name][n-1].well == now.well && s.nodes[name][n-1].gone == gone {
		return
	}
	s.nodes[name] = append(s.nodes[name], now)
	s.tell("node %s is well: %t, gone: %t", name, now.well, gone)
}

func (s *machineOwner) knows(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := map[string]bool{}
	for _, m := range s.machines {
		present[m.name] = present[m.name] || (m.goneAt.IsZero() && m.node != "")
	}
	for _, name := range names {
		if !present[name] {
			return fmt.Errorf("machine %s was not seen yet", name)
		}
	}
	return nil
}

// due expects one more mark for each of these machines.
func (s *machineOwner) due(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.dues[name]++
	}
}

// marked returns how many marks were ever made, and how many are still on existing machines.
func (s *machineOwner) marked() (made, kept int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		made += len(m.marks)
		if m.mark() != nil && m.goneAt.IsZero() {
			kept++
		}
	}
	return made, kept
}

// markedMachines returns the names of marked machines, in order.
func (s *machineOwner) markedMachines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, m := range s.machines {
		if m.mark() != nil && m.goneAt.IsZero() {
			found = append(found, m.name)
		}
	}
	slices.Sort(found)
	return found
}

// wantMarked waits until at least so many marks were made.
func (s *machineOwner) wantMarked(atLeast int) {
	s.fixture.t.Helper()
	s.fixture.Eventually(s.fixture.t, fmt.Sprintf("%d machines of %s are marked", atLeast, s.fixture.name), func(context.Context) error {
		if made, kept := s.marked(); made < atLeast {
			return fmt.Errorf("%d were, and %d are:\n%s", made, kept, s.lastWords())
		}
		return nil
	})
}

// wantPassed waits until so many machines say that their health check has succeeded. After that, Fettle writes nothing
// more to healthy machines.
func (s *machineOwner) wantPassed(exactly int) {
	s.fixture.t.Helper()
	s.fixture.Eventually(s.fixture.t, fmt.Sprintf("%d machines of %s have passed", exactly, s.fixture.name), func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, m := range s.machines {
			if m.passed && m.goneAt.IsZero() {
				n++
			}
		}
		if n != exactly {
			return fmt.Errorf("%d have", n)
		}
		return nil
	})
}

// wantMarks waits until so many machines are marked.
func (s *machineOwner) wantMarks(exactly int) {
	s.fixture.t.Helper()
	s.fixture.Eventually(s.fixture.t, fmt.Sprintf("%d marks stand in %s", exactly, s.fixture.name), func(context.Context) error {
		if made, kept := s.marked(); kept != exactly {
			return fmt.Errorf("%d were made, and %d are left:\n%s", made, kept, s.lastWords())
		}
		return nil
	})
}

// keepsMarked checks for a while that no mark is made or withdrawn.
func (s *machineOwner) keepsMarked() {
	s.fixture.t.Helper()
	made, kept := s.marked()
	s.fixture.Never(s.fixture.t, "no other mark in "+s.fixture.name, quiet, func(context.Context) error {
		if nowMade, nowKept := s.marked(); nowMade != made || nowKept != kept {
			return fmt.Errorf("%d were made and %d are left, want %d and %d", nowMade, nowKept, made, kept)
		}
		return nil
	})
}

func (s *machineOwner) lastWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 40
	return strings.Join(s.story[max(0, len(s.story)-most):], "\n")
}

// wantRepairs waits until so many repairs are in this phase.
func (s *machineOwner) wantRepairs(phase v1alpha1.RepairPhase, exactly int) {
	s.fixture.t.Helper()
	s.fixture.Eventually(s.fixture.t, fmt.Sprintf("%d repairs of %s are %s", exactly, s.fixture.name, phase), func(context.Context) error {
		if n := s.repairsThatAre(phase); n != exactly {
			return fmt.Errorf("%d are:\n%s", n, s.lastWords())
		}
		return nil
	})
}

func (s *machineOwner) repairsThatAre(phase v1alpha1.RepairPhase) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.repairs {
		if r.phase == phase {
			n++
		}
	}
	return n
}

// answers makes the owner answer marks.
func (s *machineOwner) answers(names []string, reason, message string) {
	s.fixture.t.Helper()
	s.fixture.each(names, func(ctx context.Context, name string) error { return s.answer(ctx, name, reason, message) })
}

func (s *machineOwner) answer(ctx context.Context, name, reason, message string) error {
	m := &clusterv1.Machine{ObjectMeta: s.fixture.meta(name)}
	if err := s.fixture.Get(ctx, keyOf(m), m); err != nil {
		return err
	}
	before := m.DeepCopy()
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
	if c == nil {
		return fmt.Errorf("machine %s requests nothing", name)
	}
	c.Reason, c.Message = reason, message
	return s.fixture.Status().Patch(ctx, m, client.MergeFrom(before))
}

// replaces makes the owner act on marks: it says so, and deletes the machines.
func (s *machineOwner) replaces(names []string) {
	s.fixture.t.Helper()
	s.fixture.each(names, func(ctx context.Context, name string) error {
		if err := s.answer(ctx, name, leaving, "Machine is deleting"); err != nil {
			return err
		}
		return s.fixture.Delete(ctx, &clusterv1.Machine{ObjectMeta: s.fixture.meta(name)})
	})
}

// wantReplaced makes the owner replace all marked machines once all marks that are due were made. Then every repair
// ends, and all is verified.
func (s *machineOwner) wantReplaced(limit int) {
	s.fixture.t.Helper()
	s.fixture.Eventually(s.fixture.t, "all that is due is marked", func(context.Context) error { return s.unmarked() })
	s.replaces(s.markedMachines())
	s.wantRepairs(v1alpha1.RepairRunning, 0)
	s.verify(limit)
}

func (s *machineOwner) unmarked() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := map[string]int{}
	for _, m := range s.machines {
		made[m.name] += len(m.marks)
	}
	for name, n := range s.dues {
		if made[name] < n {
			return fmt.Errorf("machine %s was marked %d times, and %d are due", name, made[name], n)
		}
	}
	return nil
}

// verify checks at the end of every test: each machine was marked as often as was due. Each mark took one accepted call
// and one repair, recorded before. None was made while too many machines were unhealthy.
func (s *machineOwner) verify(limit int) {
	t := s.fixture.t
	t.Helper()
	requests := s.fixture.Requests(t)[s.fixture.before:]
	s.mu.Lock()
	defer s.mu.Unlock()
	problems := slices.Concat(s.wrong, s.counted(requests), s.recorded(), s.limited(limit), hotLoops(requests))
	if err := errors.Join(problems...); err != nil {
		t.Errorf("%s: %v\nwhat happened:\n%s", s.fixture.name, err, strings.Join(s.story, "\n"))
	}
	t.Logf("%s: %d requests, at most %d in a second; %d machines marked", s.fixture.name, len(requests), peak(requests), len(s.dues))
}

// counted compares the marks that were due with the marks of the watch and of the audit log.
func (s *machineOwner) counted(requests []cluster.Request) []error {
	logged, cutOff, seen, repairs := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range requests {
		switch {
		case r.Namespace != s.fixture.name || r.Resource != "machines" || r.Subresource != "status" || !requestsReplacement(r.Patch):
		case r.Code == http.StatusOK:
			logged[r.Name]++
		case r.Code >= http.StatusInternalServerError: // its leader was killed, and the write may have succeeded all the same
			cutOff[r.Name]++
		}
	}
	for _, m := range s.machines {
		seen[m.name] += len(m.marks)
	}
	for _, r := range s.repairs {
		repairs[r.name]++
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		due := s.dues[name]
		if seen[name] != due || logged[name] > due || logged[name]+cutOff[name] < due || repairs[name] != due {
			problems = append(problems, fmt.Errorf("machine %s was marked %d times, by %d calls and with %d repairs, and should be %d times",
				name, seen[name], logged[name], repairs[name], due))
		}
	}
	return problems
}

// requestsReplacement reports whether a patch requests the replacement of a machine from its owner.
func requestsReplacement(patch []byte) bool {
	var operations []struct {
		Path  string
		Value struct{ Type, Status string }
	}
	_ = json.Unmarshal(patch, &operations) // values of other operations are of other types
	for _, o := range operations {
		if strings.HasPrefix(o.Path, "/status/conditions") && o.Value.Type == clusterv1.MachineOwnerRemediatedCondition && o.Value.Status == "False" {
			return true
		}
	}
	return false
}

// recorded: every mark has a repair that is older.
func (s *machineOwner) recorded() []error {
	var problems []error
	for _, m := range s.machines {
		for i, mark := range m.marks {
			before := 0
			for _, r := range s.repairs {
				if r.target == m.uid && r.seenAt < mark.from {
					before++
				}
			}
			if before <= i {
				problems = append(problems, fmt.Errorf("machine %s was marked before a repair was recorded", m.name))
			}
		}
	}
	return problems
}

// limited: no mark was made while more machines than the limit had been unhealthy for so long that Fettle knew.
func (s *machineOwner) limited(limit int) []error {
	var problems []error
	for _, m := range s.machines {
		for _, mark := range m.marks {
			if n := s.unhealthyAt(mark.seen); n > limit {
				problems = append(problems, fmt.Errorf("machine %s was marked while %d were unhealthy, and the limit is %d", m.name, n, limit))
			}
		}
	}
	return problems
}

// unhealthyAt counts the machines whose nodes had been unhealthy for a while at a revision.
func (s *machineOwner) unhealthyAt(at time.Time) int {
	n := 0
	for _, m := range s.machines {
		states := s.nodes[m.node]
		until := len(states)
		for until > 0 && states[until-1].seen.After(at) {
			until--
		}
		known := until > 0 && at.Sub(states[until-1].seen) > onTheWay && !states[until-1].well
		if there := m.goneAt.IsZero() || m.goneAt.After(at); known && there {
			n++
		}
	}
	return n
}
