package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/writers"
)

// FieldOwner is the field manager under which Fettle writes.
const FieldOwner = writers.FieldOwner

// Writer writes conditions of machines.
type Writer struct {
	Statuses client.StatusClient
	// Live reads from the API server.
	Live client.Reader
	Now  func() time.Time
}

// errChanged is the cause of a conflict: the positions of a patch are out of date.
var errChanged = errors.New("the machine has changed since it was read")

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch

// Write writes changes to a machine as it was read, and returns the new version. If there is nothing to change, it
// makes no call and returns the machine itself. If the machine has changed since it was read, the error is a
// conflict.
func (w *Writer) Write(ctx context.Context, m *Machine, changes []Change) (*Machine, error) {
	body, err := m.Patch(changes, w.Now())
	if body == nil { // as with an error
		return m, err
	}
	now := named(m.Namespace, m.Name)
	err = w.Statuses.Status().Patch(ctx, now, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(FieldOwner))
	if err != nil {
		if apierrors.IsInvalid(err) && w.hasChanged(ctx, m) {
			err = apierrors.NewConflict(schema.GroupResource{Group: MachineKind.Group, Resource: "machines"}, m.Name, errChanged)
		}
		return nil, fmt.Errorf("patching the conditions of machine %s/%s: %w", m.Namespace, m.Name, err)
	}
	return now, nil
}

// hasChanged reports whether a patch may have been refused because the machine has changed or was replaced. The API
// server checks the patch before it compares resource versions.
func (w *Writer) hasChanged(ctx context.Context, m *Machine) bool {
	now, err := w.Read(ctx, m.Namespace, m.Name)
	return apierrors.IsNotFound(err) || err == nil && (now.UID != m.UID || now.ResourceVersion != m.ResourceVersion)
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get

// Read reads a machine from the API server.
func (w *Writer) Read(ctx context.Context, namespace, name string) (*Machine, error) {
	m := named(namespace, name)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return nil, fmt.Errorf("reading machine %s/%s: %w", namespace, name, err)
	}
	return m, nil
}

// HandBack has the owner of a machine replace it, for a remediator that has given it up. Where a health check of Fettle is to decide when
// (gated), it writes the deprecated condition alone, which that health check reads and owners don't. It does nothing to a machine with
// another UID.
func (w *Writer) HandBack(ctx context.Context, key types.NamespacedName, uid types.UID, gated bool) error {
	m, err := w.Read(ctx, key.Namespace, key.Name)
	if err != nil || m.UID != uid {
		return err
	}
	changes := AskOwner(m)
	if gated {
		changes = slices.DeleteFunc(changes, func(c Change) bool { return c.In == Current })
	}
	_, err = w.Write(ctx, m, changes)
	return err
}

func named(namespace, name string) *Machine {
	m := &Machine{}
	m.Namespace, m.Name = namespace, name
	return m
}
