package fencepolicy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencepolicy"
)

// TestRequiresBoth: the policy that applies decides. Where that is not known, it matters only if a policy may require both.
func TestRequiresBoth(t *testing.T) {
	t.Parallel()
	both := func(p v1alpha1.FencePolicy) v1alpha1.FencePolicy {
		p.Spec.RequiredProof = v1alpha1.PowerAndPromise
		return p
	}
	each := func(p v1alpha1.FencePolicy) v1alpha1.FencePolicy {
		p.Spec.RequiredProof = v1alpha1.AnyProof
		return p
	}
	for name, c := range map[string]struct {
		policies []v1alpha1.FencePolicy
		want     string
		fails    bool
	}{
		"no policy":                             {nil, "", false},
		"one without the field":                 {[]v1alpha1.FencePolicy{policy("a", 1, "pool")}, "", false},
		"any proof":                             {[]v1alpha1.FencePolicy{each(policy("a", 1, "pool"))}, "", false},
		"both":                                  {[]v1alpha1.FencePolicy{both(policy("a", 1, "pool"))}, "a", false},
		"both, of other nodes":                  {[]v1alpha1.FencePolicy{both(policy("a", 1, "other"))}, "", false},
		"both, by a younger one":                {[]v1alpha1.FencePolicy{both(policy("a", 1, "pool")), policy("b", 2, "*")}, "", false},
		"both, by the oldest":                   {[]v1alpha1.FencePolicy{policy("a", 1, "pool"), both(policy("b", 2, "*"))}, "b", false},
		"one can't be read, and none requires":  {[]v1alpha1.FencePolicy{policy("a", 1, "pool"), policy("b", 2, "?")}, "", false},
		"it requires both, and can't be read":   {[]v1alpha1.FencePolicy{policy("a", 1, "pool"), both(policy("b", 2, "?"))}, "", true},
		"both, and an older one can't be read":  {[]v1alpha1.FencePolicy{both(policy("a", 1, "pool")), policy("b", 2, "?")}, "", true},
		"both, and a younger one can't be read": {[]v1alpha1.FencePolicy{policy("a", 1, "?"), both(policy("b", 2, "pool"))}, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := fencepolicy.NewRule(c.policies).RequiresBoth(labels.Set{"pool": "pool"})
			if (err != nil) != c.fails || (got == nil) != (c.want == "") || got != nil && got.Name != c.want {
				t.Errorf("%v requires both (%v), want %q", got, err, c.want)
			}
		})
	}
}
