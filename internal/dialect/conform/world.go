package conform

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

type observer interface {
	Observe() (core.Observation, error)
	ReadPolicy(ctx context.Context, id core.ID) (string, error)
}

// Dialect is what the engine asks of a dialect.
type Dialect interface {
	observer
	Record(ctx context.Context, reports []core.PolicyReport) map[core.ID]error
	Announce(happenings []core.Happening)
}

// confirmer is a dialect by which a person may say that a target is healthy.
type confirmer interface {
	Unvouch(ctx context.Context, t core.Target) error
}

// neighbor is a dialect that judges nodes of the cluster that Fettle runs in.
type neighbor interface {
	Acts() core.Tri
	ActsOn(nodes map[string]string) core.Tri
	HasAny(nodes map[string]string) core.Tri
}

// Fixture is how one dialect is tested. Every field is required but Pause and Waits.
type Fixture struct {
	// Kind is that of its targets.
	Kind string
	// Check is a sound health check that selects every target which a Stage adds, and repairs it.
	Check *unstructured.Unstructured
	// Pause pauses a health check. It may be nil where Check selects nodes of other clusters.
	Pause func(check *unstructured.Unstructured)
	// Waits reports whether every health check waits for upgrades. The others do so for an annotation.
	Waits bool
	// Nonsense are specifications that nobody can follow, by what is wrong with them.
	Nonsense map[string]any
	// Remedies are the names by which its ladders call remedies.
	Remedies []string
	// Begin has a dialect begin to watch in a world. Its caches are not in step yet.
	Begin func(t *testing.T, w *World) Stage
}

// Stage is a dialect with its caches, which the suite fills.
type Stage struct {
	Dialect

	// Fill has every cache in step.
	Fill func()
	// Show has the cache of health checks show one.
	Show func(check *unstructured.Unstructured)
	// Add has the caches show a target of this name, with a node that is Ready.
	Add func(name string)
}

// World is the API server as a fixture's clients have it.
type World struct {
	// Now is the clock of the world.
	Now time.Time

	mu     sync.Mutex
	served core.Tri
	checks map[string]*unstructured.Unstructured
	refuse error
	// most is the largest status that is accepted, in bytes of JSON; 0 for any.
	most   int
	writes []write
	notes  []note
}

// write is a status that was to be written, with the revision that it insists on.
type write struct{ name, revision string }

// note is an event as it is told.
type note struct{ reason, action, text string }

// Served tells whether the cluster serves the dialect's kinds.
func (w *World) Served() core.Tri {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served
}

// Write answers the write of a status, which insists on a revision. An object that is written becomes what the
// API server has then.
func (w *World) Write(object *unstructured.Unstructured, revision string, status any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, write{object.GetName(), revision})
	if w.refuse != nil {
		return w.refuse
	}
	if body, err := json.Marshal(status); err != nil || (w.most > 0 && len(body) > w.most) {
		return apierrors.NewRequestEntityTooLargeError("the status is too large")
	}
	stored := w.checks[object.GetName()].DeepCopy()
	stored.Object["status"] = status
	stored.SetResourceVersion(next(stored.GetResourceVersion()))
	w.checks[object.GetName()] = stored
	object.Object = stored.DeepCopy().Object
	return nil
}

// Get answers the read of a health check. It makes the world a client.Reader.
func (w *World) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	stored, exists := w.checks[key.Name]
	check, isCheck := into.(*unstructured.Unstructured)
	if !exists || !isCheck || stored.GetNamespace() != key.Namespace || stored.GroupVersionKind() != check.GroupVersionKind() {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "healthchecks"}, key.Name)
	}
	check.Object = stored.DeepCopy().Object
	return nil
}

// List is not called.
func (w *World) List(context.Context, client.ObjectList, ...client.ListOption) error { return errDown }

// message returns that of a condition of a health check as it was written last.
func (w *World) message(check, condition string) (message string, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	conditions, _, _ := unstructured.NestedSlice(w.checks[check].Object, "status", "conditions")
	for _, c := range conditions {
		if of, is := c.(map[string]any); is && of["type"] == condition {
			message, _ = of["message"].(string)
			return message, true
		}
	}
	return "", false
}

// Patch answers the patch of a target.
func (w *World) Patch() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refuse
}

// Tell takes in an event.
func (w *World) Tell(reason, action, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, note{reason, action, text})
}

func next(revision string) string {
	n, err := strconv.Atoi(revision)
	if err != nil {
		return revision + "1"
	}
	return strconv.Itoa(n + 1)
}

// written gives the writes since the last time.
func (w *World) written() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := w.writes
	w.writes = nil
	return written
}

// told gives the events since the last time.
func (w *World) told() []note {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.notes
	w.notes = nil
	return told
}

// refuses has every write refused, until it is called with nil.
func (w *World) refuses(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

// lacks takes a health check out of the world.
func (w *World) lacks(check string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.checks, check)
}

// has puts a health check in the world.
func (w *World) has(check *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks[check.GetName()] = check
}
