package core_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestEffects: what each nature does, as the design has it. Decisions go by effects alone.
func TestEffects(t *testing.T) {
	for nature, want := range map[core.Nature]core.Effect{
		core.Delete:        {Deletes: true, OwnerReplaces: true},
		core.CreateRequest: {NeedsWithdrawal: true, CreatesRequest: true},
		core.Annotate:      {MarksForRemediator: true},
		core.AskOwner:      {NeedsWithdrawal: true, OwnerReplaces: true, OwnerDecides: true},
		// What is not known may do the worst.
		-1: {Deletes: true, OwnerReplaces: true},
		99: {Deletes: true, OwnerReplaces: true},
	} {
		if got := nature.Effect(); got != want {
			t.Errorf("nature %d has the effect %+v, want %+v", nature, got, want)
		}
	}
}
