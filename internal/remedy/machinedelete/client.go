package machinedelete

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// Client deletes machines of one kind.
type Client struct {
	kind   schema.GroupVersionKind
	writer client.Writer
}

// NewClient returns a client that deletes machines of this kind.
func NewClient(kind schema.GroupVersionKind, writer client.Writer) *Client {
	return &Client{kind: kind, writer: writer}
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=delete

// Start requests the machine's deletion. A machine that is being deleted already stays as it is.
func (c *Client) Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error) {
	t := o.Target
	if t.ID.UID == "" || t.Revision == "" {
		return 0, fmt.Errorf("deleting %s: its UID or revision is not known, and nothing is deleted without", t.ID)
	}
	m, only := render(c.kind, t)
	err := c.writer.Delete(ctx, m, only)
	switch {
	case err == nil:
		return core.Accepted, nil
	case apierrors.IsNotFound(err):
		return core.Vanished, nil
	case apierrors.IsConflict(err):
		return core.Stale, nil
	}
	return 0, fmt.Errorf("deleting %s: %w", t.ID, err)
}
