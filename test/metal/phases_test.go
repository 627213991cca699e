package metal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

// held is a pool whose first node has a remediation that stays in one phase.
type held struct {
	*pool

	in    phase
	named string // the phase
	proxy *cluster.Proxy
	all   *testing.T // the test of all phases, with which faults end
	fault *cluster.Injected
}

// phase is how a remediation is held in a phase, and how it ends after that.
type phase struct {
	// fields are those of the remediation, in YAML.
	fields string
	// begin is called before the remediation, and comes once it exists. come returns when the remediation is held.
	begin, come func(*held)
	// free ends what holds it.
	free func(*held)
	// ends is the phase in which it ends.
	ends string
	// unproven is set where the phase has no proof yet, and never gets one.
	unproven bool
}

// phases are the phases in which a remediation can be for long.
var phases = map[string]phase{
	"Preparing":       {patient, (*held).refusesPatches, comesByReason("NotChanged"), (*held).acceptsPatches, "Succeeded", false},
	"PoweringOff":     {patient, withFaults(`{"staysPoweringOff":true}`), comesByReason("PowerNotOff"), withFaults(""), "Succeeded", false},
	"Releasing":       {patient, (*held).holds, comesByReason("WorkloadLeft"), (*held).unholds, "Succeeded", false},
	"PoweringOn":      {patient, (*held).holds, (*held).comesToPoweringOn, withFaults(""), "Succeeded", false},
	"Booting":         {patient, (*held).bootsForLong, comesByReason("NodeNotBack"), (*held).boots, "Succeeded", false},
	"Restoring":       {patient, (*held).bootsForLong, (*held).comesToRestoring, (*held).acceptsPatches, "Succeeded", false},
	"Aborting":        {patient, (*held).holds, (*held).comesToAborting, withFaults(""), "Aborted", false},
	"Failed":          {"powerOffTimeout: 15s, retries: 0", withFaults(`{"drops":true}`), comesByEnd, withFaults(""), "Failed", true},
	"DeletingMachine": {"powerOffTimeout: 15s, retries: 0, onFailure: DeleteMachine", (*held).dyingMachine, comesByReason("MachineNotGone"), (*held).losesMachine, "Succeeded", true},
}

func withFaults(object string) func(*held) {
	return func(h *held) { h.faults(h.first(), object) }
}

func comesByReason(reason string) func(*held) { return func(h *held) { h.waitsFor(h.first(), reason) } }

func comesByEnd(h *held) { h.inPhase(h.first(), h.in.ends) }

// refusesPatches has the API server refuse each change of the node by Fettle.
func (h *held) refusesPatches() {
	h.fault = h.proxy.Inject(h.all, cluster.Fault{Method: http.MethodPatch, Path: "/api/v1/nodes/" + h.first(), Status: http.StatusServiceUnavailable})
}

func (h *held) acceptsPatches() { h.fault.End() }

func (h *held) holds()   { h.hold(h.first()) }
func (h *held) unholds() { h.unhold(h.first()) }

// bootsForLong has the host boot until boots is called.
func (h *held) bootsForLong() { h.mark(h.first(), "annotations", "boot-time", "1h") }

func (h *held) boots() { h.pressed(h.first()) }

func (h *held) comesToPoweringOn() {
	h.Helper()
	h.waitsFor(h.first(), "WorkloadLeft")
	h.faults(h.first(), `{"refusesCommands":500}`)
	h.unhold(h.first())
	h.inPhase(h.first(), "PoweringOn")
	h.waitsFor(h.first(), "PowerNotRead")
}

func (h *held) comesToRestoring() {
	h.Helper()
	h.waitsFor(h.first(), "NodeNotBack")
	h.refusesPatches()
	h.boots()
	h.inPhase(h.first(), "Restoring")
	h.waitsFor(h.first(), "NotChanged")
}

func (h *held) comesToAborting() {
	h.Helper()
	h.comesToPoweringOn()
	h.stops(h.first())
	h.inPhase(h.first(), "Aborting")
	h.waitsFor(h.first(), "PowerNotRead")
}

// dyingMachine has the machine of the pool stay once it is deleted, and its BMC dead. It has an owner, so that it may be deleted.
func (h *held) dyingMachine() {
	h.Helper()
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"set": h.pool.name}}, "template": map[string]any{},
	}}}
	set.SetGroupVersionKind(machineKind("MachineSet"))
	set.SetNamespace(machines)
	set.SetName(h.pool.name)
	if err := h.Create(cluster.Context(h.T), set); err != nil {
		h.Fatalf("creating a machine set: %v", err)
	}
	h.changesMachine(fmt.Sprintf(`{"finalizers":["example.org/hold"],"ownerReferences":[{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSet","name":%q,"uid":%q,"controller":true}]}`, set.GetName(), set.GetUID()))
	h.faults(h.first(), `{"drops":true}`)
}

func (h *held) changesMachine(metadata string) {
	h.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":`+metadata+`}`))
	if err := client.IgnoreNotFound(h.Patch(cluster.Context(h.T), h.newMachine(), patch)); err != nil {
		h.Fatalf("changing a machine: %v", err)
	}
}

// losesMachine lets the machine go that is being deleted.
func (h *held) losesMachine() {
	h.Helper()
	h.changesMachine(`{"finalizers":null}`)
	h.faults(h.first(), "")
}

// newHeld creates a pool for a phase.
func (s *site) newHeld(t, all *testing.T, proxy *cluster.Proxy, name, in string) *held {
	t.Helper()
	h := &held{pool: s.newPool(t, name+"-"+strings.ToLower(in)), in: phases[in], named: in, proxy: proxy, all: all}
	if in == "DeletingMachine" {
		h.ofMachine()
	}
	return h
}

