package cli

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/power"
)

// These are the kinds of the remediator for bare metal.
const (
	bmcKind           = "BMC"
	powerKind         = "PowerRemediation"
	powerTemplateKind = "PowerRemediationTemplate"
)

func bmcResource() schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "bmcs"}
}

// bmcReading has the BMCs of one namespace.
type bmcReading struct {
	namespace string
	byName    map[string]*v1alpha1.BMC
	// unread says why they are not known, or is empty.
	unread string
}

func newBMCReading(namespace string) *bmcReading {
	return &bmcReading{namespace: namespace, byName: map[string]*v1alpha1.BMC{}}
}

// readBMCs reads the BMCs of a namespace. It never fails: if they can't be read, they are unknown. The list function
// reads one list.
func readBMCs(c client.Client, namespace string, list func(Source, string) error) *bmcReading {
	r := newBMCReading(namespace)
	where := bmcResource().String() + " in namespace " + namespace
	_, err := c.RESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind(bmcKind).GroupKind(), v1alpha1.GroupVersion.Version)
	if err == nil {
		err = list(r.source(), namespace)
	}
	switch {
	case isUnserved(err):
		r.unread = "the cluster does not serve " + bmcResource().String()
	case err != nil:
		r.unread = whyUnread(where, err)
	}
	return r
}

// readBMCsOnce reads the BMCs of a namespace for a question that follows no list.
func readBMCsOnce(ctx context.Context, c client.Client, namespace string) *bmcReading {
	return readBMCs(c, namespace, func(source Source, namespace string) error {
		_, err := list(ctx, c, source, namespace)
		return err
	})
}

// source is the list of BMCs. A BMC that can't be decoded hides no other.
func (r *bmcReading) source() Source {
	return unstructuredSource(v1alpha1.GroupVersion.WithKind(bmcKind), bmcResource(), r.put, func(key string) {
		delete(r.byName, nameOfKey(key).Name)
	})
}

// put stores a BMC, and reports whether it can change an answer.
func (r *bmcReading) put(u *unstructured.Unstructured) bool {
	fresh := bmcOf(u)
	old := r.byName[u.GetName()]
	r.byName[u.GetName()] = fresh
	return old == nil || !reflect.DeepEqual(stateOf(old), stateOf(fresh))
}

// bmcOf decodes a BMC. A part that can't be decoded is empty.
func bmcOf(u *unstructured.Unstructured) *v1alpha1.BMC {
	b := &v1alpha1.BMC{}
	b.Namespace, b.Name = u.GetNamespace(), u.GetName()
	decode(u, "spec", &b.Spec)
	decode(u, "status", &b.Status)
	return b
}

// decode decodes a part of an object, if that is possible as a whole.
func decode[T any](u *unstructured.Unstructured, part string, into *T) {
	fields, _, _ := unstructured.NestedMap(u.Object, part) // nil where it is no map
	read := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, read) == nil {
		*into = *read
	}
}

// inOrder returns the BMCs by their names.
func (r *bmcReading) inOrder() []*v1alpha1.BMC {
	bmcs := make([]*v1alpha1.BMC, 0, len(r.byName))
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		bmcs = append(bmcs, r.byName[name])
	}
	return bmcs
}

// of returns the BMCs that name a node, as nodeOf writes it.
func (r *bmcReading) of(node string) []*v1alpha1.BMC {
	return slices.DeleteFunc(r.inOrder(), func(b *v1alpha1.BMC) bool { return nodeOf(&b.Spec) != node })
}

// nodeOf returns the node of a BMC: its name, or NAMESPACE/CLUSTER/NAME for a node of a workload cluster. It is empty without a name.
func nodeOf(spec *v1alpha1.BMCSpec) string {
	if of := spec.Cluster; of != nil {
		return nodeIn(core.ClusterKey{Namespace: of.Namespace, Name: of.Name}, spec.NodeName)
	}
	return spec.NodeName
}

