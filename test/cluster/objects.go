package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	medik8sv1alpha1 "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
)

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	utilruntime.Must(v1beta1.AddToScheme(s))
	utilruntime.Must(medik8sv1alpha1.AddToScheme(s))
	utilruntime.Must(clusterv1.AddToScheme(s))
	return s
}

// Decode returns the objects of a YAML stream.
func Decode(t testing.TB, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("decoding YAML: %v", err)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}

// ApplyDir creates the objects of all YAML files in a directory of the repository, in the order of their names, like
// kubectl apply -f. It leaves existing objects alone.
func (c *Cluster) ApplyDir(t testing.TB, dir string) {
	t.Helper()
	c.applyFiles(t, filepath.Join(Root(), dir))
}

// applyFiles is ApplyDir for any directory.
func (c *Cluster) applyFiles(t testing.TB, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s (%v)", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("reading a manifest: %v", err)
		}
		for _, u := range Decode(t, text) {
			c.createMissing(t, u)
		}
	}
}

// Apply creates the objects of a YAML text. It waits until the kinds are served that definitions in the text define.
func (c *Cluster) Apply(t testing.TB, text string) {
	t.Helper()
	for _, u := range Decode(t, []byte(text)) {
		c.Eventually(t, "creating "+u.GetKind()+" "+u.GetName(), func(ctx context.Context) error {
			if err := c.Create(ctx, u); !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		})
		if u.GetKind() == "CustomResourceDefinition" {
			c.awaitDefined(t, u)
		}
	}
}

// awaitDefined waits until the kind of a definition is served in each of its served versions.
func (c *Cluster) awaitDefined(t testing.TB, definition *unstructured.Unstructured) {
	t.Helper()
	var d apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, &d); err != nil {
		t.Fatalf("reading %s: %v", definition.GetName(), err)
	}
	for _, version := range d.Spec.Versions {
		if version.Served {
			c.awaitKinds(t, d.Spec.Group+"/"+version.Name, d.Spec.Names.Kind)
		}
	}
}

// patience is how long Eventually waits. It is long, since the machines that run tests may be busy.
const patience = 4 * time.Minute

// Eventually waits until check returns no error, and fails the test if that never happens.
func (c *Cluster) Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	c.After(t, 0, what, check)
}

// After is Eventually for a state that can't be reached before a while has passed.
func (c *Cluster) After(t testing.TB, while time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(Context(t), 50*time.Millisecond, while+patience, true, func(ctx context.Context) (bool, error) {
		found := check(ctx)
		if ctx.Err() == nil || last == nil { // the error of an expired context says nothing
			last = found
		}
		return found == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not within %s: %v", what, while+patience, last)
	}
}

// Never fails the test if check returns an error within the time.
func (c *Cluster) Never(t testing.TB, what string, within time.Duration, check func(context.Context) error) {
	t.Helper()
	var found error
	_ = wait.PollUntilContextTimeout(Context(t), 50*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() == nil {
			found = err
		}
		return found != nil, nil
	})
	if found != nil {
		t.Fatalf("%s: %v", what, found)
	}
}

// Namespace creates a namespace for one test.
func (c *Cluster) Namespace(t testing.TB, name string) {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.Name = name
	if err := c.Create(Context(t), ns); client.IgnoreAlreadyExists(err) != nil {
		t.Fatalf("creating namespace %s: %v", name, err)
	}
}

// EventReasons returns the reasons of the events about an object, or about all for "", each once.
func (c *Cluster) EventReasons(t testing.TB, namespace, name string) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := c.List(Context(t), &list, client.InNamespace(namespace)); err != nil {
		t.Fatalf("listing events: %v", err)
	}
	var reasons []string
	for i := range list.Items {
		if name == "" || list.Items[i].Regarding.Name == name {
			reasons = append(reasons, list.Items[i].Reason)
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}
