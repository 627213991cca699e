package nodepromise

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencepolicy"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// FencePolicyUnknown is the reason of a remediation that waits until it is known which FencePolicy applies to its node.
const FencePolicyUnknown = "FencePolicyUnknown"

// ReadyMeanwhile returns a problem if a remediation has waited until it was known which policy applies, and its node has become Ready since.
func ReadyMeanwhile(s *v1alpha1.FencingStatus, n *corev1.Node) fencednode.Problem {
	return fencednode.ReadyMeanwhile(s, n, "it was not known which FencePolicy applies to it", FencePolicyUnknown)
}

// +kubebuilder:rbac:groups=fettle.io,resources=fencepolicies,verbs=list;watch

// RequiresBoth returns the name of the FencePolicy that requires both power and promise of a node, or an empty text if none does. Unknown says why
// that is not known. Policies are read from a cache.
func RequiresBoth(ctx context.Context, policies client.Reader, n *corev1.Node) (policy string, unknown fencednode.Problem, err error) {
	var all v1alpha1.FencePolicyList
	if err := policies.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return "", fencednode.Problem{}, fmt.Errorf("listing the FencePolicies: %w", err)
	}
	p, err := fencepolicy.NewRule(all.Items).RequiresBoth(labels.Set(n.Labels))
	switch {
	case err != nil:
		return "", fencednode.Problem{Reason: FencePolicyUnknown, Message: "it is not known whether a FencePolicy requires both power and promise of node " + n.Name +
			", and nothing is begun before that is (" + sanitize.Failure(sanitize.MaxPart, err) + "); correct the selector"}, nil
	case p == nil:
		return "", fencednode.Problem{}, nil
	}
	return p.Name, fencednode.Problem{}, nil
}
