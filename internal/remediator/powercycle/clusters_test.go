package powercycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

var (
	keyEast = types.NamespacedName{Namespace: "fleet", Name: "east"}
	keyWest = types.NamespacedName{Namespace: "fleet", Name: "west"}
	keyM    = types.NamespacedName{Namespace: "fleet", Name: "m"}
)

// ofKind returns an object of the namespace fleet, with a UID, and its fields at dotted paths.
func ofKind(kind schema.GroupVersionKind, name string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace("fleet")
	u.SetName(name)
	u.SetUID(types.UID(name + "-uid"))
	for path, value := range fields {
		if err := unstructured.SetNestedField(u.Object, value, strings.Split(path, ".")...); err != nil {
			panic(err)
		}
	}
	return u
}

// member returns the machine of node-a in the cluster east.
func member(fields map[string]any) *unstructured.Unstructured {
	all := map[string]any{"spec.clusterName": "east", "status.nodeRef.name": "node-a"}
	maps.Copy(all, fields)
	return ofKind(clusterAPIMachine, "m", all)
}

// forMember returns the remediation that Cluster API creates for the machine.
func forMember(changes ...func(*v1alpha1.PowerRemediation)) *v1alpha1.PowerRemediation {
	r := remediation(func(r *v1alpha1.PowerRemediation) {
		r.Namespace, r.Name = keyM.Namespace, keyM.Name
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: "m-uid"}}
	})
	for _, change := range changes {
		change(r)
	}
	return r
}

// inEast has a remediation record node-a of the cluster east.
func inEast(r *v1alpha1.PowerRemediation) {
	r.Status.Node.Cluster = &v1alpha1.FencedCluster{Namespace: "fleet", Name: "east", UID: "east-uid"}
}

// bmcIn returns a BMC of a node of a workload cluster.
func bmcIn(name, cluster, node string) *v1alpha1.BMC {
	return bmcFor(name, node, "telnet://"+name, func(b *v1alpha1.BMC) {
		namespace, of, _ := strings.Cut(cluster, "/")
		b.Spec.Cluster = &v1alpha1.BMCCluster{Namespace: namespace, Name: of}
	})
}

// newMemberWorld returns a remediator with workload clusters. Each is an API server of its own.
func newMemberWorld(t *testing.T, clusters map[types.NamespacedName]*world, objects ...client.Object) *world {
	t.Helper()
	w := newWorld(t, objects...)
	w.Workload = func(cluster types.NamespacedName) fencednode.API {
		if of := clusters[cluster]; of != nil {
			return of.api
		}
		t.Errorf("cluster %s is reached", cluster)
		return nil
	}
	return w
}

