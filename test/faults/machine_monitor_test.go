package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// machineMonitor watches the machines and repairs of a fixture, each in order. No fault touches its watches but a
// restart of the API server.
type machineMonitor struct {
	mu       sync.Mutex
	fixture  *machineFixture
	machines map[string]*machineSeen // by UID
	repairs  repairsSeen
	// leaving are the machines in deletion at this moment, unless the test has deleted them itself.
	leaving map[string]bool
	most    int
	story   []string
	wrong   []error
	// drain is how long machines take to go. Below zero they stay until the test says otherwise.
	drain time.Duration
}

type machineSeen struct {
	name string
	// meant is set while the test expects Fettle to delete the machine, and ours once the test has deleted it.
	meant, ours    bool
	deleting, gone bool
	deletingAt     uint64
}

type repairSeen struct {
	target, name string
	phase        v1alpha1.RepairPhase
	seenAt       uint64
}

// repairsSeen are repairs by their name.
type repairsSeen map[string]*repairSeen

// see records the state of a repair, and reports whether its phase is new. A repair that is gone is an error: Fettle
// keeps repairs for longer than any test lasts.
func (all repairsSeen) see(r *v1alpha1.Repair, gone bool) (bool, error) {
	seen := all[r.Name]
	if seen == nil {
		seen = &repairSeen{target: r.Spec.Target.UID, name: r.Spec.Target.Name, seenAt: revision(r)}
		all[r.Name] = seen
	}
	if gone {
		return false, fmt.Errorf("repair %s was deleted, unexpectedly", r.Name)
	}
	turned := seen.phase != r.Status.Phase
	seen.phase = r.Status.Phase
	return turned, nil
}

// held keeps machines in deletion until they are released.
const held = -1

func newMachineMonitor(s *machineFixture) *machineMonitor {
	s.t.Helper()
	w := &machineMonitor{fixture: s, machines: map[string]*machineSeen{}, repairs: repairsSeen{}, leaving: map[string]bool{}, drain: 200 * time.Millisecond}
	seen, err := cache.New(s.Config, cache.Options{Scheme: s.Scheme(), Mapper: s.RESTMapper(), DefaultNamespaces: map[string]cache.Config{s.namespace: {}}})
	s.must("preparing the monitor", err)
	machine := &metav1.PartialObjectMetadata{}
	machine.SetGroupVersionKind(s.machine("").GroupVersionKind())
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { _ = seen.Start(ctx) })
	s.t.Cleanup(func() { stop(); watching.Wait() })
	w.follow(ctx, seen, machine, w.sawMachine)
	w.follow(ctx, seen, &v1alpha1.Repair{}, w.sawRepair)
	if !seen.WaitForCacheSync(cluster.Context(s.t)) {
		s.t.Fatal("the monitor sees nothing")
	}
	return w
}

func (w *machineMonitor) follow(ctx context.Context, seen cache.Cache, kind interface {
	metav1.Object
	runtime.Object
}, saw func(obj metav1.Object, gone bool),
) {
	informer, err := seen.GetInformer(ctx, kind)
	w.fixture.must("preparing the monitor", err)
	take := func(obj any, gone bool) {
		if unknown, lost := obj.(toolscache.DeletedFinalStateUnknown); lost {
			obj = unknown.Obj
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		saw(obj.(metav1.Object), gone)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { take(obj, false) },
		UpdateFunc: func(_, obj any) { take(obj, false) },
		DeleteFunc: func(obj any) { take(obj, true) },
	})
	w.fixture.must("preparing the monitor", err)
}

func revision(obj metav1.Object) uint64 {
	n, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	return n
}

