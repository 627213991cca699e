package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// These are the results of a dry run.
const (
	accepted = "Accepted"
	refused  = "Refused"
	notTried = "NotAsked"
)

// fieldOwner is the field manager of a dry run.
const fieldOwner = "fettle-check"

// admit sends a health check to the API server as a dry run, which writes nothing. The API server refuses it when an
// admission webhook may have side effects.
func (s *session) admit(ctx context.Context, d *draft) {
	u, patch, err := s.application(ctx, d)
	if err == nil {
		options := []client.PatchOption{client.DryRunAll, client.FieldOwner(fieldOwner), client.FieldValidation("Strict")}
		if patch.Type() == types.ApplyPatchType {
			options = append(options, client.ForceOwnership)
		}
		err = s.cluster.Patch(ctx, u, patch, options...)
	}
	may := core.Yes
	if apierrors.IsForbidden(err) {
		may = s.mayWrite(ctx, err, patch.Type() == types.ApplyPatchType, d.Namespace)
	}
	d.Admission, d.AdmissionMessage = admission(err, may, d.Namespace)
}

// mayWrite reports whether the user has the rights of a request that was forbidden. An admission plugin answers as a lack of rights does, so
// it requests a review of them from the API server. A new object needs the right to create too.
func (s *session) mayWrite(ctx context.Context, forbidden error, isNew bool, namespace string) core.Tri {
	status, is := errors.AsType[*apierrors.StatusError](forbidden)
	if !is || status.Status().Details == nil {
		return core.Unknown
	}
	verbs := []string{"patch"}
	if isNew {
		verbs = append(verbs, "create")
	}
	for _, verb := range verbs {
		review := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": verb, "namespace": namespace, "group": status.Status().Details.Group, "resource": status.Status().Details.Kind,
		}}}}
		review.SetGroupVersionKind(schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"})
		if err := s.cluster.Create(ctx, review); err != nil {
			return core.Unknown
		}
		if may, _, _ := unstructured.NestedBool(review.Object, "status", "allowed"); !may {
			return core.No
		}
	}
	return core.Yes
}

// application returns the request that would apply a health check. The specification of an existing object is replaced,
// since a merge would keep fields that the file no longer has. An object that can't be read counts as new.
func (s *session) application(ctx context.Context, d *draft) (*unstructured.Unstructured, client.Patch, error) {
	old := d.object.DeepCopy()
	if err := s.cluster.Get(ctx, client.ObjectKeyFromObject(d.object), old); err == nil {
		return replacement(old, d.object), client.MergeFrom(old), nil
	}
	u := d.object.DeepCopy()
	delete(u.Object, "status")
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetUID("")
	body, err := u.MarshalJSON()
	return u, client.RawPatch(types.ApplyPatchType, body), err
}

// replacement returns an object with the specification of another. It has the labels and annotations of both.
func replacement(old, written *unstructured.Unstructured) *unstructured.Unstructured {
	u, kept := written.DeepCopy(), old.DeepCopy()
	u.Object["metadata"] = kept.Object["metadata"]
	u.SetLabels(merged(old.GetLabels(), written.GetLabels()))
	u.SetAnnotations(merged(old.GetAnnotations(), written.GetAnnotations()))
	delete(u.Object, "status")
	if status, has := kept.Object["status"]; has {
		u.Object["status"] = status
	}
	return u
}

// merged returns the entries of both maps, with those of the second where keys are equal.
func merged(a, b map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// admission reads the answer to a dry run. A lack of the user's rights, or a missing namespace, says nothing about the
// health check. may tells whether the user has the rights, of a request that was forbidden.
func admission(err error, may core.Tri, namespace string) (verdict, message string) {
	switch {
	case err == nil:
		return accepted, ""
	case may == core.No:
		return notTried, fmt.Sprintf("you may not patch it (%s), and a dry run needs the permission to write", failureText(err))
	case apierrors.IsNotFound(err) && namespace == "":
		return notTried, fmt.Sprintf("the cluster does not serve this kind (%s)", failureText(err))
	case apierrors.IsNotFound(err):
		return notTried, fmt.Sprintf("namespace %s does not exist yet, or the cluster does not serve this kind (%s)", namespace, failureText(err))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err) && may == core.Yes:
		return refused, sanitize.Failure(sanitize.MaxMessage, err)
	}
	return notTried, failureText(err)
}
