package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// imagesOfNode is the most images that a kubelet reports, 50 by default. Busy nodes come near it.
const imagesOfNode = 40

// machineAnnotation is the annotation of a node that names its machine.
const machineAnnotation = "machine.openshift.io/machine"

func nodeName(i int) string { return fmt.Sprintf("ip-10-%d-%d-%d.internal", i>>16, i>>8&255, i&255) }

// digest returns a digest that differs for each text.
func digest(format string, args ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, format, args...))
	return hex.EncodeToString(sum[:])
}

// node returns a node as its kubelet registers it, as large as nodes of clusters in use.
func node(i int, now time.Time) *corev1.Node {
	name := nodeName(i)
	zone := fmt.Sprintf("region-1%c", 'a'+i%3)
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64589284Ki"),
		corev1.ResourceEphemeralStorage: resource.MustParse("125293548Ki"), corev1.ResourcePods: resource.MustParse("250"),
		"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: nodeLabels(name, zone, i), Annotations: nodeAnnotations(i)},
		Spec:       corev1.NodeSpec{ProviderID: providerID(zone, i)},
		Status: corev1.NodeStatus{
			Capacity: amounts, Allocatable: amounts, Conditions: nodeConditions(now),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)},
				{Type: corev1.NodeInternalDNS, Address: name}, {Type: corev1.NodeHostName, Address: name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: digest("machine %d", i)[:32], SystemUUID: digest("system %d", i)[:36], BootID: digest("boot %d", i)[:36],
				KernelVersion: "6.12.0-124.8.1.el10_1.x86_64", OSImage: "Enterprise Linux CoreOS 10.1.20260801-0 (Coughlan)",
				ContainerRuntimeVersion: "cri-o://1.36.1-3.rhaos.el10", KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
			},
			Images: nodeImages(i),
		},
	}
}

func providerID(zone string, i int) string {
	return "sim:///" + zone + "/i-" + digest("instance %d", i)[:17]
}

func nodeLabels(name, zone string, i int) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		corev1.LabelInstanceTypeStable: "sim.4xlarge", corev1.LabelInstanceType: "sim.4xlarge",
		corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: "region-1",
		corev1.LabelFailureDomainBetaZone: zone, corev1.LabelFailureDomainBetaRegion: "region-1",
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
		"node-role.kubernetes.io/worker": "", "node.example.com/os-id": "coreos",
		"topology.csi.example.com/zone": zone, "topology.csi.example.com/rack": fmt.Sprintf("rack-%d", i/40),
	}
	for _, feature := range []string{"AVX2", "AVX512F", "AESNI", "VMX", "SHA", "FMA3"} {
		labels["feature.node.example.com/cpu-cpuid."+feature] = "true"
	}
	return labels
}

func nodeAnnotations(i int) map[string]string {
	config := "rendered-worker-" + digest("config")[:32]
	return map[string]string{
		machineAnnotation: namespace + "/" + machineName(i),
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
		"csi.volume.kubernetes.io/nodeid":                        fmt.Sprintf(`{"block.csi.example.com":"i-%s"}`, digest("instance %d", i)[:17]),
		"machineconfiguration.example.com/currentConfig":         config,
		"machineconfiguration.example.com/desiredConfig":         config,
		"machineconfiguration.example.com/state":                 "Done",
		"network.example.com/l3-gateway-config": fmt.Sprintf(`{"default":{"mode":"shared","interface-id":"br-ex_%s","mac-address":"0a:58:0a:%02x:%02x:01",`+
			`"ip-addresses":["10.0.%d.%d/19"],"next-hops":["10.0.0.1"],"node-port-enable":"true","vlan-id":"0"}}`, nodeName(i), i>>8&255, i&255, i>>8&255, i&255),
		"network.example.com/node-subnets":       fmt.Sprintf(`{"default":["10.%d.%d.0/23"]}`, 128+i>>8&127, i&255),
		"network.example.com/node-chassis-id":    digest("chassis %d", i)[:36],
		"cloud.network.example.com/egress-ip":    `[{"interface":"eni-0","ifaddr":{"ipv4":"10.0.0.0/19"},"capacity":{"ipv4":14,"ipv6":15}}]`,
		"node.alpha.kubernetes.io/ttl":           "0",
		"network.example.com/remote-zone-joined": fmt.Sprintf("region-1%c", 'a'+i%3),
	}
}

// nodeImages have a digest and a tag each. Most nodes have most of them in common.
func nodeImages(node int) []corev1.ContainerImage {
	images := make([]corev1.ContainerImage, imagesOfNode)
	for i := range images {
		repository := "registry.example.com/platform-release/release-content-" + digest("image %d", i)[:12]
		images[i] = corev1.ContainerImage{
			Names: []string{
				repository + "@sha256:" + digest("image %d of %d", i, node%7),
				repository + ":v4.22." + fmt.Sprint(node%7),
			},
			SizeBytes: int64(100_000_000 + 10_000_000*i),
		}
	}
	return images
}

// The conditions of a node: those of every kubelet, and two of programs that run beside it.
var conditionTypes = [...]corev1.NodeConditionType{
	corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable, "KernelDeadlock", corev1.NodeReady,
}

func nodeConditions(now time.Time) []corev1.NodeCondition {
	conditions := make([]corev1.NodeCondition, len(conditionTypes))
	for i, kind := range conditionTypes {
		conditions[i] = corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			Reason: "KubeletHasNo" + string(kind), Message: "kubelet has no " + string(kind) + " and goes on as before",
		}
		if kind == corev1.NodeReady {
			conditions[i].Status, conditions[i].Reason, conditions[i].Message = corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
		}
	}
	return conditions
}

// heartbeat returns the patch by which a kubelet reports that nothing has changed.
func heartbeat(now time.Time) ([]byte, error) {
	conditions := make([]map[string]any, len(conditionTypes))
	for i, kind := range conditionTypes {
		conditions[i] = map[string]any{"type": kind, "lastHeartbeatTime": metav1.NewTime(now)}
	}
	return statusPatch(conditions)
}

// failure returns the patch by which a kubelet reports that its node is not ready any more.
func failure(now time.Time) ([]byte, error) {
	return statusPatch([]map[string]any{{
		"type": corev1.NodeReady, "status": corev1.ConditionFalse, "reason": "KubeletNotReady",
		"message":           "container runtime status check may not have completed yet",
		"lastHeartbeatTime": metav1.NewTime(now), "lastTransitionTime": metav1.NewTime(now),
	}})
}

func statusPatch(conditions []map[string]any) ([]byte, error) {
	order := make([]map[string]any, len(conditionTypes))
	for i, kind := range conditionTypes {
		order[i] = map[string]any{"type": kind}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"$setElementOrder/conditions": order, "conditions": conditions}})
	if err != nil {
		return nil, fmt.Errorf("encoding a kubelet's patch: %w", err)
	}
	return patch, nil
}
