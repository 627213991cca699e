package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is this package's.
var GroupVersion = schema.GroupVersion{Group: "machine.openshift.io", Version: "v1beta1"}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Machine{}, &MachineList{}, &MachineSet{}, &MachineSetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
