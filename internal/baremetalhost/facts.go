package baremetalhost

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/fencing"
)

// Kind is the kind of Metal3 that represents a host.
var Kind = schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: "BareMetalHost"} //nolint:gochecknoglobals // a constant

// Annotations of Metal3 (docs/reference/metal3.md#power).
const (
	pausedAnnotation   = "baremetalhost.metal3.io/paused"
	detachedAnnotation = "baremetalhost.metal3.io/detached"
	// heldPrefix begins the annotations that keep a host off until they are removed. An annotation without the slash reboots it once.
	heldPrefix = "reboot.metal3.io/"
	// hard is the value of Fettle's annotation. The operator powers the host off without asking the operating system.
	hard = `{"mode":"hard"}`
)

// Values of the status.
const (
	operationalOK     = "OK"
	operationalDetach = "detached"
	// manageableCondition is the type of a condition.
	manageableCondition = "Manageable"
	stateProvisioned    = "provisioned"
	stateExternally     = "externally provisioned"
	maxShown            = 64
	maxConsumer         = 512 // as in the definition of PowerRemediation
)

// Reason is why the power can't be read or commanded, or is not believed. It is empty if nothing is wrong.
type Reason string

// Reasons.
const (
	// NotFound means that there is no such BareMetalHost, or that the cluster has no such kind.
	NotFound Reason = "BareMetalHostNotFound"
	// NotRead means that it could not be read, and NotChanged that the change of its annotation was refused.
	NotRead    Reason = "BareMetalHostNotRead"
	NotChanged Reason = "BareMetalHostNotChanged"
	// Replaced means that another BareMetalHost has the name of the recorded one.
	Replaced Reason = "BareMetalHostReplaced"
	// Paused and Detached mean that Metal3 leaves the host alone.
	Paused   Reason = "BareMetalHostPaused"
	Detached Reason = "BareMetalHostDetached"
	// InError means that Metal3 reports an error or another state than OK.
	InError Reason = "BareMetalHostInError"
	// Unsuitable means that Metal3 doesn't power this host off by an annotation.
	Unsuitable Reason = "BareMetalHostUnsuitable"
	// Taken means that the host has another consumer than when the remediation began.
	Taken Reason = "BareMetalHostTaken"
	// OffBefore means that the host is reported as off, and that this may be older than the command.
	OffBefore Reason = "BareMetalHostOffBefore"
	// KeptOff means that others keep the host off.
	KeptOff Reason = "BareMetalHostKeptOff"
)

// Failure is why an operation failed. Its zero value means that it didn't.
type Failure struct {
	Reason Reason
	// Message says what was found and what a user can do.
	Message string
	// Interrupted is set if the caller has given up.
	Interrupted bool
}

// Identity is which host a BareMetalHost is, and for whom.
type Identity struct {
	UID types.UID
	// Consumer names what spec.consumerRef refers to, and is empty if there is none. Only comparisons rely on it.
	Consumer string
}

// Found is a BareMetalHost that was found.
type Found struct {
	Identity

	// Never says why Metal3 doesn't power the host off by an annotation, where that doesn't pass by itself.
	Never Failure
}

// Failed reports whether the operation failed.
func (f Failure) Failed() bool { return f.Reason != "" }

// facts is what is read of a BareMetalHost. A field with another type than expected is absent.
type facts struct {
	Identity

	deleting, paused, detached bool
	// operational and errorType are as in the status, and state is that of the provisioning.
	operational, errorType, state string
	// unmanageable is why the operator can't speak to the BMC of the host, in a word, and empty if it can.
	unmanageable            string
	disablePowerOff, online bool
	power                   fencing.PowerState
	// annotated is set if Fettle's own annotation is there, and commanded if it has the value that Fettle writes.
	annotated, commanded bool
	// holders are the annotations of others that keep the host off.
	holders []string
}

// read returns what is read of a BareMetalHost.
func read(u *unstructured.Unstructured) facts {
	annotations := u.GetAnnotations()
	f := facts{Identity: Identity{UID: u.GetUID(), Consumer: consumerOf(u)}, deleting: u.GetDeletionTimestamp() != nil}
	_, f.paused = annotations[pausedAnnotation]
	_, f.detached = annotations[detachedAnnotation]
	own, annotated := annotations[annotation.RebootBareMetalHost]
	f.annotated, f.commanded = annotated, own == hard
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, heldPrefix) && key != annotation.RebootBareMetalHost {
			f.holders = append(f.holders, key)
		}
	}
	f.operational = text(u, "status", "operationalStatus")
	f.errorType = text(u, "status", "errorType")
	f.state = text(u, "status", "provisioning", "state")
	f.unmanageable = unmanageable(u)
	f.disablePowerOff, _ = flag(u, "spec", "disablePowerOff")
	f.online, _ = flag(u, "spec", "online")
	switch on, known := flag(u, "status", "poweredOn"); {
	case on:
		f.power = fencing.IsOn
	case known:
		f.power = fencing.IsOff
	}
	return f
}

