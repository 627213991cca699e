package cli

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/internal/specparse"
)

// The limits of the definitions.
const (
	mostRetries                     = 10
	shortestTimeout, longestTimeout = 15 * time.Second, 24 * time.Hour
	mostDomain                      = 63
)

// powerTemplateSpec is the field of a template that has the spec of its remediations.
const powerTemplateSpec = "spec.template.spec"

var systemPattern = regexp.MustCompile(`^[A-Za-z0-9_~:-][A-Za-z0-9._~:-]*$`)

// reviewPower reviews a document of a kind for bare metal by itself. It reports false for other kinds.
func (s *session) reviewPower(d *draft) bool {
	kind := d.object.GroupVersionKind()
	if kind.Group != v1alpha1.GroupVersion.Group {
		return false
	}
	var remarks []Remark
	switch kind.Kind {
	case bmcKind:
		d.bmc, remarks = reviewBMC(d.object)
	case powerTemplateKind:
		remarks = reviewPowerTemplate(d.object)
	case powerKind:
		remarks = reviewPowerRemediation(d.object)
	default:
		return false
	}
	d.isPower = true
	for _, r := range append(reviewOwnIdentity(d.object), remarks...) {
		d.note(r)
	}
	s.reviewNamespace(d)
	return true
}

// reviewNamespace notes a BMC that the controller ignores, for its namespace. A BMC without one is applied to a
// namespace that the file does not say.
func (s *session) reviewNamespace(d *draft) {
	if home := s.connection.bmcs; d.bmc != nil && d.Namespace != "" && d.Namespace != home {
		d.note(specparse.Fault("metadata.namespace", "is %s, and Fettle reads the BMCs of namespace %s alone, so it ignores this one; "+
			"move it and its Secret there, or give --bmc-namespace if the controller reads another", d.Namespace, home))
	}
}

func reviewOwnIdentity(u *unstructured.Unstructured) []Remark {
	var remarks []Remark
	if version := v1alpha1.GroupVersion; u.GroupVersionKind().Version != version.Version {
		remarks = append(remarks, specparse.Fault("apiVersion", "is %q; give %s", u.GetAPIVersion(), version))
	}
	if name, _, err := unstructured.NestedString(u.Object, "metadata", "name"); name == "" && err == nil {
		remarks = append(remarks, specparse.Fault("metadata.name", "is missing; give the %s a name", u.GetKind()))
	}
	return remarks
}

// withoutStatus returns a copy of an object that has no status. The API server ignores the status of a file.
func withoutStatus(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	delete(u.Object, "status")
	return u
}

// reviewBMC returns a BMC as far as it can be read. No remark quotes its address, which may contain a password.
func reviewBMC(u *unstructured.Unstructured) (*v1alpha1.BMC, []Remark) {
	b, remarks := specparse.ReadLeniently[v1alpha1.BMC](withoutStatus(u))
	spec, complete := &b.Spec, len(remarks) == 0 // a field that could not be read would look like a missing one
	note := func(field, format string, args ...any) {
		remarks = append(remarks, specparse.Fault(field, format, args...))
	}
	switch {
	case spec.NodeName == "" && complete:
		note("spec.nodeName", "is missing; give the name of the node on this host")
	case spec.NodeName != "" && len(validation.IsDNS1123Subdomain(spec.NodeName)) > 0:
		note("spec.nodeName", "is %q, which no node can be called; give the name as kubectl get nodes lists it", spec.NodeName)
	}
	if len(spec.Domain) > mostDomain {
		note("spec.domain", "is longer than %d bytes; give a shorter name", mostDomain)
	}
	if c := spec.SystemUUIDCheck; c != "" && c != v1alpha1.SystemUUIDCheckEnabled && c != v1alpha1.SystemUUIDCheckDisabled {
		note("spec.systemUUIDCheck", "is neither %s nor %s", v1alpha1.SystemUUIDCheckEnabled, v1alpha1.SystemUUIDCheckDisabled)
	}
	if complete {
		remarks = append(remarks, reviewCluster(spec.Cluster)...)
	}
	if spec.BareMetalHost != nil {
		return b, append(remarks, reviewBareMetalHost(spec, complete)...)
	}
	return b, append(remarks, reviewAccess(spec, complete)...)
}

