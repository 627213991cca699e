package powercycle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// probeEvery is how often the power of a host is read while nothing else is done with it. So a BMC that can't be reached is
// known before it is needed.
const probeEvery = 5 * time.Minute

// firstProbe returns how long the first probe of a BMC waits. After a restart the probes are spread.
func firstProbe(bmc *v1alpha1.BMC) time.Duration {
	if known := meta.FindStatusCondition(bmc.Status.Conditions, v1alpha1.ReachableCondition); known == nil || known.ObservedGeneration != bmc.Generation {
		return 0
	}
	return rand.N(probeEvery) //nolint:gosec // it spreads load
}

// probe reads the power of a host if that is due, and writes the status of its BMC if that has changed.
func (c *Client) probe(ctx context.Context, key types.NamespacedName) error {
	bmc := c.bmcs.get(key)
	if bmc == nil {
		c.hosts.drop(ctx, key)
		c.Metrics.forget(key)
		return nil
	}
	seen := c.seenOf(bmc)
	if due := seen.at.Add(probeEvery); !c.Now().Before(due) {
		c.readForStatus(ctx, bmc)
		seen = c.seenOf(bmc)
	}
	c.probes.AddAfter(key, max(seen.at.Add(probeEvery).Sub(c.Now()), time.Second))
	slot := &apiSlot{of: c.apiSlots}
	defer slot.release()
	if !slot.acquire(ctx, false) {
		return fmt.Errorf("waiting for remediations: %w", ctx.Err())
	}
	return c.writeBMC(ctx, bmc, seen)
}

// readForStatus reads the power of a host, unless its BMC can't be used.
func (c *Client) readForStatus(ctx context.Context, bmc *v1alpha1.BMC) {
	var h *host
	_, found := c.bmcs.find(nodeOf(bmc))
	if !found.found() {
		h, found = c.hosts.open(ctx, bmc)
	}
	c.hosts.note(bmc, observation{at: c.Now(), problem: found})
	switch {
	case found.found():
	case bmc.Spec.BareMetalHost != nil:
		c.probeBareMetalHost(ctx, bmc)
	default:
		c.readSystem(ctx, bmc, h)
		c.probePower(ctx, bmc)
	}
}

// probePower reads the power of a host, and then which commands its BMC allows. Only what is known of these counts.
func (c *Client) probePower(ctx context.Context, bmc *v1alpha1.BMC) {
	var reading fencing.Reading
	c.operate(ctx, bmc, func(ctx context.Context, h *power.Host) (failure power.Failure) {
		if reading, failure = h.Read(ctx); !failure.Failed() {
			h.ReadResets(ctx)
		}
		return failure
	}, func(seen *observation) { seen.power = hostPower(reading.State) })
}

func hostPower(state fencing.PowerState) v1alpha1.HostPower {
	switch state {
	case fencing.IsOn:
		return v1alpha1.HostOn
	case fencing.IsOff:
		return v1alpha1.HostOff
	case fencing.PowerUnknown:
	}
	return v1alpha1.HostPowerUnknown
}

// note stores what was seen of a BMC that can't be used, or that it can be used.
func (h *hosts) note(bmc *v1alpha1.BMC, seen observation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(bmc)
	delete(h.unusable, key)
	if seen.problem.found() {
		h.unusable[key] = seen
	}
}

func (h *hosts) noted(bmc *v1alpha1.BMC) (observation, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen, unusable := h.unusable[client.ObjectKeyFromObject(bmc)]
	return seen, unusable
}

// seenOf returns what was seen of a host last.
func (c *Client) seenOf(bmc *v1alpha1.BMC) observation {
	if seen, unusable := c.hosts.noted(bmc); unusable {
		return seen
	}
	h := c.hosts.of(bmc)
	if h == nil {
		return observation{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

// +kubebuilder:rbac:groups=fettle.io,resources=bmcs/status,verbs=patch

// writeBMC writes the status of a BMC if it differs.
func (c *Client) writeBMC(ctx context.Context, bmc *v1alpha1.BMC, seen observation) error {
	if seen.at.IsZero() {
		return nil
	}
	wanted := c.statusOf(bmc, seen)
	c.Metrics.observe(bmc, seen.problem.reason)
	if equality.Semantic.DeepEqual(wanted, bmc.Status) {
		return nil
	}
	change, err := fencednode.StatusPatch(bmc, wanted)
	if err != nil {
		return err
	}
	updated := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: bmc.Namespace, Name: bmc.Name}}
	if err := c.Writer.Status().Patch(ctx, updated, change); err != nil {
		return fmt.Errorf("writing the status of BMC %s: %w", bmc.Name, err)
	}
	c.bmcs.update(updated)
	return nil
}

// statusOf returns the status of a BMC.
func (c *Client) statusOf(bmc *v1alpha1.BMC, seen observation) v1alpha1.BMCStatus {
	s := *bmc.Status.DeepCopy()
	s.Power = v1alpha1.HostPowerUnknown
	condition := metav1.Condition{
		Type: v1alpha1.ReachableCondition, Status: metav1.ConditionTrue, Reason: reachable, ObservedGeneration: bmc.Generation,
		Message: "the last operation succeeded", LastTransitionTime: metav1.NewTime(seen.at.UTC().Truncate(time.Second)),
	}
	if seen.problem.found() {
		condition.Status, condition.Reason = metav1.ConditionFalse, seen.problem.reason
		condition.Message = sanitize.Line(sanitize.MaxMessage, seen.problem.message)
	} else if seen.power != "" {
		s.Power = seen.power
	}
	meta.SetStatusCondition(&s.Conditions, condition)
	if bmc.Spec.BareMetalHost != nil { // what an address left behind is about other credentials
		s.RefusedLogins, s.AuthenticationHeldSince, s.AuthenticationHeldUntil, s.CredentialsVersion = 0, nil, nil, ""
	} else if h := c.hosts.of(bmc); h != nil {
		h.writeHold(&s, seen.at)
		if !seen.problem.found() || answered(seen.problem.reason) {
			s.SystemUUID = h.power.UUID()
		}
	}
	return s
}

// writeHold writes how many logins were refused, and until when none is tried.
func (h *host) writeHold(s *v1alpha1.BMCStatus, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.secret == "" {
		return // nothing was tried yet, and the record of an earlier process stands
	}
	s.CredentialsVersion = h.secret
	s.RefusedLogins = int32(min(h.power.Refused(), 1<<30)) //nolint:gosec // bounded on the same line
	until := h.power.HeldUntil()
	if until.IsZero() {
		s.AuthenticationHeldSince, s.AuthenticationHeldUntil = nil, nil
		return
	}
	end := metav1.NewTime(until.UTC().Truncate(time.Second))
	if !s.AuthenticationHeldUntil.Equal(&end) {
		since := metav1.NewTime(now.UTC().Truncate(time.Second))
		s.AuthenticationHeldSince, s.AuthenticationHeldUntil = &since, &end
	}
}
