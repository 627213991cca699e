package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
)

// WriteStatuses writes the statuses that have changed.
func (d *Dialect) WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error {
	s := d.client.storeOf(d.cluster)
	return healthcheck.Record(reports, func(report *core.PolicyReport) func() error {
		if report.Deferred {
			return nil
		}
		return func() error { return d.recordOne(ctx, s, *report) }
	})
}

// recordOne adopts a health check, and then writes its status.
func (d *Dialect) recordOne(ctx context.Context, s *store, report core.PolicyReport) error {
	id := report.Policy.ID
	other := d.client.Writers.Find(&report.Policy, func() { d.client.Wake(d.cluster) }) // a write from here on causes another pass
	if other.News {
		foreign := foreignWriterCondition(other.Manager)
		d.client.emit(conditionEvent(&foreign, id))
	}
	check, known := s.checkOf(id)
	if !known {
		return nil
	}
	if !report.Policy.Paused {
		if err := d.adopt(ctx, s, &check); err != nil {
			return err
		}
	}
	now := d.client.Now()
	yields := s.startsBlockedNow()
	fresh, changed := statusOf(&check, statusInput{report: report, targets: s.namesOf(id), manager: other.Manager, startsBlocked: yields, now: now})
	if !changed {
		return nil
	}
	tells := yields != nil && yields.isNews(&check)
	if err := d.writeStatus(ctx, &check, fresh); err != nil {
		return err
	}
	if tells {
		d.client.emit(yields.event(id))
	}
	return nil
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=patch

// adopt adds the label of its cluster to a health check and an owner reference, where either is missing. Tools of
// Cluster API expect both (docs/reference/cluster-api.md#the-pass).
func (d *Dialect) adopt(ctx context.Context, s *store, check *healthCheck) error {
	cluster := s.clusterNow()
	if cluster == nil || (check.labelled && ownedBy(check.owners, cluster)) {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": check.revision,
		"labels":          map[string]string{clusterv1.ClusterNameLabel: check.cluster},
		"ownerReferences": withOwner(check.owners, cluster),
	}})
	if err != nil {
		return fmt.Errorf("encoding the owner: %w", err)
	}
	u := healthcheck.Object(checkKind, check.policy.ID)
	err = d.client.Writer.Patch(ctx, u, client.RawPatch(types.MergePatchType, body), client.FieldOwner(clusterapi.FieldOwner))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("having it belong to its cluster: %w", err)
	}
	s.storeWritten(u)
	if now, known := s.checkOf(check.policy.ID); known {
		*check = now
	}
	return nil
}

// withOwner adds a reference to the cluster. It replaces a reference to an earlier cluster of the same name.
func withOwner(owners []metav1.OwnerReference, cluster *clusterapi.Cluster) []metav1.OwnerReference {
	kept := slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(o.APIVersion, "/")
		return group == clusterv1.GroupVersion.Group && o.Kind == clusterKind && o.Name == cluster.Name
	})
	return append(kept, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: clusterKind, Name: cluster.Name, UID: cluster.UID,
	})
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks/status,verbs=patch

// writeStatus writes a status. If the API server refuses it as too large, writeStatus writes a brief one, since Fettle
// repairs nothing that it can't record.
func (d *Dialect) writeStatus(ctx context.Context, check *healthCheck, status clusterv1.MachineHealthCheckStatus) error {
	write := func(s clusterv1.MachineHealthCheckStatus) error { return d.patchStatus(ctx, check, s) }
	return healthcheck.Write(status, write, brief)
}

// patchStatus requires the revision from which the status was made, since a merge patch replaces the whole list of
// conditions, including the conditions of others.
func (d *Dialect) patchStatus(ctx context.Context, check *healthCheck, status clusterv1.MachineHealthCheckStatus) error {
	fields := map[string]any{"conditions": status.Conditions, "targets": status.Targets} // null removes the former targets
	set(fields, "expectedMachines", status.ExpectedMachines)
	set(fields, "currentHealthy", status.CurrentHealthy)
	set(fields, "remediationsAllowed", status.RemediationsAllowed)
	if status.ObservedGeneration > 0 {
		fields["observedGeneration"] = status.ObservedGeneration
	}
	if status.Deprecated != nil {
		fields["deprecated"] = status.Deprecated
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": check.revision}, "status": fields})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	u := healthcheck.Object(checkKind, check.policy.ID)
	there, err := healthcheck.PatchStatus(ctx, d.client.Writer, u, types.MergePatchType, body)
	if there {
		d.client.storeOf(d.cluster).storeWritten(u)
	}
	return err
}

func set(fields map[string]any, name string, n *int32) {
	if n != nil {
		fields[name] = *n
	}
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// EmitEvents emits Kubernetes events, which are written in the background.
func (d *Dialect) EmitEvents(events []core.Event) {
	for _, h := range events {
		d.client.emit(eventFor(h))
	}
}

func (c *Client) emit(e event) { e.Emit(c.Events, clusterv1.GroupVersion.String()) }