// TestI14MachinesReachHostsOfTheirClusterAlone: a tenant who writes machines, their status and their nodes gets no host of another cluster
// powered, whatever the nodes are called.
func TestI14MachinesReachHostsOfTheirClusterAlone(t *testing.T) {
	up := ofKind(clusterAPICluster, "east", nil)
	good := bmcIn("a", "fleet/east", "node-a")
	mixedUp := bmcIn("a", "fleet/east", "node-a")
	reachedSystem(otherUUID)(mixedUp)
	deleted := ofKind(clusterAPICluster, "east", nil)
	deleted.SetDeletionTimestamp(&metav1.Time{Time: noon})
	deleted.SetFinalizers([]string{"x"})
	for sentence, tc := range map[string]struct {
		r       *v1alpha1.PowerRemediation
		node    *corev1.Node // of the workload cluster
		objects []client.Object
		want    string
	}{
		"the node and the BMC name the machine's cluster": {forMember(), node(), []client.Object{member(nil), up, good}, ""},
		"the node is gone":                          {forMember(), nil, []client.Object{member(nil), up, good}, ""},
		"the node names the machine":                {forMember(), node(annotated(fencednode.ClusterAPIMachineAnnotation, "m")), []client.Object{member(nil), up, good}, ""},
		"the node names another machine":            {forMember(), node(annotated(fencednode.ClusterAPIMachineAnnotation, "n")), []client.Object{member(nil), up, good}, v1alpha1.CannotStartMachineNotFoundReason},
		"the BMC is of another host":                {forMember(), node(onSystem(nodeUUID)), []client.Object{member(nil), up, mixedUp}, v1alpha1.CannotStartOtherSystemReason},
		"the BMC is of Fettle's own cluster":        {forMember(), node(), []client.Object{member(nil), up, bmcFor("a", "node-a", "redfish://h")}, v1alpha1.CannotStartNoBMCReason},
		"the BMC is of another cluster":             {forMember(), node(), []client.Object{member(nil), up, bmcIn("a", "fleet/west", "node-a")}, v1alpha1.CannotStartNoBMCReason},
		"the BMC is of another namespace's cluster": {forMember(), node(), []client.Object{member(nil), up, bmcIn("a", "other/east", "node-a")}, v1alpha1.CannotStartNoBMCReason},
		"the BMC is of another node":                {forMember(), node(), []client.Object{member(nil), up, bmcIn("a", "fleet/east", "node-b")}, v1alpha1.CannotStartNoBMCReason},
		"two BMCs name the node":                    {forMember(), node(), []client.Object{member(nil), up, good, bmcIn("b", "fleet/east", "node-a")}, v1alpha1.CannotStartAmbiguousBMCReason},
		"the machine names another cluster":         {forMember(), node(), []client.Object{member(map[string]any{"spec.clusterName": "west"}), up, ofKind(clusterAPICluster, "west", nil), good}, v1alpha1.CannotStartNoBMCReason},
		"the machine names no cluster":              {forMember(), node(), []client.Object{member(map[string]any{"spec.clusterName": ""}), up, good}, v1alpha1.CannotStartClusterNotFoundReason},
		"the machine names a path":                  {forMember(), node(), []client.Object{member(map[string]any{"spec.clusterName": "../other/east"}), up, good}, v1alpha1.CannotStartClusterNotFoundReason},
		"the machine has no node":                   {forMember(), node(), []client.Object{member(map[string]any{"status.nodeRef.name": ""}), up, good}, v1alpha1.CannotStartNodeNotFoundReason},
		"the machine's node has the key of another": {forMember(), node(), []client.Object{member(map[string]any{"status.nodeRef.name": "fleet/west/node-a"}), up, good}, v1alpha1.CannotStartNodeNotFoundReason},
		"the machine was replaced":                  {forMember(func(r *v1alpha1.PowerRemediation) { r.OwnerReferences[0].UID = "earlier" }), node(), []client.Object{member(nil), up, good}, v1alpha1.CannotStartMachineNotFoundReason},
		"there is no machine":                       {forMember(), node(), []client.Object{up, good}, v1alpha1.CannotStartMachineNotFoundReason},
		"there is no Cluster":                       {forMember(), node(), []client.Object{member(nil), good}, v1alpha1.CannotStartClusterNotFoundReason},
		"the Cluster is being deleted":              {forMember(), node(), []client.Object{member(nil), deleted, good}, v1alpha1.CannotStartClusterNotFoundReason},
		"the Cluster is paused":                     {forMember(), node(), []client.Object{member(nil), ofKind(clusterAPICluster, "east", map[string]any{"spec.paused": true}), good}, clusterPaused},
	} {
		of := newWorld(t)
		if tc.node != nil {
			of = newWorld(t, tc.node)
		}
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: of}, append(tc.objects, node(func(n *corev1.Node) { n.UID = "home-uid" }))...)
		s, found, err := w.identified(t, tc.r)
		if s.waits.found() {
			found = s.waits
		}
		if err != nil || found.reason != tc.want || found.found() && found.message == "" {
			t.Errorf("%s: problem %+v, %v, want %q", sentence, found, err, tc.want)
		}
		if tc.want != "" {
			continue
		}
		if s.bmc == nil || s.name != "node-a" || s.nodes == nil || s.cluster != (fencedCluster{keyEast, "east-uid"}) || (s.node == nil) != (tc.node == nil) || s.node != nil && s.node.UID != "node-uid" ||
			s.machine == nil || *s.machine != (v1alpha1.ObjectReference{Kind: "Machine", Namespace: "fleet", Name: "m", UID: "m-uid"}) {
			t.Errorf("%s: the subject is %+v", sentence, s)
		}
	}
}

