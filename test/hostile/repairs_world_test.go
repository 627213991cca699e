package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// repairsRights are the rights of a tenant: all in the namespace tenant, and in the namespace machines all on Repairs
// and none on machines.
const repairsRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: everything, namespace: tenant}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: everything}
subjects:
- {kind: ServiceAccount, namespace: tenant, name: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: repairs, namespace: machines}
rules:
- {apiGroups: [fettle.io], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: repairs, namespace: machines}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: repairs}
subjects:
- {kind: ServiceAccount, namespace: tenant, name: tenant}
`

// repairsWorld is a cluster with machines, and a tenant who forges Repairs.
type repairsWorld struct {
	*cluster.Cluster

	t      *testing.T
	tenant client.Client
	// owners own the machines of each pool.
	owners map[string]metav1.OwnerReference
	// url and token are for Fettle's metrics.
	url, token string
}

func newRepairsWorld(t *testing.T) *repairsWorld {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	w := &repairsWorld{Cluster: c, t: t, owners: map[string]metav1.OwnerReference{}}
	c.Namespace(t, "machines")
	c.Namespace(t, "tenant")
	w.tenant = w.clientOf(c.ServiceAccount(t, "tenant", "tenant"))
	c.Apply(t, repairsRights)
	w.token = c.MetricsReader(t)
	return w
}

func (w *repairsWorld) clientOf(token string) client.Client {
	w.t.Helper()
	config := rest.AnonymousClientConfig(w.Config)
	config.BearerToken = token
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: w.Scheme()})
	w.must("making a client", err)
	return c
}

func (w *repairsWorld) must(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

func (*repairsWorld) object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// check creates a machine set and a health check of the machines of a pool.
func (w *repairsWorld) check(pool, maxUnhealthy string) core.ID {
	w.t.Helper()
	set := w.object("machine.openshift.io/v1beta1", "MachineSet", "machines", pool)
	set.Object["spec"] = map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"made": "never"}}}
	w.must("creating a machine set", w.Create(cluster.Context(w.t), set))
	w.owners[pool] = *metav1.NewControllerRef(set, set.GroupVersionKind())
	u := cluster.Decode(w.t, []byte(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: `+pool+`, namespace: machines, annotations: {fettle.io/max-in-flight: unlimited}}
spec:
  selector: {matchLabels: {pool: `+pool+`}}
  unhealthyConditions: [{type: Ready, status: "False", timeout: 1s}]
  maxUnhealthy: `+maxUnhealthy))[0]
	w.must("creating a health check", w.Create(cluster.Context(w.t), u))
	return core.ID{Kind: "MachineHealthCheck", Namespace: "machines", Name: pool, UID: string(u.GetUID())}
}

// sickMachine creates a machine of a pool whose node has not been ready for an hour. A machine that is not selected has
// yet to join the pool.
func (w *repairsWorld) sickMachine(pool, name string, controlPlane, selected bool) core.ID {
	w.t.Helper()
	ctx := cluster.Context(w.t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if controlPlane {
		node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	}
	w.must("creating a node", w.Create(ctx, node))
	before := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	w.mergeStatus(node, fmt.Sprintf(`{"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": %q, "lastHeartbeatTime": %q}]}`, before, before))
	m := w.object("machine.openshift.io/v1beta1", "Machine", "machines", name)
	m.SetLabels(map[string]string{"machine.openshift.io/cluster-api-cluster": "test"})
	m.SetOwnerReferences([]metav1.OwnerReference{w.owners[pool]})
	w.must("creating a machine", w.Create(ctx, m))
	id := core.ID{Kind: "Machine", Namespace: "machines", Name: name, UID: string(m.GetUID())}
	w.mergeStatus(m, `{"phase": "Running", "nodeRef": {"kind": "Node", "name": "`+name+`"}}`)
	if selected {
		w.joins(id, pool)
	}
	return id
}

func (w *repairsWorld) mergeStatus(o client.Object, status string) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status": `+status+`}`))
	w.must("writing the status of "+o.GetName(), w.Status().Patch(cluster.Context(w.t), o, patch))
}

// forged returns a Repair of a target as Fettle would write it, with changes.
func (w *repairsWorld) forged(target, policy core.ID, number int, changes ...func(*v1alpha1.Repair)) *v1alpha1.Repair {
	r := &v1alpha1.Repair{
		ObjectMeta: metav1.ObjectMeta{Namespace: target.Namespace, Name: core.RepairName(target, number)},
		Spec: v1alpha1.RepairSpec{
			Target: v1alpha1.RepairTarget{ObjectReference: repairsReference(target), Node: target.Name},
			Policy: repairsReference(policy), Reason: "UnhealthyCondition",
			Ladder: []v1alpha1.RepairStep{{Remedy: "DeleteMachine", Nature: v1alpha1.StepDelete}}, StartedAt: metav1.NowMicro(),
		},
	}
	if owner, known := w.owners[policy.Name]; known {
		r.Spec.Owner = &v1alpha1.ObjectReference{Kind: owner.Kind, Namespace: "machines", Name: owner.Name, UID: string(owner.UID)}
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func repairsReference(id core.ID) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, UID: id.UID}
}

func repairsIn(namespace string) func(*v1alpha1.Repair) {
	return func(r *v1alpha1.Repair) { r.Namespace = namespace }
}

// repairsUnderWay has two steps. A status may say that Fettle gave up the first.
func repairsUnderWay(r *v1alpha1.Repair) {
	r.Spec.Ladder = append([]v1alpha1.RepairStep{{Remedy: "AnnotateMachine", Nature: v1alpha1.StepAnnotate}}, r.Spec.Ladder...)
	repairsGivenUp(r)
}

