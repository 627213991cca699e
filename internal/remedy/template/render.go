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

// These are the names of the remedy in steps.
const (
	// NodeRemedy requests the remediation of a node (docs/reference/medik8s.md#remediation-objects).
	NodeRemedy = "RequestNodeRemediation"
	// MachineRemedy requests the remediation of a machine (docs/reference/openshift.md#remediation-objects).
	MachineRemedy = "RequestMachineRemediation"
	// ClusterMachineRemedy requests the remediation of a machine of Cluster API (docs/reference/cluster-api.md#open-gate).
	ClusterMachineRemedy = "RequestClusterMachineRemediation"
)

// machineKinds are the kinds of machines, by remedy.
var machineKinds = map[string]schema.GroupVersionKind{ //nolint:gochecknoglobals // a constant table
	MachineRemedy:        v1beta1.GroupVersion.WithKind(machineKind),
	ClusterMachineRemedy: clusterapi.MachineKind,
}

// clonedFromAnnotations are the annotations by which a machine request names its template, by remedy
// (docs/reference/openshift.md#annotations, docs/reference/cluster-api.md#conditions).
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

// isTemplateRemedy reports whether a step has this remedy, in any form.
func isTemplateRemedy(remedy string) bool { return remedy == NodeRemedy || isMachineRemedy(remedy) }

// isMachineRemedy reports whether the requests of a remedy are about machines.
func isMachineRemedy(remedy string) bool { return !machineKinds[remedy].Empty() }

// kindsOf returns the kind of a template, and the kind of its requests. It reports false for a kind that can't be a
// remediator's.
func kindsOf(t core.Reference) (template, request schema.GroupVersionKind, ok bool) {
	version, err := schema.ParseGroupVersion(t.APIVersion)
	kind, isTemplate := strings.CutSuffix(t.Kind, templateSuffix)
	if err != nil || version.Version == "" || !isTemplate || kind == "" || specparse.RequestKind(t.APIVersion, t.Kind) != nil {
		return schema.GroupVersionKind{}, schema.GroupVersionKind{}, false
	}
	return version.WithKind(t.Kind), version.WithKind(kind), true
}

// resolveTemplate returns the reference of a step's template as objects have it. A cluster-scoped kind has no
// namespace. For machines, the default is the machine's namespace. Scope is Yes for a namespaced kind.
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

// specTemplate returns the part of a template that requests are created from, or nil.
func specTemplate(template *unstructured.Unstructured) map[string]any {
	spec, _ := template.Object["spec"].(map[string]any)
	made, _ := spec["template"].(map[string]any)
	return made
}

// specTemplateFor returns the same for a remedy. For Cluster API a missing part is an empty one.
func specTemplateFor(remedy string, template *unstructured.Unstructured) map[string]any {
	made := specTemplate(template)
	if made == nil && remedy == ClusterMachineRemedy {
		return map[string]any{}
	}
	return made
}

// manyPerNode reports whether the remediator of a template finds the node by an annotation. Then a node may have
// several objects of the kind.
func manyPerNode(template *unstructured.Unstructured) bool {
	_, set := template.GetAnnotations()[v1alpha1.MultipleTemplatesAnnotation]
	return set
}

// render returns the request for a call. It doesn't change the template. A request for a machine of Cluster API has the
// label of the machine's cluster.
func render(template *unstructured.Unstructured, o core.RemedyCall, cluster string) (*unstructured.Unstructured, error) {
	_, kind, isTemplate := kindsOf(core.Reference{APIVersion: template.GetAPIVersion(), Kind: template.GetKind()})
	made := specTemplateFor(o.Step.Remedy, template)
	switch {
	case !isTemplate:
		return nil, fmt.Errorf("%s %s is no template: its kind does not end in %s", template.GetKind(), template.GetName(), templateSuffix)
	case made == nil:
		return nil, fmt.Errorf("template %s %s has no object in spec.template", template.GetKind(), template.GetName())
	case o.Target.ID.UID == "":
		return nil, fmt.Errorf("the UID of %s is not known, so no request is made", o.Target.ID)
	case o.Policy.UID == "":
		return nil, fmt.Errorf("the UID of %s is not known, so the request could not be signed", o.Policy)
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

// renderForNode fills in a request beside its template, with the health check and the node as owners.
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
	// The garbage collector looks for the owner in the object's own namespace, and deletes the object if there is none.
	if s := o.Sibling; s.Kind == machineKind && s.UID != "" && s.Namespace != "" && s.Namespace == u.GetNamespace() {
		owners = append(owners, ownedBy(v1beta1.GroupVersion.WithKind(machineKind), s))
	}
	u.SetOwnerReferences(owners)
}

// renderForMachine fills in a request beside the machine. It has the machine's name, and the machine as its one owner.
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

// keepLabelsAndAnnotations copies the labels and annotations that a template has for its requests.
func keepLabelsAndAnnotations(u *unstructured.Unstructured, made map[string]any) {
	part := unstructured.Unstructured{Object: map[string]any{"metadata": made["metadata"]}}
	u.SetLabels(part.GetLabels())
	u.SetAnnotations(part.GetAnnotations())
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

// ownedBy returns a reference by which the garbage collector deletes an object after its owner, and doesn't block the
// deletion of the owner.
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

// nodeRequestName returns the name of a node's request. Two leaders compute the same name, so the API server refuses
// the second creation. Where a node may have several requests, the name has a hash of the node's UID. So it differs
// from the name of an earlier node's request, which a remediator may keep.
func nodeRequestName(template *unstructured.Unstructured, node *core.ID) string {
	if !manyPerNode(template) {
		return node.Name
	}
	stem := strings.TrimRight(node.Name[:min(len(node.Name), mostName-1-suffixSize)], "-.")
	sum := sha256.Sum256([]byte(template.GetName() + "\x00" + node.UID))
	return stem + "-" + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:suffixSize]
}