// TestI14NodesOfFettlesOwnClusterReachNoHostOfAnother: the name of a node, and annotations of a machine, lead to no BMC of a workload cluster.
func TestI14NodesOfFettlesOwnClusterReachNoHostOfAnother(t *testing.T) {
	for sentence, r := range map[string]*v1alpha1.PowerRemediation{
		"by its name":      remediation(),
		"by an annotation": remediation(called(keyB)),
		"by a path": remediation(func(r *v1alpha1.PowerRemediation) {
			r.Annotations = map[string]string{v1alpha1.NodeNameAnnotation: "fleet/east/node-a"}
		}),
		"a machine that names a node": forMember(func(r *v1alpha1.PowerRemediation) {
			r.Annotations = map[string]string{v1alpha1.NodeNameAnnotation: "node-a"}
		}),
		"a machine of another name": forMember(func(r *v1alpha1.PowerRemediation) { r.Name = "node-a" }),
	} {
		w := newMemberWorld(t, nil, node(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
		if s, found, err := w.identified(t, r); err != nil || !found.found() || s.bmc != nil {
			t.Errorf("%s: %+v, %+v, %v", sentence, s, found, err)
		}
	}
	w := newWorld(t, node(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"), bmcFor("b", "node-a", "redfish://h"))
	if s, found, err := w.identified(t, forMember()); err != nil || !found.found() || s.bmc != nil {
		t.Errorf("where no workload cluster is reached: %+v, %+v, %v", s, found, err)
	}
}

// TestFencingInAWorkloadCluster changes the node there, records the cluster, and leaves the node of the same name alone.
func TestFencingInAWorkloadCluster(t *testing.T) {
	east := newWorld(t, node())
	home := node(func(n *corev1.Node) { n.UID = "home-uid" })
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, home, member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"), bmcFor("b", "node-a", "redfish://h"), forMember())
	for range 3 { // the later reconciles go on from the record
		if err := w.reconcile(t.Context(), keyM); err != nil {
			t.Fatal(err)
		}
		w.forget(keyM)
	}
	r := w.remediation(t, keyM)
	if r.Status.Phase != "PoweringOff" || r.Status.Node.UID != "node-uid" || *r.Status.Node.Cluster != (v1alpha1.FencedCluster{Namespace: "fleet", Name: "east", UID: "east-uid"}) || r.Status.BMC.Name != "a" ||
		r.Status.Machine.Name != "m" || !slices.Contains(r.Finalizers, annotation.PowerFinalizer) || processing(r) != "PowerNotRead" {
		t.Errorf("it is %+v", r.Status)
	}
	if n := east.node(t); !fencednode.Facts("", nil, n).Tainted || n.Annotations[annotation.FencedBy] != "r-uid" {
		t.Errorf("the node is not tainted: %+v", n.Spec.Taints)
	}
	if n := w.node(t); len(n.Spec.Taints) != 0 || len(n.Annotations) != 0 {
		t.Errorf("the node of Fettle's own cluster is changed: %+v", n)
	}
}

// TestOneRemediationOfANode of each cluster.
func TestOneRemediationOfANode(t *testing.T) {
	other := func(changes ...func(*v1alpha1.PowerRemediation)) *v1alpha1.PowerRemediation {
		return remediation(append([]func(*v1alpha1.PowerRemediation){called(types.NamespacedName{Namespace: "fleet", Name: "other"}), in(fencing.PoweringOff)}, changes...)...)
	}
	inWest := func(r *v1alpha1.PowerRemediation) { inEast(r); r.Status.Node.Cluster.Name = "west" }
	forged := func(r *v1alpha1.PowerRemediation) { inEast(r); r.Namespace = "elsewhere" }
	for sentence, tc := range map[string]struct {
		other *v1alpha1.PowerRemediation
		waits bool
	}{
		"the same cluster":     {other(inEast), true},
		"another cluster":      {other(inWest), false},
		"Fettle's own cluster": {other(), false},
		"another namespace":    {other(forged), false},
	} {
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t, node())}, member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"), forMember(), tc.other)
		if err := w.reconcile(t.Context(), keyM); err != nil {
			t.Fatal(err)
		}
		if got := processing(w.remediation(t, keyM)) == fencednode.AnotherRemediation; got != tc.waits {
			t.Errorf("%s: it waits: %t", sentence, got)
		}
	}
}

// TestClusterThatIsForged: a remediation is for a cluster of its own namespace alone.
func TestClusterThatIsForged(t *testing.T) {
	for sentence, change := range map[string]func(*v1alpha1.FencedCluster){
		"another namespace": func(c *v1alpha1.FencedCluster) { c.Namespace = "other" },
		"no name":           func(c *v1alpha1.FencedCluster) { c.Name = "" },
	} {
		w := newMemberWorld(t, nil, forMember(in(fencing.Booting), inEast, func(r *v1alpha1.PowerRemediation) { change(r.Status.Node.Cluster) }))
		if err := w.reconcile(t.Context(), keyM); err != nil || processing(w.remediation(t, keyM)) != "StatusInvalid" {
			t.Errorf("%s: %v, %q", sentence, err, processing(w.remediation(t, keyM)))
		}
	}
}

// silent has a cluster answer no read of nodes.
func silent(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, node())
	w.refuses(func(_ string, o runtime.Object) error {
		if _, is := o.(*corev1.Node); is {
			return errors.New("it does not answer")
		}
		return nil
	})
	return w
}

// TestClusterThatIsSilent: nothing is done, and the reason is shown. A cluster that does not exist any more has no node.
func TestClusterThatIsSilent(t *testing.T) {
	replaced := ofKind(clusterAPICluster, "east", nil)
	replaced.SetUID("later")
	for sentence, tc := range map[string]struct {
		r       *v1alpha1.PowerRemediation
		cluster *unstructured.Unstructured
		waits   string
	}{
		"it is there":                   {forMember(in(fencing.PoweringOff), inEast), ofKind(clusterAPICluster, "east", nil), "NodeNotRead"},
		"it is there, and all is over":  {forMember(in(fencing.Preparing), inEast, leaving), ofKind(clusterAPICluster, "east", nil), "NodeNotRead"},
		"it was replaced, all is over":  {forMember(in(fencing.Preparing), inEast, leaving), replaced, ""},
		"it is not there, all is over":  {forMember(in(fencing.Preparing), inEast, leaving), nil, ""},
		"it is not there, and the host": {forMember(in(fencing.PoweringOff), inEast), nil, "PowerNotRead"},
	} {
		objects := []client.Object{tc.r, bmcIn("a", "fleet/east", "node-a")}
		if tc.cluster != nil {
			objects = append(objects, tc.cluster)
		}
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: silent(t)}, objects...)
		err := w.reconcile(t.Context(), keyM)
		r := &v1alpha1.PowerRemediation{}
		if gone := w.api.Get(t.Context(), keyM, r); apierrors.IsNotFound(gone) != (tc.waits == "") || err != nil || tc.waits != "" && processing(r) != tc.waits {
			t.Errorf("%s: %v, %v, it waits for %q", sentence, err, gone, processing(r))
		}
		said := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ProcessingCondition)
		if tc.waits == "NodeNotRead" && !strings.Contains(said.Message, "it does not answer") {
			t.Errorf("%s: the message is %q", sentence, said.Message)
		}
	}
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: silent(t)}, forMember(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
	err := w.reconcile(t.Context(), keyM)
	said := meta.FindStatusCondition(w.remediation(t, keyM).Status.Conditions, v1alpha1.ProcessingCondition)
	if err == nil || said == nil || said.Reason != "NotRead" || !strings.Contains(said.Message, "it does not answer") {
		t.Errorf("before it has begun: %v, %+v", err, said)
	}
}

