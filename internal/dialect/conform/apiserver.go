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
	WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error
	EmitEvents(events []core.Event)
}

// confirmationWithdrawer is a dialect by which a person may say that a target is healthy.
type confirmationWithdrawer interface {
	WithdrawConfirmation(ctx context.Context, t core.Target) error
}

// homeDialect is a dialect that judges nodes of the cluster that Fettle runs in.
type homeDialect interface {
	Acts() core.Tri
	ActsOn(nodes map[string]string) core.Tri
	HasAny(nodes map[string]string) core.Tri
}

// Fixture is how one dialect is tested. Every field is required but Pause and Waits.
type Fixture struct {
	// Kind is that of its targets.
	Kind string
	// Check is a sound health check that selects every target which a Harness adds, and repairs it.
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
	Begin func(t *testing.T, w *APIServer) Harness
}

// Harness is a dialect with its caches, which the suite fills.
type Harness struct {
	Dialect

	// SyncCaches has every cache in step.
	SyncCaches func()
	// PutCheck has the cache of health checks show one.
	PutCheck func(check *unstructured.Unstructured)
	// AddTarget has the caches show a target of this name, with a node that is Ready.
	AddTarget func(name string)
}

// APIServer is the API server as a fixture's clients have it.
type APIServer struct {
	// Now is the clock of the world.
	Now time.Time

	mu      sync.Mutex
	served  core.Tri
	checks  map[string]*unstructured.Unstructured
	failure error
	// maxStatusSize is the largest status that is accepted, in bytes of JSON; 0 for any.
	maxStatusSize int
	writes        []write
	events        []event
}

// write is a status that was to be written, with the revision that it insists on.
type write struct{ name, revision string }

// event is an event as it is told.
type event struct{ reason, action, text string }

// Served tells whether the cluster serves the dialect's kinds.
func (w *APIServer) Served() core.Tri {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served
}

// Write answers the write of a status, which insists on a revision. An object that is written becomes what the
// API server has then.
func (w *APIServer) Write(object *unstructured.Unstructured, revision string, status any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, write{object.GetName(), revision})
	if w.failure != nil {
		return w.failure
	}
	if body, err := json.Marshal(status); err != nil || (w.maxStatusSize > 0 && len(body) > w.maxStatusSize) {
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
func (w *APIServer) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return w.failure
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
func (w *APIServer) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errDown
}

// message returns that of a condition of a health check as it was written last.
func (w *APIServer) message(check, condition string) (message string, found bool) {
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
func (w *APIServer) Patch() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// RecordEvent takes in an event.
func (w *APIServer) RecordEvent(reason, action, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event{reason, action, text})
}

func next(revision string) string {
	n, err := strconv.Atoi(revision)
	if err != nil {
		return revision + "1"
	}
	return strconv.Itoa(n + 1)
}

// takeWrites gives the writes since the last time.
func (w *APIServer) takeWrites() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := w.writes
	w.writes = nil
	return written
}

// takeEvents gives the events since the last time.
func (w *APIServer) takeEvents() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.events
	w.events = nil
	return told
}

// fail has every write refused, until it is called with nil.
func (w *APIServer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = err
}

// remove takes a health check out of the world.
func (w *APIServer) remove(check string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.checks, check)
}

// put puts a health check in the world.
func (w *APIServer) put(check *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks[check.GetName()] = check
}
