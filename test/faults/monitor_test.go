package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
)

// foreign labels objects that belong neither to Fettle nor to a remediator, and must stay as they are.
const foreign = "faults/foreign"

// monitor watches the nodes, remediation objects, leases and repairs of a pool, and plays the remediators. No fault
// touches its watches but a restart of the API server. Revisions count all changes of a cluster, so the monitor
// compares the order in which changes happened, not the order in which it saw them.
type monitor struct {
	mu   sync.Mutex
	pool *pool

	nodes   map[string]*nodeSeen   // by UID
	objects map[string]*objectSeen // by UID
	entries map[string]*entrySeen  // by UID
	leases  map[string]*leaseSeen  // by UID
	check   span
	// most is the largest number of nodes under remediation at one moment, and mostPlane of nodes of the control plane.
	most, mostPlane int
	story           []string
	wrong           []error

	// work is how long remediators need until a node is healthy, and undo until they release a deleted object. held
	// means until the test says otherwise. Remediators fail at the templates in failing.
	work, undo time.Duration
	failing    []string
	// taking is set while the test deletes remediation objects or Repairs, as another client would.
	taking bool
	over   bool
}

// span is from one revision to another. The end is zero while it lasts.
type span struct{ from, to uint64 }

func (s span) has(at uint64) bool { return s.from <= at && (s.to == 0 || at < s.to) }

type nodeSeen struct {
	name, uid string
	plane     bool
	states    []nodeState
}

// nodeState is the state of a node from a revision on.
type nodeState struct {
	from                 uint64
	seen                 time.Time
	well, selected, gone bool
}

type objectSeen struct {
	kind, namespace, name, node, template string
	// target is the UID of the object's node or machine.
	target   string
	revision uint64
	span
	// leaving is the revision at which the object was deleted.
	leaving             uint64
	made, leavingSeen   time.Time
	taken, foreign      bool
	takenUp, toldToStop bool
}

type entrySeen struct {
	name, target, node string
	span
	phase v1alpha1.RepairPhase
	taken bool
	last  *v1alpha1.Repair
}

type leaseSeen struct {
	name, holder string
	foreign      bool
	revision     uint64
	span
}

func newMonitor(p *pool) *monitor {
	p.t.Helper()
	m := &monitor{
		pool: p, nodes: map[string]*nodeSeen{}, objects: map[string]*objectSeen{}, entries: map[string]*entrySeen{}, leases: map[string]*leaseSeen{},
		work: 200 * time.Millisecond, undo: 100 * time.Millisecond,
	}
	api, err := client.NewWithWatch(p.Config, client.Options{Scheme: p.Scheme()})
	p.must("preparing the monitor", err)
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for kind, saw := range map[schema.GroupVersionKind]func(*unstructured.Unstructured, bool){
		corev1.SchemeGroupVersion.WithKind("Node"):           m.sawNode,
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):  m.sawLease,
		v1alpha1.GroupVersion.WithKind("Repair"):             m.sawEntry,
		schema.FromAPIVersionAndKind(remediators, rebooting): m.sawObject,
		schema.FromAPIVersionAndKind(remediators, reinstall): m.sawObject,
		medik8s.GroupVersion.WithKind("NodeHealthCheck"):     m.sawCheck,
	} {
		f := &follower{api: api, kind: kind, saw: func(u *unstructured.Unstructured, gone bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !m.over {
				saw(u, gone)
			}
		}}
		watching.Go(func() { f.follow(ctx) })
	}
	p.t.Cleanup(func() { stop(); watching.Wait() })
	return m
}

// follower watches a kind, also while it is not served for a time. An informer would come back to it late.
type follower struct {
	api  client.WithWatch
	kind schema.GroupVersionKind
	saw  func(u *unstructured.Unstructured, gone bool)

	known map[string]*unstructured.Unstructured
}

