package clusterapi

import (
	"testing"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// noon is when these tests take place.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// read reads a machine as a watch delivers it.
func read(t *testing.T, yaml string) *Machine {
	t.Helper()
	body, err := utilyaml.ToJSON([]byte(yaml))
	if err != nil {
		t.Fatalf("reading YAML: %v", err)
	}
	m := &Machine{}
	if err := m.UnmarshalJSON(body); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return m
}

const plainMeta = `
metadata:
  name: m
  namespace: clusters
  uid: m-uid
  resourceVersion: "7"
  generation: 3
`

// running is a machine as Cluster API has it, with the conditions of both generations.
const running = plainMeta + `
  creationTimestamp: "2026-08-01T00:00:00Z"
  labels: {cluster.x-k8s.io/cluster-name: blue, nodepool: nodepool-0}
  annotations: {cluster.x-k8s.io/remediate-machine: "", kubectl.kubernetes.io/last-applied-configuration: "long"}
  ownerReferences:
  - {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: blue, uid: blue-uid}
  - {apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, name: workers, uid: s-uid, controller: true}
spec: {clusterName: blue}
status:
  nodeRef: {name: worker-1}
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-08-02T00:00:00Z"}
  - {type: HealthCheckSucceeded, status: "False", observedGeneration: 3, reason: UnhealthyNode, message: "Health check failed:\n  * x", lastTransitionTime: "2026-08-03T00:00:00Z"}
  - {type: OwnerRemediated, status: "False", reason: WaitingForRemediation, message: Waiting for remediation, lastTransitionTime: "2026-08-03T00:00:01Z"}
  deprecated:
    v1beta1:
      conditions:
      - {type: OwnerRemediated, status: "False", severity: Warning, reason: WaitingForRemediation, lastTransitionTime: "2026-08-03T00:00:02Z"}
      - {type: Ready, status: "True", lastTransitionTime: "2026-08-02T00:00:00Z"}
      - {type: HealthCheckSucceeded, status: "False", severity: Warning, reason: UnhealthyNode, message: x, lastTransitionTime: "2026-08-03T00:00:03Z"}
`
