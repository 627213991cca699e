package nhc

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fettle-io/fettle/internal/core"
)

// asTranslated ignores the fingerprints of policies, which follow from the rest.
func asTranslated() cmp.Option { return cmpopts.IgnoreFields(core.Policy{}, "Fingerprint") }