func (f *follower) follow(ctx context.Context) {
	f.known = map[string]*unstructured.Unstructured{}
	for ctx.Err() == nil {
		f.round(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (f *follower) round(ctx context.Context) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(f.kind.GroupVersion().WithKind(f.kind.Kind + "List"))
	if f.api.List(ctx, list) != nil {
		return
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[string(list.Items[i].GetUID())] = true
	}
	for uid, u := range f.known {
		if !there[uid] {
			u.SetResourceVersion(list.GetResourceVersion())
			f.take(u, true)
		}
	}
	for i := range list.Items {
		f.take(&list.Items[i], false)
	}
	events, err := f.api.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	if err != nil {
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Error {
			return
		}
		f.take(u, e.Type == watch.Deleted)
	}
}

func (f *follower) take(u *unstructured.Unstructured, gone bool) {
	uid := string(u.GetUID())
	f.known[uid] = u
	if gone {
		delete(f.known, uid)
	}
	f.saw(u, gone)
}

func (m *monitor) tell(format string, args ...any) {
	m.story = append(m.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (m *monitor) ours(name string) bool { return strings.HasPrefix(name, m.pool.name+"-") }

func (m *monitor) sawCheck(u *unstructured.Unstructured, gone bool) {
	switch {
	case u.GetName() != m.pool.name:
	case gone:
		m.check.to = revision(u)
	case m.check.from == 0:
		m.check.from = revision(u)
	}
}

func (m *monitor) sawNode(u *unstructured.Unstructured, gone bool) {
	if !m.ours(u.GetName()) {
		return
	}
	n := m.nodes[string(u.GetUID())]
	if n == nil {
		_, plane := u.GetLabels()["node-role.kubernetes.io/control-plane"]
		n = &nodeSeen{name: u.GetName(), uid: string(u.GetUID()), plane: plane}
		m.nodes[n.uid] = n
	}
	now := nodeState{from: revision(u), seen: time.Now(), well: isReady(u), selected: u.GetLabels()["pool"] == m.pool.name, gone: gone}
	if last := n.last(); last.well == now.well && last.selected == now.selected && last.gone == now.gone && len(n.states) > 0 {
		return
	}
	n.states = append(n.states, now)
	m.tell("node %s is well: %t, selected: %t, gone: %t", n.name, now.well, now.selected, now.gone)
}

func isReady(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		fields, _ := c.(map[string]any)
		return fields["type"] == "Ready" && fields["status"] == "True"
	})
}

// last returns the last state of the node, or the zero value if it was never seen.
func (n *nodeSeen) last() nodeState {
	if len(n.states) == 0 {
		return nodeState{}
	}
	return n.states[len(n.states)-1]
}

func (m *monitor) sawEntry(u *unstructured.Unstructured, gone bool) {
	r := &v1alpha1.Repair{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); err != nil || !m.ours(r.Spec.Target.Name) {
		return
	}
	e := m.entries[string(r.UID)]
	if e == nil {
		e = &entrySeen{name: r.Name, target: r.Spec.Target.UID, node: r.Spec.Target.Node, span: span{from: revision(r)}}
		m.entries[string(r.UID)] = e
	}
	if e.phase != r.Status.Phase {
		m.tell("repair %s is %s %s", r.Name, r.Status.Phase, r.Status.Message)
	}
	e.phase, e.last = r.Status.Phase, r
	if e.to == 0 && (gone || e.phase != v1alpha1.RepairRunning) {
		e.to = revision(r)
	}
	switch {
	case gone && m.taking:
		e.taken = true
		m.tell("repair %s is taken away", r.Name)
	case gone:
		m.wrong = append(m.wrong, fmt.Errorf("repair %s was deleted, unexpectedly", r.Name))
	}
	m.oneRunning(e.target)
}

// oneRunning: a target has one running repair at most (I2).
func (m *monitor) oneRunning(target string) {
	var running []string
	for _, e := range m.entries {
		if e.target == target && e.to == 0 {
			running = append(running, e.name)
		}
	}
	if len(running) > 1 {
		m.wrong = append(m.wrong, fmt.Errorf("one target has the running repairs %v", running))
	}
}

func (m *monitor) sawLease(u *unstructured.Unstructured, gone bool) {
	if node, is := strings.CutPrefix(u.GetName(), medik8s.LeasePrefix); u.GetNamespace() != medik8s.LeaseNamespace || !is || !m.ours(node) {
		return
	}
	l := m.leases[string(u.GetUID())]
	if l == nil {
		_, isForeign := u.GetLabels()[foreign]
		l = &leaseSeen{name: u.GetName(), foreign: isForeign, revision: revision(u), span: span{from: revision(u)}}
		m.leases[string(u.GetUID())] = l
		m.tell("lease %s is taken", l.name)
	}
	l.holder, _, _ = unstructured.NestedString(u.Object, "spec", "holderIdentity")
	if l.foreign && (gone || l.revision != revision(u)) {
		m.wrong = append(m.wrong, fmt.Errorf("the foreign lease %s was touched", l.name))
	}
	if gone {
		l.to = revision(u)
		m.tell("lease %s is gone", l.name)
	}
}

func (m *monitor) sawObject(u *unstructured.Unstructured, gone bool) {
	o := m.objects[string(u.GetUID())]
	if o == nil {
		if o = m.newObject(u); o == nil {
			return
		}
		m.objects[string(u.GetUID())] = o
		m.tell("%s is made for %s", o.kind, o.node)
	}
	if o.foreign {
		if m.taking { // it goes with its definition
			return
		}
		if gone || o.revision != revision(u) {
			m.wrong = append(m.wrong, fmt.Errorf("the foreign %s %s was touched", o.kind, o.name))
		}
		return
	}
	if _, stopped := u.GetAnnotations()[medik8s.TimedOutAnnotation]; stopped {
		o.toldToStop = true
	}
	if o.leaving == 0 && (gone || u.GetDeletionTimestamp() != nil) {
		o.leaving, o.leavingSeen, o.taken = revision(u), time.Now(), m.taking
		m.tell("%s of %s is deleted by Fettle", o.kind, o.node)
	}
	if gone {
		o.to = revision(u)
		m.tell("%s of %s is gone", o.kind, o.node)
	}
	m.count()
	m.remediate(o)
}

// newObject returns nil for an object of another pool.
func (m *monitor) newObject(u *unstructured.Unstructured) *objectSeen {
	o := &objectSeen{
		kind: u.GetKind(), namespace: u.GetNamespace(), name: u.GetName(), revision: revision(u), span: span{from: revision(u)}, made: time.Now(),
		node:     u.GetAnnotations()[medik8s.NodeNameAnnotation],
		template: strings.TrimPrefix(u.GetAnnotations()[medik8s.TemplateNameAnnotation], m.pool.name+"-"),
	}
	_, o.foreign = u.GetLabels()[foreign]
	for _, owner := range u.GetOwnerReferences() {
		switch owner.Kind {
		case "Node":
			o.target = string(owner.UID)
		case "Machine": // of a pool of machines, whose nodes have their names
			o.target, o.node = string(owner.UID), owner.Name
			o.template = strings.TrimPrefix(u.GetAnnotations()["machine.openshift.io/cloned-from-name"], m.pool.name+"-")
		}
	}
	if !m.ours(o.node) {
		return nil
	}
	return o
}

// count counts the nodes under remediation at this moment. A deleted object does not count once its node is gone:
// nothing is left to do for that node, and its repair is over.
func (m *monitor) count() {
	all, plane := map[string]bool{}, map[string]bool{}
	for _, o := range m.objects {
		if o.to != 0 || o.foreign {
			continue
		}
		if n := m.nodes[o.target]; o.leaving != 0 && n != nil && n.last().gone {
			continue
		}
		all[o.node] = true
		if n := m.nodeAt(o.node, o.from); n != nil && n.plane {
			plane[o.node] = true
		}
	}
	m.most, m.mostPlane = max(m.most, len(all)), max(m.mostPlane, len(plane))
}

// nodeAt returns the node that had a name at a revision, or nil.
func (m *monitor) nodeAt(name string, at uint64) *nodeSeen {
	var found *nodeSeen
	for _, n := range m.nodes {
		if n.name == name && len(n.states) > 0 && n.states[0].from <= at && (found == nil || n.states[0].from > found.states[0].from) {
			found = n
		}
	}
	return found
}
