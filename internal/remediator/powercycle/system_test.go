package powercycle

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

const (
	nodeUUID  = "4c4c4544-0042-3510-8051-b7c04f4d3133"
	otherUUID = "00112233-4455-6677-8899-aabbccddeeff"
)

func onSystem(uuid string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = uuid }
}

// reachedSystem has the last operation of a BMC have succeeded on a system.
func reachedSystem(uuid string, changes ...func(*v1alpha1.BMC)) func(*v1alpha1.BMC) {
	return func(b *v1alpha1.BMC) {
		b.Status.SystemUUID = uuid
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReachableCondition, Status: metav1.ConditionTrue, Reason: reachable, ObservedGeneration: b.Generation}}
		for _, change := range changes {
			change(b)
		}
	}
}

// TestTheBMCOfAnotherHost: a remediation does not start with a BMC whose system is known to be another host than the node's.
func TestTheBMCOfAnotherHost(t *testing.T) {
	for sentence, tc := range map[string]struct {
		node *corev1.Node
		bmc  func(*v1alpha1.BMC)
		want string
	}{
		"the same":                         {node(onSystem(nodeUUID)), reachedSystem(nodeUUID), ""},
		"in capital letters":               {node(onSystem(strings.ToUpper(nodeUUID))), reachedSystem(nodeUUID), ""},
		"another":                          {node(onSystem(nodeUUID)), reachedSystem(otherUUID), v1alpha1.CannotStartOtherSystemReason},
		"another, not compared":            {node(onSystem(nodeUUID)), reachedSystem(otherUUID, unchecked), ""},
		"not known of the node":            {node(), reachedSystem(otherUUID), ""},
		"not known of the BMC":             {node(onSystem(nodeUUID)), reachedSystem(""), ""},
		"there is no node":                 {nil, reachedSystem(otherUUID), ""},
		"seen by another spec":             {node(onSystem(nodeUUID)), reachedSystem(otherUUID, func(b *v1alpha1.BMC) { b.Generation++ }), ""},
		"seen some time ago":               {node(onSystem(nodeUUID)), reachedSystem(otherUUID, func(b *v1alpha1.BMC) { b.Status.Conditions[0].Status = metav1.ConditionFalse }), ""},
		"seen as another":                  {node(onSystem(nodeUUID)), reachedSystem(otherUUID, asOther), v1alpha1.CannotStartOtherSystemReason},
		"seen as a system without a reset": {node(onSystem(nodeUUID)), reachedSystem(otherUUID, asOther, func(b *v1alpha1.BMC) { b.Status.Conditions[0].Reason = string(power.ResetNotAllowed) }), v1alpha1.CannotStartOtherSystemReason},
		"seen as another, and the node is another since": {node(onSystem(otherUUID)), reachedSystem(otherUUID, asOther), ""},
		"seen as another by another spec":                {node(onSystem(nodeUUID)), reachedSystem(otherUUID, asOther, func(b *v1alpha1.BMC) { b.Generation++ }), ""},
		"nothing was seen of it":                         {node(onSystem(nodeUUID)), func(b *v1alpha1.BMC) { b.Status.SystemUUID = otherUUID }, ""},
	} {
		bmc := bmcFor("a", "node-a", "redfish://10.0.0.1", tc.bmc)
		w := newWorld(t, bmc)
		if tc.node != nil {
			if err := w.api.Create(t.Context(), tc.node); err != nil {
				t.Fatal(err)
			}
		}
		_, found, err := w.identified(t, remediation())
		if err != nil || found.reason != tc.want {
			t.Errorf("%s: the problem is %+v (%v), want %q", sentence, found, err, tc.want)
		}
		for _, part := range []string{nodeUUID, otherUUID, "BMC a", "node-a", "systemUUIDCheck"} {
			if tc.want != "" && !strings.Contains(found.message, part) {
				t.Errorf("%s: the message %q lacks %s", sentence, found.message, part)
			}
		}
	}
}