// behindProxy starts Fettle behind a proxy, on a cluster where no node may be released that is not off.
func behindProxy(t *testing.T) (*site, *cluster.Proxy) {
	t.Helper()
	s := newMachineSite(t)
	s.AllowPower(t)
	s.releasesTheStoppedAlone(t)
	kubeconfig := s.FettleKubeconfig(t)
	proxy, address := s.StartProxy(t)
	cluster.Redirect(t, kubeconfig, address)
	s.StartFettleWith(t, kubeconfig)
	return s, proxy
}

// releasesTheStoppedAlone watches the nodes until the test ends. A node must be off when its workload is released, and the hosts of second
// nodes must never be off.
func (s *site) releasesTheStoppedAlone(t *testing.T) {
	t.Helper()
	watching, err := client.NewWithWatch(s.Config, client.Options{})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	nodes, err := watching.Watch(context.Background(), &corev1.NodeList{})
	if err != nil {
		t.Fatalf("watching nodes: %v", err)
	}
	ended := make(chan struct{})
	var over atomic.Bool
	go func() {
		defer close(ended)
		released := map[string]bool{}
		for e := range nodes.ResultChan() {
			n, is := e.Object.(*corev1.Node)
			if !is {
				if !over.Load() { // a watch that is stopped may end with an error
					t.Errorf("the watch of nodes has ended: %v", e.Object)
				}
				return
			}
			off := n.Annotations[sandboxes+"host-power"] == "off"
			now := inService(n) != nil || e.Type == watch.Deleted
			if now && !released[n.Name] && !off {
				t.Errorf("the workload of node %s was released, and its host is on: %v", n.Name, n.Spec.Taints)
			}
			released[n.Name] = now
			if off && strings.HasSuffix(n.Name, "-b") {
				t.Errorf("the host of node %s was powered off, and no remediation is for it", n.Name)
			}
		}
	}()
	t.Cleanup(func() {
		over.Store(true)
		nodes.Stop()
		<-ended
	})
}

// awayFor is how long the API server is away in each phase.
const awayFor = 10 * time.Second

// TestPowerRemediationWithoutTheAPIServer: the API server stands still in each phase of a remediation, and then refuses connections. The
// hosts stay as they are, and nothing is released. Afterwards the remediations go on.
func TestPowerRemediationWithoutTheAPIServer(t *testing.T) {
	t.Parallel()
	s, proxy := behindProxy(t)
	all := make(chan *held, len(phases))
	t.Run("phases", func(group *testing.T) {
		beside := cluster.Beside(group)
		defer beside.Wait()
		for in := range phases {
			beside.Run(in, func(sub *testing.T) {
				h := s.newHeld(sub, t, proxy, "away", in)
				h.in.begin(h)
				h.hangs(h.first())
				h.requested()
				h.in.come(h)
				all <- h
			})
		}
	})
	close(all)
	var pools []*held
	for h := range all {
		h.T = t // that of the phase has ended
		pools = append(pools, h)
	}
	if len(pools) != len(phases) {
		t.Fatalf("%d of %d phases were reached", len(pools), len(phases))
	}
	before := stateOf(pools)
	s.Halt(t)
	time.Sleep(awayFor) //nolint:forbidigo // it is how long the API server is away
	s.Resume(t)
	s.staysSo(t, pools, before, 0)
	proxy.CutOff(t)
	s.staysSo(t, pools, before, awayFor)
	proxy.Reconnect(t, s.Cluster)
	for _, h := range pools {
		h.in.free(h)
	}
	for _, h := range pools {
		h.endsWell()
	}
}

// requested creates a remediation with the fields of the phase.
func (h *held) requested() {
	h.Helper()
	h.isOld(h.first())
	h.Apply(h.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: PowerRemediation
metadata: {name: %s, namespace: %s}
spec: {%s}
`, h.first(), namespace, h.in.fields))
}

// stateOf says how each remediation, node and host is.
func stateOf(pools []*held) []string {
	var all []string
	for _, h := range pools {
		all = append(all, h.state(cluster.Context(h.T)))
	}
	return all
}

// state says how the remediation, the node and the host of a pool are.
func (h *held) state(ctx context.Context) string {
	r, err := h.remediation(ctx, h.first())
	n := h.node(ctx, h.first())
	var taints []string
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService || taint.Key == annotation.FencingTaint {
			taints = append(taints, taint.Key)
		}
	}
	return fmt.Sprintf("%s: phase %s, released %t, proof %v (%v); node %s with %v; host %s, boot %s",
		h.named, r.Status.Phase, r.Status.WorkloadReleased, r.Status.Proof != nil, err, n.UID, taints, n.Annotations[sandboxes+"host-power"], n.Status.NodeInfo.BootID)
}

// staysSo checks for a while that nothing changes.
func (s *site) staysSo(t *testing.T, pools []*held, before []string, while time.Duration) {
	t.Helper()
	same := func(context.Context) error {
		var errs []error
		for i, now := range stateOf(pools) {
			if now != before[i] {
				errs = append(errs, fmt.Errorf("it was %s\nand is %s", before[i], now))
			}
		}
		return errors.Join(errs...)
	}
	if while > 0 {
		s.Never(t, "a change", while, same)
	}
	if err := same(cluster.Context(t)); err != nil {
		t.Error(err)
	}
}

// endsWell waits until the remediation has ended as it does in its phase, and checks that everything is as before.
func (h *held) endsWell() {
	h.Helper()
	r := h.inPhase(h.first(), h.in.ends)
	if h.in.unproven && (r.Status.Proof != nil || r.Status.WorkloadReleased) {
		h.Errorf("the proof of %s is %+v, released %t", h.named, r.Status.Proof, r.Status.WorkloadReleased)
	}
	h.isAsBefore()
}
