package hostile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	bootOfLease = "0f8fad5b-d9cb-469f-a165-70867728950e"
	condemner   = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
)

// The nodes are named by the state of their Leases. The last one has none.
const (
	promisedNode  = "promised"
	condemnedNode = "condemned"
	withdrawnNode = "withdrawn"
	newNode       = "new"
)

// moreRights has rights that no role of Fettle grants, so that the policy alone refuses.
const moreRights = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: more, namespace: fettle-agents},
 rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: more, namespace: fettle-agents},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: more},
 subjects: [{kind: ServiceAccount, name: fettle-agent, namespace: fettle-agents}, {kind: ServiceAccount, name: other, namespace: fettle-agents},
  {kind: ServiceAccount, name: fettle, namespace: fettle-system}]}
`

// TestI14LeasesOfNodes: an agent writes the Lease of its own node alone, and no condemnation. Fettle condemns, frees and deletes. All others,
// administrators included, write no such Lease and take no condemnation away.
func TestI14LeasesOfNodes(t *testing.T) {
	t.Parallel()
	w := newLeasesWorld(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, row := range w.rows() {
		beside.Run(name, func(t *testing.T) {
			err := row.do(cluster.Context(t), row.as)
			switch {
			case row.refusal == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case row.refusal != "" && !apierrors.IsForbidden(err), row.refusal != "" && !strings.Contains(err.Error(), row.refusal):
				t.Errorf("the answer is %v, want a refusal with %q", err, row.refusal)
			}
		})
	}
	beside.Run("priority", w.havePriority)
}

// leasesWorld has Leases in each state, which were written before the policy was there.
type leasesWorld struct {
	*cluster.Cluster

	t      *testing.T
	agents map[string]client.Client
	// configs have the tokens of the agents.
	configs map[string]*rest.Config
	// unbound has a token of the agents' service account that no pod has, and other one of another service account in a pod.
	unbound, other, fettle client.Client
	stored                 map[string]*coordinationv1.Lease
}

// havePriority: the API server serves renewals at a priority level of their own, and no list of Leases.
func (w *leasesWorld) havePriority(t *testing.T) {
	t.Helper()
	var schema flowcontrolv1.FlowSchema
	if err := w.Get(cluster.Context(t), client.ObjectKey{Name: "fettle-agents"}, &schema); err != nil {
		t.Fatal(err)
	}
	const all = "/apis/coordination.k8s.io/v1/namespaces/fettle-agents/leases"
	w.Eventually(t, "the API server follows the FlowSchema", func(ctx context.Context) error {
		if by := w.servedBy(ctx, t, all+"/"+promisedNode); by != string(schema.UID) {
			return errors.New("a Lease is read by FlowSchema " + by)
		}
		return nil
	})
	if by := w.servedBy(cluster.Context(t), t, all); by == "" || by == string(schema.UID) {
		t.Errorf("the Leases are listed by FlowSchema %q", by)
	}
}

// servedBy returns the UID of the FlowSchema by which an agent reads something.
func (w *leasesWorld) servedBy(ctx context.Context, t *testing.T, path string) string {
	t.Helper()
	c, err := rest.HTTPClientFor(w.configs[promisedNode])
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Config.Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("reading %s: %s", path, answer.Status)
	}
	return answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
}

func newLeasesWorld(t *testing.T) *leasesWorld {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	w := &leasesWorld{Cluster: c, t: t, agents: map[string]client.Client{}, configs: map[string]*rest.Config{}, stored: map[string]*coordinationv1.Lease{}}
	var later []client.Object
	for _, u := range cluster.Kustomization(t, "config/selffence") {
		if strings.HasPrefix(u.GetKind(), "ValidatingAdmissionPolicy") {
			later = append(later, u)
			continue
		}
		w.must(c.Create(cluster.Context(t), u))
	}
	c.Apply(t, moreRights)
	w.must(c.Create(cluster.Context(t), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: promiselease.Namespace, Name: "other"}}))
	for _, node := range []string{promisedNode, condemnedNode, withdrawnNode, newNode} {
		w.must(c.Create(cluster.Context(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
		w.configs[node] = w.configAs(promiselease.Namespace, "fettle-agent", w.pod(node, "fettle-agent"))
		w.agents[node] = w.with(w.configs[node])
	}
	w.other = w.as(promiselease.Namespace, "other", w.pod(newNode, "other"))
	w.unbound = w.as(promiselease.Namespace, "fettle-agent", nil)
	w.fettle = w.as("fettle-system", "fettle", nil)
	for node, state := range map[string]selffence.State{promisedNode: selffence.Promised, condemnedNode: selffence.Condemned, withdrawnNode: selffence.Withdrawn} {
		w.stored[node] = w.lease(node, state)
		w.must(c.Create(cluster.Context(t), w.stored[node]))
	}
	for _, o := range later {
		w.must(c.Create(cluster.Context(t), o))
	}
	w.awaitPolicy()
	return w
}

func (w *leasesWorld) awaitPolicy() {
	w.t.Helper()
	w.Eventually(w.t, "the API server follows the policy", func(ctx context.Context) error {
		probe := w.lease("probe", selffence.Promised)
		labels(probe)
		if err := w.unbound.Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "lease.fettle.io") {
			return errors.New("the answer is " + fmt.Sprint(err))
		}
		return nil
	})
}

func (w *leasesWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// pod creates a pod of a service account on a node. No kubelet runs it.
func (w *leasesWorld) pod(node, account string) *corev1.Pod {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: promiselease.Namespace, Name: account + "-" + node},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "a", Image: "a.invalid/a"}}},
	}
	w.must(w.Create(cluster.Context(w.t), p))
	return p
}

// as returns a client with a token of a service account.
func (w *leasesWorld) as(namespace, account string, of *corev1.Pod) client.Client {
	w.t.Helper()
	return w.with(w.configAs(namespace, account, of))
}

func (w *leasesWorld) with(config *rest.Config) client.Client {
	w.t.Helper()
	c, err := client.New(config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	w.must(err)
	return c
}

// configAs returns the configuration of a client with a token of a service account, as the kubelet requests it for a pod.
func (w *leasesWorld) configAs(namespace, account string, of *corev1.Pod) *rest.Config {
	w.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if of != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: of.Name, UID: of.UID}
	}
	w.must(w.SubResource("token").Create(cluster.Context(w.t), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}, request))
	config := rest.AnonymousClientConfig(w.Config)
	config.BearerToken = request.Status.Token
	return config
}

// lease returns the Lease of a node in a state.
func (w *leasesWorld) lease(node string, state selffence.State) *coordinationv1.Lease {
	w.t.Helper()
	r := promiselease.Record{Device: "i6300ESB timer", Lease: selffence.Lease{State: state, Promise: selffence.Promise{
		Boot: bootOfLease, Timed: true, Times: selffence.Times{Validity: 20 * time.Second, Watchdog: 10 * time.Second},
	}}}
	if state == selffence.Condemned {
		r.By = condemner
	}
	l, err := promiselease.Encode(node, r, time.Now())
	w.must(err)
	return l
}

// A leasesRow is what an identity does, and a part of the refusal, which is empty where it is allowed.
type leasesRow struct {
	as      client.Client
	do      func(context.Context, client.Client) error
	refusal string
}

func (w *leasesWorld) rows() map[string]leasesRow {
	rows := w.agentRows()
	for _, more := range []map[string]leasesRow{w.managedRows(), w.fettleRows(), w.otherRows()} {
		maps.Copy(rows, more)
	}
	return rows
}

// creates returns a row that creates a Lease, with some changes.
func (w *leasesWorld) creates(as client.Client, node string, state selffence.State, refusal string, changes ...func(*coordinationv1.Lease)) leasesRow {
	return leasesRow{as, func(ctx context.Context, c client.Client) error {
		l := w.lease(node, state)
		for _, change := range changes {
			change(l)
		}
		return c.Create(ctx, l, client.DryRunAll)
	}, refusal}
}

// updates returns a row that changes the stored Lease of a node.
func (w *leasesWorld) updates(as client.Client, node, refusal string, changes ...func(*coordinationv1.Lease)) leasesRow {
	return leasesRow{as, func(ctx context.Context, c client.Client) error {
		l := w.stored[node].DeepCopy()
		for _, change := range changes {
			change(l)
		}
		return c.Update(ctx, l, client.DryRunAll)
	}, refusal}
}

// deletes returns a row that deletes the stored Lease of a node.
func (w *leasesWorld) deletes(as client.Client, node, refusal string) leasesRow {
	return leasesRow{as, func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, w.stored[node].DeepCopy(), client.DryRunAll)
	}, refusal}
}

func sets(key, value string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Annotations[key] = value }
}

func state(s selffence.State) func(*coordinationv1.Lease) {
	return sets(annotation.PromiseState, string(s))
}

func why(r promiselease.NoPromise) func(*coordinationv1.Lease) {
	return sets(annotation.NoPromiseReason, string(r))
}

func removes(key string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { delete(l.Annotations, key) }
}

func labels(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} }

func finalizers(l *coordinationv1.Lease) { l.Finalizers = []string{"example.org/a"} }

func owners(l *coordinationv1.Lease) {
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: "a"}}
}

func holder(name string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &name }
}

func (w *leasesWorld) agentRows() map[string]leasesRow {
	const (
		another = "may write the Lease of that name alone"
		states  = "creates a Lease with a promise, or with the reason why it promises nothing"
		closed  = "one of a closed set of reasons"
		taken   = "its agent may not take that back; delete the remediation with UID " + condemner
		strange = "an agent may not write annotation "
		long    = "an annotation is too long"
		meta    = "no labels, owners, finalizers and generateName"
		spec    = "no other field of its spec"
		version = annotation.Witnessed + " must be a resource version"
	)
	a, b, c, d := w.agents[promisedNode], w.agents[condemnedNode], w.agents[withdrawnNode], w.agents[newNode]
	renewed := func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NowMicro()) }
	rows := map[string]leasesRow{}
	for _, r := range promiselease.AllNoPromises() {
		rows["an agent without a Lease states "+string(r)] = w.creates(d, newNode, selffence.Withdrawn, "", why(r))
		rows["an agent with a withdrawn Lease states "+string(r)] = w.updates(c, withdrawnNode, "", why(r))
		rows["an agent withdraws and states "+string(r)] = w.updates(a, promisedNode, "", state(selffence.Withdrawn), why(r))
	}
	maps.Copy(rows, map[string]leasesRow{
		"an agent promises":                              w.creates(d, newNode, selffence.Promised, ""),
		"an agent renews":                                w.updates(a, promisedNode, "", renewed, sets(annotation.Witnessed, "7")),
		"an agent acknowledges the largest revision":     w.updates(a, promisedNode, "", sets(annotation.Witnessed, "18446744073709551615")),
		"an agent acknowledges no number":                w.updates(a, promisedNode, version, sets(annotation.Witnessed, "7x")),
		"an agent acknowledges nothing":                  w.updates(a, promisedNode, version, sets(annotation.Witnessed, "")),
		"an agent acknowledges revision zero":            w.updates(a, promisedNode, version, sets(annotation.Witnessed, "0")),
		"an agent acknowledges a long number":            w.updates(a, promisedNode, version, sets(annotation.Witnessed, strings.Repeat("1", 21))),
		"an agent states its address":                    w.updates(a, promisedNode, "", sets(annotation.AgentAddress, "192.0.2.1:9643")),
		"an agent writes a long address":                 w.updates(a, promisedNode, long, sets(annotation.AgentAddress, strings.Repeat("x", 65))),
		"an agent renews with the longest texts":         w.updates(a, promisedNode, "", sets(annotation.PromiseDevice, strings.Repeat("x", 64)), sets(annotation.PromiseWitnesses, strings.Repeat("x", 1269)), holder(strings.Repeat("x", 64))),
		"an agent withdraws":                             w.updates(a, promisedNode, "", state(selffence.Withdrawn)),
		"an agent promises anew":                         w.updates(c, withdrawnNode, "", state(selffence.Promised)),
		"an agent promises for another node":             w.creates(d, "another", selffence.Promised, another),
		"an agent renews for another node":               w.updates(a, withdrawnNode, another, renewed),
		"an agent without a pod promises":                w.creates(w.unbound, newNode, selffence.Promised, "names no node"),
		"an agent without a pod renews":                  w.updates(w.unbound, promisedNode, "names no node", renewed),
		"an agent creates a withdrawn Lease":             w.creates(d, newNode, selffence.Withdrawn, states),
		"an agent renews with a reason":                  w.updates(a, promisedNode, closed, why(promiselease.NoWatchdog)),
		"an agent states a reason of its own":            w.updates(c, withdrawnNode, closed, why("because")),
		"an agent states a reason without a state":       w.creates(d, newNode, selffence.Withdrawn, states, why(promiselease.NoWatchdog), removes(annotation.PromiseState)),
		"an agent creates with a reason of its own":      w.creates(d, newNode, selffence.Withdrawn, closed, why("because")),
		"an agent states a reason for another node":      w.creates(d, "another", selffence.Withdrawn, another, why(promiselease.NoWatchdog)),
		"an agent states a reason though condemned":      w.updates(b, condemnedNode, taken, state(selffence.Withdrawn), why(promiselease.NoWatchdog), removes(annotation.CondemnedBy)),
		"an agent creates a Lease without a state":       w.creates(d, newNode, selffence.Promised, states, removes(annotation.PromiseState)),
		"an agent condemns":                              w.updates(a, promisedNode, states, state(selffence.Condemned)),
		"an agent names a condemner":                     w.updates(a, promisedNode, strange+annotation.CondemnedBy, sets(annotation.CondemnedBy, condemner)),
		"an agent creates with a condemner":              w.creates(d, newNode, selffence.Promised, strange+annotation.CondemnedBy, sets(annotation.CondemnedBy, condemner)),
		"an agent writes an unknown annotation":          w.updates(a, promisedNode, strange+"fettle.io/promise-later", sets("fettle.io/promise-later", "x")),
		"an agent writes an annotation of others":        w.updates(a, promisedNode, strange+"example.org/a", sets("example.org/a", "x")),
		"an agent takes a condemnation back":             w.updates(b, condemnedNode, taken, state(selffence.Promised), removes(annotation.CondemnedBy)),
		"an agent withdraws though condemned":            w.updates(b, condemnedNode, taken, state(selffence.Withdrawn), removes(annotation.CondemnedBy)),
		"an agent writes a long device":                  w.updates(a, promisedNode, long, sets(annotation.PromiseDevice, strings.Repeat("x", 65))),
		"an agent writes long witnesses":                 w.updates(a, promisedNode, long, sets(annotation.PromiseWitnesses, strings.Repeat("x", 1270))),
		"an agent writes a long holder":                  w.updates(a, promisedNode, "64 characters", holder(strings.Repeat("x", 65))),
		"an agent writes labels":                         w.updates(a, promisedNode, meta, labels),
		"an agent writes finalizers":                     w.updates(a, promisedNode, meta, finalizers),
		"an agent writes owners":                         w.creates(d, newNode, selffence.Promised, meta, owners),
		"an agent writes a prefix of a name":             w.updates(a, promisedNode, meta, func(l *coordinationv1.Lease) { l.GenerateName = "a" }),
		"an agent writes when it was acquired":           w.updates(a, promisedNode, spec, func(l *coordinationv1.Lease) { l.Spec.AcquireTime = new(metav1.NowMicro()) }),
		"an agent writes transitions":                    w.updates(a, promisedNode, spec, func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(1)) }),
		"an agent deletes its Lease":                     w.deletes(a, promisedNode, "an agent deletes no Lease"),
		"another service account in a pod of that node":  w.creates(w.other, newNode, selffence.Promised, "only the agents of nodes and Fettle"),
		"another service account renews in the same way": w.updates(w.other, promisedNode, "only the agents of nodes and Fettle", renewed),
	})
	return rows
}

// manages has a Lease name managers of fields, beside that of the request.
func manages(n int, change func(*metav1.ManagedFieldsEntry)) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		l.ManagedFields = nil
		for i := range n {
			e := metav1.ManagedFieldsEntry{
				Manager: fmt.Sprint("m", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "coordination.k8s.io/v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{}}}`),
			}
			change(&e)
			l.ManagedFields = append(l.ManagedFields, e)
		}
	}
}

