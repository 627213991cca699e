package ledger

import (
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// Read gives what the core reads of a Repair, for those who list repairs and keep no ledger.
func Read(r *v1alpha1.Repair) core.Repair { return read(r) }
