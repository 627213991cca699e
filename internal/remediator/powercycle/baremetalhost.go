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

// fencingBMC names the BMC of a look, as its status does.
func (l *look) fencingBMC() v1alpha1.FencingBMC {
	if l.bmc == nil {
		return v1alpha1.FencingBMC{}
	}
	used := v1alpha1.FencingBMC{Name: l.bmc.Name, UID: string(l.bmc.UID), Generation: l.bmc.Generation, HostUID: string(l.metal.UID), HostConsumer: l.metal.Consumer}
	if named := l.bmc.Spec.BareMetalHost; named != nil {
		used.HostNamespace, used.HostName = named.Namespace, named.Name
	}
	return used
}

// pin finds out which BareMetalHost the BMC of a look means. Once a remediation has begun with a BMC as it is now, it is the recorded
// BareMetalHost with the recorded consumer, and another one of its name is left alone (I11).
func (c *Client) pin(ctx context.Context, l *look) problem {
	if l.bmc == nil || l.bmc.Spec.BareMetalHost == nil {
		return problem{}
	}
	if recorded := l.r.Status.BMC; recorded != nil && recorded.HostUID != "" {
		l.metal = baremetalhost.Identity{UID: types.UID(recorded.HostUID), Consumer: recorded.HostConsumer}
		if *recorded == l.fencingBMC() {
			return problem{}
		}
		l.metal = baremetalhost.Identity{}
	}
	h, found := c.hosts.open(ctx, l.bmc)
	if found.found() {
		return found
	}
	metal, failure := h.metal.Find(ctx)
	if !failure.Failed() && l.r.Status.Phase == "" {
		failure = metal.Never
	}
	l.metal = metal.Identity
	return ofBareMetalHost(l.bmc, failure)
}

// refuseOrWait refuses a remediation whose BareMetalHost does not exist or is unsuitable, or has it wait until that can be read.
func (c *Client) refuseOrWait(ctx context.Context, l *look, found problem) error {
	switch found.reason {
	case string(baremetalhost.NotFound):
		found.reason = v1alpha1.CannotStartNoBareMetalHostReason
	case string(baremetalhost.Unsuitable):
		found.reason = v1alpha1.CannotStartUnsuitableBareMetalHostReason
	default:
		return c.standBy(ctx, l, found)
	}
	return c.refuse(ctx, l.r, found)
}

// ofBareMetalHost returns the problem of a failed operation.
func ofBareMetalHost(bmc *v1alpha1.BMC, f baremetalhost.Failure) problem {
	if !f.Failed() {
		return problem{}
	}
	return problem{reason: string(f.Reason), message: "BMC " + bmc.Name + ": " + f.Message, interrupted: f.Interrupted}
}

// tryBareMetalHost reads or commands the power through the BareMetalHost of a look.
func (c *Client) tryBareMetalHost(ctx context.Context, l *look, kind fencing.StepKind) problem {
	if l.unnamed {
		return c.tryMetal(ctx, l, c.unnamedHostOf(l), kind, func(problem, v1alpha1.HostPower) {})
	}
	h, found := c.hosts.open(ctx, l.bmc)
	if found.found() {
		return found
	}
	return c.tryMetal(ctx, l, h.metal, kind, func(found problem, state v1alpha1.HostPower) {
		c.noteOperation(l.bmc, h, found, func(seen *observation) {
			if state != "" {
				seen.power = state
			}
		})
	})
}

// tryMetal reads or commands the power of a BareMetalHost, and has a function note what was found. The state is empty where none was read.
func (c *Client) tryMetal(ctx context.Context, l *look, metal *baremetalhost.Host, kind fencing.StepKind, note func(problem, v1alpha1.HostPower)) problem {
	var failure baremetalhost.Failure
	var state v1alpha1.HostPower
	power := l.s.power
	switch kind { //nolint:exhaustive // the others don't concern the power
	case fencing.CommandOff:
		at, failed := metal.Off(ctx, l.metal)
		power, failure = power.CommandedOff(at), failed
	case fencing.CommandOn:
		at, failed := metal.On(ctx, l.metal)
		power, failure = power.CommandedOn(at), failed
	case fencing.LeaveHost:
		failure = metal.Leave(ctx, l.metal)
		power.Left = true
	default:
		reading, failed := metal.Read(ctx, l.metal)
		power, failure = power.Observe(reading.Reading), failed
		if reading.Unproven.Failed() {
			power = fencing.Power{Last: reading.Reading} // no later read proves anything, so the command is repeated
		}
		state = hostPower(reading.State)
	}
	found := ofBareMetalHost(l.bmc, failure)
	note(found, state)
	if !found.found() {
		l.s.power = power
	}
	return found
}

// mostMetal3Retry is the longest pause after a failure that a BareMetalHost explains: it is read from the API server, and may be as it
// should be at any moment.
const mostMetal3Retry = 5 * time.Second

// mostRetry returns the longest pause after a failed operation of the power.
func (l *look) mostRetry() time.Duration {
	if l.bmc != nil && l.bmc.Spec.BareMetalHost != nil {
		return mostMetal3Retry
	}
	return mostRetry
}

// lookAtBareMetalHost reads the power for the status of a BMC.
func (c *Client) lookAtBareMetalHost(ctx context.Context, bmc *v1alpha1.BMC) {
	h, found := c.hosts.open(ctx, bmc)
	if found.found() {
		return
	}
	state, failure := h.metal.Look(ctx)
	c.noteOperation(bmc, h, ofBareMetalHost(bmc, failure), func(seen *observation) { seen.power = hostPower(state) })
}

// metalNote says how Metal3 comes into a wait, to append to a message.
func (l *look) metalNote(why fencing.Reason) string {
	if l.bmc == nil || l.bmc.Spec.BareMetalHost == nil {
		return ""
	}
	named := l.bmc.Spec.BareMetalHost
	switch why { //nolint:exhaustive // the others don't concern the power
	case fencing.PowerNotOff:
		return "; annotation " + annotation.RebootBareMetalHost + " of BareMetalHost " + named.Namespace + "/" + named.Name +
			" asks Metal3 to power it off, and Metal3 still reports it as on"
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
