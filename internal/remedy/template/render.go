package template

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// The remedies, by the names that steps have.
const (
	// NodeRemedy asks for the remediation of a node (docs/reference/medik8s.md#remediation-objects).
	NodeRemedy = "RequestNodeRemediation"
	// MachineRemedy asks for the remediation of a machine (docs/reference/openshift.md#remediation-objects).
	MachineRemedy = "RequestMachineRemediation"
	// ClusterMachineRemedy asks for the remediation of a machine of Name API (docs/reference/cluster-api.md#open-gate).
	ClusterMachineRemedy = "RequestClusterMachineRemediation"
)

// machineKinds are the kinds of machines, by the remedies that ask for them.
var machineKinds = map[string]schema.GroupVersionKind{ //nolint:gochecknoglobals // a constant table
	MachineRemedy:        v1beta1.GroupVersion.WithKind(machineKind),
	ClusterMachineRemedy: clusterapi.MachineKind,
}

// clonedFromAnnotations are the annotations by which a request for a machine says what template it was made from, by the remedies
// that ask for them (docs/reference/openshift.md#annotations, docs/reference/cluster-api.md#conditions).
var clonedFromAnnotations = map[string]struct{ name, kind string }{ //nolint:gochecknoglobals // a constant table
	MachineRemedy:        {"machine.openshift.io/cloned-from-name", "machine.openshift.io/cloned-from-groupkind"},
	ClusterMachineRemedy: {"cluster.x-k8s.io/cloned-from-name", "cluster.x-k8s.io/cloned-from-groupkind"},
}

const (
	templateSuffix  = "Template"
	nodeKind        = "Node"
	machineKind     = "Machine"
	healthCheckKind = "NodeHealthCheck"
)

// isTemplateRemedy tells whether a step is taken by this remedy.
func isTemplateRemedy(remedy string) bool { return remedy == NodeRemedy || isMachineRemedy(remedy) }

// isMachineRemedy tells whether a remedy asks for machines.
func isMachineRemedy(remedy string) bool { return !machineKinds[remedy].Empty() }

// kindsOf returns the kind of a template and that of what is made from it. ok is false for what can't be a remediator's.
func kindsOf(t core.Reference) (template, request schema.GroupVersionKind, ok bool) {
	version, err := schema.ParseGroupVersion(t.APIVersion)
	kind, isTemplate := strings.CutSuffix(t.Kind, templateSuffix)
	if err != nil || version.Version == "" || !isTemplate || kind == "" || specparse.RequestKind(t.APIVersion, t.Kind) != nil {
		return schema.GroupVersionKind{}, schema.GroupVersionKind{}, false
	}
	return version.WithKind(t.Kind), version.WithKind(kind), true
}

// resolveTemplate is the template that a step names, as objects have it: nothing that the cluster has once is in a namespace,
// and for machines the template is beside them unless the step says otherwise. Scope is Yes for what has a namespace.
func resolveTemplate(s *core.Step, home string, scope core.Tri) core.Reference {
	t := s.Template
	switch {
	case scope == core.No:
		t.Namespace = ""
	case scope == core.Yes && t.Namespace == "" && isMachineRemedy(s.Remedy):
		t.Namespace = home
	}
	return t
}

// specTemplate gives the part of a template that requests are made from. It is nil when there is none.
func specTemplate(template *unstructured.Unstructured) map[string]any {
	spec, _ := template.Object["spec"].(map[string]any)
	made, _ := spec["template"].(map[string]any)
	return made
}

// specTemplateFor is the same for a remedy. Cluster API takes a template without one for an empty one.
func specTemplateFor(remedy string, template *unstructured.Unstructured) map[string]any {
	made := specTemplate(template)
	if made == nil && remedy == ClusterMachineRemedy {
		return map[string]any{}
	}
	return made
}

// manyPerNode tells whether a template's remediator finds the node by an annotation, so that a node may have several
// objects of the kind.
func manyPerNode(template *unstructured.Unstructured) bool {
	_, set := template.GetAnnotations()[v1alpha1.MultipleTemplatesAnnotation]
	return set
}

// render makes the request for an order from a template, which stays as it is. A machine of Name API is of a cluster,
// by whose label its request is found again.
func render(template *unstructured.Unstructured, o core.RemedyCall, cluster string) (*unstructured.Unstructured, error) {
	_, kind, isTemplate := kindsOf(core.Reference{APIVersion: template.GetAPIVersion(), Kind: template.GetKind()})
	made := specTemplateFor(o.Step.Remedy, template)
	switch {
	case !isTemplate:
		return nil, fmt.Errorf("%s %s is no template: its kind does not end in %s", template.GetKind(), template.GetName(), templateSuffix)
	case made == nil:
		return nil, fmt.Errorf("template %s %s has no object in spec.template", template.GetKind(), template.GetName())
	case o.Target.ID.UID == "":
		return nil, fmt.Errorf("the UID of %s is not known, and nothing is asked for without", o.Target.ID)
	case o.Policy.UID == "":
		return nil, fmt.Errorf("the UID of %s is not known, and without it the request could not be told to be Fettle's own", o.Policy)
	}
	made = runtime.DeepCopyJSON(made)
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if isMachineRemedy(o.Step.Remedy) {
		renderForMachine(u, template, made, o)
	} else {
		renderForNode(u, template, made, o)
	}
	if o.Step.Remedy == ClusterMachineRemedy && cluster != "" {
		label(u, map[string]string{clusterv1.ClusterNameLabel: cluster})
	}
	u.SetGroupVersionKind(kind)
	if template.GetNamespace() != u.GetNamespace() {
		annotate(u, map[string]string{annotation.TemplateNamespace: template.GetNamespace()})
	}
	sign(u, &o)
	return u, nil
}

