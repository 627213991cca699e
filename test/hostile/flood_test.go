package hostile

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// The flood. Each health check of the tenant selects each machine of the tenant. A third of the health checks exceeds
// the bound.
const (
	floodChecks   = 500
	floodMachines = 300
	// floodHonest is the number of honest machines.
	floodHonest = 5
	// floodHeap is the most that Fettle's heap may be at the next garbage collection.
	floodHeap = 256 << 20
)

// floodWorld is a cluster with an honest namespace, last in the order of names, and a tenant who floods the cluster.
type floodWorld struct {
	*identityWorld

	tenant     *identityWorld
	url, token string
	// next is the honest machine that fails next.
	next int
}

// TestI15FloodOfHealthChecks: a tenant creates more health checks than a pass judges, and makes all judged statuses
// change again and again. Fettle says why it does not judge the others, and starts no repair for a machine that they
// select. It repairs others' machines meanwhile, even for a health check that is younger than the flood.
func TestI15FloodOfHealthChecks(t *testing.T) {
	w := newFloodWorld(t)
	w.check("before")
	alone := max(w.repairs(), w.repairs())
	w.createsMachines()
	var creating errgroup.Group
	creating.Go(w.createsChecks)
	amid := w.repairs()
	w.must("creating health checks", creating.Wait())
	w.wantRefused()
	w.must("removing a health check", w.Delete(cluster.Context(t), w.object("MachineHealthCheck", "before")))
	w.check("after")
	calm := w.flaps("tenant-0")
	after := max(w.repairs(), w.repairs())
	w.must("reporting of a node", calm())
	t.Logf("a repair took %s alone, %s while the flood came, and %s beside it", alone, amid, after)
	w.tenant.keeps("tenant-0")
	all, err := w.series()
	w.must("reading metrics", err)
	if next, there := all["go_memstats_next_gc_bytes"]; !there || next > floodHeap {
		t.Errorf("the heap may grow to %.0f MiB (told: %t)", next/(1<<20), there)
	}
}

// flaps makes the node of a tenant's machine fail and recover, until the caller calls the returned function.
func (w *floodWorld) flaps(name string) (calm func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var flapping errgroup.Group
	flapping.Go(func() error {
		tick := time.NewTicker(1500 * time.Millisecond) // longer than the health checks allow
		defer tick.Stop()
		for ready := corev1.ConditionFalse; ; {
			if err := w.report(w.Client, name, ready); err != nil {
				return err
			}
			ready = map[corev1.ConditionStatus]corev1.ConditionStatus{corev1.ConditionFalse: corev1.ConditionTrue, corev1.ConditionTrue: corev1.ConditionFalse}[ready]
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	return func() error {
		cancel()
		return flapping.Wait()
	}
}

func newFloodWorld(t *testing.T) *floodWorld {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	c.Apply(t, identityTenantRights)
	w := &floodWorld{identityWorld: newIdentityWorld(t, c, "victims"), tenant: newIdentityWorld(t, c, "tenant")}
	for i := range floodHonest {
		name := fmt.Sprintf("honest-%d", i)
		w.node(name)
		w.machine(name, name)
	}
	address := cluster.FreeAddress(t)
	w.url, w.token = "https://"+address+"/metrics", c.MetricsReader(t)
	c.StartFettle(t, "--metrics-bind-address="+address)
	return w
}

// floodCheck returns a health check of all machines of a namespace.
func (w *identityWorld) floodCheck(name string) *unstructured.Unstructured {
	u := w.object("MachineHealthCheck", name)
	u.Object["spec"] = map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{"role": "worker"}},
		"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeout": "1s"}},
	}
	return u
}

// check makes a health check of the honest machines, and waits until it is judged.
func (w *floodWorld) check(name string) {
	w.t.Helper()
	u := w.floodCheck(name)
	w.must("creating a health check", w.Create(cluster.Context(w.t), u))
	w.Eventually(w.t, "health check "+name+" is judged", func(ctx context.Context) error {
		return w.says(ctx, u, "True", "")
	})
}

// says returns an error unless the condition RemediationAllowed of a health check has a status and a reason.
func (w *floodWorld) says(ctx context.Context, u *unstructured.Unstructured, status, reason string) error {
	if err := w.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, each := range conditions {
		c, _ := each.(map[string]any)
		if c["type"] == "RemediationAllowed" && c["status"] == status && (reason == "" || c["reason"] == reason) {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v", conditions)
}

// repairs breaks the node of the next honest machine, and returns how long it takes until the machine is gone.
func (w *floodWorld) repairs() time.Duration {
	w.t.Helper()
	name := fmt.Sprintf("honest-%d", w.next)
	w.next++
	began := time.Now()
	w.must("failing node "+name, w.report(w.kubelet(name), name, corev1.ConditionFalse))
	w.wantGone(name)
	return time.Since(began)
}

// createsMachines creates the machines of the tenant. The first has a node.
func (w *floodWorld) createsMachines() {
	w.t.Helper()
	ctx := cluster.Context(w.t)
	w.node("tenant-0")
	w.tenant.machine("tenant-0", "tenant-0")
	w.must("creating machines", floodWith(floodMachines-1, func(i int) error {
		m := w.tenant.object("Machine", fmt.Sprintf("tenant-%d", i+1))
		m.SetLabels(map[string]string{"role": "worker"})
		m.SetOwnerReferences([]metav1.OwnerReference{w.tenant.owner})
		return w.Create(ctx, m)
	}))
}

// createsChecks creates the tenant's health checks.
func (w *floodWorld) createsChecks() error {
	mallory, ctx := w.as("mallory"), cluster.Context(w.t)
	return floodWith(floodChecks, func(i int) error {
		return mallory.Create(ctx, w.tenant.floodCheck(fmt.Sprintf("flood-%d", i)))
	})
}

// wantRefused waits until a pass has judged as many health checks as fit, and no more. The youngest of the others says
// why it is not judged.
func (w *floodWorld) wantRefused() {
	w.t.Helper()
	fit := (core.MaxVerdicts(floodMachines) - 1 - floodHonest) / (1 + floodMachines)
	w.Eventually(w.t, "Fettle refuses health checks", func(context.Context) error {
		invalid, known := 0, 0
		all, err := w.series()
		for name, value := range all {
			if strings.HasPrefix(name, `fettle_policy_invalid{namespace="tenant"`) {
				known++
				invalid += int(value)
			}
		}
		if err == nil && (known != floodChecks || known-invalid != fit) {
			err = fmt.Errorf("%d of %d health checks are judged, want %d of %d", known-invalid, known, fit, floodChecks)
		}
		return err
	})
	last := w.tenant.object("MachineHealthCheck", fmt.Sprintf("flood-%d", floodChecks-1))
	w.Eventually(w.t, "a refused health check says why", func(ctx context.Context) error {
		return w.says(ctx, last, "False", core.UnjudgedReason)
	})
}

func (w *floodWorld) series() (map[string]float64, error) {
	answer, err := cluster.Get(w.t, w.url, w.token, nil)
	if err != nil || answer.Status != http.StatusOK {
		return nil, fmt.Errorf("answered %d: %w", answer.Status, err)
	}
	return cluster.Series(w.t, answer.Body), nil
}
