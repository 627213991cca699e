package test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
	"github.com/fettle-io/fettle/sandbox/metal"
)

// TestMetal: hosts behind BMCs.
func TestMetal(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "pods.log")
	p := start(t, "--dir", t.TempDir(), "--kubelets", "--machine-api", "--machine-api-poll", "250ms", "--metal", "--metal-log", log,
		"--node-monitor-grace-period", gracePeriod.String(), "--node-monitor-period", "500ms")
	c := connect(t, p.kubeconfig)
	cases := map[string]func(*testing.T, client.Client, string){
		"a power cycle through the BMC is a new boot":          powerCycle,
		"only a power cycle revives a hung node":               hungNode,
		"Metal3 powers a host off and on":                      poweredByMetal3,
		"a person turns the power off and on":                  pressedButton,
		"a BMC has the ordered faults":                         orderedFaults,
		"a kubelet registers a deleted node at its next start": registersAgain,
		"the host of a deleted machine is off":                 hostOfMachine,
		"a restored label doesn't stop the kubelet again":      restoredLabel,
		"a pod starts again in the next boot":                  startsAgain,
		"the log shows a pod that runs twice at a time":        runsTwice,
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, c, log)
		})
	}
}

// newHost makes a node with a host, and waits until it is ready and has a BMC.
func newHost(t *testing.T, c client.Client, name string) *corev1.Node {
	t.Helper()
	node := newNode(name)
	node.Labels[metal.Label] = metal.LabelRedfish
	create(t, c, node)
	eventually(t, "the host has a BMC", func() string { return annotated(c, node, metal.AnnotationHostPower, metal.PowerOn) })
	eventually(t, "a new node becomes ready", func() string { return readyIs(c, name, corev1.ConditionTrue) })
	get(t, c, node)
	if id := node.Status.NodeInfo.BootID; len(id) != 36 || id == string(node.UID) {
		t.Fatalf("the boot ID of a new host is %q", id)
	}
	return node
}