// TestClustersThatAreNotServed: whether the Cluster is gone is unknown then, so that its node is still to be restored.
func TestClustersThatAreNotServed(t *testing.T) {
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: silent(t)}, forMember(in(fencing.Preparing), inEast, leaving), bmcIn("a", "fleet/east", "node-a"))
	w.refuses(func(verb string, o runtime.Object) error {
		if verb == "get" && o.GetObjectKind().GroupVersionKind() == clusterAPICluster {
			return &meta.NoKindMatchError{GroupKind: clusterAPICluster.GroupKind()}
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyM); err != nil || processing(w.remediation(t, keyM)) != "NodeNotRead" {
		t.Errorf("it waits for %q: %v", processing(w.remediation(t, keyM)), err)
	}
}

// TestWorkloadThatCanNotBeCounted is shown with the reason.
func TestWorkloadThatCanNotBeCounted(t *testing.T) {
	east := newWorld(t, node(tainted(ownTaint, outOfServiceTaint), func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-2" }))
	east.refuses(func(verb string, _ runtime.Object) error {
		if verb == "list" {
			return errors.New("it may not list")
		}
		return nil
	})
	released := in(fencing.Releasing, func(s *v1alpha1.PowerRemediationStatus) {
		s.WorkloadReleased, s.Proof = true, &v1alpha1.FencingProof{Kind: "NewBoot", At: metav1.NewMicroTime(noon), BootID: "boot-2"}
	})
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, forMember(released, inEast), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
	err := w.reconcile(t.Context(), keyM)
	said := meta.FindStatusCondition(w.remediation(t, keyM).Status.Conditions, v1alpha1.ProcessingCondition)
	if err != nil || said == nil || said.Reason != "WorkloadNotCounted" || !strings.Contains(said.Message, "it may not list") {
		t.Errorf("%v, %+v", err, said)
	}
}

// TestChangeThatAClusterRefuses is shown with the reason of the cluster.
func TestChangeThatAClusterRefuses(t *testing.T) {
	east := newWorld(t, node())
	east.refuses(func(verb string, _ runtime.Object) error {
		if verb == "patch" {
			return errors.New("its user may not patch")
		}
		return nil
	})
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, forMember(in(fencing.Preparing), inEast), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
	err := w.reconcile(t.Context(), keyM)
	said := meta.FindStatusCondition(w.remediation(t, keyM).Status.Conditions, v1alpha1.ProcessingCondition)
	if err == nil || said == nil || said.Reason != "NotChanged" || !strings.Contains(said.Message, "its user may not patch") || !strings.Contains(said.Message, "node-a of workload cluster fleet/east") {
		t.Errorf("%v, %+v", err, said)
	}
}

// TestRoomOfACluster: a number of reconciles for one cluster are under way, those at another don't count, and they share a list of volumes.
func TestRoomOfACluster(t *testing.T) {
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t), keyWest: newWorld(t)})
	first, end := context.WithCancel(t.Context())
	held, entered := w.enter(first, keyEast)
	if !entered {
		t.Fatal("there is no room")
	}
	later, endAll := context.WithCancel(t.Context())
	for range maxReconcilesPerCluster - 1 {
		if n, entered := w.enter(later, keyEast); !entered || n.Volumes() != held.Volumes() {
			t.Fatalf("%t, %+v", entered, n)
		}
	}
	if _, entered := w.enter(t.Context(), keyEast); entered {
		t.Error("there is room for more")
	}
	r := forMember(in(fencing.PoweringOff), inEast)
	if _, err := w.resume(t.Context(), &reconciliation{key: keyM, r: r, cluster: fencedCluster{keyEast, "east-uid"}}); err != nil || len(w.sessions.byKey) != 0 {
		t.Errorf("without room it goes on: %v, %v", err, w.sessions.byKey)
	}
	if n, entered := w.enter(t.Context(), keyWest); !entered || n.Volumes() == held.Volumes() {
		t.Errorf("another cluster: %t, %+v", entered, n)
	}
	end()
	for entered = false; !entered; { // the end of a context takes effect later
		_, entered = w.enter(later, keyEast)
	}
	endAll()
	for left := true; left; {
		w.clusterLimits.mu.Lock()
		_, left = w.clusterLimits.byCluster[keyEast]
		w.clusterLimits.mu.Unlock()
	}
}

