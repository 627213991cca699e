package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is this package's.
var GroupVersion = schema.GroupVersion{Group: "sandbox.fettle.io", Version: "v1alpha1"}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&SandboxCluster{}, &SandboxClusterList{},
		&SandboxMachine{}, &SandboxMachineList{}, &SandboxMachineTemplate{}, &SandboxMachineTemplateList{},
		&SandboxBootstrapConfig{}, &SandboxBootstrapConfigList{},
		&SandboxBootstrapConfigTemplate{}, &SandboxBootstrapConfigTemplateList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