// poweredByMetal3: an annotation with a key keeps a host off until it is removed, and the status tells the power.
func poweredByMetal3(t *testing.T, c client.Client, _ string) {
	t.Helper()
	node := newNode("metal3")
	node.Labels[metal.Label] = metal.LabelBareMetalHost
	create(t, c, node)
	bmh := &unstructured.Unstructured{}
	bmh.SetAPIVersion("metal3.io/v1alpha1")
	bmh.SetKind("BareMetalHost")
	bmh.SetNamespace(metal.Metal3Namespace)
	bmh.SetName(node.Name)
	reports := func(want bool) string {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(bmh), bmh); err != nil {
			return err.Error()
		}
		if on, _, _ := unstructured.NestedBool(bmh.Object, "status", "poweredOn"); on != want {
			return fmt.Sprintf("its status is %v", bmh.Object["status"])
		}
		return ""
	}
	holds := func(value string) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"reboot.metal3.io/test":%s}}}`, value))
		if err := c.Patch(t.Context(), bmh, patch); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it is on", func() string { return reports(true) })
	eventually(t, "the node is ready", func() string { return readyIs(c, node.Name, corev1.ConditionTrue) })
	get(t, c, node)
	holds(`"{\"mode\":\"hard\"}"`)
	eventually(t, "it is off", func() string { return reports(false) })
	eventually(t, "the host is off", func() string { return annotated(c, node.DeepCopy(), metal.AnnotationHostPower, metal.PowerOff) })
	holds("null")
	eventually(t, "it is on again", func() string { return reports(true) })
	eventually(t, "it has booted anew", func() string { return bootedAnew(c, node) })
	get(t, c, node)
	if node.Labels[metal.Label] != metal.LabelBareMetalHost {
		t.Errorf("the label is %q", node.Labels[metal.Label])
	}
}

// annotated returns an error text unless the annotation has that value. It reads the node.
func annotated(c client.Client, node *corev1.Node, key, want string) string {
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(node), node); err != nil {
		return err.Error()
	}
	if got := node.Annotations[key]; got != want {
		return fmt.Sprintf("%s of node %s is %q, not %q", key, node.Name, got, want)
	}
	return ""
}

// bootedAnew returns an error text unless the node is ready in another boot than before, with a running kubelet.
func bootedAnew(c client.Client, before *corev1.Node) string {
	now := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: before.Name}}
	if problem := annotated(c, now, metal.AnnotationHostPower, metal.PowerOn); problem != "" {
		return problem
	}
	if now.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID {
		return "the boot ID is the same"
	}
	if value, stopped := now.Labels["sandbox.fettle.io/kubelet"]; stopped {
		return "the label of the kubelet says " + value
	}
	return readyIs(c, before.Name, corev1.ConditionTrue)
}

func stoppedKubelet(node *corev1.Node) string {
	if node.Labels["sandbox.fettle.io/kubelet"] != "stopped" {
		return "the kubelet runs"
	}
	return ""
}

// bmcOf opens a session with the BMC that the node's annotations name.
func bmcOf(t *testing.T, node *corev1.Node) (*schemas.ComputerSystem, error) {
	t.Helper()
	address, system, found := strings.Cut(strings.TrimPrefix(node.Annotations[metal.AnnotationAddress], "redfish+https://"), "/")
	if !found {
		t.Fatalf("the address of the BMC is %q", node.Annotations[metal.AnnotationAddress])
	}
	pinned := func(state tls.ConnectionState) error {
		sum := sha256.Sum256(state.PeerCertificates[0].Raw)
		if got := hex.EncodeToString(sum[:]); got != node.Annotations[metal.AnnotationFingerprint] {
			return fmt.Errorf("the fingerprint is %s", got)
		}
		return nil
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: pinned}}
	bmc, err := gofish.ConnectContext(t.Context(), gofish.ClientConfig{
		Endpoint: "https://" + address, Username: metal.User, Password: metal.Password, HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(bmc.Logout)
	return schemas.GetComputerSystem(bmc, "/"+system)
}

func reset(t *testing.T, node *corev1.Node, kind schemas.ResetType) {
	t.Helper()
	system, err := bmcOf(t, node)
	if err != nil {
		t.Fatalf("connecting to the BMC: %v", err)
	}
	if _, err := system.Reset(kind); err != nil {
		t.Fatalf("resetting: %v", err)
	}
}

func powerCycle(t *testing.T, c client.Client, _ string) {
	t.Helper()
	node := newHost(t, c, "cycled")
	reset(t, node, schemas.ForceOffResetType)
	if system, err := bmcOf(t, node); err != nil || system.PowerState != schemas.OffPowerState {
		t.Errorf("the BMC says %+v, %v", system, err)
	}
	eventually(t, "the host is off", func() string { return annotated(c, node, metal.AnnotationHostPower, metal.PowerOff) })
	eventually(t, "the node falls silent", func() string { return readyIs(c, node.Name, corev1.ConditionUnknown) })
	patch(t, c, node, reviveKubelet)
	eventually(t, "no kubelet runs without power", func() string {
		get(t, c, node)
		return stoppedKubelet(node)
	})
	reset(t, node, schemas.OnResetType)
	eventually(t, "the host boots", func() string { return bootedAnew(c, node) })
}

func hungNode(t *testing.T, c client.Client, _ string) {
	t.Helper()
	node := newHost(t, c, "hung")
	patch(t, c, node, stopKubelet)
	eventually(t, "the node falls silent", func() string { return readyIs(c, node.Name, corev1.ConditionUnknown) })
	never(t, "it doesn't come back by itself, and its host is on", gracePeriod/2, func() string {
		if problem := annotated(c, node, metal.AnnotationHostPower, metal.PowerOn); problem != "" {
			return problem
		}
		return readyIs(c, node.Name, corev1.ConditionUnknown)
	})
	reset(t, node, schemas.ForceRestartResetType)
	eventually(t, "the host boots", func() string { return bootedAnew(c, node) })
}

// hostOfMachine deletes the machine of a hung node. Its host is off before the machine is gone.
func hostOfMachine(t *testing.T, c client.Client, _ string) {
	t.Helper()
	machine := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "owned", Namespace: namespace, Labels: map[string]string{machinev1.ClusterLabel: "test"}},
		Spec:       newMachineSpec(`{"nodeLabels":{"` + metal.Label + `":"` + metal.LabelRedfish + `"}}`),
	}
	create(t, c, machine)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
	eventually(t, "the host has a BMC", func() string { return annotated(c, node, metal.AnnotationHostPower, metal.PowerOn) })
	eventually(t, "the machine runs", func() string {
		get(t, c, machine)
		return map[bool]string{false: "it is " + machine.Phase()}[machine.Phase() == machinev1.PhaseRunning]
	})
	patch(t, c, node, stopKubelet)
	system, err := bmcOf(t, node)
	if err != nil {
		t.Fatalf("connecting to the BMC: %v", err)
	}
	remove(t, c, machine)
	eventually(t, "the machine is gone", func() string { return gone(c, machine) })
	system, err = schemas.GetComputerSystem(system.GetClient(), system.ODataID)
	if err != nil || system.PowerState != schemas.OffPowerState {
		t.Errorf("the host is %v (%v)", system, err)
	}
	if problem := gone(c, node); problem != "" {
		t.Error(problem)
	}
}

func pressedButton(t *testing.T, c client.Client, _ string) {
	t.Helper()
	node := newHost(t, c, "pressed")
	for _, power := range []string{metal.PowerOff, metal.PowerOn} {
		patch(t, c, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, metal.AnnotationPower, power))
		eventually(t, "the host obeys", func() string { return annotated(c, node, metal.AnnotationHostPower, power) })
		if problem := annotated(c, node, metal.AnnotationPower, ""); problem != "" {
			t.Error(problem)
		}
	}
	eventually(t, "the host boots", func() string { return bootedAnew(c, node) })
}

func orderedFaults(t *testing.T, c client.Client, _ string) {
	t.Helper()
	node := newHost(t, c, "faulty")
	order := func(faults string) {
		patch(t, c, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, metal.AnnotationFaults, faults))
	}
	const lies = `{"saysOff":true,"lag":"1s"}`
	order(lies)
	eventually(t, "the fault is in force", func() string { return annotated(c, node, metal.AnnotationFaultsInForce, lies) })
	if system, err := bmcOf(t, node); err != nil || system.PowerState != schemas.OffPowerState {
		t.Errorf("the BMC says %+v, %v", system, err)
	}
	if problem := annotated(c, node, metal.AnnotationHostPower, metal.PowerOn); problem != "" {
		t.Error(problem)
	}
	order(`{"sayOff":true}`)
	eventually(t, "a misspelt fault is refused", func() string {
		return annotated(c, node, metal.AnnotationFaultsError, `parsing the faults: json: unknown field "sayOff"`)
	})
	if problem := annotated(c, node, metal.AnnotationFaultsInForce, lies); problem != "" {
		t.Error(problem)
	}
	order(`{"unauthorized":true}`)
	eventually(t, "the other fault is in force", func() string {
		return annotated(c, node, metal.AnnotationFaultsInForce, `{"unauthorized":true}`)
	})
	if problem := annotated(c, node, metal.AnnotationFaultsError, ""); problem != "" {
		t.Error(problem)
	}
	if _, err := bmcOf(t, node); err == nil {
		t.Error("the BMC accepts the credentials")
	}
}

func registersAgain(t *testing.T, c client.Client, _ string) {
	t.Helper()
	node := newHost(t, c, "deleted")
	patch(t, c, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:%q}}}`,
		metal.AnnotationBootTime, "2s", metal.AnnotationFaults, `{"alreadyOff":409}`))
	reset(t, node, schemas.ForceOffResetType)
	eventually(t, "the host is off", func() string { return annotated(c, node, metal.AnnotationHostPower, metal.PowerOff) })
	before := node.DeepCopy()
	remove(t, c, node)
	never(t, "a host without power registers no node", gracePeriod/2, func() string {
		if gone(c, node) == "" {
			return ""
		}
		return "the node is there"
	})
	reset(t, before, schemas.OnResetType)
	eventually(t, "the kubelet registers the node", func() string { return bootedAnew(c, before) })
	get(t, c, node)
	if node.UID == before.UID {
		t.Error("it is the same node")
	}
	for _, key := range []string{
		metal.AnnotationAddress, metal.AnnotationIPMIAddress, metal.AnnotationFingerprint, metal.AnnotationBootTime, metal.AnnotationFaults, "kwok.x-k8s.io/node",
	} {
		if node.Annotations[key] != before.Annotations[key] {
			t.Errorf("annotation %s is %q, and was %q", key, node.Annotations[key], before.Annotations[key])
		}
	}
	if node.Labels[corev1.LabelHostname] != node.Name || node.Labels[metal.Label] != metal.LabelRedfish {
		t.Errorf("its labels are %v", node.Labels)
	}
}

// restoredLabel: a remediator that restores the labels and annotations of a deleted node restores that of the kubelet too.
func restoredLabel(t *testing.T, c client.Client, _ string) {
	t.Helper()
	node := newHost(t, c, "restored")
	patch(t, c, node, stopKubelet)
	eventually(t, "the hang has its boot", func() string {
		return annotated(c, node, metal.AnnotationStoppedIn, node.Status.NodeInfo.BootID)
	})
	before := node.DeepCopy()
	remove(t, c, node)
	reset(t, before, schemas.PowerCycleResetType)
	eventually(t, "the kubelet registers the node", func() string { return bootedAnew(c, before) })
	patch(t, c, node, fmt.Sprintf(`{"metadata":{"labels":{"sandbox.fettle.io/kubelet":"stopped"},"annotations":{%q:%q}}}`,
		metal.AnnotationStoppedIn, before.Annotations[metal.AnnotationStoppedIn]))
	eventually(t, "the kubelet runs", func() string { return bootedAnew(c, before) })
}
