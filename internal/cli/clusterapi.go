package cli

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/capi"
	"github.com/fettle-io/fettle/internal/slim"
)

// ClusterAPI is the dialect of Cluster API's MachineHealthCheck.
type ClusterAPI struct{}

// Read returns an empty reading.
func (ClusterAPI) Read() Reading {
	return &clusterAPIReading{reading: capi.NewReading(), unseen: map[core.ClusterKey]string{}}
}

// Review reviews a MachineHealthCheck of either version.
func (ClusterAPI) Review(u *unstructured.Unstructured) ([]Remark, bool) { return capi.Review(u) }

// Phase is empty, since a MachineHealthCheck has none.
func (ClusterAPI) Phase(core.PolicyReport) string { return "" }

// Current returns a health check in the version that Fettle reads.
func (ClusterAPI) Current(u *unstructured.Unstructured) *unstructured.Unstructured {
	return capi.Current(u)
}

// FieldOf returns the path of a field, given the path in OpenShift's kind.
func (ClusterAPI) FieldOf(u *unstructured.Unstructured, field string) string {
	return capi.FieldOf(u, field)
}

type clusterAPIReading struct {
	reading *capi.Reading
	// unseen says why the nodes of clusters can't be read.
	unseen map[core.ClusterKey]string
}

// Sources are health checks, clusters and machines, with the types that decode them.
func (r *clusterAPIReading) Sources() []Source {
	checks := &unstructured.UnstructuredList{}
	checks.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineHealthCheckList"))
	return []Source{
		{
			Resource: clusterGroup("machinehealthchecks"), List: checks, Namespaced: true, Drop: r.reading.DropCheck,
			Put: func(o client.Object) bool { return r.reading.PutCheck(o) },
		},
		{
			Resource: clusterGroup("clusters"), List: &clusterapi.ClusterList{}, Namespaced: true, Drop: r.reading.DropCluster,
			Put: func(o client.Object) bool { return r.reading.PutCluster(o) },
		},
		{
			Resource: clusterGroup("machines"), List: &clusterapi.MachineList{}, Namespaced: true, Drop: r.reading.DropMachine,
			Put: func(o client.Object) bool { return r.reading.PutMachine(o) },
		},
	}
}

func clusterGroup(resource string) schema.GroupResource {
	return schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: resource}
}

func clusterName(f core.ClusterKey) types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
}

// Observe returns an observation of each workload cluster.
func (r *clusterAPIReading) Observe(at time.Time) []ClusterObservation {
	var clusters []ClusterObservation
	for _, cluster := range r.reading.Clusters() {
		f := ClusterObservation{Observation: r.reading.Observe(cluster, at), Cluster: core.ClusterKey{Namespace: cluster.Namespace, Name: cluster.Name}}
		if halted, is := r.reading.Blocked(cluster); is {
			f.Blocked = &Blocked{Halted: true, Reason: halted.Reason, Message: halted.Message}
		} else if f.Observed != core.Yes {
			f.Blocked = &Blocked{Reason: "NodesUnseen", Message: "the nodes of cluster " + cluster.Name + " can't be seen from here: " + r.unseen[f.Cluster]}
		}
		clusters = append(clusters, f)
	}
	return clusters
}

// HasNodes reports whether verdicts about a cluster need its nodes.
func (r *clusterAPIReading) HasNodes(cluster core.ClusterKey) bool {
	return r.reading.HasNodes(clusterName(cluster))
}

// Nodes returns the source of a cluster's nodes.
func (r *clusterAPIReading) Nodes(cluster core.ClusterKey) Source {
	store := r.reading.Nodes(clusterName(cluster))
	return Source{
		Resource: schema.GroupResource{Resource: "nodes"}, List: &slim.NodeList{}, Drop: store.Remove,
		Put: func(o client.Object) bool { return store.Put(o) },
	}
}

// Unseen notes why the nodes of a cluster can't be read.
func (r *clusterAPIReading) Unseen(cluster core.ClusterKey, why string) { r.unseen[cluster] = why }

// Unmet returns the requirements of a health check's selector that a machine lacks.
func (r *clusterAPIReading) Unmet(policy, target core.ID) ([]string, bool) {
	return r.reading.Unmet(policy, target)
}

// StatusOf returns the status that a controller last wrote.
func (r *clusterAPIReading) StatusOf(check core.ID) WrittenStatus {
	return WrittenStatus(r.reading.Written(check))
}

// HealthOf returns the health in a machine's conditions.
func (r *clusterAPIReading) HealthOf(target core.ID) (WrittenHealth, bool) {
	mark := r.reading.Says(target)
	if mark == nil {
		return WrittenHealth{}, false
	}
	return WrittenHealth{Healthy: mark.Status == string(metav1.ConditionTrue), Reason: mark.Reason, Message: mark.Message, Since: mark.Since}, true
}

// SkippedBy returns the annotation that takes a machine out of health checking.
func (r *clusterAPIReading) SkippedBy(target core.ID) (string, bool) {
	return r.reading.Skipped(target)
}

// OwnerOf returns the machine set, machine deployment or control plane that owns an object.
func (r *clusterAPIReading) OwnerOf(o metav1.Object) (metav1.OwnerReference, bool) {
	return capi.ControlledBy(o)
}

// Answer returns the answer of a machine's owner to the request to replace it.
func (r *clusterAPIReading) Answer(target core.ID, annotations map[string]string, owners []*unstructured.Unstructured, at time.Time) (OwnerAnswer, bool) {
	a, replaced := r.reading.Answer(target, annotations, owners, at)
	if !replaced {
		return OwnerAnswer{}, false
	}
	out := OwnerAnswer{
		Owner: Reference{Kind: a.Kind, Namespace: target.Namespace, Name: a.Name}, Requested: a.Requested, Since: instant(a.Since),
		Reason: a.Reason, Message: a.Message, Rules: a.Rules,
	}
	for _, w := range a.Waits {
		out.Waits = append(out.Waits, OwnerWait{Message: w.Text, Until: instant(w.Until), Advice: w.Hint})
	}
	return out, true
}
