package core_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestEffects: each nature has the effect that it is to have. Decisions depend on effects alone.
func TestEffects(t *testing.T) {
	for nature, want := range map[core.Nature]core.Effect{
		core.Delete:        {Deletes: true, OwnerReplaces: true},
		core.CreateRequest: {NeedsWithdrawal: true, CreatesRequest: true},
		core.Annotate:      {MarksForRemediator: true},
		core.AskOwner:      {NeedsWithdrawal: true, OwnerReplaces: true, OwnerDecides: true},
		// An unknown nature may do the worst.
		-1: {Deletes: true, OwnerReplaces: true},
		99: {Deletes: true, OwnerReplaces: true},
	} {
		if got := nature.Effect(); got != want {
			t.Errorf("nature %d has the effect %+v, want %+v", nature, got, want)
		}
	}
}
