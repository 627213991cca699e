package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// nodeExists reports whether the user's cluster has a node of a name.
func (s *session) nodeExists(ctx context.Context, name string) (bool, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	err := s.cluster.Get(ctx, types.NamespacedName{Name: name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, explainFailure("get", Source{Resource: schema.GroupResource{Resource: "nodes"}}, "", err)
	}
	return true, nil
}

// notFound says that there is no such object, and suggests similar names.
func (s *session) notFound(ctx context.Context, of subject) error {
	kind, name, where := of.kind, of.name, ""
	namespaced := kind != nodeSubject && kind != nodeCheckSubject
	if s.namespace != "" && namespaced {
		where = " in namespace " + s.namespace
	}
	text := fmt.Sprintf("there is no %s %s%s", kind, name, where)
	here, elsewhere := s.names(ctx, of)
	if len(elsewhere[name]) > 0 {
		return fmt.Errorf("%s; there is one in namespace %s (add -n %s)", text, strings.Join(elsewhere[name], ", "), elsewhere[name][0])
	}
	if s.chosen.given() && slices.Contains(here, name) {
		return fmt.Errorf("%s and in the cluster that --%s names; without that flag there is one", text, clusterFlag)
	}
	if near := closest(name, here); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, ", "))
	}
	if !namespaced {
		return fmt.Errorf("%s; kubectl get %ss lists them", text, kind)
	}
	return fmt.Errorf("%s; kubectl get %ss -A lists them", text, kind)
}

// names returns the names of a kind in the namespace, and the namespaces of those in others. They serve suggestions, so
// names that can't be read are left out.
func (s *session) names(ctx context.Context, of subject) (here []string, elsewhere map[string][]string) {
	elsewhere = map[string][]string{}
	var all []types.NamespacedName
	for _, gvk := range s.kinds(of) {
		some, err := named(ctx, s.cluster, gvk, "")
		if err != nil {
			some, _ = named(ctx, s.cluster, gvk, s.namespace) // the names only serve a suggestion
		}
		all = append(all, some...)
	}
	for _, n := range all {
		if s.namespace == "" || n.Namespace == s.namespace || n.Namespace == "" {
			here = append(here, n.Name)
		} else {
			elsewhere[n.Name] = append(elsewhere[n.Name], n.Namespace)
		}
	}
	return here, elsewhere
}

// kinds returns the kinds of a subject.
func (s *session) kinds(of subject) []schema.GroupVersionKind {
	if of.kind == repairSubject {
		return []schema.GroupVersionKind{v1alpha1.GroupVersion.WithKind("Repair")}
	}
	var sources []Source
	for _, d := range s.Dialects {
		sources = append(sources, d.Read().Sources()...)
	}
	kinds := kindsOf(s.cluster, sources, of.kind)
	return slices.DeleteFunc(kinds, func(k schema.GroupVersionKind) bool { return of.isCheck() && of.group != "" && k.Group != of.group })
}
