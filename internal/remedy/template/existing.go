package template

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// checkExisting returns the result of a call when an object already has the name of its request. The object may be the
// request itself, or be on its way out. Otherwise the error says whose it is.
func checkExisting(existing *unstructured.Unstructured, o core.RemedyCall, templateName string) (core.RemedyResult, error) {
	check := checkNodeRequest
	if isMachineRemedy(o.Step.Remedy) {
		check = checkMachineRequest
	}
	if err := check(existing, o, templateName); err != nil {
		return 0, err
	}
	if existing.GetDeletionTimestamp() != nil {
		return core.Stale, nil
	}
	return core.Accepted, nil
}

// checkNodeRequest returns an error unless an object is the node request of a call. It compares the health check by
// name, since a health check that was created again goes on with its requests.
func checkNodeRequest(u *unstructured.Unstructured, o core.RemedyCall, templateName string) error {
	if partOfMachine(u) {
		return foreignError(u, o, ownersText(u))
	}
	policy, found := requestingCheck(u)
	if !found || policy.Name != o.Policy.Name {
		return foreignError(u, o, ownersText(u))
	}
	if about := nodeOf(u); about != o.Target.ID.Name {
		return foreignError(u, o, "is about node "+about)
	}
	// The garbage collector removes a deleted node from the owners.
	node, is := owner(u, "", nodeKind)
	if s, own := signatureOf(u); !is && own {
		node.UID, is = types.UID(s.target), true
	}
	if is && string(node.UID) != o.Target.ID.UID {
		return foreignError(u, o, "is about an earlier node of that name")
	}
	if p := nodeRequestOf(u); !p.matches(o.Target.ID.Name, templateName) {
		return foreignError(u, o, madeFromText(p.template))
	}
	return checkSignature(u, o)
}

// checkSignature returns an error for an object that Fettle did not create for the target of a call.
func checkSignature(u *unstructured.Unstructured, o core.RemedyCall) error {
	if s, own := signatureOf(u); !own || s.target != o.Target.ID.UID {
		return foreignError(u, o, unsignedText)
	}
	return nil
}

const unsignedText = "was not made by Fettle for it, since the annotation " + annotation.RequestedAs + " does not say so"

// foreignReason says why a node request is not that of a call. If it names the same health check, its signature is
// missing.
func foreignReason(u *unstructured.Unstructured, o core.RemedyCall) string {
	if policy, is := requestingCheck(u); is && policy.Name == o.Policy.Name {
		return unsignedText
	}
	return ownersText(u)
}

// checkMachineRequest returns an error unless an object is the machine request of a call.
func checkMachineRequest(u *unstructured.Unstructured, o core.RemedyCall, templateName string) error {
	owners := u.GetOwnerReferences()
	if !slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return string(r.UID) == o.Target.ID.UID }) {
		return foreignError(u, o, ownersText(u))
	}
	if made := u.GetAnnotations()[clonedFromAnnotations[o.Step.Remedy].name]; made != templateName {
		return foreignError(u, o, madeFromText(made))
	}
	return checkSignature(u, o)
}

// nodeRequest is what medik8s's operator reads of an object, whatever its name and namespace
// (docs/reference/medik8s.md#remediation-objects): the node to remediate, and the template. An object that does not
// name a template, and has the name of the node, may be of any template.
type nodeRequest struct {
	node, template string
	unnamed        bool
	// check is the name of the health check that has created it, or empty.
	check string
}

// nodeRequestOf reads a node request. It is zero for a part of a machine.
func nodeRequestOf(u *unstructured.Unstructured) nodeRequest {
	if partOfMachine(u) {
		return nodeRequest{}
	}
	policy, _ := requestingCheck(u)
	template, found := u.GetAnnotations()[v1alpha1.TemplateNameAnnotation]
	node := nodeOf(u)
	return nodeRequest{node: node, template: template, unnamed: !found && u.GetName() == node, check: policy.Name}
}

// matches reports whether the object is a request for a node by a template.
func (p *nodeRequest) matches(node, template string) bool {
	return p.node == node && (p.unnamed || p.template == template)
}

// foreignError says that an object stands in the way of a request, and what a user can do.
func foreignError(u *unstructured.Unstructured, o core.RemedyCall, reason string) error {
	if u.GetDeletionTimestamp() != nil {
		advice := "it is being deleted; wait until it is gone"
		if len(u.GetFinalizers()) > 0 {
			advice = "it is being deleted, and these finalizers keep it: " + finalizersOf(u) + "; see whether its remediator runs"
		}
		return fmt.Errorf("%s exists already and %s, so nothing is done for %s; %s", idOf(u), reason, o.Target.ID, advice)
	}
	return fmt.Errorf("%s exists already and %s, so nothing is done for %s; wait until its author withdraws it, or delete it",
		idOf(u), reason, o.Target.ID)
}

func madeFromText(template string) string {
	if template == "" {
		return "does not say which template it was made from"
	}
	return "was made from template " + template
}

func ownersText(u *unstructured.Unstructured) string {
	text := ""
	for _, r := range u.GetOwnerReferences() {
		if text != "" {
			text += ", "
		}
		text += r.Kind + " " + r.Name
	}
	if text == "" {
		return "has no owner"
	}
	return "belongs to " + text
}

func idOf(u *unstructured.Unstructured) core.ID {
	return core.ID{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
}
