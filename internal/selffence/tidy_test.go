package selffence_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// TestTidy: only a condemnation whose remediation is known to be gone is taken back, and only a withdrawn promise of a node that is gone for
// long is deleted.
func TestTidy(t *testing.T) {
	t.Parallel()
	const long, short = selffence.GoneFor, selffence.GoneFor - time.Nanosecond
	all := []selffence.TidyFacts{}
	for _, condemner := range []selffence.Existence{selffence.ExistenceUnknown, selffence.Exists, selffence.Gone} {
		for _, gone := range []time.Duration{0, short, long} {
			all = append(all, selffence.TidyFacts{Condemner: condemner, NodeGone: gone})
		}
	}
	for _, state := range []selffence.State{"", selffence.Promised, selffence.Withdrawn, selffence.Condemned} {
		for _, f := range all {
			want := selffence.LeaveLease
			if state == selffence.Condemned && f.Condemner == selffence.Gone {
				want = selffence.FreeLease
			}
			if state == selffence.Withdrawn && f.NodeGone == long {
				want = selffence.DeleteLease
			}
			if got := (selffence.Lease{State: state}).Tidy(f); got != want {
				t.Errorf("%q with %+v: %d, want %d", state, f, got, want)
			}
		}
	}
}
