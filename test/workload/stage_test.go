package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/workload"
	"github.com/fettle-io/fettle/test/cluster"
)

// quick is a pace at which a test need not wait long. It must still suffice for a busy machine.
var quick = workload.Timing{
	ProbeAfter: 200 * time.Millisecond, ProbeTimeout: 2 * time.Second, SecretCheck: 300 * time.Millisecond, WatchSilence: time.Minute,
	MinPause: 50 * time.Millisecond, MaxPause: 300 * time.Millisecond,
}

// The rights that a connection needs, and no others.
const readsNodes = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-nodes}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-nodes}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:default"}
`

// stage is a cluster that is both the management cluster, with its Secrets, and every workload cluster.
type stage struct {
	*testing.T
	*cluster.Cluster
	*workload.Connections

	mu    sync.Mutex
	woken map[types.NamespacedName]int
	stop  func()
}

func start(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, Cluster: cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})}
	s.Apply(t, readsNodes)
	s.connects(quick)
	return s
}

// connects creates new connections.
func (s *stage) connects(pace workload.Timing) {
	if s.stop != nil {
		s.stop()
	}
	s.woken = map[types.NamespacedName]int{}
	s.Connections = workload.New(workload.Config{
		Secrets: s.Client, Now: time.Now, Wake: s.wake, Log: logr.Discard(), UserAgent: "fettle/test", Timing: pace,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func(c *workload.Connections) { ended <- c.Start(ctx) }(s.Connections)
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the connections ended with %v", err)
		}
	})
	s.Cleanup(s.stop)
}

func (s *stage) wake(of types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken[of]++
}

func (s *stage) wakes(of string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.woken[named(of)]
}

func named(of string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: of}
}

// account creates a service account that may read nodes, and returns a kubeconfig of it.
func (s *stage) account(name string) string {
	s.Helper()
	s.ServiceAccount(s.T, "default", name)
	return s.KubeconfigOf(s.T, "default", name)
}

// keeps writes the Secret of a workload cluster from a file.
func (s *stage) keeps(of, kubeconfig string) {
	s.Helper()
	raw, err := os.ReadFile(kubeconfig)
	if err != nil {
		s.Fatalf("reading a kubeconfig: %v", err)
	}
	s.keepsText(of, raw)
}

func (s *stage) keepsText(of string, raw []byte) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: of + "-kubeconfig"}}
	err := s.Get(s.Context(), client.ObjectKeyFromObject(secret), secret)
	secret.Data = map[string][]byte{"value": raw}
	if client.IgnoreNotFound(err) != nil {
		s.Fatalf("reading a Secret: %v", err)
	}
	if err != nil {
		err = s.Create(s.Context(), secret)
	} else {
		err = s.Update(s.Context(), secret)
	}
	if err != nil {
		s.Fatalf("writing a Secret: %v", err)
	}
}

// behindProxy returns a kubeconfig of an account that goes through a proxy.
func (s *stage) behindProxy(account string) (*cluster.Proxy, string) {
	s.Helper()
	proxy, address := s.StartProxy(s.T)
	kubeconfig := s.account(account)
	cluster.Redirect(s.T, kubeconfig, address)
	return proxy, kubeconfig
}

// node creates a node, or changes its Ready condition. Controllers write to it too.
func (s *stage) node(name string, ready corev1.ConditionStatus, since time.Time) {
	s.Helper()
	s.Eventually(s.T, "writing node "+name, func(ctx context.Context) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := s.Get(ctx, client.ObjectKeyFromObject(n), n)
		if apierrors.IsNotFound(err) {
			err = s.Create(ctx, n)
		}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.Now(),
		}}
		return errors.Join(err, s.Status().Update(ctx, n))
	})
}

// answers waits until a connection reports that its cluster answers.
func (s *stage) answers(c *workload.Connection) {
	s.Helper()
	s.Eventually(s.T, "it answers", func(context.Context) error {
		if got, why := c.Answers(); got != core.Yes {
			return fmt.Errorf("%s: %s", got, why)
		}
		return nil
	})
}

// isUnknown waits until a connection reports unknown, with these words.
func (s *stage) isUnknown(c *workload.Connection, words string) {
	s.Helper()
	s.Eventually(s.T, "it is unknown since "+words, func(context.Context) error {
		if got, why := c.Answers(); got != core.Unknown || !strings.Contains(why, words) {
			return fmt.Errorf("%s: %s", got, why)
		}
		return nil
	})
}

var errMissing = errors.New("there is no such node")

// ready returns the Ready condition of a node as the connection knows it.
func ready(c *workload.Connection, name string) (status string, err error) {
	c.Lookup(func(find func(string) (node.Facts, bool)) {
		facts, found := find(name)
		if !found || len(facts.Node.Conditions) == 0 {
			err = errMissing
			return
		}
		status = facts.Node.Conditions[0].Status
	})
	return status, err
}

func (s *stage) knows(c *workload.Connection, name string, want corev1.ConditionStatus) {
	s.Helper()
	s.Eventually(s.T, name+" is known", func(context.Context) error {
		if got, err := ready(c, name); err != nil || got != string(want) {
			return fmt.Errorf("it is %q (%w)", got, err)
		}
		return nil
	})
}