// reviewAccess returns the remarks about how a BMC with an address is reached.
func reviewAccess(spec *v1alpha1.BMCSpec, complete bool) (remarks []Remark) {
	note := func(field, format string, args ...any) {
		remarks = append(remarks, specparse.Fault(field, format, args...))
	}
	switch {
	case spec.CredentialsName == "" && complete:
		note("spec.credentialsName", "is missing; give the name of a Secret with the keys %s and %s, in the namespace of the BMC", v1alpha1.UsernameKey, v1alpha1.PasswordKey)
	case spec.CredentialsName != "" && len(validation.IsDNS1123Subdomain(spec.CredentialsName)) > 0:
		note("spec.credentialsName", "is no name of a Secret; give the name of one with the keys %s and %s", v1alpha1.UsernameKey, v1alpha1.PasswordKey)
	}
	if spec.Address == "" && complete {
		note("spec.address", "is missing; give redfish://HOST/redfish/v1/Systems/ID or ipmi://HOST:PORT, or spec.bareMetalHost in its place")
	}
	if spec.Address != "" {
		remarks = append(remarks, reviewAddress(spec)...)
	}
	if _, field, err := trustOf(spec.TLS); err != nil {
		note(field, "can't be used: %v", err)
	}
	return remarks
}

// reviewCluster returns the remarks about the Cluster of a BMC, which may be nil.
func reviewCluster(of *v1alpha1.BMCCluster) []Remark {
	if of == nil {
		return nil
	}
	var remarks []Remark
	for _, f := range [...]struct{ field, name string }{{"namespace", of.Namespace}, {"name", of.Name}} {
		if len(validation.IsDNS1123Subdomain(f.name)) > 0 {
			remarks = append(remarks, specparse.Fault("spec.cluster."+f.field, "is %q; give the namespace and the name of a Cluster of Cluster API, or leave spec.cluster out for a node of the cluster that Fettle runs in", f.name))
		}
	}
	return remarks
}

// reviewAddress returns the remarks about the address of a BMC, and about what must fit to it.
func reviewAddress(spec *v1alpha1.BMCSpec) []Remark {
	if spec.System != "" && !systemPattern.MatchString(spec.System) {
		return []Remark{specparse.Fault("spec.system", "is no ID of a system; give its ID alone, of letters, digits and the characters . _ ~ : -")}
	}
	address, field, err := addressOf(spec)
	if err != nil {
		return []Remark{specparse.Fault(field, "can't be used: %v", err)}
	}
	var remarks []Remark
	if scheme, _, _ := strings.Cut(spec.Address, "://"); scheme != strings.ToLower(scheme) {
		remarks = append(remarks, specparse.Fault("spec.address", "has a scheme with capital letters; write it in small ones"))
	}
	if spec.TLS != nil && (address.Plain || address.Protocol == power.IPMI) {
		remarks = append(remarks, specparse.Fault("spec.tls", "is for Redfish over TLS; leave it out for ipmi:// and +http://"))
	}
	if address.Plain {
		remarks = append(remarks, specparse.Warning("spec.address", "the address is of Redfish without TLS, so the password crosses the network in the clear; leave +http out where the BMC has TLS"))
	}
	return remarks
}

func reviewPowerTemplate(u *unstructured.Unstructured) []Remark {
	u = u.DeepCopy()
	remarks := reviewTimeouts(u, "spec", "template", "spec")
	template, wrong := specparse.ReadLeniently[v1alpha1.PowerRemediationTemplate](u)
	remarks = append(remarks, wrong...)
	if _, has, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec"); !has && len(wrong) == 0 {
		return append(remarks, specparse.Fault(powerTemplateSpec, "is missing; give the spec of a %s, or {} for its defaults", powerKind))
	}
	return append(remarks, reviewPowerSpec(powerTemplateSpec, &template.Spec.Template.Spec)...)
}

