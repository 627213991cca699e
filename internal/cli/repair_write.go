package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// requestOwner is the field manager of a repair request.
const requestOwner = "fettle-repair"

// writeRequest annotates a target, with the user's rights. The patch has the UID, so it changes no namesake.
func (s *session) writeRequest(ctx context.Context, object *metav1.PartialObjectMetadata, id core.ID, at time.Time, dry bool) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": id.UID, "annotations": map[string]string{annotation.RepairRequestedAt: at.Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	options := []client.PatchOption{client.FieldOwner(requestOwner)}
	if dry {
		options = append(options, client.DryRunAll)
	}
	written := object.DeepCopy()
	err = s.cluster.Patch(ctx, written, client.RawPatch(types.MergePatchType, body), options...)
	return refusedRequest(id, err)
}

// objectOf returns the object of a target. If several kinds have the name of its kind, the UID decides.
func (s *session) objectOf(ctx context.Context, v *view, id core.ID) (*metav1.PartialObjectMetadata, error) {
	var failed error
	for _, kind := range kindsOf(s.cluster, v.sources(), id.Kind) {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(kind)
		err := s.cluster.Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.Name}, m)
		switch {
		case err == nil && string(m.UID) == id.UID:
			return m, nil
		case err != nil && !apierrors.IsNotFound(err):
			failed = err
		}
	}
	if failed != nil {
		return nil, refusedRequest(id, failed)
	}
	return nil, goneError(id)
}

func goneError(id core.ID) error {
	return fmt.Errorf("%s was deleted while fettle read it, so no repair was requested; fettle explain %s/%s shows what became of it", id, kindWord(id), id.Name) //nolint:err113 // told to a person
}

// refusedRequest says why a request was refused and what to do, or returns nil if it was accepted.
func refusedRequest(id core.ID, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return goneError(id)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no repair of %s was requested; that takes the rights to get, patch and delete it, which an administrator can grant (docs/cli.md#fettle-repair): %w", id, err)
	}
	return fmt.Errorf("asking for the repair of %s: %w", id, err)
}

// undo returns the command that withdraws a request.
func undo(object *metav1.PartialObjectMetadata) string {
	kind := object.GroupVersionKind()
	resource := strings.ToLower(kind.Kind)
	if kind.Group != "" {
		resource += "s." + kind.Group
	}
	return "kubectl annotate" + inNamespace(object.Namespace) + " " + resource + " " + object.Name + " " + annotation.RepairRequestedAt + "-"
}
