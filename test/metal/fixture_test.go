package metal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
	"github.com/fettle-io/fettle/test/runs"
)

const (
	namespace = "fettle-system"
	username  = "sandbox-bmc-user"
	password  = "sandbox-secret"
	sandboxes = "sandbox.fettle.io/"
)

// site is a cluster on bare metal.
type site struct {
	*cluster.Cluster

	// log is that of the pods that run on its hosts, and requests that of what reaches its BMCs by Redfish.
	log, requests string
	// workload is a cluster whose nodes Fettle fences from this one, or nil.
	workload *site
	// token is that of a service account that may read metrics.
	scrapers sync.Once
	token    string
	shown    shown
	// claims has the claims of machines that were seen to have the mark for the machine controller too, by name.
	claims sync.Map
}

// newSite starts a cluster on bare metal with these flags of the sandbox, and with Fettle's definitions and rights. Fettle itself does not run yet.
func newSite(t *testing.T, flags ...string) *site {
	t.Helper()
	s := startSite(t, flags...)
	s.InstallFettleForNodes(t)
	s.AllowPower(t)
	s.records(t)
	s.schedules(t)
	return s
}

// startSite starts a cluster on bare metal with these flags of the sandbox, where nothing is installed. At its end, no pod of a StatefulSet has run
// twice at a time, no secret of a BMC is shown anywhere, and no session is left open.
func startSite(t *testing.T, flags ...string) *site {
	t.Helper()
	s := startHosts(t, flags...)
	t.Cleanup(func() {
		s.showsNoSecret(t)
		s.leavesNoSession(t)
	})
	return s
}

// startHosts is startSite for a cluster that Fettle doesn't run in. Its pods are looked at alone.
func startHosts(t *testing.T, flags ...string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{log: filepath.Join(dir, "pods.log"), requests: filepath.Join(dir, "requests.log")}
	args := []string{"--kubelets", "--metal", "--metal-log", s.log, "--bmc-log", s.requests, "--node-monitor-grace-period=8s", "--node-monitor-period=1s"}
	s.Cluster = cluster.Start(t, cluster.Options{Args: append(args, flags...)})
	t.Cleanup(func() { runs.Check(t, s.log) })
	return s
}

// schedules binds pods to nodes, as a scheduler does: to the first node of the pod's pool that is Ready and has no taint against it.
func (s *site) schedules(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.bindAll(ctx)
			}
		}
	}()
}

func (s *site) bindAll(ctx context.Context) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	if s.List(ctx, &pods, client.MatchingFields{"spec.nodeName": ""}) != nil || len(pods.Items) == 0 || s.List(ctx, &nodes) != nil {
		return
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		for j := range nodes.Items {
			n := &nodes.Items[j]
			if n.Labels["pool"] == p.Spec.NodeSelector["pool"] && isReady(n) && !slices.ContainsFunc(n.Spec.Taints, repels) {
				_ = s.SubResource("binding").Create(ctx, p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n.Name}})
				break
			}
		}
	}
}

func repels(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// pool is a group of hosts with one StatefulSet.
type pool struct {
	*testing.T
	*site

	name string
	// kind is that of the hosts of machines: redfish, which is the default, or baremetalhost.
	kind string
	// key is that of the remediation of the first node, if it isn't called as the node is.
	key client.ObjectKey
}

// newPool creates two hosts with their BMCs, and a StatefulSet of one pod on the first.
func (s *site) newPool(t *testing.T, name string) *pool {
	t.Helper()
	p := &pool{T: t, site: s, name: name}
	p.host(name+"-a", nil)
	p.set()
	p.runsOn(p.first())
	p.host(name+"-b", nil)
	return p
}

func (p *pool) first() string  { return p.name + "-a" }
func (p *pool) second() string { return p.name + "-b" }

// host creates a node with a host, and its BMC.
func (p *pool) host(name string, change func(*v1alpha1.BMC)) {
	p.Helper()
	p.bmc(p.Cluster, p.newNode(name, "redfish"), name, change)
}

// newNode creates a node with a host of a kind, and returns it once it is Ready.
func (p *pool) newNode(name, kind string) *corev1.Node {
	p.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"pool": p.name, sandboxes + "host": kind, "example.org/keep": "label"},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", "example.org/keep": "annotation"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.org/keep", Effect: corev1.TaintEffectPreferNoSchedule}}},
	}
	if err := p.Create(cluster.Context(p.T), node); err != nil {
		p.Fatalf("creating node %s: %v", name, err)
	}
	return p.hosted(name)
}

// hosted waits until a node has a host and is Ready, and returns it.
func (p *pool) hosted(name string) *corev1.Node {
	p.Helper()
	var node *corev1.Node
	p.Eventually(p.T, "host of "+name, func(ctx context.Context) error {
		node = p.node(ctx, name)
		if node.Annotations[sandboxes+"bmc-address"] == "" || !isReady(node) {
			return fmt.Errorf("node %s has no host yet", name)
		}
		return nil
	})
	return node
}