func (w *machineMonitor) tell(format string, args ...any) {
	w.story = append(w.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (w *machineMonitor) seenMachine(uid, name string) *machineSeen {
	m := w.machines[uid]
	if m == nil {
		m = &machineSeen{name: name}
		w.machines[uid] = m
	}
	return m
}

func (w *machineMonitor) sawMachine(obj metav1.Object, gone bool) {
	uid := string(obj.GetUID())
	m := w.seenMachine(uid, obj.GetName())
	if !m.deleting && (gone || obj.GetDeletionTimestamp() != nil) {
		m.deleting, m.deletingAt = true, revision(obj)
		if !m.ours {
			w.leaving[uid] = true
			w.most = max(w.most, len(w.leaving))
		}
		w.tell("machine %s is being deleted (%d are)", m.name, len(w.leaving))
		if !gone && w.drain >= 0 {
			w.releaseAfter(w.drain, m.name)
		}
	}
	if gone {
		m.gone = true
		delete(w.leaving, uid)
		w.tell("machine %s is gone (%d are being deleted)", m.name, len(w.leaving))
	}
}

// releaseAfter releases a machine. It retries while the API server is away.
func (w *machineMonitor) releaseAfter(drain time.Duration, name string) {
	time.AfterFunc(drain, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := w.fixture.release(ctx, name); err != nil {
			w.releaseAfter(100*time.Millisecond, name)
		}
	})
}

// drainAll releases all machines in deletion, and all later ones after the same time.
func (w *machineMonitor) drainAll(drain time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain = drain
	for _, m := range w.machines {
		if m.deleting && !m.gone {
			w.releaseAfter(0, m.name)
		}
	}
}

// hold keeps machines in deletion from now on.
func (w *machineMonitor) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain = held
}

func (w *machineMonitor) sawRepair(obj metav1.Object, gone bool) {
	r := obj.(*v1alpha1.Repair)
	turned, wrong := w.repairs.see(r, gone)
	if wrong != nil {
		w.wrong = append(w.wrong, wrong)
	}
	if turned {
		w.tell("repair %s is %s %s", r.Name, r.Status.Phase, r.Status.Message)
	}
	w.oneRunning(r.Spec.Target.UID)
}

// oneRunning: a target has one running repair at most (I2).
func (w *machineMonitor) oneRunning(target string) {
	var running []string
	for name, r := range w.repairs {
		if r.target == target && r.phase == v1alpha1.RepairRunning {
			running = append(running, name)
		}
	}
	if len(running) > 1 {
		w.wrong = append(w.wrong, fmt.Errorf("one target has the running repairs %v", running))
	}
}

// mark changes the records of the machines that have these names now.
func (w *machineMonitor) mark(names []string, change func(*machineSeen)) {
	w.fixture.t.Helper()
	for _, name := range names {
		found := false
		w.mu.Lock()
		for _, m := range w.machines {
			if m.name == name && !m.deleting {
				change(m)
				found = true
			}
		}
		w.mu.Unlock()
		if !found {
			w.fixture.t.Fatalf("the monitor has not seen machine %s", name)
		}
	}
}

// mean expects Fettle to delete these machines.
func (w *machineMonitor) mean(names []string) {
	w.fixture.t.Helper()
	w.fixture.Eventually(w.fixture.t, "the monitor sees all machines", func(context.Context) error { return w.knows(names) })
	w.mark(names, func(m *machineSeen) { m.meant = true })
}

func (w *machineMonitor) knows(names []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	present := map[string]bool{}
	for _, m := range w.machines {
		present[m.name] = present[m.name] || !m.gone
	}
	for _, name := range names {
		if !present[name] {
			return fmt.Errorf("machine %s was not seen yet", name)
		}
	}
	return nil
}

// spare expects Fettle not to delete these machines any more.
func (w *machineMonitor) spare(names []string) {
	w.fixture.t.Helper()
	w.mark(names, func(m *machineSeen) { m.meant = false })
}

// deleteOurselves deletes machines as another client would.
func (w *machineMonitor) deleteOurselves(names []string) {
	w.fixture.t.Helper()
	w.mark(names, func(m *machineSeen) { m.ours, m.meant = true, false })
	w.fixture.each(names, func(ctx context.Context, name string) error { return w.fixture.Delete(ctx, w.fixture.machine(name)) })
}

