package template

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// sign marks a request as Fettle's own. The request has its final name.
func sign(u *unstructured.Unstructured, o *core.RemedyCall) {
	annotate(u, map[string]string{annotation.RequestedByUID: o.Policy.UID, annotation.RequestedAs: signaturePrefix(u) + o.Target.ID.UID})
}

// signaturePrefix returns a signature without the UID of the target. No part of it can have a slash.
func signaturePrefix(u *unstructured.Unstructured) string {
	return strings.Join([]string{u.GroupVersionKind().GroupKind().String(), u.GetNamespace(), u.GetName(), ""}, "/")
}

// signature names the author and the target of a request, in two annotations.
type signature struct {
	// check is the UID of the health check, and target that of the target.
	check, target string
}

// signatureOf reads the signature of a request. It reports false when the annotations are missing or belong to another
// object. It does so too when a controller owns the object, since Fettle creates no such request.
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

// excludeParts removes the requests that are parts of their own machine, by the kinds of its parts. Where these kinds
// are not known, it marks requests for the machine as not Fettle's own.
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
		target := &targets[t]
		for _, i := range about[target.ID.UID] {
			found[i] = target.Parts.Has(requests[i].Template.Makes())
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