// TestI14HangingClustersHoldNoSlot: while a workload cluster is read or changed, remediations of others have all slots. It may never answer.
func TestI14HangingClustersHoldNoSlot(t *testing.T) {
	released := in(fencing.Releasing, func(s *v1alpha1.PowerRemediationStatus) {
		s.WorkloadReleased, s.Proof = true, &v1alpha1.FencingProof{Kind: "NewBoot", At: metav1.NewMicroTime(noon), BootID: "boot-2"}
	})
	rebooted := func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-2" }
	for sentence, tc := range map[string]struct {
		r    *v1alpha1.PowerRemediation
		node *corev1.Node
		want []string
	}{
		"before it begins":   {forMember(), node(), []string{"get", "patch"}},
		"after it has begun": {forMember(in(fencing.Preparing), inEast), node(), []string{"get", "patch"}},
		"workload is counted": {
			forMember(released, inEast), node(tainted(ownTaint, outOfServiceTaint), rebooted), []string{"get", "list"},
		},
	} {
		east := newWorld(t, tc.node)
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, tc.r, member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
		requested := map[string]bool{}
		east.refuses(func(verb string, o runtime.Object) error {
			requested[verb] = true
			w.apiSlots.mu.Lock()
			defer w.apiSlots.mu.Unlock()
			if w.apiSlots.free != maxAPISlots || w.apiSlots.freeOthers != maxOthers {
				t.Errorf("%s: %d slots are free during %s of %T", sentence, w.apiSlots.free, verb, o)
			}
			return nil
		})
		held := 0
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*v1alpha1.PowerRemediation); is && strings.HasPrefix(verb, "patch") {
				w.apiSlots.mu.Lock()
				defer w.apiSlots.mu.Unlock()
				held++
				if w.apiSlots.free != maxAPISlots-1 {
					t.Errorf("%s: %d slots are free during %s of the remediation", sentence, w.apiSlots.free, verb)
				}
			}
			return nil
		})
		if err := w.reconcile(t.Context(), keyM); err != nil || held == 0 {
			t.Errorf("%s: %v, the remediation is written %d times", sentence, err, held)
		}
		for _, verb := range tc.want {
			if !requested[verb] {
				t.Errorf("%s: no %s, so this shows nothing", sentence, verb)
			}
		}
		if w.apiSlots.free != maxAPISlots {
			t.Errorf("%s: %d slots are free in the end", sentence, w.apiSlots.free)
		}
	}
}

