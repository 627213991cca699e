package clusterapi

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
)

// maxProblem bounds what is told of an object that can't be read.
const maxProblem = 4096

func checkProblem(t *testing.T, problem string) {
	t.Helper()
	if len(problem) > maxProblem || !utf8.ValidString(problem) {
		t.Errorf("the problem has %d bytes and can't be told: %.300q", len(problem), problem)
	}
}

// FuzzClusterObject: a cluster decodes whenever its metadata does. The stock type reads the same in it.
func FuzzClusterObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `7`, `{"metadata":{"name":"c"},"spec":{"paused":true},"status":{"conditions":[{"type":"InfrastructureReady","status":"True"}]}}`,
		`{"metadata":{"name":"c"},"spec":7,"status":{"conditions":{}}}`, `{"spec":null,"status":null}`, `{"spec":{"paused":"yes"}}`,
		`{"status":{"conditions":[{"type":"ControlPlaneInitialized","status":"False","lastTransitionTime":"2026-08-03T12:00:00Z"},{"type":"ControlPlaneInitialized","status":"True"}]}}`,
		`{"metadata":{"labels":7}}`, `{"spec":{"paused":false},"spec":{"paused":true}}`,
		`{"spec":{"topology":{"version":"v1"}},"status":{"conditions":[{"type":"TopologyReconciled","status":"False","reason":"ClusterUpgrading"},{"type":"RollingOut","status":"?"}]}}`,
		`{"metadata":{"generation":2},"spec":{"topology":7},"status":{"controlPlane":{"versions":[{"version":"v1"},{"version":"v2"}]}}}`, `{"status":{"controlPlane":7}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, again := &Cluster{}, &Cluster{}
		err := c.UnmarshalJSON(body)
		if errAgain := again.UnmarshalJSON(body); (err == nil) != (errAgain == nil) || !c.Same(again) {
			t.Errorf("decoding twice gives %+v, %v and %+v, %v", c, err, again, errAgain)
		}
		checkProblem(t, c.Unreadable)
		checkProblem(t, c.Upgrade.Why)
		if c.Unreadable != "" && c.Unread == "" && c.Upgrade != (Upgrade{}) {
			t.Errorf("it can't be read (%s), and is being upgraded: %+v", c.Unreadable, c.Upgrade)
		}
		var object struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if utiljson.Unmarshal(body, &object) == nil && err != nil {
			t.Fatalf("its metadata can be read, and yet: %v", err)
		}
		var stock clusterv1.Cluster
		if utiljson.Unmarshal(body, &stock) != nil {
			return
		}
		want := &Cluster{Paused: core.No}
		if stock.Spec.Paused != nil && *stock.Spec.Paused {
			want.Paused = core.Yes
		}
		want.InfrastructureReady = milestoneOf(&stock, clusterv1.ClusterInfrastructureReadyCondition)
		want.ControlPlaneInitialized = milestoneOf(&stock, clusterv1.ClusterControlPlaneInitializedCondition)
		if diff := cmp.Diff(want, c, cmpopts.IgnoreFields(Cluster{}, "Meta", "Upgrade"), cmpopts.EquateComparable()); diff != "" {
			t.Errorf("cluster (-stock +slim):\n%s", diff)
		}
	})
}

func milestoneOf(c *clusterv1.Cluster, kind string) Milestone {
	for _, condition := range c.Status.Conditions {
		if condition.Type == kind {
			return Milestone{Reached: condition.Status == metav1.ConditionTrue, Since: condition.LastTransitionTime.Time}
		}
	}
	return Milestone{}
}

// FuzzMachineObject: a machine decodes whenever its metadata does, and the conditions that the stock type reads are read
// the same.
func FuzzMachineObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"metadata":{"name":"m","generation":3},"status":{"nodeRef":{"name":"m"},"conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":"m","generation":"3"}}`, `{"metadata":{"name":"m"},"status":{"nodeRef":{"name":"../x"}}}`, `{"status":{"conditions":7}}`,
		`{"status":{"conditions":[{"type":"HealthCheckSucceeded","status":"False","lastTransitionTime":"2026-08-03T12:00:00Z"}]},"status":{"nodeRef":{"name":"n"}}}`,
		`{"status":{"deprecated":{"v1beta1":{"failureReason":"a","failureMessage":"b\nc"}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, again := &Machine{}, &Machine{}
		err := m.UnmarshalJSON(body)
		if errAgain := again.UnmarshalJSON(body); (err == nil) != (errAgain == nil) || m.Node != again.Node || m.Unreadable != again.Unreadable || len(m.Marks) != len(again.Marks) {
			t.Errorf("decoding twice gives %+v, %v and %+v, %v", m, err, again, errAgain)
		}
		checkProblem(t, m.Unreadable)
		var object struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if utiljson.Unmarshal(body, &object) == nil && err != nil {
			t.Fatalf("its metadata can be read, and yet: %v", err)
		}
		var stock clusterv1.Machine
		if utiljson.Unmarshal(body, &stock) != nil || m.Unreadable != "" {
			return
		}
		var want, got []core.Condition
		for _, c := range stock.Status.Conditions {
			want = append(want, core.Condition{Type: c.Type, Status: string(c.Status)})
		}
		for i := range m.Conditions {
			got = append(got, core.Condition{Type: m.Conditions[i].Full().Type, Status: m.Conditions[i].Full().Status})
		}
		if diff := cmp.Diff(want, got); diff != "" || m.Node != stock.Status.NodeRef.Name {
			t.Errorf("its node is %q, want %q; conditions (-stock +slim):\n%s", m.Node, stock.Status.NodeRef.Name, diff)
		}
	})
}
