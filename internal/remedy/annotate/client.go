package annotate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// Client annotates machines of one kind.
type Client struct {
	kind        schema.GroupVersionKind
	annotations map[string]string
	writer      client.Writer
}

// NewClient returns a client that sets these annotations on machines of this kind, all in one call.
func NewClient(kind schema.GroupVersionKind, annotations map[string]string, writer client.Writer) *Client {
	return &Client{kind: kind, annotations: annotations, writer: writer}
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=patch

// Start annotates the machine. A machine that has the annotation already stays as it is, whatever the value.
func (c *Client) Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error) {
	t := o.Target
	if t.ID.UID == "" || t.Revision == "" {
		return 0, fmt.Errorf("annotating %s: its UID or revision is not known, and nothing is handed over without", t.ID)
	}
	if t.ExternallyRemediated {
		return core.Accepted, nil
	}
	m, patch, err := render(c.kind, c.annotations, t)
	if err != nil {
		return 0, fmt.Errorf("annotating %s: %w", t.ID, err)
	}
	err = c.writer.Patch(ctx, m, patch)
	switch {
	case err == nil:
		return core.Accepted, nil
	case apierrors.IsNotFound(err):
		return core.Vanished, nil
	case apierrors.IsConflict(err):
		return core.Stale, nil
	}
	return 0, fmt.Errorf("annotating %s with %s: %w", t.ID, strings.Join(slices.Sorted(maps.Keys(c.annotations)), " and "), err)
}