// nodeIn returns a node of a cluster as nodeOf writes it.
func nodeIn(cluster core.ClusterKey, node string) string {
	if cluster == (core.ClusterKey{}) || node == "" {
		return node
	}
	return cluster.Namespace + "/" + cluster.Name + "/" + node
}

// addressOf parses the address of a BMC, with its system. An error is about the field.
func addressOf(spec *v1alpha1.BMCSpec) (address power.Address, field string, err error) {
	if _, err := power.ParseAddress(spec.Address); err != nil {
		return power.Address{}, "spec.address", err
	}
	address, err = power.ParseSystem(spec.Address, spec.System)
	return address, "spec.system", err
}

// trustOf returns the trust in the certificate of a BMC. An error is about the field.
func trustOf(tls *v1alpha1.BMCTLS) (trust power.Trust, field string, err error) {
	switch {
	case tls == nil:
		return power.Trust{}, "", nil
	case tls.CABundle == "" && tls.Fingerprint == "":
		return power.Trust{}, "spec.tls", power.ConfigError("neither caBundle nor fingerprint is given; give one, or leave spec.tls out")
	}
	trust, err = power.NewTrust([]byte(tls.CABundle), tls.Fingerprint)
	switch {
	case tls.CABundle == "":
		field = "spec.tls.fingerprint"
	case tls.Fingerprint == "":
		field = "spec.tls.caBundle"
	default:
		field = "spec.tls"
	}
	return trust, field, err
}

// heldUntil returns until when Fettle tries no login with the version of a Secret, or zero if it tries one.
func heldUntil(b *v1alpha1.BMC, version string, at time.Time) time.Time {
	if until := b.Status.AuthenticationHeldUntil; until != nil && until.After(at) && b.Status.CredentialsVersion == version {
		return until.Time
	}
	return time.Time{}
}

// stateOf returns what Fettle wrote last about a BMC.
func stateOf(b *v1alpha1.BMC) BMCState {
	s := BMCState{Namespace: b.Namespace, Name: b.Name, Node: nodeOf(&b.Spec), Reachable: core.Unknown.String(), Power: string(b.Status.Power)}
	for _, c := range b.Status.Conditions {
		if c.Type != v1alpha1.ReachableCondition {
			continue
		}
		s.Reason, s.Message, s.Since = c.Reason, c.Message, instant(c.LastTransitionTime.Time)
		switch c.Status {
		case metav1.ConditionTrue:
			s.Reachable = core.Yes.String()
		case metav1.ConditionFalse:
			s.Reachable = core.No.String()
		case metav1.ConditionUnknown:
		}
	}
	if b.Status.AuthenticationHeldUntil != nil {
		s.HeldUntil = instant(b.Status.AuthenticationHeldUntil.Time)
	}
	return s
}

// notReachable returns the BMCs that Fettle could not reach, the longest first.
func (r *bmcReading) notReachable() []BMCState {
	var states []BMCState
	for _, b := range r.inOrder() {
		if s := stateOf(b); s.Reachable == core.No.String() {
			states = append(states, s)
		}
	}
	slices.SortStableFunc(states, func(a, b BMCState) int {
		return cmp.Or(compareInstants(timeOf(a.Since), timeOf(b.Since)), strings.Compare(a.Name, b.Name))
	})
	return states
}

// notes returns a sentence about BMCs that could not be read.
func (r *bmcReading) notes() []string {
	if r == nil || r.unread == "" {
		return nil
	}
	return []string{"Which BMCs are reachable is not known: " + r.unread + "."}
}

// timeOf returns an instant of an answer, or zero.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// isPowerTemplate reports whether a template is one of PowerRemediations.
func isPowerTemplate(template core.Reference) bool {
	return template.Kind == powerTemplateKind && apiGroupOf(template.APIVersion) == v1alpha1.GroupVersion.Group
}

// usesPower reports whether a step has a PowerRemediation made.
func usesPower(steps []core.Step) bool {
	return slices.ContainsFunc(steps, func(s core.Step) bool { return isPowerTemplate(s.Template) })
}