// manyFields returns so many names of fields, each with so many characters beside "f:".
func manyFields(n, length int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"f:%0*d":{}`, length, i)
	}
	return "{" + strings.Join(names, ",") + "}"
}

// managedRows are those of managedFields, which a writer may send as it likes. The API server drops entries of versions that it does not know.
func (w *leasesWorld) managedRows() map[string]leasesRow {
	const (
		entries = "may have ten entries"
		members = "and fields of metadata and spec"
		names   = "may name 16 annotations and 16 fields of the spec"
	)
	a := w.agents[promisedNode]
	fields := func(text string) func(*metav1.ManagedFieldsEntry) {
		return func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = metav1.NewFieldsV1(text) }
	}
	row := func(refusal string, n int, change func(*metav1.ManagedFieldsEntry)) leasesRow {
		return w.updates(a, promisedNode, refusal, manages(n, change), sets(annotation.Witnessed, "7"))
	}
	return map[string]leasesRow{
		"an agent names ten managers":                        row("", 9, func(*metav1.ManagedFieldsEntry) {}),
		"an agent names eleven managers":                     row(entries, 10, func(*metav1.ManagedFieldsEntry) {}),
		"an agent names a thousand managers":                 row(entries, 1000, func(*metav1.ManagedFieldsEntry) {}),
		"an agent names a manager of a subresource":          row(members, 1, func(e *metav1.ManagedFieldsEntry) { e.Subresource = "status" }),
		"an agent names a manager of an unknown version":     row("", 1, func(e *metav1.ManagedFieldsEntry) { e.APIVersion = strings.Repeat("x", 65) }),
		"an agent names a manager of labels":                 row(names, 1, fields(`{"f:metadata":{"f:labels":{}}}`)),
		"an agent names a manager of other fields":           row(members, 1, fields(`{"f:status":{}}`)),
		"an agent names a manager of many annotations":       row(names, 1, fields(`{"f:metadata":{"f:annotations":`+manyFields(17, 62)+`}}`)),
		"an agent names a manager of long annotations":       row(names, 1, fields(`{"f:metadata":{"f:annotations":`+manyFields(1, 63)+`}}`)),
		"an agent names a manager of annotations":            row("", 1, fields(`{"f:metadata":{"f:annotations":`+manyFields(16, 62)+`}}`)),
		"an agent names a manager of many fields":            row(names, 1, fields(`{"f:spec":`+manyFields(17, 62)+`}`)),
		"an agent names a manager of fields":                 row("", 1, fields(`{"f:spec":`+manyFields(16, 62)+`}`)),
		"an agent names a manager of fields of fields":       row(names, 1, fields(`{"f:spec":{"f:a":{"f:b":{}}}}`)),
		"an agent names a manager of parts of an annotation": row(names, 1, fields(`{"f:metadata":{"f:annotations":{"f:a":{"f:b":{}}}}}`)),
	}
}

func (w *leasesWorld) fettleRows() map[string]leasesRow {
	const (
		others = "it changes no other"
		names  = "must name the remediation"
		deeper = "not its spec, labels, finalizers or owners"
		kept   = "only once its promise is withdrawn"
	)
	f := w.fettle
	condemns := func(l *coordinationv1.Lease) {
		condemned, err := promiselease.Condemn(l, condemner)
		w.must(err)
		*l = *condemned
	}
	frees := func(l *coordinationv1.Lease) {
		freed, err := promiselease.Free(l)
		w.must(err)
		*l = *freed
	}
	return map[string]leasesRow{
		"Fettle condemns":                           w.updates(f, promisedNode, "", condemns),
		"Fettle frees":                              w.updates(f, condemnedNode, "", frees),
		"Fettle deletes a withdrawn Lease":          w.deletes(f, withdrawnNode, ""),
		"Fettle deletes a promise":                  w.deletes(f, promisedNode, kept),
		"Fettle deletes a condemned Lease":          w.deletes(f, condemnedNode, kept),
		"Fettle promises":                           w.creates(f, newNode, selffence.Promised, "Fettle creates no promise"),
		"Fettle changes nothing":                    w.updates(f, promisedNode, others),
		"Fettle withdraws a promise":                w.updates(f, promisedNode, others, state(selffence.Withdrawn)),
		"Fettle restores a withdrawn promise":       w.updates(f, withdrawnNode, others, state(selffence.Promised)),
		"Fettle restores a condemned promise":       w.updates(f, condemnedNode, others, state(selffence.Promised), removes(annotation.CondemnedBy)),
		"Fettle condemns a withdrawn Lease":         w.updates(f, withdrawnNode, others, state(selffence.Condemned), sets(annotation.CondemnedBy, condemner)),
		"Fettle condemns again for another":         w.updates(f, condemnedNode, others, sets(annotation.CondemnedBy, "another")),
		"Fettle condemns for no remediation":        w.updates(f, promisedNode, names, state(selffence.Condemned)),
		"Fettle condemns for an empty remediation":  w.updates(f, promisedNode, names, state(selffence.Condemned), sets(annotation.CondemnedBy, "")),
		"Fettle frees and leaves the remediation":   w.updates(f, condemnedNode, names, state(selffence.Withdrawn)),
		"Fettle frees and leaves an empty text":     w.updates(f, condemnedNode, names, state(selffence.Withdrawn), sets(annotation.CondemnedBy, "")),
		"Fettle condemns for a long UID":            w.updates(f, promisedNode, "too long for a UID", condemns, sets(annotation.CondemnedBy, strings.Repeat("x", 65))),
		"Fettle condemns for the longest UID":       w.updates(f, promisedNode, "", condemns, sets(annotation.CondemnedBy, strings.Repeat("x", 64))),
		"Fettle condemns and changes the promise":   w.updates(f, promisedNode, "annotation "+annotation.PromiseWatchdog, condemns, sets(annotation.PromiseWatchdog, "1s")),
		"Fettle condemns and adds to the promise":   w.updates(f, promisedNode, "annotation "+annotation.Witnessed, condemns, sets(annotation.Witnessed, "7")),
		"Fettle condemns and changes the address":   w.updates(f, promisedNode, "annotation "+annotation.AgentAddress, condemns, sets(annotation.AgentAddress, "192.0.2.1:9643")),
		"Fettle condemns and removes of it":         w.updates(f, promisedNode, "annotation "+annotation.PromiseDevice, condemns, removes(annotation.PromiseDevice)),
		"Fettle condemns and changes the holder":    w.updates(f, promisedNode, deeper, condemns, holder("another")),
		"Fettle condemns and sets labels":           w.updates(f, promisedNode, deeper, condemns, labels),
		"Fettle condemns and sets finalizers":       w.updates(f, promisedNode, deeper, condemns, finalizers),
		"Fettle condemns and sets owners":           w.updates(f, promisedNode, deeper, condemns, owners),
		"Fettle frees and changes the promise":      w.updates(f, condemnedNode, "annotation "+annotation.PromiseBoot, frees, sets(annotation.PromiseBoot, "x")),
		"Fettle states a reason":                    w.updates(f, withdrawnNode, others, why(promiselease.NoWatchdog)),
		"Fettle frees and states a reason":          w.updates(f, condemnedNode, "annotation "+annotation.NoPromiseReason, frees, why(promiselease.NoWatchdog)),
		"Fettle deletes all Leases":                 {f, deletesAll, kept},
		"Fettle renews the Lease of a node for it":  w.updates(f, promisedNode, others, func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NowMicro()) }),
		"Fettle in another namespace is not Fettle": w.updates(w.other, promisedNode, "only the agents of nodes and Fettle", condemns),
	}
}

func (w *leasesWorld) otherRows() map[string]leasesRow {
	const (
		only    = "only the agents of nodes and Fettle write Leases"
		release = "delete the remediation with UID " + condemner + " and wait until Fettle has freed the Lease"
	)
	return map[string]leasesRow{
		"an administrator promises":                 w.creates(w.Client, newNode, selffence.Promised, only),
		"an administrator condemns":                 w.updates(w.Client, promisedNode, only, state(selffence.Condemned), sets(annotation.CondemnedBy, condemner)),
		"an administrator states a reason":          w.updates(w.Client, withdrawnNode, only, why(promiselease.NoWatchdog)),
		"an administrator labels":                   w.updates(w.Client, withdrawnNode, only, labels),
		"an administrator frees":                    w.updates(w.Client, condemnedNode, release, state(selffence.Withdrawn), removes(annotation.CondemnedBy)),
		"an administrator deletes a promise":        w.deletes(w.Client, promisedNode, ""),
		"an administrator deletes a withdrawn one":  w.deletes(w.Client, withdrawnNode, ""),
		"an administrator deletes a condemned one":  w.deletes(w.Client, condemnedNode, release),
		"an administrator deletes all":              {w.Client, deletesAll, release},
		"an administrator writes in another system": {w.Client, createsElsewhere, ""},
	}
}

func deletesAll(ctx context.Context, c client.Client) error {
	return c.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(promiselease.Namespace), client.DryRunAll)
}

// createsElsewhere creates a Lease in another namespace.
func createsElsewhere(ctx context.Context, c client.Client) error {
	return c.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: newNode}}, client.DryRunAll)
}
