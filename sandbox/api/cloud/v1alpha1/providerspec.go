package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProviderSpecKind is the kind of a SimulatedProviderSpec.
const ProviderSpecKind = "SimulatedProviderSpec"

// Launch is the answer of the cloud to a request for an instance.
type Launch string

// Answers of the cloud. Empty means that it launches the instance.
const (
	// LaunchInvalidConfiguration: the cloud refuses for ever, and the machine fails.
	LaunchInvalidConfiguration Launch = "InvalidConfiguration"
	// LaunchError: the cloud can't launch it now, and the machine controller retries.
	LaunchError Launch = "Error"
)

// SimulatedProviderSpec is the value of a Machine's spec.providerSpec.value. Every field may be left out.
type SimulatedProviderSpec struct {
	metav1.TypeMeta `json:",inline"`

	// Zone defaults to "zone-a".
	Zone string `json:"zone,omitempty"`
	// InstanceType is only shown.
	InstanceType string `json:"instanceType,omitempty"`
	// BootTime defaults to 1s.
	BootTime *metav1.Duration `json:"bootTime,omitempty"`
	// Launch is the cloud's answer.
	Launch Launch `json:"launch,omitempty"`
	// Joins defaults to true. With false the instance boots, but no node ever joins.
	Joins *bool `json:"joins,omitempty"`
	// FailsAfter is for how long the instance runs before it terminates by itself; for ever if left out.
	FailsAfter *metav1.Duration `json:"failsAfter,omitempty"`
	// NodeLabels are given to the node, such as node-role.kubernetes.io/master. Default: node-role.kubernetes.io/worker.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
}
