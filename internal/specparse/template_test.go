package specparse

import (
	"strings"
	"testing"
)

// TestRequestKinds: kinds of Kubernetes, kinds that Fettle reads, and parts of machines are no remediators'; all others may be.
func TestRequestKinds(t *testing.T) {
	for kind, why := range map[string]string{
		"v1 PodTemplate":                                                        "Kubernetes itself",
		"v1 NodeTemplate":                                                       "Kubernetes itself",
		"v1 SecretTemplate":                                                     "Kubernetes itself",
		"apps/v1 DeploymentTemplate":                                            "Kubernetes itself",
		"batch/v1 JobTemplate":                                                  "Kubernetes itself",
		"policy/v1 EvictionTemplate":                                            "Kubernetes itself",
		"coordination.k8s.io/v1 LeaseTemplate":                                  "Kubernetes itself",
		"rbac.authorization.k8s.io/v1 ClusterRoleTemplate":                      "Kubernetes itself",
		"resource.k8s.io/v1 ResourceClaimTemplate":                              "Kubernetes itself",
		"certificates.k8s.io/v1 CertificateSigningRequestTemplate":              "Kubernetes itself",
		"apiextensions.k8s.io/v1 CustomResourceDefinitionTemplate":              "Kubernetes itself",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyTemplate":     "Kubernetes itself",
		"k8s.io/v1 XTemplate":                                                   "Kubernetes itself",
		"node.kubernetes.io/v1 XTemplate":                                       "Kubernetes itself",
		"cluster.x-k8s.io/v1beta2 MachineTemplate":                              "Fettle itself reads",
		"cluster.x-k8s.io/v1beta1 ClusterTemplate":                              "Fettle itself reads",
		"machine.openshift.io/v1beta1 MachineTemplate":                          "Fettle itself reads",
		"config.openshift.io/v1 ClusterVersionTemplate":                         "Fettle itself reads",
		"remediation.medik8s.io/v1alpha1 NodeHealthCheckTemplate":               "Fettle itself reads",
		"fettle.io/v1alpha1 RepairTemplate":                                     "Fettle itself reads",
		"infrastructure.cluster.x-k8s.io/v1beta2 DockerMachineTemplate":         "machines and clusters",
		"infrastructure.cluster.x-k8s.io/v1beta1 AWSClusterTemplate":            "machines and clusters",
		"infrastructure.cluster.x-k8s.io/v1beta1 AzureMachinePoolTemplate":      "machines and clusters",
		"bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfigTemplate":              "machines and clusters",
		"controlplane.cluster.x-k8s.io/v1beta2 KubeadmControlPlaneTemplate":     "machines and clusters",
		"infrastructure.cluster.x-k8s.io/v1beta1 Metal3RemediationTemplate":     "",
		"self-node-remediation.medik8s.io/v1alpha1 SelfNodeRemediationTemplate": "",
		"fettle.io/v1alpha1 MachineDeletionRemediationTemplate":                 "",
		"reboot.example/v1 RebootTemplate":                                      "",
		"machines.example/v1 VendorMachineTemplate":                             "",
		"x-k8s.io/v1 XTemplate":                                                 "",
		" XTemplate":                                                            "", // no apiVersion is another fault
		"/ XTemplate":                                                           "",
		"v1/ PodTemplate":                                                       "",
		"a/b/c XTemplate":                                                       "",
	} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		err := RequestKind(apiVersion, kind)
		if (err != nil) != (why != "") || (err != nil && !strings.Contains(err.Error(), why)) {
			t.Errorf("%s of %s: %v, want %q", kind, apiVersion, err, why)
		}
	}
}
