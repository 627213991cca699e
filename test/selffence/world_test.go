package selffence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
	"github.com/fettle-io/fettle/test/debian"
	"github.com/fettle-io/fettle/test/runs"
)

// timeout is that of the watchdogs.
const timeout = 4 * time.Second

// unchecked is the number of the node that no health check selects.
const unchecked = 4

// policies are the values of the label by which a policy may select some of the nodes. That of the others is quick.
var policies = map[int]string{unchecked: "patient", 3: "slow"}

// world is a cluster whose nodes are namespaces of this computer.
type world struct {
	*cluster.Cluster

	t     *testing.T
	nodes []*machine
	runs  string
}

// newWorld starts a cluster with a number of nodes, where Fettle is installed. The last ones are of the control plane.
func newWorld(t *testing.T, nodes, control int) *world {
	t.Helper()
	need(t)
	c := cluster.Start(t, cluster.Options{Args: []string{"--node-monitor-grace-period=4s", "--node-monitor-period=1s"}})
	c.InstallFettleForNodes(t)
	logs, err := os.MkdirTemp("", "nodes") //nolint:usetesting // sockets need short names
	if err != nil {
		t.Fatalf("making a folder: %v", err)
	}
	w := &world{Cluster: c, t: t, runs: filepath.Join(t.TempDir(), "runs.log")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of the nodes are in %s", logs)
		} else {
			_ = os.RemoveAll(logs)
		}
	})
	w.install()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("finding this program: %v", err)
	}
	f := newFabric(t, self)
	api := f.forward(t, strings.TrimPrefix(c.Config.Host, "https://"))
	w.schedules()
	for number := 1; number <= nodes; number++ {
		labels := map[string]string{"checked": strconv.FormatBool(number != unchecked), "policy": cmp.Or(policies[number], "quick")}
		if number > nodes-control {
			labels["node-role.kubernetes.io/control-plane"] = ""
		}
		w.node(f, api, number, labels, part{Self: self, Agent: cluster.Binary(t, "fettle-agent"), Logs: logs, Runs: w.runs})
	}
	return w
}

// Eventually waits for longer than that of a cluster: after each kill, a manager counts the time of a promise anew.
func (w *world) Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	w.After(t, 3*time.Minute, what, check)
}

// need skips the test where there are no namespaces.
func need(t *testing.T) {
	t.Helper()
	debian.Install(t, "iproute2", "/sbin/ip")
	probe := exec.Command("unshare", "--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--mount-proc", "ip", "link", "add", "br0", "type", "bridge")
	if out, err := probe.CombinedOutput(); err != nil {
		debian.Unavailable(t, "nodes can't be made of namespaces here, which needs root: %v\n%s", err, out)
	}
}

// install grants the rights of agents, and has the API server follow their policy.
func (w *world) install() {
	w.t.Helper()
	for _, u := range cluster.Kustomization(w.t, "config/selffence") {
		if u.GetKind() == "DaemonSet" {
			continue // the nodes run the agents themselves
		}
		if err := w.Create(cluster.Context(w.t), u); err != nil && !apierrors.IsAlreadyExists(err) {
			w.t.Fatalf("creating %s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

// name returns the name of a node.
func name(number int) string { return fmt.Sprintf("node-%d", number) }

// node creates a node and boots its computer.
func (w *world) node(f *fabric, api string, number int, labels map[string]string, p part) {
	w.t.Helper()
	ctx := cluster.Context(w.t)
	p.Node, p.Address = name(number), address(number)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Node, Labels: labels}}
	if err := w.Create(ctx, n); err != nil {
		w.t.Fatalf("creating node %s: %v", p.Node, err)
	}
	p.Kubeconfig, p.AgentKubeconfig = filepath.Join(p.Logs, p.Node+".kubelet"), filepath.Join(p.Logs, p.Node+".agent")
	w.kubeconfig(w.Config, api, p.Kubeconfig)
	agent := rest.AnonymousClientConfig(w.Config)
	agent.BearerToken = w.token(p.Node)
	w.kubeconfig(agent, api, p.AgentKubeconfig)
	w.nodes = append(w.nodes, newMachine(w.t, f, p, number))
}

// token returns a token of the agent's pod on a node, as the kubelet requests it.
func (w *world) token(node string) string {
	w.t.Helper()
	ctx := cluster.Context(w.t)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: promiselease.Namespace, Name: "agent-" + node},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "fettle-agent", Containers: []corev1.Container{{Name: "a", Image: "a.invalid/a"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if err := w.Create(ctx, p); err != nil {
		w.t.Fatalf("creating the pod of an agent: %v", err)
	}
	request := &authenticationv1.TokenRequest{}
	request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: promiselease.Namespace, Name: "fettle-agent"}}
	if err := w.SubResource("token").Create(ctx, account, request); err != nil {
		w.t.Fatalf("requesting a token: %v", err)
	}
	return request.Status.Token
}

// kubeconfig writes a configuration of a client in the network of the nodes.
func (w *world) kubeconfig(c *rest.Config, api, path string) {
	w.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: api, TLSServerName: "127.0.0.1", CertificateAuthorityData: c.CAData, CertificateAuthority: c.CAFile}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, ClientCertificate: c.CertFile, ClientKey: c.KeyFile, Token: c.BearerToken,
	}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatalf("writing a kubeconfig: %v", err)
	}
}

