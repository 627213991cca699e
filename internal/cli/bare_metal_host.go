package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/specparse"
)

const bareMetalHostField = "spec.bareMetalHost"

// reviewBareMetalHost returns the remarks about a BMC that names a BareMetalHost.
func reviewBareMetalHost(spec *v1alpha1.BMCSpec, complete bool) []Remark {
	var remarks []Remark
	for _, other := range [...]struct {
		field string
		given bool
	}{
		{"spec.address", spec.Address != ""}, {"spec.credentialsName", spec.CredentialsName != ""},
		{"spec.system", spec.System != ""}, {"spec.tls", spec.TLS != nil},
	} {
		if other.given {
			remarks = append(remarks, specparse.Fault(other.field, "is for a BMC with an address, and Metal3 speaks to the BMC of %s; give one of both", bareMetalHostField))
		}
	}
	named := spec.BareMetalHost
	if complete && len(validation.IsDNS1123Label(named.Namespace)) > 0 {
		remarks = append(remarks, specparse.Fault(bareMetalHostField+".namespace", "is %q, which is no namespace; give that of the BareMetalHost", named.Namespace))
	}
	if complete && len(validation.IsDNS1123Subdomain(named.Name)) > 0 {
		remarks = append(remarks, specparse.Fault(bareMetalHostField+".name", "is %q, which is no name of a BareMetalHost; give it as kubectl get baremetalhosts lists it", named.Name))
	}
	return remarks
}

// readBareMetalHost reads the BareMetalHost that a BMC names, with the user's own rights. It returns nil if there is none, and
// why that is not known.
func (s *session) readBareMetalHost(ctx context.Context, b *v1alpha1.BMC) (u *unstructured.Unstructured, unread string) {
	at := types.NamespacedName{Namespace: b.Spec.BareMetalHost.Namespace, Name: b.Spec.BareMetalHost.Name}
	u = &unstructured.Unstructured{}
	u.SetGroupVersionKind(baremetalhost.Kind)
	switch err := s.cluster.Get(ctx, at, u); {
	case apierrors.IsNotFound(err), isUnserved(err):
		return nil, ""
	case apierrors.IsForbidden(err):
		return nil, "you may not get BareMetalHost " + at.String()
	case err != nil:
		return nil, fmt.Sprintf("BareMetalHost %s could not be read (%s)", at, failureText(err))
	}
	return u, ""
}

// checkBareMetalHost notes a BareMetalHost that does not exist, or that Metal3 would not power off as it is.
func (s *session) checkBareMetalHost(ctx context.Context, d *draft) {
	named := d.bmc.Spec.BareMetalHost
	u, unread := s.readBareMetalHost(ctx, d.bmc)
	switch {
	case unread != "":
		d.Unchecked = append(d.Unchecked, "the BareMetalHost that it names, since "+unread)
		return
	case u == nil:
		d.note(Remark{Field: bareMetalHostField, Text: fmt.Sprintf("there is no BareMetalHost %s/%s, so no %s of the node can start; correct the name", named.Namespace, named.Name, powerKind)})
		return
	}
	if _, failure := baremetalhost.Judge(u); failure.Failed() {
		d.note(Remark{Field: bareMetalHostField, Text: fmt.Sprintf("Fettle can't fence the node through BareMetalHost %s/%s as it is: %s", named.Namespace, named.Name, failure.Message)})
	}
}

// checkMetal3 checks a BMC that names a BareMetalHost.
func (s *session) checkMetal3(ctx context.Context, c *BMCCheck, bmcs *bmcReading, b *v1alpha1.BMC) {
	named := b.Spec.BareMetalHost
	where := "BareMetalHost " + named.Namespace + "/" + named.Name
	for _, other := range bmcs.inOrder() {
		if theirs := other.Spec.BareMetalHost; other.Name != b.Name && theirs != nil && *theirs == *named {
			c.add(checkMetal3, fails, "%s is named by BMC %s too, so Fettle uses neither; correct one of them", where, other.Name)
			c.add(checkPower, untested, "it is not known whose host it is")
			return
		}
	}
	u, unread := s.readBareMetalHost(ctx, b)
	switch {
	case unread != "":
		c.add(checkMetal3, unknown, "%s; an administrator can grant it, or run the check", unread)
	case u == nil:
		c.add(checkMetal3, fails, "there is no %s; correct spec.bareMetalHost of the BMC", where)
	default:
		state, failure := baremetalhost.Judge(u)
		if !failure.Failed() {
			c.add(checkMetal3, works, "Metal3 powers %s off and on by an annotation", where)
			c.power(state)
			return
		}
		c.add(checkMetal3, fails, "%s: %s", where, failure.Message)
	}
	c.add(checkPower, untested, "what it needs is missing above")
}