// counts returns the numbers of machines that are in deletion, gone, and still to be deleted.
func (w *machineMonitor) counts() (deleting, gone, left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines {
		switch {
		case m.gone:
			gone++
		case m.deleting:
			deleting++
		}
		if m.meant && !m.gone {
			left++
		}
	}
	return deleting, gone, left
}

func (w *machineMonitor) wantGone(atLeast int) {
	w.fixture.t.Helper()
	w.fixture.Eventually(w.fixture.t, fmt.Sprintf("%d machines gone", atLeast), func(context.Context) error {
		if _, gone, _ := w.counts(); gone < atLeast {
			return fmt.Errorf("%d are", gone)
		}
		return nil
	})
}

func (w *machineMonitor) wantDeleting(exactly int) {
	w.fixture.t.Helper()
	w.fixture.Eventually(w.fixture.t, fmt.Sprintf("%d machines in deletion", exactly), func(context.Context) error {
		if deleting, _, _ := w.counts(); deleting != exactly {
			return fmt.Errorf("%d are", deleting)
		}
		return nil
	})
}

// keepsDeleting checks for a while that no deletion begins or ends.
func (w *machineMonitor) keepsDeleting(exactly int) {
	w.fixture.t.Helper()
	w.fixture.Never(w.fixture.t, "no other deletion", quiet, func(context.Context) error {
		if deleting, gone, _ := w.counts(); deleting != exactly {
			return fmt.Errorf("%d machines are in deletion and %d gone, want %d in deletion", deleting, gone, exactly)
		}
		return nil
	})
}

// wantRepaired waits until every machine to be deleted is gone, and every repair has ended.
func (w *machineMonitor) wantRepaired() {
	w.fixture.t.Helper()
	w.fixture.Eventually(w.fixture.t, "all is repaired", func(context.Context) error { return w.unrepaired() })
}

func (w *machineMonitor) unrepaired() error {
	_, gone, left := w.counts()
	w.mu.Lock()
	defer w.mu.Unlock()
	running := 0
	for _, r := range w.repairs {
		if r.phase == v1alpha1.RepairRunning {
			running++
		}
	}
	if left+running > 0 {
		return fmt.Errorf("%d machines are gone, %d are left, %d repairs run:\n%s", gone, left, running, w.lastOfStory())
	}
	return nil
}

func (w *machineMonitor) lastOfStory() string {
	const most = 40
	return strings.Join(w.story[max(0, len(w.story)-most):], "\n")
}

// verify checks at the end of every test: nothing happened twice, unexpectedly or without a record, and never more than
// the limit at a time.
func (w *machineMonitor) verify(limit int) {
	t := w.fixture.t
	t.Helper()
	requests := w.fixture.Requests(t)[w.fixture.before:]
	w.mu.Lock()
	defer w.mu.Unlock()
	problems := slices.Clone(w.wrong)
	if w.most > limit {
		problems = append(problems, fmt.Errorf("%d machines were in deletion at a time, and the limit is %d", w.most, limit))
	}
	problems = append(problems, w.deletions(requests)...)
	problems = append(problems, w.records(requests)...)
	problems = append(problems, hotLoops(requests)...)
	if err := errors.Join(problems...); err != nil {
		t.Errorf("%v\nwhat happened last:\n%s", err, strings.Join(w.story, "\n"))
	}
	t.Logf("%d requests, at most %d in a second; at most %d machines in deletion", len(requests), peak(requests), w.most)
}

