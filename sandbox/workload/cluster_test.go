package workload

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`

func TestEndpointOf(t *testing.T) {
	cases := map[string]struct {
		kubeconfig string
		want       providerv1.Endpoint
		problem    string
	}{
		"a sandbox's":    {kubeconfig: fmt.Sprintf(kubeconfig, "https://127.0.0.1:6443"), want: providerv1.Endpoint{Host: "127.0.0.1", Port: 6443}},
		"without a port": {kubeconfig: fmt.Sprintf(kubeconfig, "https://example.invalid"), problem: "port"},
		"no kubeconfig":  {kubeconfig: "nonsense: [", problem: "kubeconfig"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := endpointOf([]byte(c.kubeconfig))
			if got != c.want {
				t.Errorf("the endpoint is %+v, want %+v", got, c.want)
			}
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("the error is %v, want one about %q", err, c.problem)
			}
		})
	}
}

func TestLacks(t *testing.T) {
	cluster := &clusterv1.Cluster{}
	if got := strings.Join(lacks(cluster), ", "); got != "infrastructure, an initialized control plane, a connection" {
		t.Errorf("a new cluster lacks %s", got)
	}
	cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)}
	cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: metav1.ConditionFalse}}
	if got := strings.Join(lacks(cluster), ", "); got != "a connection" {
		t.Errorf("a cluster that doesn't answer lacks %s", got)
	}
	cluster.Status.Conditions[0].Status = metav1.ConditionTrue
	if got := lacks(cluster); len(got) > 0 {
		t.Errorf("a cluster that is connected lacks %v", got)
	}
}
