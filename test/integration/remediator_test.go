package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestMachineDeletionRemediation: a user does by hand what a health checker does by the contract. The test plays the
// controllers of the machines.
func TestMachineDeletionRemediation(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Apply(t, noneMayBeDeletedIn("refused"))
	younger := newMachineFixture(t, c, "younger")
	remediationOlderThanItsMachine(younger)
	c.StartFettle(t)
	younger.wantRemediation("a", "Processing=False", "Succeeded=False RemediationCannotStartMachineNotFound")
	younger.keepsMachines("a")
	cases := map[string]func(*machineFixture){
		"content":   machineOfASetThatWantsNoMore,
		"no-node":   remediationOfNoNode,
		"no-link":   remediationOfANodeWithoutMachine,
		"no-owner":  remediationWithoutOwner,
		"node-gone": remediationOwnedByItsMachine,
		"timed-out": remediationThatTimesOut,
		"withdrawn": remediationWithdrawnMidWork,
		"refused":   deletionThatIsRefused,
	}
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range cases {
		beside.Run(name, func(t *testing.T) {
			run(newMachineFixture(t, c, name))
		})
	}
}

// remediationOlderThanItsMachine: the node of the remediation's name and its machine are younger. They are the
// replacement of the meant ones.
func remediationOlderThanItsMachine(f *machineFixture) {
	f.remediate("a")
	passesASecond(f.t)
	f.linked("a", machineOptions{})
}

// machineOfASetThatWantsNoMore: the machine is deleted once, by its UID, and no replacement comes.
func machineOfASetThatWantsNoMore(f *machineFixture) {
	f.linked("a", machineOptions{})
	f.linked("b", machineOptions{})
	uid := f.uidOf("a")
	passesASecond(f.t)
	f.remediate("a")
	f.wantMachines("b")
	f.wantRemediation("a", "Processing=False MachineDeleted", "Succeeded=True MachineDeleted", "PermanentNodeDeletionExpected=Unknown ProviderUnknown")
	deletions := f.requestsTo("delete", "machines")
	if len(deletions) != 1 || deletions[0].UID != string(uid) || deletions[0].Name != "a" {
		f.t.Errorf("deletions are %+v, want one of a, by its UID %s", deletions, uid)
	}
	if patches := f.requestsTo("patch", "machinedeletionremediations"); len(patches) != 3 {
		f.t.Errorf("it was patched %d times, want a finalizer and two statuses: %+v", len(patches), patches)
	}
	f.wantNotes("a", "RemediationStarted", "RemediationFinished")
	f.endRemediation("a")
	f.keepsMachines("b")
}

// requestsTo returns Fettle's requests by verb and resource, including refused ones.
func (f *machineFixture) requestsTo(verb, resource string) []cluster.Request {
	f.t.Helper()
	return slices.DeleteFunc(f.Requests(f.t), func(r cluster.Request) bool {
		return r.Verb != verb || r.Resource != resource || r.Namespace != f.namespace
	})
}

func remediationOfNoNode(f *machineFixture) {
	f.remediate("a")
	f.wantRemediation("a", "Processing=False", "Succeeded=False RemediationCannotStartNodeNotFound", "PermanentNodeDeletionExpected=False NothingDeleted")
	f.wantNotes("a", "RemediationCannotStart")
	f.endRemediation("a")
}

func remediationOfANodeWithoutMachine(f *machineFixture) {
	f.machine("a", machineOptions{})
	passesASecond(f.t)
	f.remediate("a")
	f.wantRemediation("a", "Succeeded=False RemediationCannotStartMachineNotFound")
	f.keepsMachines("a")
}

func remediationWithoutOwner(f *machineFixture) {
	f.linked("a", machineOptions{noOwner: true})
	passesASecond(f.t)
	f.remediate("a")
	f.wantRemediation("a", "Processing=False", "Succeeded=False RemediationCannotStartNoControllerOwner", "PermanentNodeDeletionExpected=False")
	f.wantNotes("a", "RemediationCannotStart")
	f.keepsMachines("a")
	f.endRemediation("a")
}

// remediationOwnedByItsMachine: the machine that owns it is the target, though its node is gone.
func remediationOwnedByItsMachine(f *machineFixture) {
	f.machine("a", machineOptions{noNode: true})
	f.remediate("a", func(r *v1alpha1.MachineDeletionRemediation) {
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "a", UID: f.uidOf("a")}}
	})
	f.wantMachines()
}

