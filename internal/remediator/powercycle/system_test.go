package powercycle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"the same":               {node(onSystem(nodeUUID)), reachedSystem(nodeUUID), ""},
		"in capital letters":     {node(onSystem(strings.ToUpper(nodeUUID))), reachedSystem(nodeUUID), ""},
		"another":                {node(onSystem(nodeUUID)), reachedSystem(otherUUID), v1alpha1.CannotStartOtherSystemReason},
		"another, not compared":  {node(onSystem(nodeUUID)), reachedSystem(otherUUID, unchecked), ""},
		"not known of the node":  {node(), reachedSystem(otherUUID), ""},
		"not known of the BMC":   {node(onSystem(nodeUUID)), reachedSystem(""), ""},
		"there is no node":       {nil, reachedSystem(otherUUID), ""},
		"seen by another spec":   {node(onSystem(nodeUUID)), reachedSystem(otherUUID, func(b *v1alpha1.BMC) { b.Generation++ }), ""},
		"seen some time ago":     {node(onSystem(nodeUUID)), reachedSystem(otherUUID, func(b *v1alpha1.BMC) { b.Status.Conditions[0].Status = metav1.ConditionFalse }), ""},
		"nothing was seen of it": {node(onSystem(nodeUUID)), func(b *v1alpha1.BMC) { b.Status.SystemUUID = otherUUID }, ""},
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
		if err := w.look(t.Context(), hostKey(0)); err != nil {
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
	if _, found := w.hosts.open(t.Context(), known); found.found() {
		t.Fatal(found)
	}
	if got := w.statusOf(known, observation{at: noon, problem: problem{reason: string(power.TimedOut)}}).SystemUUID; got != nodeUUID {
		t.Errorf("after a first operation that failed, the status has %q", got)
	}
}