// TestWithoutRoomARemediationBeginsLater: it has done nothing before.
func TestWithoutRoomARemediationBeginsLater(t *testing.T) {
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t, node())}, forMember(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
	w.clusterLimits.byCluster[keyEast] = &clusterLimit{reconciles: maxReconcilesPerCluster, volumes: fencednode.NewVolumes()}
	if err := w.reconcile(t.Context(), keyM); err != nil || w.remediation(t, keyM).Status.Phase != "" || processing(w.remediation(t, keyM)) != "" {
		t.Errorf("%v, %+v", err, w.remediation(t, keyM).Status)
	}
}

// TestPausedCluster: a remediation waits, and says for what.
func TestPausedCluster(t *testing.T) {
	w := newMemberWorld(t, nil, forMember(), member(nil), ofKind(clusterAPICluster, "east", map[string]any{"spec.paused": true}), bmcIn("a", "fleet/east", "node-a"))
	err := w.reconcile(t.Context(), keyM)
	if r := w.remediation(t, keyM); err != nil || processing(r) != clusterPaused || r.Status.Phase != "" || len(r.Finalizers) != 0 {
		t.Errorf("%v, %+v", err, r.Status)
	}
	waited := w.remediation(t, keyM).Status
	for sentence, tc := range map[string]struct {
		node   *corev1.Node
		before v1alpha1.PowerRemediationStatus
		begins bool
	}{
		"it has waited, and the node is Ready":     {node(ready), waited, false},
		"it has waited, and the node is not Ready": {node(), waited, true},
		"it has not waited":                        {node(ready), v1alpha1.PowerRemediationStatus{}, true},
	} {
		r := forMember()
		r.Status = tc.before
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t, tc.node)}, r, member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
		err := w.reconcile(t.Context(), keyM)
		if r := w.remediation(t, keyM); err != nil || (r.Status.Phase != "") != tc.begins || !tc.begins && processing(r) != clusterPaused {
			t.Errorf("%s: %v, %+v", sentence, err, r.Status)
		}
	}
}