// remediationThatTimesOut: it stops, and stays until the health checker deletes it. Once the machine is replaced all
// the same it says so, since the health checker would wait for a node that never returns.
func remediationThatTimesOut(f *machineFixture) {
	f.linked("a", machineOptions{finalizer: true})
	passesASecond(f.t)
	f.remediate("a")
	f.wantRemediation("a", "Processing=True RemediationStarted", "Succeeded=Unknown RemediationStarted")
	f.wantMachines("-a")
	f.annotate(f.remediation("a"), v1alpha1.TimedOutAnnotation, time.Now().UTC().Format(time.RFC3339))
	r := f.wantRemediation("a", "Processing=False RemediationStoppedByNHC", "Succeeded=False RemediationStoppedByNHC")
	if len(r.Finalizers) != 1 {
		f.t.Errorf("finalizers are %v; one must stay until the remediation is deleted", r.Finalizers)
	}
	f.wantNotes("a", "RemediationStarted", "RemediationStopped")
	f.letGo("a")
	f.wantRemediation("a", "Processing=False MachineDeleted", "Succeeded=True MachineDeleted")
	f.endRemediation("a")
}

// remediationWithdrawnMidWork: a requested deletion goes on without it, and nothing blocks the deletion of the
// remediation.
func remediationWithdrawnMidWork(f *machineFixture) {
	f.linked("a", machineOptions{finalizer: true})
	passesASecond(f.t)
	f.remediate("a")
	f.wantMachines("-a")
	f.endRemediation("a")
	f.letGo("a")
	f.wantMachines()
}

// deletionThatIsRefused: Fettle retries until the remediation is withdrawn, and not after that.
func deletionThatIsRefused(f *machineFixture) {
	f.linked("a", machineOptions{})
	passesASecond(f.t)
	f.remediate("a")
	f.wantNotes("a", "RemediationStarted", "MachineDeletionRefused")
	f.wantRemediation("a", "Processing=True", "Succeeded=Unknown")
	f.Eventually(f.t, "it is tried again", func(context.Context) error {
		if n := cluster.Count(f.Requests(f.t), "delete", "machines", f.namespace); n < 2 {
			return fmt.Errorf("%d tries", n)
		}
		return nil
	})
	f.annotate(f.remediation("a"), v1alpha1.TimedOutAnnotation, time.Now().UTC().Format(time.RFC3339))
	f.wantRemediation("a", "Processing=False", "Succeeded=False RemediationStoppedByNHC")
	tries := cluster.Count(f.Requests(f.t), "delete", "machines", f.namespace)
	f.keepsMachines("a")
	if after := cluster.Count(f.Requests(f.t), "delete", "machines", f.namespace); after != tries {
		f.t.Errorf("after it was stopped it was tried %d times more", after-tries)
	}
	f.endRemediation("a")
	f.keepsMachines("a")
}

// TestMachineDeletionRemediationReplaces runs on simulated machines: the machine of a node is replaced by its set, and
// a Fettle that is killed midway continues afterwards.
func TestMachineDeletionRemediationReplaces(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController, "--machine-api", "--machine-api-poll=200ms"}})
	c.InstallFettle(t)
	c.Namespace(t, "sets")
	f := &machineFixture{Cluster: c, t: t, namespace: "sets"}
	c.Apply(t, machineSetOf(2, "sets"))
	names := f.joined(2)
	victim, other := names[0], names[1]
	first := c.StartFettle(t)
	passesASecond(t)
	f.patch(object("machine.openshift.io/v1beta1", "Machine", "sets", victim), map[string]any{
		"spec": map[string]any{"lifecycleHooks": map[string]any{"preDrain": []any{map[string]any{"name": "test", "owner": "test"}}}},
	})
	f.createRemediation(victim, victim)
	f.wantRemediationOf(victim, "Processing=True", "Succeeded=Unknown", "PermanentNodeDeletionExpected=True NodeIsReplaced")
	names = f.joined(2, victim) // the set replaces it at once; it hangs itself
	f.Never(t, "it has not succeeded while the machine is there", quiet, func(ctx context.Context) error {
		return f.isRemediation(ctx, victim, nil, "Succeeded=Unknown")
	})
	first.Kill(t)
	f.patch(object("machine.openshift.io/v1beta1", "Machine", "sets", victim), map[string]any{"spec": map[string]any{"lifecycleHooks": nil}})
	c.StartFettle(t)
	f.wantRemediationOf(victim, "Processing=False", "Succeeded=True MachineDeleted", "PermanentNodeDeletionExpected=True")
	f.wantMachines(names...)
	if !slices.Contains(names, other) {
		t.Errorf("machines are %v, and %s is none of them", names, other)
	}
	if deletions := cluster.Count(f.Requests(t), "delete", "machines", "sets"); deletions != 1 {
		t.Errorf("Fettle requested %d deletions, want one", deletions)
	}
	f.comesToRest()
	f.endRemediationOf(victim)
	f.keepsMachines(names...)
}

