package kubelets

import (
	"testing"
	"time"
)

func TestLeasesAreRenewedWellWithinTheGracePeriod(t *testing.T) {
	cases := map[string]struct {
		reason string
		grace  time.Duration
		want   time.Duration
	}{
		"the default":      {"a real kubelet's lease lasts 40 s", 50 * time.Second, 40 * time.Second},
		"a long one":       {"no kubelet renews more seldom than a real one", time.Hour, 40 * time.Second},
		"a short one":      {"it is renewed four times in it, so a renewal may come late", 10 * time.Second, 8 * time.Second},
		"a very short one": {"KWOK counts whole seconds", time.Second, 2 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := leaseDuration(tc.grace); got != tc.want {
				t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}