// bmc creates the BMC of a node, and its Secret, in a cluster. The password is the right one by default.
func (p *pool) bmc(in *cluster.Cluster, node *corev1.Node, name string, change func(*v1alpha1.BMC), passwords ...string) {
	p.Helper()
	ctx := cluster.Context(p.T)
	word := cmp.Or(append(passwords, password)...)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{"username": username, "password": word}}
	bmc := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.BMCSpec{
		NodeName: node.Name, Address: node.Annotations[sandboxes+"bmc-address"], CredentialsName: name,
		TLS: &v1alpha1.BMCTLS{Fingerprint: node.Annotations[sandboxes+"bmc-fingerprint"]},
	}}
	if change != nil {
		change(bmc)
	}
	if err := errors.Join(in.Create(ctx, secret), in.Create(ctx, bmc)); err != nil {
		p.Fatalf("creating the BMC of %s: %v", name, err)
	}
}

// set creates the StatefulSet.
func (p *pool) set() {
	p.Helper()
	one := int32(1)
	labels := map[string]string{"app": p.name}
	err := p.Create(cluster.Context(p.T), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.name},
		Spec: appsv1.StatefulSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeSelector: map[string]string{"pool": p.name}, Containers: []corev1.Container{{Name: "c", Image: "image.invalid/c"}}},
		}},
	})
	if err != nil {
		p.Fatalf("creating a StatefulSet: %v", err)
	}
}

// runsOn waits until the pod runs on a node.
func (p *pool) runsOn(node string) {
	p.Helper()
	p.runsOnOneOf(node)
}

// runs waits until the pod runs on either node. The scheduler chooses.
func (p *pool) runs() {
	p.Helper()
	p.runsOnOneOf(p.first(), p.second())
}

func (p *pool) runsOnOneOf(nodes ...string) {
	p.Helper()
	p.Eventually(p.T, "pod on "+strings.Join(nodes, " or "), func(ctx context.Context) error {
		var pod corev1.Pod
		if err := p.Get(ctx, client.ObjectKey{Namespace: "default", Name: p.name + "-0"}, &pod); err != nil {
			return err
		}
		if !slices.Contains(nodes, pod.Spec.NodeName) || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			return fmt.Errorf("the pod is on %q, %s, deleted %v", pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp)
		}
		return nil
	})
}