// TestMembersMachine: the owner of a machine of Cluster API replaces it after the last power cycle, or it is kept.
func TestMembersMachine(t *testing.T) {
	controller := func(u *unstructured.Unstructured, apiVersion, kind string, is bool) *unstructured.Unstructured {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "o", UID: "o", Controller: &is}})
		return u
	}
	ofSet := func(fields map[string]any) *unstructured.Unstructured {
		return controller(member(fields), "cluster.x-k8s.io/v1beta2", "MachineSet", true)
	}
	said := func(status string) []any {
		return []any{map[string]any{"type": "Ready", "status": "False"}, map[string]any{"type": "OwnerRemediated", "status": status}}
	}
	replaced, leaves := ofSet(nil), ofSet(nil)
	replaced.SetUID("later")
	leaves.SetDeletionTimestamp(&metav1.Time{Time: noon})
	leaves.SetFinalizers([]string{"x"})
	labelled := ofSet(nil)
	labelled.SetLabels(map[string]string{"cluster.x-k8s.io/control-plane": ""})
	twoOwners := ofSet(nil)
	twoOwners.SetOwnerReferences(append(twoOwners.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "c"}))
	plain := member(nil)
	plain.SetOwnerReferences(twoOwners.GetOwnerReferences()[1:])
	named := func(host string) *unstructured.Unstructured {
		m := ofSet(nil)
		m.SetAnnotations(map[string]string{hostAnnotation: host})
		return m
	}
	external := ofKind(bareMetalHost, "external", map[string]any{"spec.externallyProvisioned": true})
	kept := func(why fencing.Reason) fencing.Machine { return fencing.Machine{Exists: true, Kept: why} }
	for sentence, tc := range map[string]struct {
		machine *unstructured.Unstructured
		node    *corev1.Node
		want    fencing.Machine
	}{
		"of a machine set":                 {ofSet(nil), node(), fencing.Machine{Exists: true}},
		"without a node object":            {ofSet(nil), nil, fencing.Machine{Exists: true}},
		"of a machine set and another":     {twoOwners, node(), fencing.Machine{Exists: true}},
		"gone":                             {nil, node(), fencing.Machine{}},
		"replaced":                         {replaced, node(), fencing.Machine{}},
		"being deleted":                    {leaves, node(), fencing.Machine{Exists: true, Deleting: true}},
		"its owner has the request":        {ofSet(map[string]any{"status.conditions": said("False")}), node(), fencing.Machine{Exists: true, Deleting: true}},
		"its health check has the request": {ofSet(map[string]any{"status.deprecated.v1beta1.conditions": said("False")}), node(), fencing.Machine{Exists: true, Deleting: true}},
		"its owner is done":                {ofSet(map[string]any{"status.conditions": said("True")}), node(), fencing.Machine{Exists: true}},
		"of the control plane":             {labelled, node(), kept(fencing.KeptControlPlane)},
		"its node is of the same":          {ofSet(nil), node(func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} }), kept(fencing.KeptControlPlane)},
		"without an owner":                 {member(nil), node(), kept(fencing.KeptNoController)},
		"its owner is no controller":       {controller(member(nil), "cluster.x-k8s.io/v1beta2", "MachineSet", false), node(), kept(fencing.KeptNoController)},
		"its owner is a control plane":     {controller(member(nil), "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", true), node(), kept(fencing.KeptNoController)},
		"its owner does not control it":    {plain, node(), kept(fencing.KeptNoController)},
		"its owner is no set":              {controller(member(nil), "cluster.x-k8s.io/v1beta2", "MachineDeployment", true), node(), kept(fencing.KeptNoController)},
		"its owner is a set of elsewhere":  {controller(member(nil), "apps/v1", "MachineSet", true), node(), kept(fencing.KeptNoController)},
		"it has another node":              {ofSet(map[string]any{"status.nodeRef.name": "node-b"}), node(), kept(fencing.KeptOtherNode)},
		"its host is of others":            {named("fleet/external"), node(), kept(fencing.KeptExternallyProvisioned)},
		"its host is gone":                 {named("fleet/gone"), node(), kept(fencing.KeptHostUnknown)},
	} {
		w := newMemberWorld(t, nil, external.DeepCopy())
		if tc.machine != nil {
			w = newMemberWorld(t, nil, external.DeepCopy(), tc.machine)
		}
		r := forMember(in(fencing.DeletingMachine), inEast)
		r.Status.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "fleet", Name: "m", UID: "m-uid"}
		rec := &reconciliation{r: r, node: "node-a", raw: tc.node, cluster: fencedCluster{keyEast, "east-uid"}}
		if got := w.readMachine(t.Context(), rec); *got != tc.want {
			t.Errorf("%s: %+v, want %+v", sentence, *got, tc.want)
		}
		w.refuses(func(string, runtime.Object) error { return errors.New("no") })
		before := w.now()
		if got := w.readMachine(t.Context(), rec); !got.Failed || got.Exists || got.RetryAt.Sub(before).Truncate(time.Second) != retryRead {
			t.Errorf("%s, which can't be read: %+v", sentence, got)
		}
	}
}

// TestHandBack requests the replacement from the owner of the recorded machine. A health check of Fettle that made the remediation decides when.
func TestHandBack(t *testing.T) {
	for _, gated := range []bool{true, false} {
		r := forMember(in(fencing.DeletingMachine), inEast)
		r.Status.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "fleet", Name: "m", UID: "m-uid"}
		if gated {
			r.Annotations = map[string]string{annotation.RequestedByUID: "check"}
		}
		w := newMemberWorld(t, nil, member(nil))
		answer := error(nil)
		w.HandBack = func(_ context.Context, machine types.NamespacedName, uid types.UID, by bool) error {
			if machine != keyM || uid != "m-uid" || by != gated {
				t.Errorf("requested for %s %s, gated %t", machine, uid, by)
			}
			return answer
		}
		rec := &reconciliation{r: r, node: "node-a", cluster: fencedCluster{keyEast, "east-uid"}}
		if err := w.deleteMachine(t.Context(), rec); err != nil {
			t.Error(err)
		}
		answer = apierrors.NewNotFound(schema.GroupResource{}, "m")
		if err := w.deleteMachine(t.Context(), rec); err != nil {
			t.Error(err)
		}
		answer = errors.New("no")
		if err := w.deleteMachine(t.Context(), rec); !errors.Is(err, answer) {
			t.Errorf("the error is %v", err)
		}
		if err := w.api.Get(t.Context(), keyM, member(nil)); err != nil {
			t.Errorf("the machine: %v", err)
		}
	}
}

