package fencednode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// remediation is a remediation of any kind that fences.
type remediation[T any] interface {
	*T
	client.Object
}

// empty returns a remediation with the name of another one, for the answer of the API server.
func empty[T any, R remediation[T]](r R) R {
	answer := R(new(T))
	answer.SetNamespace(r.GetNamespace())
	answer.SetName(r.GetName())
	return answer
}

// PatchStatus writes the status of a remediation, unless the remediation has changed since it was read. It becomes the answer.
func PatchStatus[T any, R remediation[T]](ctx context.Context, w client.StatusClient, r R, status any) error {
	change, err := StatusPatch(r, status)
	if err != nil {
		return err
	}
	updated := empty(r)
	if err := w.Status().Patch(ctx, updated, change); err != nil {
		return fmt.Errorf("writing its status: %w", err)
	}
	*r = *updated
	return nil
}

// StatusPatch returns a patch that replaces the whole status of an object, unless the object has changed since it was read.
func StatusPatch(o client.Object, status any) (client.Patch, error) {
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	return client.RawPatch(types.JSONPatchType, body), nil
}

// PatchMetadata replaces the finalizers of a remediation and adds annotations. It has the revision as its precondition, since other controllers
// change finalizers too. The remediation becomes the answer.
func PatchMetadata[T any, R remediation[T]](ctx context.Context, w client.Writer, r R, finalizers []string, annotations map[string]string) error {
	metadata := map[string]any{"resourceVersion": r.GetResourceVersion(), "finalizers": finalizers}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	updated := empty(r)
	if err := w.Patch(ctx, updated, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("changing its finalizers: %w", err)
	}
	*r = *updated
	return nil
}

// WithFinalizer returns the finalizers of an object with one more at their end, once.
func WithFinalizer(o client.Object, name string) []string {
	return append(WithoutFinalizer(o, name), name)
}

// WithoutFinalizer returns the finalizers of an object without one.
func WithoutFinalizer(o client.Object, name string) []string {
	return slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(has string) bool { return has == name })
}

// Event is an event about a remediation. Its type is Normal or Warning.
type Event struct{ Type, Reason, Note string }

// Emit emits an event about a remediation of a kind.
func Emit(to events.EventRecorder, kind string, r client.Object, e Event) {
	to.Eventf(&corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Namespace: r.GetNamespace(), Name: r.GetName(), UID: r.GetUID(),
	}, nil, e.Type, e.Reason, "Remediate", "%s", sanitize.Line(sanitize.MaxNote, "[remediation] "+e.Note))
}

// WhyFailed returns why the API server failed a call, to append to a message. It leaves out the text of the error. Where a right is missing, it
// names the manifests that grant it.
func WhyFailed(err error, manifests string) string {
	switch reason := apierrors.ReasonForError(err); {
	case errors.Is(err, errNotKept):
		return "(NotKept); the API server has accepted it and not kept it, so a webhook may take it back; it is tried again"
	case reason == "":
		return "(the API server gave no answer); it is tried again"
	case apierrors.IsForbidden(err):
		return "(" + string(reason) + "); it is tried again, and the manifests of this version with kubectl apply -k " + manifests + " grant the right"
	default:
		return "(" + string(reason) + "); it is tried again"
	}
}