func reviewPowerRemediation(u *unstructured.Unstructured) []Remark {
	u = withoutStatus(u)
	remarks := reviewTimeouts(u, "spec")
	request, wrong := specparse.ReadLeniently[v1alpha1.PowerRemediation](u)
	remarks = append(append(remarks, wrong...), reviewPowerSpec("spec", &request.Spec)...)
	return append(remarks, specparse.Warning("kind", "health checkers create %ss; once this one is applied, Fettle powers the host of node %s off, whatever its health is",
		powerKind, u.GetName()))
}

// reviewTimeouts returns the faults of the timeouts, and removes those from the object. Their decoder's error names no
// field.
func reviewTimeouts(u *unstructured.Unstructured, path ...string) []Remark {
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...) // nil where there is none
	spec, _ := value.(map[string]any)
	var remarks []Remark
	for _, name := range [...]string{"powerOffTimeout", "fenceTimeout", "releaseTimeout", "powerOnTimeout", "bootTimeout", "machineDeletionTimeout"} {
		field, given := strings.Join(path, ".")+"."+name, spec[name]
		if given == nil {
			continue
		}
		if fault := faultyTimeout(given); fault != "" {
			remarks = append(remarks, specparse.Fault(field, "%s", fault))
			delete(spec, name)
		}
	}
	return remarks
}

// faultyTimeout says what is wrong with a timeout, or returns nothing.
func faultyTimeout(given any) string {
	text, isText := given.(string)
	if !isText {
		return "is of the wrong type; give a duration such as 2m"
	}
	timeout, err := specparse.Duration(text)
	switch {
	case text == "":
		return "is empty; give a duration such as 2m, or leave it out"
	case err != nil:
		return err.Error()
	case timeout < shortestTimeout || timeout > longestTimeout:
		return "is " + text + "; give a duration from 15s to 24h"
	}
	return ""
}

// reviewPowerSpec returns the remarks about how a node is fenced. The field is that of the spec.
func reviewPowerSpec(field string, spec *v1alpha1.PowerRemediationSpec) []Remark {
	var remarks []Remark
	choice := func(name, given string, known ...string) {
		if given != "" && !slices.Contains(known, given) {
			remarks = append(remarks, specparse.Fault(field+"."+name, "is %q; give %s", given, strings.Join(known, " or ")))
		}
	}
	choice("strategy", string(spec.Strategy), string(v1alpha1.RebootStrategy), string(v1alpha1.OffStrategy))
	choice("release", string(spec.Release), string(v1alpha1.TaintRelease), string(v1alpha1.DeleteNodeRelease))
	choice("onFailure", string(spec.OnFailure), string(v1alpha1.HoldAction), string(v1alpha1.DeleteMachineAction))
	if r := spec.Retries; r != nil && (*r < 0 || *r > mostRetries) {
		remarks = append(remarks, specparse.Fault(field+".retries", "is %d; give a number from 0 to %d", *r, mostRetries))
	}
	if spec.MachineDeletionTimeout != nil && spec.OnFailure != v1alpha1.DeleteMachineAction {
		remarks = append(remarks, specparse.Warning(field+".machineDeletionTimeout", "%s.machineDeletionTimeout means nothing without onFailure: DeleteMachine", field))
	}
	if spec.Strategy != v1alpha1.OffStrategy {
		return remarks
	}
	if spec.PowerOnTimeout != nil {
		remarks = append(remarks, specparse.Warning(field+".powerOnTimeout", "%s.powerOnTimeout means nothing with strategy PowerOff, which leaves the host off", field))
	}
	if spec.BootTimeout != nil {
		remarks = append(remarks, specparse.Warning(field+".bootTimeout", "%s.bootTimeout means nothing with strategy PowerOff, which leaves the host off", field))
	}
	return remarks
}
