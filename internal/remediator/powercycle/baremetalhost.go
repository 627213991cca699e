package powercycle

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
)

// bareMetalHostOf returns the host behind the BareMetalHost that a BMC names.
func (c *Client) bareMetalHostOf(bmc *v1alpha1.BMC) *baremetalhost.Host {
	return c.bareMetalHost(bmc.Spec.BareMetalHost.Namespace, bmc.Spec.BareMetalHost.Name)
}

func (c *Client) bareMetalHost(namespace, name string) *baremetalhost.Host {
	return baremetalhost.New(baremetalhost.Config{Key: types.NamespacedName{Namespace: namespace, Name: name}, Live: c.Live, Writer: c.Writer, Now: c.Now})
}

// fencingBMC names the BMC of a reconcile, as its status does.
func (rec *reconciliation) fencingBMC() v1alpha1.FencingBMC {
	if rec.bmc == nil {
		return v1alpha1.FencingBMC{}
	}
	used := v1alpha1.FencingBMC{Name: rec.bmc.Name, UID: string(rec.bmc.UID), Generation: rec.bmc.Generation, HostUID: string(rec.metal.UID), HostConsumer: rec.metal.Consumer}
	if named := rec.bmc.Spec.BareMetalHost; named != nil {
		used.HostNamespace, used.HostName = named.Namespace, named.Name
	}
	return used
}

// pin finds out which BareMetalHost the BMC of a reconcile means. Once a remediation has begun with a BMC as it is now, only the recorded
// BareMetalHost with the recorded consumer counts. Another one of its name is left alone (I11).
func (c *Client) pin(ctx context.Context, rec *reconciliation) problem {
	if rec.bmc == nil || rec.bmc.Spec.BareMetalHost == nil {
		return problem{}
	}
	if recorded := rec.r.Status.BMC; recorded != nil && recorded.HostUID != "" {
		rec.metal = baremetalhost.Identity{UID: types.UID(recorded.HostUID), Consumer: recorded.HostConsumer}
		if *recorded == rec.fencingBMC() {
			return problem{}
		}
		rec.metal = baremetalhost.Identity{}
	}
	h, found := c.hosts.open(ctx, rec.bmc)
	if found.found() {
		return found
	}
	metal, failure := h.metal.Find(ctx)
	if !failure.Failed() && rec.r.Status.Phase == "" {
		failure = metal.Never
	}
	rec.metal = metal.Identity
	return ofBareMetalHost(rec.bmc, failure)
}

// refuseOrWait refuses a remediation whose BareMetalHost does not exist or is unsuitable, or has it wait until that can be read.
func (c *Client) refuseOrWait(ctx context.Context, rec *reconciliation, found problem) error {
	switch found.reason {
	case string(baremetalhost.NotFound):
		found.reason = v1alpha1.CannotStartNoBareMetalHostReason
	case string(baremetalhost.Unsuitable):
		found.reason = v1alpha1.CannotStartUnsuitableBareMetalHostReason
	default:
		return c.reportWaiting(ctx, rec, found)
	}
	return c.refuse(ctx, rec.r, found)
}

// ofBareMetalHost returns the problem of a failed operation.
func ofBareMetalHost(bmc *v1alpha1.BMC, f baremetalhost.Failure) problem {
	if !f.Failed() {
		return problem{}
	}
	return problem{reason: string(f.Reason), message: "BMC " + bmc.Name + ": " + f.Message, interrupted: f.Interrupted}
}

// tryBareMetalHost reads or commands the power through the BareMetalHost of a reconcile.
func (c *Client) tryBareMetalHost(ctx context.Context, rec *reconciliation, kind fencing.StepKind) problem {
	if rec.unnamed {
		return c.tryMetal(ctx, rec, c.unnamedHostOf(rec), kind, func(problem, v1alpha1.HostPower) {})
	}
	h, found := c.hosts.open(ctx, rec.bmc)
	if found.found() {
		return found
	}
	return c.tryMetal(ctx, rec, h.metal, kind, func(found problem, state v1alpha1.HostPower) {
		c.noteOperation(rec.bmc, h, found, func(seen *observation) {
			if state != "" {
				seen.power = state
			}
		})
	})
}

// tryMetal reads or commands the power of a BareMetalHost, and has a function note what was found. The state is empty where none was read.
func (c *Client) tryMetal(ctx context.Context, rec *reconciliation, metal *baremetalhost.Host, kind fencing.StepKind, note func(problem, v1alpha1.HostPower)) problem {
	var failure baremetalhost.Failure
	var state v1alpha1.HostPower
	power := rec.s.power
	switch kind { //nolint:exhaustive // the others don't concern the power
	case fencing.CommandOff:
		at, failed := metal.Off(ctx, rec.metal)
		power, failure = power.CommandedOff(at), failed
	case fencing.CommandOn:
		at, failed := metal.On(ctx, rec.metal)
		power, failure = power.CommandedOn(at), failed
	case fencing.LeaveHost:
		failure = metal.Leave(ctx, rec.metal)
		power.Left = true
	default:
		reading, failed := metal.Read(ctx, rec.metal)
		power, failure = power.Observe(reading.Reading), failed
		if reading.Unproven.Failed() {
			power = fencing.Power{Last: reading.Reading} // no later read proves anything, so the command is repeated
		}
		state = hostPower(reading.State)
	}
	found := ofBareMetalHost(rec.bmc, failure)
	note(found, state)
	if !found.found() {
		rec.s.power = power
	}
	return found
}

// mostMetal3Retry is the longest pause after a failure that a BareMetalHost explains. The BareMetalHost is read from the API server,
// and may be as it should be at any moment.
const mostMetal3Retry = 5 * time.Second

// mostRetry returns the longest pause after a failed operation of the power.
func (rec *reconciliation) mostRetry() time.Duration {
	if rec.bmc != nil && rec.bmc.Spec.BareMetalHost != nil {
		return mostMetal3Retry
	}
	return mostRetry
}

// probeBareMetalHost reads the power for the status of a BMC.
func (c *Client) probeBareMetalHost(ctx context.Context, bmc *v1alpha1.BMC) {
	h, found := c.hosts.open(ctx, bmc)
	if found.found() {
		return
	}
	state, failure := h.metal.Probe(ctx)
	c.noteOperation(bmc, h, ofBareMetalHost(bmc, failure), func(seen *observation) { seen.power = hostPower(state) })
}

// metalNote says how Metal3 comes into a wait, to append to a message.
func (rec *reconciliation) metalNote(why fencing.Reason) string {
	if rec.bmc == nil || rec.bmc.Spec.BareMetalHost == nil {
		return ""
	}
	named := rec.bmc.Spec.BareMetalHost
	switch why { //nolint:exhaustive // the others don't concern the power
	case fencing.PowerNotOff:
		return "; annotation " + annotation.RebootBareMetalHost + " of BareMetalHost " + named.Namespace + "/" + named.Name +
			" requests that Metal3 powers it off, and Metal3 still reports it as on"
	case fencing.PowerNotOn:
		return "; Metal3 reports BareMetalHost " + named.Namespace + "/" + named.Name + " as off, and powers it on"
	}
	return ""
}

// byMetal3 says how a host is powered on that Metal3 powers, to append to a message.
func byMetal3(s *v1alpha1.PowerRemediationStatus) string {
	if s.BMC == nil || s.BMC.HostUID == "" {
		return ""
	}
	return ", by removing annotation " + annotation.RebootBareMetalHost + " from its BareMetalHost"
}
