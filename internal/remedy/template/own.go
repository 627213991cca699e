package template

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// sign marks a request as Fettle's own, when it has its final name.
func sign(u *unstructured.Unstructured, o *core.RemedyCall) {
	annotate(u, map[string]string{annotation.RequestedByUID: o.Policy.UID, annotation.RequestedAs: signaturePrefix(u) + o.Target.ID.UID})
}

// signaturePrefix is all of a signature but the UID of the target. No part of it can have a slash.
func signaturePrefix(u *unstructured.Unstructured) string {
	return strings.Join([]string{u.GroupVersionKind().GroupKind().String(), u.GetNamespace(), u.GetName(), ""}, "/")
}

// signature is what a request says of its own making.
type signature struct {
	// check is the UID of the health check that asked, and target that of the target.
	check, target string
}

// signatureOf reads the signature of a request. It is false where the object is not as Fettle made it: the annotations
// are missing or of another object, or a controller owns it, which no request has.
func signatureOf(u *unstructured.Unstructured) (signature, bool) {
	annotations := u.GetAnnotations()
	target, signed := strings.CutPrefix(annotations[annotation.RequestedAs], signaturePrefix(u))
	s := signature{check: annotations[annotation.RequestedByUID], target: target}
	if !signed || s.check == "" || s.target == "" || metav1.GetControllerOf(u) != nil {
		return signature{}, false
	}
	return s, true
}

// partOfMachine reports whether a Machine of any API is the controller of an object. Such an object is a part of the
// machine, and never a request.
func partOfMachine(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.Kind == machineKind && r.Controller != nil && *r.Controller
	})
}

// excludeParts sorts out what Fettle must not touch among the requests for machines. Objects of a kind of which the machine
// itself is made are no requests. Where these kinds are not known, no request counts as Fettle's own.
func excludeParts(requests []core.Request, targets []core.Target) []core.Request {
	about := map[string][]int{}
	for i := range requests {
		if isMachineRemedy(requests[i].Remedy) {
			about[requests[i].Target.UID] = append(about[requests[i].Target.UID], i)
		}
	}
	if len(about) == 0 {
		return requests
	}
	found := make([]core.Tri, len(requests))
	for t := range targets {
		for _, i := range about[targets[t].ID.UID] {
			found[i] = targets[t].Parts.Has(requests[i].Template.Makes())
		}
	}
	kept := requests[:0]
	for i := range requests {
		r := requests[i]
		if isMachineRemedy(r.Remedy) {
			if found[i] == core.Yes {
				continue
			}
			r.Own = r.Own && found[i] == core.No
		}
		kept = append(kept, r)
	}
	return kept
}
