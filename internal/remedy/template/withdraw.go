package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// errNoUID protects a namesake of a request.
var errNoUID = errors.New("its UID is not known, so it is left alone")

// errForeign protects objects that Fettle did not create, whatever the core has decided (I10).
var errForeign = errors.New("it was not made by Fettle, which touches only its own requests")

// Stop annotates a request, so that its remediator stops.
func (c *Client) Stop(ctx context.Context, r core.Request, at time.Time) error {
	if !r.Stopped.IsZero() {
		return nil
	}
	if !r.Own {
		return fmt.Errorf("telling %s to stop: %w", r.ID, errForeign)
	}
	if r.ID.UID == "" {
		return fmt.Errorf("telling %s to stop: %w", r.ID, errNoUID)
	}
	// The API server refuses the patch for an object with another UID.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": r.ID.UID, "annotations": map[string]string{v1alpha1.TimedOutAnnotation: at.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encoding the annotation: %w", err)
	}
	err = c.API.Patch(ctx, objectOf(r), client.RawPatch(types.MergePatchType, body))
	if err != nil && !isGone(err) && !c.replaced(ctx, r, err) {
		return fmt.Errorf("telling %s to stop: %w", r.ID, withAdvice(err))
	}
	return nil
}

// replaced reports whether the API server refused a patch or a deletion because the name has another object now. The
// error depends on the kind, and has other causes too, so replaced reads the object.
func (c *Client) replaced(ctx context.Context, r core.Request, refusal error) bool {
	if !apierrors.IsInvalid(refusal) && !apierrors.IsConflict(refusal) {
		return false
	}
	u := objectOf(r)
	err := c.API.Get(ctx, client.ObjectKeyFromObject(u), u)
	return apierrors.IsNotFound(err) || err == nil && string(u.GetUID()) != r.ID.UID
}

// Withdraw deletes a request. Its remediator may keep it, by a finalizer, until all that it did is undone. If the target
// is gone and the remediator has reported its outcome or a replacement meanwhile, the request stays and the result is
// Stale: caches may show that a node is gone before they show such a report.
func (c *Client) Withdraw(ctx context.Context, r core.Request) (core.RemedyResult, error) {
	if r.Leaving {
		return core.Accepted, nil
	}
	if !r.Own {
		return 0, fmt.Errorf("withdrawing %s: %w", r.ID, errForeign)
	}
	if r.ID.UID == "" {
		return 0, fmt.Errorf("withdrawing %s: %w", r.ID, errNoUID)
	}
	uid := types.UID(r.ID.UID)
	only := client.Preconditions{UID: &uid}
	if r.OnlyAsReported {
		revision, err := c.revisionAsDecided(ctx, r)
		switch {
		case isGone(err):
			return core.Accepted, nil
		case err != nil:
			return 0, err
		case revision == "":
			return core.Stale, nil
		}
		only.ResourceVersion = &revision
	}
	err := c.API.Delete(ctx, objectOf(r), only, client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case err == nil, isGone(err), c.replaced(ctx, r, err):
		return core.Accepted, nil
	case r.OnlyAsReported && apierrors.IsConflict(err):
		return core.Stale, nil
	}
	return 0, fmt.Errorf("withdrawing %s: %w", r.ID, withAdvice(err))
}

// revisionAsDecided reads a request, and returns its revision. The revision is empty if its remediator reports another
// outcome, or another expectation of a replacement, than was decided on.
func (c *Client) revisionAsDecided(ctx context.Context, r core.Request) (string, error) {
	u := objectOf(r)
	if err := c.API.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return "", fmt.Errorf("reading %s before it is withdrawn: %w", r.ID, withAdvice(err))
	}
	lenient.Bound(u) // as caches do, or a status that is too large would differ for ever
	if string(u.GetUID()) == r.ID.UID && (condition(u, v1alpha1.SucceededCondition).status != r.Succeeded || replaces(u) != r.Replaces) {
		return "", nil
	}
	return u.GetResourceVersion(), nil
}

// isGone reports whether an error says that no object has the name of a request.
func isGone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func objectOf(r core.Request) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(r.APIVersion)
	u.SetKind(r.ID.Kind)
	u.SetNamespace(r.ID.Namespace)
	u.SetName(r.ID.Name)
	return u
}
