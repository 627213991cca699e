package baremetalhost_test

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/baremetalhost"
)

const (
	own    = "reboot.metal3.io/fettle"
	hard   = `{"mode":"hard"}`
	others = "reboot.metal3.io/capm3"
	paused = "baremetalhost.metal3.io/paused"
)

var (
	key = types.NamespacedName{Namespace: "metal3", Name: "worker-1"}
	// first is the BareMetalHost of newAPI, which has no consumer.
	first    = baremetalhost.Identity{UID: "uid-1"}
	resource = schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"}
)

// api has one BareMetalHost, or none.
type api struct {
	client.Reader
	client.Writer

	mu      sync.Mutex
	object  map[string]any
	version int
	// readFails and patchFails are the errors of the next requests, or nil.
	readFails, patchFails error
	// ignores has the API server drop changes, as a webhook may.
	ignores bool
	// during is called before each request.
	during func()
	// patches are the bodies of all changes, and dryRuns of the tried ones.
	patches, dryRuns []string
	now              time.Time
}

// newAPI has a host that is on and that Metal3 manages.
func newAPI(changes ...func(map[string]any)) *api {
	a := &api{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), object: map[string]any{
		"metadata": map[string]any{"uid": "uid-1", "annotations": map[string]any{}},
		"spec":     map[string]any{"online": true},
		"status":   map[string]any{"poweredOn": true, "operationalStatus": "OK", "provisioning": map[string]any{"state": "provisioned"}},
	}}
	a.change(changes...)
	return a
}

// change changes the BareMetalHost, as others do.
func (a *api) change(changes ...func(map[string]any)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		c(a.object)
		a.version++
	}
}

func set(value any, path ...string) func(map[string]any) {
	return func(o map[string]any) {
		if err := unstructured.SetNestedField(o, value, path...); err != nil {
			panic(err)
		}
	}
}

func unset(path ...string) func(map[string]any) {
	return func(o map[string]any) { unstructured.RemoveNestedField(o, path...) }
}

func annotated(name, value string) func(map[string]any) {
	return set(value, "metadata", "annotations", name)
}

func powered(on bool) func(map[string]any) { return set(on, "status", "poweredOn") }

// consumed has the host belong to a consumer.
func consumed(name string) func(map[string]any) {
	return set(map[string]any{"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "ns", "name": name}, "spec", "consumerRef")
}

func unconsumed(o map[string]any) { unset("spec", "consumerRef")(o) }

// conditions has the status say one condition.
func conditions(kind, status, reason string) func(map[string]any) {
	return set([]any{map[string]any{"type": kind, "status": status, "reason": reason}}, "status", "conditions")
}

func both(changes ...func(map[string]any)) func(map[string]any) {
	return func(o map[string]any) {
		for _, c := range changes {
			c(o)
		}
	}
}

func (a *api) clock() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = a.now.Add(time.Second)
	return a.now
}

func (a *api) show(o client.Object) {
	shown, _ := o.(*unstructured.Unstructured)
	kind := shown.GroupVersionKind()
	shown.Object = (&unstructured.Unstructured{Object: a.object}).DeepCopy().Object
	shown.SetGroupVersionKind(kind)
	shown.SetResourceVersion(strconv.Itoa(a.version))
}

// Get returns the BareMetalHost.
func (a *api) Get(_ context.Context, k client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.during != nil {
		a.during()
	}
	switch {
	case o.GetObjectKind().GroupVersionKind() != baremetalhost.Kind:
		return apierrors.NewBadRequest("it is of another kind")
	case a.readFails != nil:
		return a.readFails
	case a.object == nil, k != key:
		return apierrors.NewNotFound(resource, k.Name)
	}
	a.show(o)
	return nil
}

// Patch changes annotations as a merge patch does.
func (a *api) Patch(_ context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := p.Data(o)
	var change struct {
		Metadata struct {
			UID         string             `json:"uid"`
			Annotations map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &change); err != nil {
		return err
	}
	if a.during != nil {
		a.during()
	}
	uid, _, _ := unstructured.NestedString(a.object, "metadata", "uid")
	switch {
	case o.GetObjectKind().GroupVersionKind() != baremetalhost.Kind:
		return apierrors.NewBadRequest("it is of another kind")
	case a.patchFails != nil:
		return a.patchFails
	case client.ObjectKeyFromObject(o) != key || a.object == nil:
		return apierrors.NewNotFound(resource, o.GetName())
	case change.Metadata.UID != uid:
		return apierrors.NewConflict(resource, o.GetName(), nil)
	}
	if len((&client.PatchOptions{}).ApplyOptions(options).DryRun) > 0 {
		a.dryRuns = append(a.dryRuns, string(body))
		return nil
	}
	a.patches = append(a.patches, string(body))
	annotations, _, _ := unstructured.NestedStringMap(a.object, "metadata", "annotations")
	annotations = maps.Clone(annotations)
	for name, value := range change.Metadata.Annotations {
		if a.ignores {
			break
		}
		delete(annotations, name)
		if value != nil {
			annotations[name] = *value
		}
	}
	if err := unstructured.SetNestedStringMap(a.object, annotations, "metadata", "annotations"); err != nil {
		return err
	}
	a.version++
	a.show(o)
	return nil
}

func (a *api) annotation(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	value, _, _ := unstructured.NestedString(a.object, "metadata", "annotations", name)
	return value
}

func (a *api) host() *baremetalhost.Host {
	return baremetalhost.New(baremetalhost.Config{Key: key, Live: a, Writer: a, Now: a.clock})
}

func noSuchKind() error {
	return &meta.NoKindMatchError{GroupKind: baremetalhost.Kind.GroupKind()}
}

func wantFailure(t *testing.T, got baremetalhost.Failure, want baremetalhost.Reason) {
	t.Helper()
	if got.Reason != want || got.Interrupted {
		t.Fatalf("failure %q (%s), want %q", got.Reason, got.Message, want)
	}
}
