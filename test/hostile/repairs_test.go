package hostile

import (
	"context"
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestI14RepairsAreFettlesToWrite: a tenant with all rights in a namespace can neither create, change, end nor delete a
// Repair there or elsewhere. Fettle can, and so can the controllers that clean up namespaces.
func TestI14RepairsAreFettlesToWrite(t *testing.T) {
	t.Parallel()
	w := newRepairsWorld(t)
	target := core.ID{Kind: "Machine", Namespace: "tenant", Name: "m", UID: "m-uid"}
	policy := core.ID{Kind: "MachineHealthCheck", Namespace: "tenant", Name: "workers", UID: "check-uid"}
	there := w.forged(target, policy, 1)
	w.Eventually(t, "the admission policy holds", func(ctx context.Context) error {
		err := w.tenant.Create(ctx, w.forged(target, policy, 2), client.DryRunAll)
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("a tenant creates a Repair: %w", err)
		}
		return nil
	})
	w.must("an administrator creates a Repair", w.Create(cluster.Context(t), there))
	owned := there.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
	ended := there.DeepCopy()
	ended.Status.Phase = v1alpha1.RepairSucceeded
	merge := func(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }
	ctx := cluster.Context(t)
	for what, err := range map[string]error{
		"creating one in the namespace of the machines": w.tenant.Create(ctx, w.forged(core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}, policy, 1)),
		"giving one to an owner that is gone":           w.tenant.Update(ctx, owned),
		"a finalizer":                                   w.tenant.Patch(ctx, there.DeepCopy(), merge(`{"metadata": {"finalizers": ["tenant.example/mine"]}}`)),
		"ending one":                                    w.tenant.Status().Update(ctx, ended),
		"ending one by a patch":                         w.tenant.Status().Patch(ctx, there.DeepCopy(), merge(`{"status": {"phase": "Withdrawn"}}`)),
		"deleting one":                                  w.tenant.Delete(ctx, there.DeepCopy()),
		"deleting all":                                  w.tenant.DeleteAllOf(ctx, &v1alpha1.Repair{}, client.InNamespace("tenant")),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: want it refused, got %v", what, err)
		}
	}
	if got, err := w.repair(ctx, there); err != nil || got.Status.Phase != v1alpha1.RepairRunning || len(got.OwnerReferences)+len(got.Finalizers) > 0 {
		t.Errorf("the Repair is %+v (%v)", got, err)
	}
	fettle := w.clientOf(w.tokenOf("fettle-system", "fettle"))
	w.must("Fettle records how far one has come", fettle.Status().Patch(ctx, there.DeepCopy(), merge(`{"status": {"phase": "Withdrawn"}}`)))
	w.must("deleting the namespace", w.Delete(ctx, w.object("v1", "Namespace", "", "tenant")))
	w.Eventually(t, "the Repair goes with its namespace", func(ctx context.Context) error {
		_, err := w.repair(ctx, there)
		if err == nil {
			return fmt.Errorf("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// TestI14ForgedRepairs: without the admission policy, a tenant forges Repairs. Fettle ignores those in another
// namespace. Those beside the machines are held to every limit.
func TestI14ForgedRepairs(t *testing.T) {
	t.Parallel()
	w := newRepairsWorld(t)
	w.withoutAdmission()
	stopped, masters, open := w.check("stopped", "0"), w.check("masters", "100%"), w.check("open", "100%")
	var kept []core.ID
	for _, name := range []string{"a", "b", "c"} {
		kept = append(kept, w.sickMachine("stopped", name, false, true))
	}
	w.startFettle()
	w.wantSeries(map[string]float64{`fettle_refusals{gate="TooManyUnhealthy",namespace="machines",policy="stopped"}`: 3})

	t.Run("three_elsewhere", func(t *testing.T) {
		for _, id := range kept {
			r := w.forged(id, stopped, 7, repairsIn("tenant"), repairsUnderWay)
			w.forge(r)
			w.wantIgnored(r)
		}
		w.wantSeries(map[string]float64{
			`fettle_repairs_ignored{reason="WrongNamespace"}`: 3, `fettle_repairs_running{namespace="machines",policy="stopped"}`: 0,
		})
	})
	t.Run("three_beside_the_machines", func(t *testing.T) {
		for _, id := range kept {
			w.forge(w.forged(id, stopped, 1, repairsUnderWay))
		}
		w.wantSeries(map[string]float64{
			`fettle_repairs_running{namespace="machines",policy="stopped"}`:                  3,
			`fettle_refusals{gate="TooManyUnhealthy",namespace="machines",policy="stopped"}`: 3,
		})
	})
	t.Run("a_history", func(t *testing.T) { w.forgesHistory(t, open) })
	t.Run("an_end_of_the_ladder", func(t *testing.T) { w.forgesExhaustion(t, open) })
	t.Run("a_name", func(t *testing.T) { w.takesNames(t, open) })
	// Each of these three has seen Fettle delete a machine after the forgeries for the others.
	w.wantKept(kept...)
	t.Run("of_the_control_plane", func(t *testing.T) {
		ctx := cluster.Context(t)
		w.must("keeping the quorum unknown", w.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "fettle"}}))
		// Its health check selects it before the forgery: Fettle withdraws the repair of a machine that none selects.
		master := w.sickMachine("masters", "master", true, true)
		w.wantSeries(map[string]float64{`fettle_refusals{gate="QuorumUnknown",namespace="machines",policy="masters"}`: 1})
		w.forge(w.forged(master, masters, 1, repairsUnderWay))
		w.wantSeries(map[string]float64{
			`fettle_repairs_running{namespace="machines",policy="masters"}`:               1,
			`fettle_refusals{gate="QuorumUnknown",namespace="machines",policy="masters"}`: 1,
		})
		w.wantKept(master)
	})
}

// forgesHistory forges failures of a pool that would delay its next repair for ten minutes. An end that lies weeks in
// the future counts for nothing.
func (w *repairsWorld) forgesHistory(t *testing.T, policy core.ID) {
	t.Helper()
	over := func(r *v1alpha1.Repair) {
		now := metav1.Now()
		r.Spec.Retry, r.Status.Phase, r.Status.FinishedAt = 99, v1alpha1.RepairSucceeded, &now
	}
	for i := range 3 {
		elsewhere := core.ID{Kind: "Machine", Namespace: "tenant", Name: fmt.Sprintf("old-%d", i), UID: fmt.Sprintf("old-%d", i)}
		r := w.forged(elsewhere, core.ID{Kind: "MachineHealthCheck", Namespace: "tenant", Name: policy.Name, UID: "x"}, 1, over)
		w.forge(r)
		w.wantIgnored(r)
	}
	future := w.forged(core.ID{Kind: "Machine", Namespace: "machines", Name: "old", UID: "old"}, policy, 1, over, func(r *v1alpha1.Repair) {
		r.Status.FinishedAt = &metav1.Time{Time: time.Now().Add(1000 * time.Hour)}
	})
	w.forge(future)
	m := w.sickMachine("open", "replacement", false, true)
	w.wantGone(m)
	got, err := w.repair(cluster.Context(t), w.forged(m, policy, 1))
	if err != nil || got.Spec.Retry != 0 {
		t.Errorf("the repair counts %d failures before it (%v)", got.Spec.Retry, err)
	}
}

// forgesExhaustion forges Repairs with exhausted steps.
func (w *repairsWorld) forgesExhaustion(t *testing.T, policy core.ID) {
	t.Helper()
	// Its health check selects it only after the forgeries.
	m := w.sickMachine("open", "tried", false, false)
	limited := func(r *v1alpha1.Repair) { r.Spec.Ladder[0].Timeout = &metav1.Duration{Duration: time.Second} }
	beside, elsewhere := w.forged(m, policy, 1, limited, repairsGivenUp), w.forged(m, policy, 2, repairsIn("tenant"), limited, repairsGivenUp)
	w.forge(beside, elsewhere)
	w.wantIgnored(elsewhere)
	w.joins(m, "open")
	w.wantGone(m)
	w.wantPhase(beside, v1alpha1.RepairWithdrawn)
}

// takesNames creates others' Repairs under the names of the first repairs of a machine.
func (w *repairsWorld) takesNames(t *testing.T, policy core.ID) {
	t.Helper()
	m := w.sickMachine("open", "squatted", false, false)
	for number := range 3 {
		r := w.forged(m, policy, number+1, func(r *v1alpha1.Repair) { r.Spec.Target.Name = "another" })
		w.forge(r)
		w.wantIgnored(r)
	}
	w.joins(m, "open")
	w.wantGone(m)
	if _, err := w.repair(cluster.Context(t), w.forged(m, policy, 4)); err != nil {
		t.Errorf("the repair has not the first name that is free: %v", err)
	}
}