// mark sets or removes a label or an annotation of a node. Labels and annotations of the sandbox go without its prefix.
func (p *pool) mark(node, field, key, value string) {
	p.Helper()
	text := fmt.Sprintf("%q", value)
	if value == "" {
		text = "null"
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{%q:{%q:%s}}}`, field, sandboxes+key, text))
	if err := p.Patch(cluster.Context(p.T), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch); err != nil {
		p.Fatalf("marking node %s: %v", node, err)
	}
}

// hangs stops the kubelet of a node, whose pods go on, until its host is powered off and on.
func (p *pool) hangs(node string) { p.mark(node, "labels", "kubelet", "stopped") }

// faults orders faults of a BMC, as a JSON object, and waits until they are in force.
func (p *pool) faults(node, object string) {
	p.Helper()
	p.mark(node, "annotations", "bmc-faults", object)
	p.Eventually(p.T, "faults of "+node, func(ctx context.Context) error {
		n := p.node(ctx, node)
		if problem := n.Annotations[sandboxes+"bmc-faults-error"]; problem != "" {
			return errors.New(problem)
		}
		if (n.Annotations[sandboxes+"bmc-faults-in-force"] == "") != (object == "") {
			return fmt.Errorf("in force: %q", n.Annotations[sandboxes+"bmc-faults-in-force"])
		}
		return nil
	})
}

func (p *pool) node(ctx context.Context, name string) *corev1.Node {
	var n corev1.Node
	if err := p.Get(ctx, client.ObjectKey{Name: name}, &n); err != nil {
		return &corev1.Node{}
	}
	return &n
}

// remediates creates a PowerRemediation for a node.
func (p *pool) remediates(node string, spec v1alpha1.PowerRemediationSpec) {
	p.Helper()
	r := &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node}, Spec: spec}
	p.isOld(node)
	if err := p.Create(cluster.Context(p.T), r); err != nil {
		p.Fatalf("creating a remediation: %v", err)
	}
}

// isOld waits until a node is older than an object that is created next, in the whole seconds of the API.
func (p *pool) isOld(node string) {
	p.Helper()
	created := p.node(cluster.Context(p.T), node).CreationTimestamp.Time
	p.Eventually(p.T, "age of "+node, func(context.Context) error {
		if age := time.Since(created); age < 2*time.Second {
			return fmt.Errorf("it is %s old", age)
		}
		return nil
	})
}

func (p *pool) remediation(ctx context.Context, node string) (*v1alpha1.PowerRemediation, error) {
	var r v1alpha1.PowerRemediation
	err := p.Get(ctx, client.ObjectKeyFromObject(p.of(node)), &r)
	return &r, err
}

// of returns the remediation of a node with nothing but its name.
func (p *pool) of(node string) *v1alpha1.PowerRemediation {
	if node == p.first() && p.key.Name != "" {
		return &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
	}
	return &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node}}
}

// inPhase waits until a remediation is in a phase, and returns it.
func (p *pool) inPhase(node, phase string) *v1alpha1.PowerRemediation {
	p.Helper()
	var found *v1alpha1.PowerRemediation
	p.Eventually(p.T, "phase "+phase+" of "+node, func(ctx context.Context) error {
		r, err := p.remediation(ctx, node)
		if err != nil {
			return err
		}
		if r.Status.Phase != phase {
			return fmt.Errorf("phase %q: %s", r.Status.Phase, conditionsOf(r))
		}
		found = r
		return nil
	})
	return found
}

// waitsFor waits until a remediation waits for a reason.
func (p *pool) waitsFor(node, reason string) {
	p.Helper()
	p.Eventually(p.T, "reason "+reason+" of "+node, func(ctx context.Context) error {
		r, err := p.remediation(ctx, node)
		if err != nil {
			return err
		}
		if !strings.Contains(conditionsOf(r), "Processing=True "+reason) {
			return errors.New(r.Status.Phase + ": " + conditionsOf(r))
		}
		return nil
	})
}

func conditionsOf(r *v1alpha1.PowerRemediation) string {
	var all []string
	for _, c := range r.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s (%s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "; ")
}

// ends deletes a remediation, and waits until it is gone.
func (p *pool) ends(node string) {
	p.Helper()
	if err := client.IgnoreNotFound(p.Delete(cluster.Context(p.T), p.of(node))); err != nil {
		p.Fatalf("deleting a remediation: %v", err)
	}
	p.Eventually(p.T, "end of the remediation of "+node, func(ctx context.Context) error {
		r, err := p.remediation(ctx, node)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, %s: %s (%w)", r.Status.Phase, conditionsOf(r), err)
	})
}

// isRestored checks that nothing of a fencing is left on a node, and that what it had before is there.
func (p *pool) isRestored(node string) {
	p.Helper()
	n := p.node(cluster.Context(p.T), node)
	for key := range n.Annotations {
		if key == annotation.FencedBy || key == annotation.ScaleDownDisabledBefore || strings.HasPrefix(key, "cluster-autoscaler") {
			p.Errorf("annotation %s is left on node %s", key, node)
		}
	}
	kept := false
	for _, t := range n.Spec.Taints {
		kept = kept || t.Key == "example.org/keep"
		if t.Key == annotation.FencingTaint || t.Key == corev1.TaintNodeOutOfService {
			p.Errorf("taint %s is left on node %s", t.Key, node)
		}
	}
	if !kept || n.Labels["example.org/keep"] != "label" || n.Annotations["example.org/keep"] != "annotation" {
		p.Errorf("node %s has lost what it had: labels %v, annotations %v, taints %v", node, n.Labels, n.Annotations, n.Spec.Taints)
	}
}

// isBack waits until a node is Ready in another boot.
func (p *pool) isBack(node, boot string) {
	p.Helper()
	p.Eventually(p.T, "node "+node+" back", func(ctx context.Context) error {
		n := p.node(ctx, node)
		if !isReady(n) || n.Status.NodeInfo.BootID == boot {
			return fmt.Errorf("ready %t, boot %s", isReady(n), n.Status.NodeInfo.BootID)
		}
		return nil
	})
}

// ranTimes waits until the log has a number of runs of the pod, and checks that no two of them overlap.
func (p *pool) ranTimes(want int) {
	p.Helper()
	p.Eventually(p.T, "log of the pod", func(context.Context) error {
		log, err := os.Open(p.log)
		if err != nil {
			return err
		}
		defer log.Close()
		all, err := runs.Read(log)
		ran := slices.DeleteFunc(all, func(r runs.Run) bool { return r.Identity != "default/"+p.name+"-0" })
		if err == nil && len(ran) != want {
			err = fmt.Errorf("the pod ran %d times, want %d: %+v", len(ran), want, ran)
		}
		return err
	})
	runs.Check(p.T, p.log)
}

// isNotReleased checks that the workload of a node is held.
func (p *pool) isNotReleased(node string) {
	p.Helper()
	if err := inService(p.node(cluster.Context(p.T), node)); err != nil {
		p.Errorf("the workload is released: %v", err)
	}
}

// inService returns an error for a node that is gone, or has the taint that releases its workload.
func inService(n *corev1.Node) error {
	if n.UID == "" || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
		return fmt.Errorf("node %q is out of service, ready %t: %v", n.Name, isReady(n), n.Spec.Taints)
	}
	return nil
}

func seconds(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

// healthCheck creates a NodeHealthCheck of the pool, which has a node fenced once it is not Ready for a second.
func (p *pool) healthCheck() { p.nodesCheckedBy("") }

// nodesCheckedBy is healthCheck with the fields of a PowerRemediation, in YAML without braces.
func (p *pool) nodesCheckedBy(fields string) {
	p.Helper()
	p.Apply(p.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: %[1]s, namespace: fettle-system}
spec: {template: {spec: {%[2]s}}}
---
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {pool: %[1]s}}
  minHealthy: 1
  unhealthyConditions: [{type: Ready, status: Unknown, duration: 1s}]
  remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: PowerRemediationTemplate, name: %[1]s, namespace: fettle-system}
`, p.name, fields))
}
