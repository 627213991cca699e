package cli

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The answers of the API server to a dry run.
const (
	accepted = "Accepted"
	refused  = "Refused"
	notAsked = "NotAsked"
)

// fieldOwner is who a dry run says that it writes for.
const fieldOwner = "fettle-check"

// admit asks the API server whether it would take a health check. Nothing is written: the request says
// so, and the API server refuses it when an admission webhook can't promise that.
func (s *session) admit(ctx context.Context, d *draft) {
	u := d.object.DeepCopy()
	delete(u.Object, "status")
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetUID("")
	body, err := u.MarshalJSON()
	if err == nil {
		err = s.cluster.Patch(ctx, u, client.RawPatch(types.ApplyPatchType, body),
			client.DryRunAll, client.ForceOwnership, client.FieldOwner(fieldOwner), client.FieldValidation("Strict"))
	}
	d.Admission, d.AdmissionMessage = admission(err, d.Namespace)
}

// admission reads the answer to a dry run. What the person may not do, and a namespace that is yet to
// be made, say nothing about the health check.
func admission(err error, namespace string) (verdict, message string) {
	switch {
	case err == nil:
		return accepted, ""
	case apierrors.IsForbidden(err) && lacksPermission(err):
		return notAsked, fmt.Sprintf("you may not patch it (%v), and a dry run needs the permission to write", err)
	case apierrors.IsNotFound(err) && namespace == "":
		return notAsked, fmt.Sprintf("the cluster does not serve this kind (%v)", err)
	case apierrors.IsNotFound(err):
		return notAsked, fmt.Sprintf("namespace %s does not exist yet, or the cluster does not serve this kind (%v)", namespace, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		return refused, err.Error()
	}
	return notAsked, err.Error()
}

// lacksPermission tells a refusal for want of rights from one by an admission plugin, which has the same
// status.
func lacksPermission(err error) bool {
	text := err.Error()
	return strings.Contains(text, "cannot patch resource") || strings.Contains(text, "cannot create resource")
}