// schedules binds each pod of a StatefulSet to the first node that is Ready, has no taint, and is not kept from the pod by its annotation.
func (w *world) schedules() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	w.t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(300 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				w.bindAll(ctx)
			}
		}
	}()
}

func (w *world) bindAll(ctx context.Context) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	if errors.Join(w.List(ctx, &pods, client.InNamespace("default")), w.List(ctx, &nodes)) != nil {
		return
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		for j := range nodes.Items {
			n := &nodes.Items[j]
			if slices.Contains(strings.Split(p.Annotations["nodes"], ","), n.Name) && isReady(n) && len(n.Spec.Taints) == 0 {
				_ = w.SubResource("binding").Create(ctx, p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n.Name}})
				break
			}
		}
	}
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// workload creates a StatefulSet of one pod, and waits until it runs on the first of its nodes. The pod may run on the second one too, once the
// first is out of order.
func (w *world) workload(t *testing.T, set string, nodes ...string) {
	t.Helper()
	one := int32(1)
	labels := map[string]string{"app": set}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"nodes": nodes[0]}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image.invalid/c"}}},
	}
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: set},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		},
	}
	if err := w.Create(cluster.Context(t), s); err != nil {
		t.Fatalf("creating a StatefulSet: %v", err)
	}
	w.runsOn(t, set, nodes[0])
	w.Eventually(t, "other nodes of "+set, func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		s.Spec.Template.Annotations["nodes"] = nodes[1]
		return w.Update(ctx, s)
	})
}

// runsOn waits until the pod of a StatefulSet runs on a node, by the log of its process.
func (w *world) runsOn(t *testing.T, set, node string) {
	t.Helper()
	w.Eventually(t, "pod of "+set+" on "+node, func(context.Context) error {
		all, err := w.ran(set)
		if err != nil {
			return err
		}
		if len(all) == 0 || all[len(all)-1].Node != node {
			return fmt.Errorf("it ran there: %v", all)
		}
		return nil
	})
}

// ran returns the runs of the pod of a StatefulSet.
func (w *world) ran(set string) ([]runs.Run, error) {
	log, err := os.Open(w.runs)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	all, err := runs.Read(log)
	return slices.DeleteFunc(all, func(r runs.Run) bool { return r.Identity != "default/"+set+"-0" }), err
}

// says waits until the Lease of a node is in a state.
func (w *world) says(t *testing.T, node string, state selffence.State) {
	t.Helper()
	w.Eventually(t, fmt.Sprintf("Lease of %s is %s", node, state), func(ctx context.Context) error {
		var l coordinationv1.Lease
		if err := w.Get(ctx, client.ObjectKey{Namespace: promiselease.Namespace, Name: node}, &l); err != nil {
			return err
		}
		r, err := promiselease.Decode(&l)
		if err == nil && r.State != state {
			err = fmt.Errorf("it is %+v", r)
		}
		return err
	})
}
