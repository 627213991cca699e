package powercycle

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/power"
)

const otherSystemAdvice = "correct spec.address, spec.system or spec.nodeName; where the BMC reports a wrong UUID, set spec.systemUUIDCheck to Disabled"

// expectedUUID returns the UUID that the system of a BMC must have to be powered for a node, which may be nil. It is empty if that is not
// known or not checked.
func expectedUUID(bmc *v1alpha1.BMC, node *corev1.Node) string {
	if node == nil || bmc.Spec.SystemUUIDCheck == v1alpha1.SystemUUIDCheckDisabled {
		return ""
	}
	return power.CanonicalUUID(node.Status.NodeInfo.SystemUUID)
}

// systemMismatch returns a problem if the last operation that a BMC answered was on another system than the host of the node. An operation
// by an earlier spec doesn't count.
func systemMismatch(bmc *v1alpha1.BMC, node *corev1.Node) problem {
	seen := meta.FindStatusCondition(bmc.Status.Conditions, v1alpha1.ReachableCondition)
	if seen == nil || seen.Status != metav1.ConditionTrue && !answered(seen.Reason) || seen.ObservedGeneration != bmc.Generation {
		return problem{}
	}
	return compare(bmc, bmc.Status.SystemUUID, expectedUUID(bmc, node), v1alpha1.CannotStartOtherSystemReason)
}

// answered reports whether a problem is one of a system that was read.
func answered(reason string) bool {
	return reason == string(power.OtherSystem) || reason == string(power.ResetNotAllowed)
}

// compare returns a problem if the UUIDs of a BMC's system and of its node's host are known to be of different systems.
func compare(bmc *v1alpha1.BMC, uuid, expected, reason string) problem {
	if !power.DifferentSystems(uuid, expected) {
		return problem{}
	}
	return problem{reason: reason, message: fmt.Sprintf(
		"the system of BMC %s has UUID %s, and node %s runs on a host with UUID %s, so it is not its BMC; %s",
		bmc.Name, uuid, named(nodeOf(bmc)), expected, otherSystemAdvice)}
}

// mismatch returns a problem if the last operation of a host was on another system than that of the node. The caller holds the lock.
func (h *host) mismatch(bmc *v1alpha1.BMC) problem {
	if h.power == nil {
		return problem{} // Metal3 reports no UUID
	}
	return compare(bmc, h.power.UUID(), h.expected, string(power.OtherSystem))
}

const resetAdvice = "see whether the BMC allows ForceOff and On to this account, by its settings, its licence and its firmware"

// lacking returns a problem if the BMC of a host is known not to allow what powers it off and on. The caller holds the lock.
func (h *host) lacking(bmc *v1alpha1.BMC) problem {
	if h.power == nil {
		return problem{} // Metal3 commands the BMC
	}
	lacks := h.power.Lacks()
	if len(lacks) == 0 {
		return problem{}
	}
	return problem{reason: string(power.ResetNotAllowed), message: fmt.Sprintf(
		"BMC %s does not list %s among the resets that it allows, so Fettle can't power the host of node %s off and on; %s",
		bmc.Name, strings.Join(lacks, " and "), named(nodeOf(bmc)), resetAdvice)}
}

// readSystem reads on which system the node of a BMC runs. Where that can't be read, the last answer stands.
func (c *Client) readSystem(ctx context.Context, bmc *v1alpha1.BMC, h *host) {
	n, err := c.readNodeOf(ctx, bmc)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expected = expectedUUID(bmc, n)
}

// readNodeOf reads the node of a BMC, or returns nil if there is none. A workload cluster may not answer for long.
func (c *Client) readNodeOf(ctx context.Context, bmc *v1alpha1.BMC) (*corev1.Node, error) {
	if bmc.Spec.SystemUUIDCheck == v1alpha1.SystemUUIDCheckDisabled {
		return nil, nil //nolint:nilnil // it is not compared
	}
	of := bmc.Spec.Cluster
	if of == nil {
		slot := &apiSlot{of: c.apiSlots}
		defer slot.release()
		if !slot.acquire(ctx, false) {
			return nil, fmt.Errorf("waiting for remediations: %w", ctx.Err())
		}
		return c.nodes.Get(ctx, bmc.Spec.NodeName)
	}
	select {
	case c.elsewhere <- struct{}{}:
		defer func() { <-c.elsewhere }()
	default:
		return nil, errNoRoom
	}
	if c.Workload == nil {
		return nil, errNoRoom
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	nodes, entered := c.enter(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
	if !entered {
		return nil, errNoRoom
	}
	return nodes.Get(ctx, bmc.Spec.NodeName)
}