// TestSeveralMachineDeletionRemediations of one set at the same time wait for each other's replacements, and no longer.
func TestSeveralMachineDeletionRemediations(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController, "--machine-api", "--machine-api-poll=200ms"}})
	c.InstallFettle(t)
	c.Namespace(t, "several")
	f := &machineFixture{Cluster: c, t: t, namespace: "several"}
	const replicas, broken = 12, 9
	c.Apply(t, machineSetOf(replicas, "several"))
	names := f.joined(replicas)
	c.StartFettle(t)
	passesASecond(t)
	for _, name := range names[:broken] {
		f.createRemediation(name, name)
	}
	for _, name := range names[:broken] {
		f.wantRemediationOf(name, "Processing=False", "Succeeded=True MachineDeleted")
	}
	if left := f.joined(replicas); slices.ContainsFunc(names[:broken], func(name string) bool { return slices.Contains(left, name) }) {
		t.Errorf("machines are %v; none of %v must be left", left, names[:broken])
	}
	if deletions := cluster.Count(f.Requests(t), "delete", "machines", "several"); deletions != broken {
		t.Errorf("Fettle requested %d deletions, want %d", deletions, broken)
	}
	f.comesToRest()
}

// linked makes a machine, and its node with a reference to it.
func (f *machineFixture) linked(machine string, o machineOptions) {
	f.t.Helper()
	f.machine(machine, o)
	f.annotate(object("v1", "Node", "", f.nodeName(machine)), "machine.openshift.io/machine", f.namespace+"/"+machine)
}

// passesASecond waits until the next object is younger than all others, in the whole seconds of the API.
func passesASecond(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// remediate creates the remediation of a machine's node.
func (f *machineFixture) remediate(machine string, changes ...func(*v1alpha1.MachineDeletionRemediation)) {
	f.t.Helper()
	f.createRemediation(f.nodeName(machine), f.nodeName(machine), changes...)
}

// createRemediation creates a remediation as the operator of NodeHealthCheck does.
func (f *machineFixture) createRemediation(name, node string, changes ...func(*v1alpha1.MachineDeletionRemediation)) {
	f.t.Helper()
	r := &v1alpha1.MachineDeletionRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.namespace, Name: name,
		Annotations: map[string]string{v1alpha1.NodeNameAnnotation: node, "remediation.medik8s.io/template-name": "example"},
		Labels:      map[string]string{"app.kubernetes.io/part-of": "node-healthcheck-controller"},
	}}
	for _, change := range changes {
		change(r)
	}
	f.create(r)
}

func (f *machineFixture) remediation(machine string) *unstructured.Unstructured {
	return object("fettle.io/v1alpha1", "MachineDeletionRemediation", f.namespace, f.nodeName(machine))
}

func (f *machineFixture) wantRemediation(machine string, conditions ...string) *v1alpha1.MachineDeletionRemediation {
	f.t.Helper()
	return f.wantRemediationOf(f.nodeName(machine), conditions...)
}

// wantRemediationOf waits for conditions such as "Succeeded=True Reason", or without the reason.
func (f *machineFixture) wantRemediationOf(node string, conditions ...string) *v1alpha1.MachineDeletionRemediation {
	f.t.Helper()
	var r v1alpha1.MachineDeletionRemediation
	f.Eventually(f.t, "remediation of "+node, func(ctx context.Context) error { return f.isRemediation(ctx, node, &r, conditions...) })
	return &r
}

func (f *machineFixture) isRemediation(ctx context.Context, node string, into *v1alpha1.MachineDeletionRemediation, conditions ...string) error {
	var r v1alpha1.MachineDeletionRemediation
	if err := f.Get(ctx, types.NamespacedName{Namespace: f.namespace, Name: node}, &r); err != nil {
		return err
	}
	for _, want := range conditions {
		kind, _, _ := strings.Cut(want, "=")
		c := meta.FindStatusCondition(r.Status.Conditions, kind)
		if c == nil || !strings.HasPrefix(kind+"="+string(c.Status)+" "+c.Reason, want) {
			return fmt.Errorf("want %s, have %+v", want, r.Status.Conditions)
		}
	}
	if into != nil {
		*into = r
	}
	return nil
}