func repairsGivenUp(r *v1alpha1.Repair) {
	r.Status.Phase, r.Status.Step = v1alpha1.RepairRunning, 1
	r.Status.Steps = []v1alpha1.RepairAttempt{{Outcome: v1alpha1.StepFailed, EndedAt: metav1.NowMicro()}}
}

// forge creates Repairs with their status, as the tenant. It overwrites a status that Fettle may have written in
// between.
func (w *repairsWorld) forge(repairs ...*v1alpha1.Repair) {
	w.t.Helper()
	for _, r := range repairs {
		status := r.Status
		w.must("forging a Repair", w.tenant.Create(cluster.Context(w.t), r))
		if status.Phase == "" {
			continue
		}
		text, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": status}})
		w.must("writing down the status of a Repair", err)
		w.must("forging the status of a Repair", w.tenant.Status().Patch(cluster.Context(w.t), r, client.RawPatch(types.JSONPatchType, text)))
	}
}

// repair reads a Repair.
func (w *repairsWorld) repair(ctx context.Context, r *v1alpha1.Repair) (*v1alpha1.Repair, error) {
	got := &v1alpha1.Repair{}
	return got, w.Get(ctx, client.ObjectKeyFromObject(r), got)
}

func (w *repairsWorld) wantPhase(r *v1alpha1.Repair, phase v1alpha1.RepairPhase) {
	w.t.Helper()
	w.Eventually(w.t, "phase "+string(phase)+" of "+r.Name, func(ctx context.Context) error {
		got, err := w.repair(ctx, r)
		if err == nil && got.Status.Phase != phase {
			err = fmt.Errorf("it is %s: %s", got.Status.Phase, got.Status.Message)
		}
		return err
	})
}

// wantGone waits until a machine was deleted.
func (w *repairsWorld) wantGone(machine core.ID) {
	w.t.Helper()
	w.Eventually(w.t, machine.Name+" is deleted", func(ctx context.Context) error {
		err := w.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}, w.object("machine.openshift.io/v1beta1", "Machine", "", ""))
		if err == nil {
			return fmt.Errorf("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// wantKept fails the test when a machine is deleted or in deletion.
func (w *repairsWorld) wantKept(machines ...core.ID) {
	w.t.Helper()
	for _, id := range machines {
		m := w.object("machine.openshift.io/v1beta1", "Machine", "", "")
		err := w.Get(cluster.Context(w.t), types.NamespacedName{Namespace: id.Namespace, Name: id.Name}, m)
		if err != nil || m.GetDeletionTimestamp() != nil {
			w.t.Errorf("machine %s was deleted on the word of a forged Repair (%v)", id.Name, err)
		}
	}
}

// wantIgnored waits for the event that says why Fettle ignores a Repair.
func (w *repairsWorld) wantIgnored(r *v1alpha1.Repair) {
	w.t.Helper()
	w.Eventually(w.t, "the event about "+r.Namespace+"/"+r.Name, func(ctx context.Context) error {
		var list eventsv1.EventList
		err := w.List(ctx, &list, client.InNamespace(r.Namespace))
		if err == nil && !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "RepairIgnored" && e.Regarding.UID == r.UID
		}) {
			err = fmt.Errorf("there is none among %d", len(list.Items))
		}
		return err
	})
}

// wantSeries waits until Fettle's metrics have series of these values.
func (w *repairsWorld) wantSeries(want map[string]float64) {
	w.t.Helper()
	w.Eventually(w.t, "metrics", func(context.Context) error {
		answer, err := cluster.Get(w.t, w.url, w.token, nil)
		if err != nil {
			return err
		}
		if answer.Status != http.StatusOK {
			return fmt.Errorf("answered %d", answer.Status)
		}
		have := cluster.Series(w.t, answer.Body)
		for name, value := range want {
			if have[name] != value {
				return fmt.Errorf("%s is %v, want %v", name, have[name], value)
			}
		}
		return nil
	})
}

// startFettle runs Fettle with metrics.
func (w *repairsWorld) startFettle() *cluster.Fettle {
	w.t.Helper()
	address := cluster.FreeAddress(w.t)
	w.url = "https://" + address + "/metrics"
	return w.StartFettle(w.t, "--metrics-bind-address="+address)
}

// joins moves a machine into a pool.
func (w *repairsWorld) joins(machine core.ID, pool string) {
	w.t.Helper()
	m := w.object("machine.openshift.io/v1beta1", "Machine", machine.Namespace, machine.Name)
	body := []byte(`{"metadata": {"labels": {"pool": "` + pool + `"}}}`)
	w.must("labelling a machine", w.Patch(cluster.Context(w.t), m, client.RawPatch(types.MergePatchType, body)))
}

// tokenOf requests a token of a service account.
func (w *repairsWorld) tokenOf(namespace, name string) string {
	w.t.Helper()
	account, request := &corev1.ServiceAccount{}, &authenticationv1.TokenRequest{}
	account.Namespace, account.Name = namespace, name
	w.must("requesting a token", w.SubResource("token").Create(cluster.Context(w.t), account, request))
	return request.Status.Token
}

// withoutAdmission removes the admission policy of Repairs, and waits until the tenant may create them.
func (w *repairsWorld) withoutAdmission() {
	w.t.Helper()
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		w.must("removing "+kind, w.Delete(cluster.Context(w.t), w.object("admissionregistration.k8s.io/v1", kind, "", "repair.fettle.io")))
	}
	id := core.ID{Kind: "Machine", Namespace: "tenant", Name: "any", UID: "any"}
	w.Eventually(w.t, "the admission policy is gone", func(ctx context.Context) error {
		return w.tenant.Create(ctx, w.forged(id, id, 1), client.DryRunAll)
	})
}
