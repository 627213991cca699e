package test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
)

const (
	// The grace period is short, so that a silent node is soon found.
	gracePeriod = 4 * time.Second

	patience = 45 * time.Second
	pace     = 50 * time.Millisecond
)

// shared is the sandbox that most tests share, with kubelets and a Machine API. Each test uses names of its own.
var shared client.Client

func TestMain(m *testing.M) {
	os.Exit(withShared(m.Run))
}

func withShared(tests func() int) int {
	dir, err := os.MkdirTemp("", "fettle-sandbox-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := launch("--dir", dir, "--kubelets", "--machine-api", "--machine-api-poll", "250ms",
		"--node-monitor-grace-period", gracePeriod.String(), "--node-monitor-period", "500ms")
	if err != nil {
		fmt.Fprintf(os.Stderr, "these tests need the binaries, made by make build: %v\n", err)
		return 1
	}
	defer p.terminate()
	if problem := p.awaitReady(); problem != "" {
		fmt.Fprintf(os.Stderr, "starting the shared sandbox: %s\n", problem)
		return 1
	}
	if shared, err = newClient(p.kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}

func newClient(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, cloudv1.AddToScheme, remediationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}

func connect(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	c, err := newClient(kubeconfig)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// eventually repeats the question until the answer is empty, which means success.
func eventually(t *testing.T, what string, problem func() string) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), pace, patience, true, func(context.Context) (bool, error) {
		last = problem()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: after %v still: %s", what, patience, last)
	}
}

// never repeats the question for a while, and fails as soon as there is an answer.
func never(t *testing.T, what string, during time.Duration, problem func() string) {
	t.Helper()
	var last string
	_ = wait.PollUntilContextTimeout(t.Context(), pace, during, true, func(context.Context) (bool, error) {
		last = problem()
		return last != "", nil
	})
	if last != "" {
		t.Fatalf("%s: %s", what, last)
	}
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(context.Background(), object); err != nil {
			t.Fatalf("creating %s: %v", object.GetName(), err)
		}
	}
}

func get(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatalf("reading %s: %v", object.GetName(), err)
	}
}

func patch(t *testing.T, c client.Client, object client.Object, merge string) {
	t.Helper()
	if err := c.Patch(context.Background(), object, client.RawPatch("application/merge-patch+json", []byte(merge))); err != nil {
		t.Fatalf("patching %s: %v", object.GetName(), err)
	}
}

func remove(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Delete(context.Background(), object); err != nil {
		t.Fatalf("deleting %s: %v", object.GetName(), err)
	}
}

// gone returns an error text if the object still exists.
func gone(c client.Client, object client.Object) string {
	err := c.Get(context.Background(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		return err.Error()
	}
	if err == nil {
		return object.GetName() + " is there"
	}
	return ""
}

// readyIs returns an error text if the node's Ready condition has another status.
func readyIs(c client.Client, name string, want corev1.ConditionStatus) string {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(node), node); err != nil {
		return err.Error()
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == want {
				return ""
			}
			return fmt.Sprintf("Ready of node %s is %s, not %s", name, condition.Status, want)
		}
	}
	return "node " + name + " has no Ready condition"
}