func (f *machineFixture) endRemediation(machine string) {
	f.t.Helper()
	f.endRemediationOf(f.nodeName(machine))
}

// endRemediationOf deletes a remediation, as a health checker does, and waits until it is gone.
func (f *machineFixture) endRemediationOf(node string) {
	f.t.Helper()
	u := object("fettle.io/v1alpha1", "MachineDeletionRemediation", f.namespace, node)
	if err := f.Delete(cluster.Context(f.t), u); err != nil {
		f.t.Fatalf("deleting the remediation of %s: %v", node, err)
	}
	f.Eventually(f.t, "the end of the remediation of "+node, func(ctx context.Context) error {
		err := f.Get(ctx, client.ObjectKeyFromObject(u), u)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, with finalizers %v (%w)", u.GetFinalizers(), err)
	})
}

// wantNotes waits for events of these reasons about a remediation, all with the prefix of the contract.
func (f *machineFixture) wantNotes(machine string, reasons ...string) {
	f.t.Helper()
	f.Eventually(f.t, "events about the remediation of "+machine, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		have := map[string]bool{}
		for i := range list.Items {
			e := &list.Items[i]
			if e.Regarding.Kind != "MachineDeletionRemediation" || e.Regarding.Name != f.nodeName(machine) {
				continue
			}
			have[e.Reason] = true
			if !strings.HasPrefix(e.Note, "[remediation] ") {
				f.t.Errorf("event %s says %q", e.Reason, e.Note)
			}
		}
		slices.Sort(reasons)
		if got := slices.Sorted(maps.Keys(have)); !slices.Equal(got, reasons) {
			return fmt.Errorf("events are %v, want %v", got, reasons)
		}
		return nil
	})
}

func (f *machineFixture) uidOf(machine string) types.UID {
	f.t.Helper()
	m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, machine)
	if err := f.Get(cluster.Context(f.t), client.ObjectKeyFromObject(m), m); err != nil {
		f.t.Fatalf("reading machine %s: %v", machine, err)
	}
	return m.GetUID()
}

// letGo removes the finalizers of a machine, as its controller does in the end.
func (f *machineFixture) letGo(machine string) {
	f.t.Helper()
	f.patch(object("machine.openshift.io/v1beta1", "Machine", f.namespace, machine), map[string]any{"metadata": map[string]any{"finalizers": nil}})
}

func (f *machineFixture) patch(u *unstructured.Unstructured, change map[string]any) {
	f.t.Helper()
	body, err := (&unstructured.Unstructured{Object: change}).MarshalJSON()
	if err == nil {
		err = f.Patch(cluster.Context(f.t), u, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		f.t.Fatalf("patching %s: %v", u.GetName(), err)
	}
}

// joined waits until so many machines, without the named ones, refer to nodes that refer back, and returns their names.
func (f *machineFixture) joined(n int, but ...string) []string {
	f.t.Helper()
	var names []string
	f.Eventually(f.t, fmt.Sprint(n, " machines have joined"), func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("machine.openshift.io/v1beta1")
		list.SetKind("MachineList")
		if err := f.List(ctx, list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		names = nil
		for i := range list.Items {
			m := &list.Items[i]
			node, has, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
			if has && node == m.GetName() && !slices.Contains(but, m.GetName()) {
				names = append(names, m.GetName())
			}
		}
		if len(names) != n {
			return fmt.Errorf("%v of %d have joined", names, len(list.Items))
		}
		slices.Sort(names)
		return nil
	})
	return names
}

// noneMayBeDeletedIn refuses the deletion of machines in one namespace.
func noneMayBeDeletedIn(namespace string) string {
	return strings.ReplaceAll(noMachineMayBeDeleted, `{expression: "false",`, `{expression: "request.namespace != '`+namespace+`'",`)
}

func machineSetOf(replicas int, namespace string) string {
	return fmt.Sprintf(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: workers, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {set: workers}}
  template:
    metadata:
      labels: {set: workers, role: worker, machine.openshift.io/cluster-api-cluster: test}
    spec:
      providerSpec:
        value: {apiVersion: sandbox.fettle.io/v1alpha1, kind: SimulatedProviderSpec, bootTime: 200ms}
`, namespace, replicas)
}