// TestNamesOfNodes: keys tell nodes of all clusters apart, and have names for users.
func TestNamesOfNodes(t *testing.T) {
	for key, want := range map[string]string{
		nodeKey(types.NamespacedName{}, "node-a"): "node-a",
		nodeKey(keyEast, "node-a"):                "node-a of workload cluster fleet/east",
	} {
		if got := named(key); got != want {
			t.Errorf("%s is called %q", key, got)
		}
	}
	if nodeOf(bmcIn("a", "fleet/east", "node-a")) != nodeKey(keyEast, "node-a") || nodeOf(bmcFor("a", "node-a", "")) != "node-a" {
		t.Error("a BMC has another key than its node")
	}
}

// TestNothingReachesWorkloadClusters: a remediation that has begun there says so.
func TestNothingReachesWorkloadClusters(t *testing.T) {
	w := newWorld(t, forMember(in(fencing.PoweringOff), inEast), node(), bmcFor("a", "node-a", "redfish://h"))
	if err := w.reconcile(t.Context(), keyM); err != nil || processing(w.remediation(t, keyM)) != "NotRead" || len(w.patches) != 0 {
		t.Errorf("%v, %q, %v", err, processing(w.remediation(t, keyM)), w.patches)
	}
}

// TestWorkloadClustersKeepNoSlot: a request to a workload cluster, which may not answer, keeps no slot from the remediations of other
// clusters. A request to Fettle's own cluster has one.
func TestWorkloadClustersKeepNoSlot(t *testing.T) {
	const allSlots = maxAPISlots
	released := in(fencing.Releasing, func(s *v1alpha1.PowerRemediationStatus) { s.WorkloadReleased, s.NodeDeletion = true, true })
	for sentence, tc := range map[string]struct {
		r       *v1alpha1.PowerRemediation
		objects []client.Object // of the workload cluster
		want    []string
	}{
		"it begins":     {forMember(), []client.Object{node()}, []string{"get node", "patch node"}},
		"it goes on":    {forMember(released, inEast), nil, []string{"get node", "list"}},
		"it takes back": {forMember(in(fencing.Restoring), inEast), []client.Object{node(tainted(ownTaint))}, []string{"get node", "patch node"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			of := newWorld(t, tc.objects...)
			w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: of}, tc.r, member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
			var requested []string
			of.refuses(func(verb string, o runtime.Object) error {
				if _, is := o.(*corev1.Node); is {
					verb += " node"
				}
				if requested = append(requested, verb); w.apiSlots.free != allSlots {
					t.Errorf("%s: %d slots are held", verb, allSlots-w.apiSlots.free)
				}
				return nil
			})
			w.refuses(func(verb string, o runtime.Object) error {
				if _, is := o.(*v1alpha1.PowerRemediation); is && w.apiSlots.free == allSlots {
					t.Errorf("%s of the remediation: no slot is held", verb)
				}
				return nil
			})
			if err := w.reconcile(t.Context(), keyM); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !slices.Contains(requested, want) {
					t.Errorf("requested was %v, want %s", requested, want)
				}
			}
			if w.apiSlots.free != allSlots {
				t.Errorf("%d slots are held after the reconcile", allSlots-w.apiSlots.free)
			}
		})
	}
}

// TestLateNodeOfAWorkloadCluster: Fettle doesn't watch these nodes, so a reconcile after an abort finds a node that comes back late.
func TestLateNodeOfAWorkloadCluster(t *testing.T) {
	for sentence, tc := range map[string]struct {
		saved *v1alpha1.SavedNode
		want  bool
	}{
		"it was deleted": {&v1alpha1.SavedNode{UID: "node-uid", Labels: map[string]string{"rack": "7"}}, true}, "it was not": {nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			aborted := in(fencing.Aborted, func(s *v1alpha1.PowerRemediationStatus) { s.NodeDeletion, s.Node.Saved = true, tc.saved })
			w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t)},
				forMember(aborted, inEast), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
			if err := w.reconcile(t.Context(), keyM); err != nil {
				t.Fatal(err)
			}
			<-time.After(requeueAfter + time.Millisecond)
			synctest.Wait()
			if woken := taken(w.remediations); woken[keyM] != tc.want {
				t.Errorf("%s: reconciled again are %v", sentence, woken)
			}
		})
	}
}
