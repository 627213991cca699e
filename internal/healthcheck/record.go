package healthcheck

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/writers"
)

// parallelWrites is how many health checks are written at a time.
const parallelWrites = 8

// Record writes the health checks that have changed, and returns the errors by health check. It
// calls prepare for one health check after the other. Prepare returns the write, or nil if nothing
// is to be written. Record calls the writes in parallel. A panic of a write is its error.
func Record(reports []core.PolicyReport, prepare func(*core.PolicyReport) (write func() error)) map[core.ID]error {
	var (
		mu     sync.Mutex
		failed = map[core.ID]error{}
		group  errgroup.Group
	)
	group.SetLimit(parallelWrites)
	for i := range reports {
		id, write := reports[i].Policy.ID, prepare(&reports[i])
		if write == nil {
			continue
		}
		group.Go(func() error {
			if err := contain.Run(write); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[id] = err
			}
			return nil
		})
	}
	_ = group.Wait()
	return failed
}

// Write writes a status. Where the API server refuses it as too large, Write writes a brief one,
// since nothing is repaired that is not recorded.
func Write[Status any](status Status, write func(Status) error, brief func(Status) Status) error {
	err := write(status)
	if sanitize.TooLarge(err) {
		err = write(brief(status))
	}
	return err
}

// PatchStatus patches the status of a health check and stores the answer of the API server in u. It
// returns false and no error if the health check is gone.
func PatchStatus(ctx context.Context, to client.StatusClient, u *unstructured.Unstructured, kind types.PatchType, body []byte) (bool, error) {
	err := to.Status().Patch(ctx, u, client.RawPatch(kind, body), client.FieldOwner(writers.FieldOwner))
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("patching the status: %w", err)
	}
	return true, nil
}

// Object returns a health check that has only a kind and a name.
func Object(kind schema.GroupVersionKind, id core.ID) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(id.Namespace)
	u.SetName(id.Name)
	return u
}

// ReadLive reads a health check from the API server, bounded as in the cache. It returns nil if the
// health check is gone or being deleted.
func ReadLive(ctx context.Context, from client.Reader, kind schema.GroupVersionKind, id core.ID) (*unstructured.Unstructured, error) {
	u := Object(kind, id)
	err := from.Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.Name}, u)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // nil is the answer
	case err != nil:
		return nil, fmt.Errorf("getting the health check: %w", err)
	case u.GetDeletionTimestamp() != nil:
		return nil, nil //nolint:nilnil // the same
	}
	lenient.Bound(u)
	return u, nil
}

// IsOlder reports whether a resource version is older than another. Versions that are no numbers
// are never older.
func IsOlder(version, than string) bool {
	m, err1 := strconv.ParseUint(version, 10, 64)
	n, err2 := strconv.ParseUint(than, 10, 64)
	return err1 == nil && err2 == nil && m < n
}

// WhenSynced returns the answer of is once all watches are in sync, and Unknown before. It returns
// No where the kinds are not served. Served may be nil; then that is unknown.
func WhenSynced(served func() core.Tri, inStep func() bool, is func() bool) core.Tri {
	switch {
	case served != nil && served() == core.No:
		return core.No
	case !inStep():
		return core.Unknown
	case is():
		return core.Yes
	}
	return core.No
}