// deletions: each has preconditions that match the judged machine, is expected, and hits its machine once.
func (w *machineMonitor) deletions(requests []cluster.Request) []error {
	var problems []error
	accepted := map[string]int{}
	for _, r := range requests {
		if r.Verb != "delete" || r.Resource != "machines" || r.Namespace != w.fixture.namespace {
			continue
		}
		if (r.UID == "" || r.Revision == "") && !r.Unread {
			problems = append(problems, fmt.Errorf("the deletion of %s insists on no UID or revision: %+v", r.Name, r))
		}
		if r.Code == 200 {
			accepted[r.UID]++
		}
	}
	for uid, n := range accepted {
		m := w.machines[uid]
		switch {
		case m == nil:
			problems = append(problems, fmt.Errorf("a machine was deleted that the watch has not shown: %s", uid))
		case n > 1:
			problems = append(problems, fmt.Errorf("machine %s was deleted %d times", m.name, n))
		}
	}
	// A killed server may not have logged its last requests, so this check uses the machines.
	for uid, m := range w.machines {
		if m.deleting && !m.meant && !m.ours {
			problems = append(problems, fmt.Errorf("machine %s (%s) was deleted, and was not meant to be", m.name, uid))
		}
	}
	return problems
}

// records: every deleted machine had a repair first. Every repair says how it ended, and reports no deletion that did
// not happen.
func (w *machineMonitor) records(requests []cluster.Request) []error {
	var problems []error
	succeeded := map[string]int{}
	for name, r := range w.repairs {
		m := w.machines[r.target]
		switch {
		case m == nil:
			problems = append(problems, fmt.Errorf("repair %s is of a machine that the watch has not shown", name))
		case r.phase == v1alpha1.RepairSucceeded:
			succeeded[r.target]++
			if !m.gone {
				problems = append(problems, fmt.Errorf("repair %s says Succeeded, and machine %s is there", name, r.name))
			}
		}
	}
	for uid, m := range w.machines {
		if !m.deleting || m.ours {
			continue
		}
		if !w.recordedFirst(uid, m, requests) {
			problems = append(problems, fmt.Errorf("machine %s was deleted before a repair was recorded", m.name))
		}
		if n := succeeded[uid]; m.gone && n != 1 {
			problems = append(problems, fmt.Errorf("machine %s is gone, and %d repairs say Succeeded", m.name, n))
		}
	}
	return problems
}

// recordedFirst compares revisions, which count all changes of a cluster. The monitor may have missed a creation, since
// the API server was killed then. It then reads the audit log.
func (w *machineMonitor) recordedFirst(uid string, m *machineSeen, requests []cluster.Request) bool {
	for name, r := range w.repairs {
		if r.target != uid {
			continue
		}
		if r.seenAt < m.deletingAt {
			return true
		}
		for _, q := range requests {
			if q.Verb == "create" && q.Resource == "repairs" && q.Namespace == w.fixture.namespace && q.Code == 201 && q.Name == name {
				return true
			}
			if q.Verb == "delete" && q.UID == uid {
				break
			}
		}
	}
	return false
}

// mostPerSecond is far above what a pass over these machines needs, and far below what a loop without pauses would
// make.
const mostPerSecond = 400

// hotLoops finds seconds in which Fettle repeated one request too often.
func hotLoops(requests []cluster.Request) []error {
	var problems []error
	if n, what := repeated(requests); n > mostOfOneKind {
		problems = append(problems, fmt.Errorf("%d requests in a second to %s", n, what))
	}
	if n := peak(requests); n > mostPerSecond {
		problems = append(problems, fmt.Errorf("%d requests in one second", n))
	}
	return problems
}

// repeated returns how often one request was repeated in a second at most, and which.
func repeated(requests []cluster.Request) (most int, what string) {
	counts := map[string]int{}
	for _, r := range requests {
		if r.Name == "" {
			continue
		}
		request := strings.Join([]string{r.Verb, r.Resource, r.Subresource, r.Name}, " ")
		at := fmt.Sprint(request, r.At.Unix())
		counts[at]++
		if counts[at] > most {
			most, what = counts[at], request
		}
	}
	return most, what
}

// mostOfOneKind is how often Fettle may repeat one request in a second.
const mostOfOneKind = 20

func peak(requests []cluster.Request) int {
	perSecond := map[int64]int{0: 0}
	for _, r := range requests {
		perSecond[r.At.Unix()]++
	}
	return slices.Max(slices.Collect(maps.Values(perSecond)))
}
