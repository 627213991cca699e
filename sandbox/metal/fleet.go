package metal

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/fettle-io/fettle/sandbox/ipmi"
	"github.com/fettle-io/fettle/sandbox/redfish"
)

// Each host has few changes under way at a time.
const changesBuffer = 1024

// fleet is all hosts.
type fleet struct {
	now     func() time.Time
	changes chan event.GenericEvent // Nodes whose host has changed by itself
	closed  chan struct{}
	// requests logs the requests that reach BMCs by Redfish, or is nil.
	requests *requestLog

	// mu is taken before the lock of a host, and never after it.
	mu    sync.Mutex
	hosts map[string]*host
	bound map[string]pods // by node
}

func newFleet(now func() time.Time) *fleet {
	return &fleet{
		now:     now,
		changes: make(chan event.GenericEvent, changesBuffer),
		closed:  make(chan struct{}),
		hosts:   map[string]*host{},
		bound:   map[string]pods{},
	}
}

// host returns the host of that name, or nil.
func (f *fleet) host(name string) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[name]
}

// all returns all hosts.
func (f *fleet) all() []*host {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.hosts))
}

// add starts a host and its BMC for a Node. Only one goroutine adds the host of a name.
func (f *fleet) add(node *corev1.Node) (*host, error) {
	h := newHost(node, f.now, func() { f.changed(node.Name) })
	bmc, err := redfish.Start(redfish.Config{
		User: User, Password: Password, Host: h, UUID: systemUUID(node.Name), Log: f.requests.of(node.Name),
	})
	if err != nil {
		return nil, fmt.Errorf("starting the BMC of node %s: %w", node.Name, err)
	}
	lan, err := ipmi.Start(ipmi.Config{User: User, Password: Password, Host: h})
	if err != nil {
		_ = bmc.Close() // it has no host
		return nil, fmt.Errorf("starting the BMC of node %s: %w", node.Name, err)
	}
	h.bmc, h.lan = bmc, lan
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[node.Name] = h
	return h, nil
}

// setShown notes that the Node shows the host's boot.
func (f *fleet) setShown(h *host, boot string, taints []corev1.Taint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.setShown(boot, f.bound[h.name], taints)
}

// setAlive says whether the host's kubelet runs in a boot.
func (f *fleet) setAlive(h *host, boot string, alive bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.setAlive(boot, alive, f.bound[h.name])
}

// leftovers returns the pods that the host's kubelet has to end in the API.
func (f *fleet) leftovers(h *host) []pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return h.leftovers(f.bound[h.name])
}

// setPod notes a Pod as it is in the API.
func (f *fleet) setPod(object *corev1.Pod) {
	if object.Spec.NodeName != "" && f.notePod(object) {
		f.changed(object.Spec.NodeName)
	}
}

// notePod reports whether the kubelet has to end the Pod.
func (f *fleet) notePod(object *corev1.Pod) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	node := object.Spec.NodeName
	if f.bound[node] == nil {
		f.bound[node] = pods{}
	}
	f.bound[node][object.UID] = podOf(object)
	f.settle(node)
	h := f.hosts[node]
	return h != nil && len(h.leftovers(f.bound[node])) > 0
}

// removePod notes that a Pod is gone from the API.
func (f *fleet) removePod(object *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.bound[object.Spec.NodeName], object.UID)
	f.settle(object.Spec.NodeName)
}

func (f *fleet) settle(node string) {
	if h := f.hosts[node]; h != nil {
		h.settle(f.bound[node])
	}
}

// running returns a line for each pod that runs at this instant. No pod starts meanwhile.
func (f *fleet) running() []line {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	var lines []line
	for _, name := range slices.Sorted(maps.Keys(f.hosts)) {
		lines = append(lines, f.hosts[name].running(now)...)
	}
	return lines
}

// changed has the Node of a host written soon.
func (f *fleet) changed(name string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	select {
	case f.changes <- event.GenericEvent{Object: node}:
	case <-f.closed:
	}
}

// close closes all BMCs. It may be called once.
func (f *fleet) close() {
	close(f.closed)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hosts {
		_ = h.bmc.Close() // the process is about to end
		_ = h.lan.Close() // the same
	}
}
