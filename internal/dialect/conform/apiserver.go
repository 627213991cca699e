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

// Dialect has the methods that the engine calls on every dialect.
type Dialect interface {
	observer
	WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error
	EmitEvents(events []core.Event)
}

// confirmationWithdrawer is a dialect in which a user may confirm that a target is healthy.
type confirmationWithdrawer interface {
	WithdrawConfirmation(ctx context.Context, t core.Target) error
}

// homeDialect is a dialect that judges nodes of the cluster that Fettle runs in.
type homeDialect interface {
	Acts() core.Tri
	ActsOn(nodes map[string]string) core.Tri
	HasAny(nodes map[string]string) core.Tri
}

// Fixture says how one dialect is tested. All fields are required except Pause and Waits.
type Fixture struct {
	// Kind is the kind of the dialect's targets.
	Kind string
	// Check is a valid health check that selects every target which AddTarget adds, and repairs it.
	Check *unstructured.Unstructured
	// Pause pauses a health check. It may be nil where Check selects nodes of other clusters.
	Pause func(check *unstructured.Unstructured)
	// Waits reports whether every health check waits for upgrades. Otherwise an annotation makes it
	// wait.
	Waits bool
	// Nonsense are specs that can't be followed, by what is wrong with them.
	Nonsense map[string]any
	// Remedies are the names of the remedies in its steps.
	Remedies []string
	// Begin starts a dialect against an API server. Its caches are not in sync yet.
	Begin func(t *testing.T, w *APIServer) Harness
}

// Harness is a dialect with its caches, which the suite fills.
type Harness struct {
	Dialect

	// SyncCaches marks every cache as in sync.
	SyncCaches func()
	// PutCheck puts a health check into its cache.
	PutCheck func(check *unstructured.Unstructured)
	// AddTarget puts a target of this name, with a node that is Ready, into the caches.
	AddTarget func(name string)
}

// APIServer is the API server behind a fixture's clients.
type APIServer struct {
	// Now is the current time.
	Now time.Time

	mu      sync.Mutex
	served  core.Tri
	checks  map[string]*unstructured.Unstructured
	failure error
	// maxStatusSize is the largest status that is accepted, in bytes of JSON, or 0 for no limit.
	maxStatusSize int
	writes        []write
	events        []event
}

// write is one call that writes a status, with the revision in its precondition.
type write struct{ name, revision string }

// event is an emitted event.
type event struct{ reason, action, text string }

// Served reports whether the cluster serves the dialect's kinds.
func (w *APIServer) Served() core.Tri {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served
}

// Write answers the write of a status with a revision as its precondition. It stores the status,
// and copies the stored object to object.
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

// Get answers the read of a health check. It makes an APIServer a client.Reader.
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

// List fails. No dialect calls it.
func (w *APIServer) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errDown
}

// message returns the message of a condition as it was written last.
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

// RecordEvent records an event.
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

// takeWrites returns the writes since its last call.
func (w *APIServer) takeWrites() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := w.writes
	w.writes = nil
	return written
}

// takeEvents returns the events since its last call.
func (w *APIServer) takeEvents() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.events
	w.events = nil
	return taken
}

// fail makes every request fail with err, or succeed again with nil.
func (w *APIServer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = err
}

// remove deletes a health check.
func (w *APIServer) remove(check string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.checks, check)
}

// put stores a health check.
func (w *APIServer) put(check *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks[check.GetName()] = check
}