// asOther has the last operation of a BMC have shown another system than the node's.
func asOther(b *v1alpha1.BMC) {
	b.Status.Conditions[0].Status, b.Status.Conditions[0].Reason = metav1.ConditionFalse, string(power.OtherSystem)
}

// reachableOf returns the condition Reachable of a BMC.
func (w *world) reachableOf(t *testing.T, name string) metav1.Condition {
	t.Helper()
	if c := meta.FindStatusCondition(w.bmc(t, name).Status.Conditions, v1alpha1.ReachableCondition); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// TestProbeTellsTheBMCOfAnotherHost, before a node fails and the BMC is needed.
func TestProbeTellsTheBMCOfAnotherHost(t *testing.T) {
	w, r := newRack(t, 1)
	r.set(func(r *rack) { r.uuid, r.on["host-0"] = otherUUID, true })
	key := types.NamespacedName{Namespace: bmcNamespace, Name: "host-0"}
	on := func(uuid string) func() {
		return func() {
			n := read(t, w, "", "host-0", &corev1.Node{})
			n.Status.NodeInfo.SystemUUID = uuid
			if err := w.api.Status().Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	unread := func(err error) func() {
		return func() {
			w.refuses(func(_ string, o runtime.Object) error {
				if _, is := o.(*corev1.Node); is {
					return err
				}
				return nil
			})
		}
	}
	for _, step := range []struct {
		sentence string
		change   func()
		reason   string
		power    v1alpha1.HostPower
	}{
		{"the node has no UUID", func() {}, reachable, v1alpha1.HostOn},
		{"the node has another", on(nodeUUID), "OtherSystem", v1alpha1.HostPowerUnknown},
		{"the node can't be read", unread(errors.New("the API server is down")), "OtherSystem", v1alpha1.HostPowerUnknown},
		{"the node is gone", unread(apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "host-0")), reachable, v1alpha1.HostOn},
		{"the node can be read again", unread(nil), "OtherSystem", v1alpha1.HostPowerUnknown},
		{"the node has the same", on(strings.ToUpper(otherUUID)), reachable, v1alpha1.HostOn},
	} {
		step.change()
		w.forward(probeEvery)
		if err := w.probe(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.bmcs.put(w.bmc(t, "host-0"))
		status, said := w.bmc(t, "host-0").Status, w.reachableOf(t, "host-0")
		if said.Reason != step.reason || (said.Status == metav1.ConditionTrue) != (step.reason == reachable) || status.Power != step.power || status.SystemUUID != otherUUID {
			t.Errorf("%s: it says %+v, with power %s and UUID %s", step.sentence, said, status.Power, status.SystemUUID)
		}
		for _, part := range []string{"BMC host-0", otherUUID, nodeUUID, "node host-0", otherSystemAdvice} {
			if step.reason != reachable && !strings.Contains(said.Message, part) {
				t.Errorf("%s: the message %q lacks %s", step.sentence, said.Message, part)
			}
		}
	}
	on(nodeUUID)()
	disabled := w.bmc(t, "host-0")
	unchecked(disabled)
	disabled.Generation++
	w.bmcs.put(disabled)
	w.readForStatus(t.Context(), disabled)
	if seen := w.seenOf(disabled); seen.problem.found() || seen.power != v1alpha1.HostOn {
		t.Errorf("where it is not compared: %+v", seen)
	}
}

// TestProbeTellsAResetThatIsNotAllowed before it is needed. The verdict stands until the probe finds it allowed, and doesn't conceal another
// system.
func TestProbeTellsAResetThatIsNotAllowed(t *testing.T) {
	w, r := newRack(t, 1)
	r.set(func(r *rack) { r.uuid, r.on["host-0"] = otherUUID, true })
	key := types.NamespacedName{Namespace: bmcNamespace, Name: "host-0"}
	for _, step := range []struct {
		allowed []string
		node    string
		reason  string
		parts   []string
	}{
		{nil, "", reachable, nil},
		{[]string{"On", "ForceOff"}, "", reachable, nil},
		{[]string{"On", "GracefulShutdown"}, "", "ResetNotAllowed", []string{"BMC host-0", "does not list ForceOff among", "node host-0", resetAdvice}},
		{[]string{"GracefulShutdown"}, "", "ResetNotAllowed", []string{"ForceOff and On"}},
		{[]string{"GracefulShutdown"}, nodeUUID, "OtherSystem", []string{otherSystemAdvice}},
		{nil, otherUUID, reachable, nil},
	} {
		r.set(func(r *rack) { r.allowed = step.allowed })
		n := read(t, w, "", "host-0", &corev1.Node{})
		n.Status.NodeInfo.SystemUUID = step.node
		if err := w.api.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.forward(probeEvery)
		if err := w.probe(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.bmcs.put(w.bmc(t, "host-0"))
		if _, found := w.readPower(t.Context(), w.bmc(t, "host-0")); found.found() {
			t.Errorf("%v: the power can't be read: %+v", step.allowed, found)
		}
		if err := w.probe(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.bmcs.put(w.bmc(t, "host-0"))
		said := w.reachableOf(t, "host-0")
		if said.Reason != step.reason || (said.Status == metav1.ConditionTrue) != (step.reason == reachable) || w.bmc(t, "host-0").Status.SystemUUID != otherUUID {
			t.Errorf("%v: it says %+v", step.allowed, said)
		}
		for _, part := range step.parts {
			if !strings.Contains(said.Message, part) {
				t.Errorf("%v: the message %q lacks %q", step.allowed, said.Message, part)
			}
		}
	}
	if commanded := r.commanded; len(commanded) != 0 {
		t.Errorf("commands came: %v", commanded)
	}
}

// TestAReadDuringARemediationKeepsTheVerdict: a BMC of another host doesn't become one of the node because its power was read again.
func TestAReadDuringARemediationKeepsTheVerdict(t *testing.T) {
	w, r := newRack(t, 1)
	r.set(func(r *rack) { r.uuid = otherUUID })
	n := read(t, w, "", "host-0", &corev1.Node{})
	n.Status.NodeInfo.SystemUUID = nodeUUID
	if err := w.api.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	bmc := w.bmc(t, "host-0")
	w.readForStatus(t.Context(), bmc)
	if _, found := w.readPower(t.Context(), bmc); found.found() || w.seenOf(bmc).problem.reason != string(power.OtherSystem) {
		t.Errorf("the read is %+v, and seen is %+v", found, w.seenOf(bmc))
	}
	r.set(func(r *rack) { r.down = true })
	if _, found := w.readPower(t.Context(), bmc); !found.found() || w.seenOf(bmc).problem.reason != found.reason {
		t.Errorf("the read is %+v, and seen is %+v", found, w.seenOf(bmc))
	}
}

// TestProbeComparesNodesOfWorkloadClusters. Clusters that hang keep no probe of another waiting, and take no slot.
func TestProbeComparesNodesOfWorkloadClusters(t *testing.T) {
	east := newWorld(t, node(onSystem(nodeUUID)))
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, node(onSystem(otherUUID)))
	bmc := bmcIn("a", "fleet/east", "node-a")
	h := &host{power: power.NewHost(power.Config{Now: w.now}, power.Credentials{})}
	east.refuses(func(string, runtime.Object) error {
		if w.apiSlots.free != maxAPISlots {
			t.Error("a slot is held")
		}
		return nil
	})
	w.readSystem(t.Context(), bmc, h)
	if h.expected != nodeUUID {
		t.Errorf("expected is %q", h.expected)
	}
	for range maxProbesElsewhere {
		w.elsewhere <- struct{}{}
	}
	east.refuses(func(string, runtime.Object) error {
		t.Error("the cluster is read")
		return nil
	})
	w.readSystem(t.Context(), bmc, h)
	w.Workload = nil
	for range maxProbesElsewhere {
		<-w.elsewhere
	}
	w.readSystem(t.Context(), bmc, h)
	if h.expected != nodeUUID || len(w.elsewhere) != 0 {
		t.Errorf("where it was not read, expected is %q, and %d are read", h.expected, len(w.elsewhere))
	}
}

func unchecked(b *v1alpha1.BMC) { b.Spec.SystemUUIDCheck = v1alpha1.SystemUUIDCheckDisabled }

// TestAnotherHostIsNotPowered, also where its UUID is not known before the command.
func TestAnotherHostIsNotPowered(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*v1alpha1.BMC)
		failed bool
	}{
		"compared":     {func(*v1alpha1.BMC) {}, true},
		"not compared": {unchecked, false},
	} {
		w, r := newRack(t, 1, func(r *v1alpha1.PowerRemediation) { r.Status.Phase = string(fencing.PoweringOff) })
		r.set(func(r *rack) { r.uuid, r.on["host-0"] = otherUUID, true })
		n := read(t, w, "", "host-0", &corev1.Node{})
		n.Status.NodeInfo.SystemUUID = nodeUUID
		if err := w.api.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		bmc := w.bmc(t, "host-0")
		tc.change(bmc)
		w.bmcs.put(bmc)
		if err := w.reconcile(t.Context(), hostKey(0)); err != nil {
			t.Fatal(err)
		}
		status := w.remediation(t, hostKey(0)).Status
		if (r.countOn() == 1) != tc.failed || (w.sessions.byKey[hostKey(0)].failure.reason == string(power.OtherSystem)) != tc.failed {
			t.Errorf("%s: %d hosts are on, the failure is %+v, and the status is %+v", sentence, r.countOn(), w.sessions.byKey[hostKey(0)].failure, status)
		}
		if message := status.Conditions[0].Message; tc.failed != strings.Contains(message, "systemUUIDCheck") {
			t.Errorf("%s: the message is %q", sentence, message)
		}
	}
}

// TestStatusShowsTheUUID of the system, and keeps it while the BMC can't be reached.
func TestStatusShowsTheUUID(t *testing.T) {
	w, r := newRack(t, 1)
	key := types.NamespacedName{Namespace: bmcNamespace, Name: "host-0"}
	for _, step := range []struct {
		uuid, want string
		down       bool
	}{{"", "", false}, {strings.ToUpper(nodeUUID), nodeUUID, false}, {otherUUID, nodeUUID, true}, {otherUUID, otherUUID, false}, {"<b>rubbish</b>", "", false}} {
		r.set(func(r *rack) { r.uuid, r.down = step.uuid, step.down })
		w.forward(probeEvery)
		if err := w.probe(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if got := w.bmc(t, "host-0").Status.SystemUUID; got != step.want {
			t.Errorf("with %q, down %t, the status has %q, want %q", step.uuid, step.down, got, step.want)
		}
	}
	known := w.bmc(t, "host-0")
	known.Status.SystemUUID, known.Generation = nodeUUID, known.Generation+1
	if got := w.statusOf(known, observation{at: noon, problem: problem{reason: string(power.TimedOut)}}).SystemUUID; got != nodeUUID {
		t.Errorf("before the first operation, the status has %q", got)
	}
	if _, found := w.opens(t, known); found.found() {
		t.Fatal(found)
	}
	if got := w.statusOf(known, observation{at: noon, problem: problem{reason: string(power.TimedOut)}}).SystemUUID; got != nodeUUID {
		t.Errorf("after a first operation that failed, the status has %q", got)
	}
}

// TestStatusShowsTheUUIDOfAnotherSystem, also where the first operation of a BMC is on it: a user compares it with that of the node.
func TestStatusShowsTheUUIDOfAnotherSystem(t *testing.T) {
	w, r := newRack(t, 1)
	r.set(func(r *rack) { r.uuid = otherUUID })
	n := read(t, w, "", "host-0", &corev1.Node{})
	n.Status.NodeInfo.SystemUUID = nodeUUID
	if err := w.api.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := w.probe(t.Context(), bmcKey("host-0")); err != nil {
		t.Fatal(err)
	}
	if got, said := w.bmc(t, "host-0").Status.SystemUUID, w.reachableOf(t, "host-0"); got != otherUUID || said.Reason != string(power.OtherSystem) {
		t.Errorf("the status has %q, and says %+v", got, said)
	}
}
