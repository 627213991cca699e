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

// parallelWrites bounds how many health checks are written at a time.
const parallelWrites = 8

// Record has the health checks written that have changed, and returns the errors by health check. Prepare is called for one
// health check after the other, and returns what writes it, nil where nothing is to be written. These are called in parallel.
// A panic of one is its error.
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

// Write writes a status, and a brief one where that is refused as too large, since nothing is repaired that is not recorded.
func Write[Status any](status Status, write func(Status) error, brief func(Status) Status) error {
	err := write(status)
	if sanitize.TooLarge(err) {
		err = write(brief(status))
	}
	return err
}

// PatchStatus patches the status of a health check, which becomes as the API server answers. It reports false for a health check
// that is gone, which is no error.
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

// Object returns a health check without anything but its kind and name.
func Object(kind schema.GroupVersionKind, id core.ID) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(id.Namespace)
	u.SetName(id.Name)
	return u
}

// ReadLive reads a health check from the API server itself, bounded as in the cache. It returns nil for one that is gone or is being
// deleted.
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

// IsOlder reports whether a resource version is older than another. They are numbers that grow; others are never older.
func IsOlder(version, than string) bool {
	m, err1 := strconv.ParseUint(version, 10, 64)
	n, err2 := strconv.ParseUint(than, 10, 64)
	return err1 == nil && err2 == nil && m < n
}

// WhenSynced returns whether something is so, as far as the watches know: No where the kinds are not served, and else unknown until all of
// them are in step. Served may be nil, and then that is not known.
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
