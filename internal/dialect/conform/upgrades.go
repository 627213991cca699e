package conform

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// waitsForUpgrades: a health check that waits for upgrades starts nothing while the cluster is
// being upgraded or that is unknown. Other health checks start repairs all the same. A value that
// can't be read permits nothing.
func (f *Fixture) waitsForUpgrades(t *testing.T) {
	for value, waits := range map[string]bool{"": f.Waits, "true": true, "false": f.Waits} {
		for _, upgrading := range []core.Tri{core.No, core.Unknown, core.Yes} {
			begins := upgrading == core.No || !waits
			if got := f.startsDuring(t, upgrading, value); (got == 1) != begins {
				t.Errorf("fettle.io/wait-for-upgrades is %q, and the cluster is being upgraded: %s; %d repairs begin, want any: %t", value, upgrading, got, begins)
			}
		}
	}
	if got := f.startsDuring(t, core.No, "perhaps"); (got == 0) == f.Waits {
		t.Errorf("fettle.io/wait-for-upgrades can't be read, and %d repairs begin", got)
	}
}

// startsDuring returns how many repairs of one failed target start, with an annotation of the
// health check unless it is empty.
func (f *Fixture) startsDuring(t *testing.T, upgrading core.Tri, wait string) int {
	t.Helper()
	check := f.Check.DeepCopy()
	if wait != "" {
		annotate(check, "fettle.io/wait-for-upgrades", wait)
	}
	_, s := f.startSynced(t, check)
	return len(decideDuring(failing(observed(t, s)), upgrading).Starts)
}