// renderForNode: the request is beside its template, and both the health check and the node own it.
func renderForNode(u, template *unstructured.Unstructured, made map[string]any, o core.RemedyCall) {
	u.Object["spec"] = map[string]any{}
	if spec, has := made["spec"]; has {
		u.Object["spec"] = spec
	}
	keepLabelsAndAnnotations(u, made)
	u.SetNamespace(template.GetNamespace())
	u.SetName(nodeRequestName(template, &o.Target.ID))
	annotate(u, map[string]string{
		v1alpha1.NodeNameAnnotation: o.Target.ID.Name, v1alpha1.TemplateNameAnnotation: template.GetName(),
		annotation.NodeHealthCheck: o.Policy.Name,
	})
	label(u, map[string]string{v1alpha1.PartOfLabel: v1alpha1.PartOf})
	if o.Target.ControlPlane {
		label(u, map[string]string{v1alpha1.ControlPlaneLabel: ""})
	}
	owners := []metav1.OwnerReference{
		ownedBy(v1alpha1.GroupVersion.WithKind(healthCheckKind), o.Policy),
		ownedBy(schema.GroupVersionKind{Version: "v1", Kind: nodeKind}, o.Target.ID),
	}
	// An owner in another namespace is taken for one that is gone, and the object is collected.
	if s := o.Sibling; s.Kind == machineKind && s.UID != "" && s.Namespace != "" && s.Namespace == u.GetNamespace() {
		owners = append(owners, ownedBy(v1beta1.GroupVersion.WithKind(machineKind), s))
	}
	u.SetOwnerReferences(owners)
}

// renderForMachine: the request is beside the machine, has its name, and is owned by it alone.
func renderForMachine(u, template *unstructured.Unstructured, made map[string]any, o core.RemedyCall) {
	for field, value := range made {
		if field != "metadata" && field != "status" {
			u.Object[field] = value
		}
	}
	keepLabelsAndAnnotations(u, made)
	u.SetNamespace(o.Target.ID.Namespace)
	u.SetName(o.Target.ID.Name)
	says := clonedFromAnnotations[o.Step.Remedy]
	annotate(u, map[string]string{says.name: template.GetName(), says.kind: template.GroupVersionKind().GroupKind().String()})
	u.SetOwnerReferences([]metav1.OwnerReference{ownedBy(machineKinds[o.Step.Remedy], o.Target.ID)})
}

// keepLabelsAndAnnotations takes over what of the metadata in a template is for the objects made from it.
func keepLabelsAndAnnotations(u *unstructured.Unstructured, made map[string]any) {
	part := unstructured.Unstructured{Object: map[string]any{"metadata": made["metadata"]}}
	if labels := part.GetLabels(); len(labels) > 0 {
		u.SetLabels(labels)
	}
	if annotations := part.GetAnnotations(); len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
}

func annotate(u *unstructured.Unstructured, more map[string]string) {
	all := u.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	u.SetAnnotations(all)
}

func label(u *unstructured.Unstructured, more map[string]string) {
	all := u.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	u.SetLabels(all)
}

// ownedBy has the garbage collector see to an object without keeping its owner from going.
func ownedBy(kind schema.GroupVersionKind, id core.ID) metav1.OwnerReference {
	controls := false
	return metav1.OwnerReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: id.Name, UID: types.UID(id.UID), Controller: &controls,
	}
}

const (
	mostName   = 253 // of an object, by the API server
	suffixSize = 5   // as the API server's own for generated names
)

// nodeRequestName returns the name of a node's request. Each leader that makes the same request computes the same name, so
// that the API server lets only one of two create it. Where a node may have several, the name differs from that of an earlier
// node's request, which its remediator may not let go of.
func nodeRequestName(template *unstructured.Unstructured, node *core.ID) string {
	if !manyPerNode(template) {
		return node.Name
	}
	stem := node.Name
	if most := mostName - 1 - suffixSize; len(stem) > most {
		stem = strings.TrimRight(stem[:most], "-.")
	}
	sum := sha256.Sum256([]byte(template.GetName() + "\x00" + node.UID))
	return stem + "-" + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:suffixSize]
}