// consumerOf names the consumer of a BareMetalHost, without the version of its kind. A long name is a hash.
func consumerOf(u *unstructured.Unstructured) string {
	part := func(field string) string {
		value, _, _ := unstructured.NestedString(u.Object, "spec", "consumerRef", field) // empty where it is no text
		return value
	}
	kind := schema.FromAPIVersionAndKind(part("apiVersion"), part("kind")).GroupKind()
	name := types.NamespacedName{Namespace: part("namespace"), Name: part("name")}
	uid := part("uid")
	if kind.Empty() && name.Namespace == "" && name.Name == "" && uid == "" {
		return ""
	}
	full := strings.TrimSuffix(kind.String()+" "+name.String()+" "+uid, " ")
	if len(full) > maxConsumer {
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(full)))
	}
	return full
}

// unmanageable returns the reason of a condition that is False while the operator can't speak to the BMC of a host. The operator keeps the
// power then as it has reported it last. Older operators have no such condition.
func unmanageable(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions") // none where it is no list
	for _, item := range conditions {
		c, is := item.(map[string]any)
		if !is || c["type"] != manageableCondition || c["status"] != "False" {
			continue
		}
		if reason := text(&unstructured.Unstructured{Object: c}, "reason"); reason != "" {
			return reason
		}
		return "no reason"
	}
	return ""
}

func text(u *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(u.Object, path...) // empty where it is no text
	return value[:min(len(value), maxShown)]
}

func flag(u *unstructured.Unstructured, path ...string) (value, known bool) {
	value, known, _ = unstructured.NestedBool(u.Object, path...) // not known where it is no truth value
	return value, known
}

// Judge returns the power that a BareMetalHost reports, or why Fettle can't use it.
func Judge(u *unstructured.Unstructured) (fencing.PowerState, Failure) {
	f := read(u)
	return f.power, f.unusable()
}

// unusable returns why Metal3 doesn't power the host as Fettle requests, or reports a power that proves nothing.
func (f facts) unusable() Failure {
	switch {
	case f.deleting:
		return f.unsuitable()
	case f.paused:
		return Failure{Reason: Paused, Message: "annotation " + pausedAnnotation + " has Metal3 leave it alone; remove the annotation"}
	case f.detached, f.operational == operationalDetach:
		return Failure{Reason: Detached, Message: "annotation " + detachedAnnotation + " has Metal3 leave it alone; remove the annotation"}
	case f.errorType != "":
		return Failure{Reason: InError, Message: fmt.Sprintf("Metal3 reports the error %q (status.errorType); its status.errorMessage says more", f.errorType)}
	case f.operational != operationalOK:
		return Failure{Reason: InError, Message: fmt.Sprintf("status.operationalStatus is %q and must be %s; kubectl describe says more of it", f.operational, operationalOK)}
	case f.unmanageable != "":
		return Failure{Reason: InError, Message: fmt.Sprintf("its condition %s is False (%q), so Metal3 can't read its power; kubectl describe says more of it", manageableCondition, f.unmanageable)}
	case f.unsuitable().Failed():
		return f.unsuitable()
	case f.state == "", f.power == fencing.PowerUnknown:
		return Failure{Reason: Unsuitable, Message: "it has no status.provisioning.state, or no status.poweredOn; see whether Metal3's operator runs"}
	}
	return Failure{}
}

// unsuitable returns why Metal3 doesn't power the host off by an annotation, whatever else is reported of it.
func (f facts) unsuitable() Failure {
	switch {
	case f.deleting:
		return Failure{Reason: Unsuitable, Message: "it is being deleted; correct spec.bareMetalHost of the BMC, or give it an address"}
	case f.disablePowerOff:
		return Failure{Reason: Unsuitable, Message: "spec.disablePowerOff has Metal3 never power it off; give the BMC an address in place of bareMetalHost"}
	case f.state != "" && f.state != stateProvisioned && f.state != stateExternally:
		return Failure{Reason: Unsuitable, Message: fmt.Sprintf("status.provisioning.state is %q, and Metal3 powers a host off by an annotation only if it is %q or %q; "+
			"correct spec.bareMetalHost of the BMC, or give it an address", f.state, stateProvisioned, stateExternally)}
	}
	return Failure{}
}

// keptOff returns what keeps the host off besides Fettle, or nothing.
func (f facts) keptOff() string {
	switch {
	case len(f.holders) > 0:
		return "annotation " + f.holders[0] + " of others keeps it off"
	case !f.online:
		return "spec.online is not true, so Metal3 keeps it off"
	}
	return ""
}
