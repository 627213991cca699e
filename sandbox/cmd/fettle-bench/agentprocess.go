package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// Nodes whose agents run as processes. The Leases of all others name the first one as a witness, so its agent follows them. They have no watchdog:
// nothing here may reset this computer.
const (
	witnessNode = "master-0"
	plainNode   = "plain-0"
)

// fencePolicy applies to the nodes whose agents run.
const fencePolicy = `
apiVersion: fettle.io/v1alpha1
kind: FencePolicy
metadata: {name: bench}
spec:
  nodeSelector: {}
  onIsolation: Reset
  witnesses: 3
  watchdog: {device: /dev/watchdog999}
`

// agentUse is what the process of an agent uses.
type agentUse struct {
	// Memory is what it has in memory, and Cores how much of a core it uses.
	Memory float64 `json:"memoryMiB"`
	Cores  float64 `json:"cores"`
}

// startAgent starts the agent of a node, as the pod of its DaemonSet does.
func startAgent(ctx context.Context, s *stage.Stage, node string) (*stage.Process, error) {
	clients, err := kubernetes.NewForConfig(s.Admin)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if node == witnessNode {
		n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} // such an agent is a witness from the beginning
	}
	if _, err := clients.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating a node: %w", err)
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOfAgents, Name: "agent-" + node},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "fettle-agent", Containers: []corev1.Container{{Name: "agent", Image: "a.invalid/a"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if p, err = clients.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the pod of an agent: %w", err)
	}
	request := &authenticationv1.TokenRequest{}
	request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
	request, err = clients.CoreV1().ServiceAccounts(p.Namespace).CreateToken(ctx, "fettle-agent", request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token: %w", err)
	}
	path := filepath.Join(s.Dir, node+".kubeconfig")
	if err := writeKubeconfig(s.Admin, request.Status.Token, path); err != nil {
		return nil, err
	}
	return s.Launch(node, "fettle-agent", "--kubeconfig", path, "--node-name", node, "--state-dir", filepath.Join(s.Dir, node), "--address", "127.0.0.1",
		"--port", map[string]string{witnessNode: "19643", plainNode: "19644"}[node])
}

// writeKubeconfig writes a configuration with a token.
func writeKubeconfig(admin *rest.Config, token, path string) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData, CertificateAuthority: admin.CAFile}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// startTime is after which time the first agent follows the Leases. It says so nowhere, since it promises nothing.
const startTime = 20 * time.Second

var errNoWitness = errors.New("the agent of a witness has not followed the Leases")

// uses returns what a process uses while something is done.
func (o observed) uses(do func() error) (agentUse, error) {
	before, err := o.usage()
	if err != nil {
		return agentUse{}, err
	}
	if err := do(); err != nil {
		return agentUse{}, err
	}
	after, err := o.usage()
	if err != nil {
		return agentUse{}, err
	}
	return agentUse{Memory: after.resident, Cores: (after.cpu - before.cpu).Seconds() / after.at.Sub(before.at).Seconds()}, nil
}

// startAgents starts the agents of both nodes under a policy, and waits until they do what they do all the time.
func startAgents(ctx context.Context, s *stage.Stage) (map[string]*stage.Process, error) {
	policy, err := stage.Decode([]byte(fencePolicy))
	if err != nil {
		return nil, fmt.Errorf("reading a policy: %w", err)
	}
	if err := s.Apply(ctx, policy...); err != nil {
		return nil, fmt.Errorf("creating a policy: %w", err)
	}
	running := map[string]*stage.Process{}
	for _, node := range []string{witnessNode, plainNode} {
		say("starting the agent of %s", node)
		if running[node], err = startAgent(ctx, s, node); err != nil {
			return nil, err
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(startTime):
	}
	return running, nil
}
