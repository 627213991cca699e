package specparse

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/core"
)

// Fingerprint returns a fingerprint of a health check. Two versions have the same one if they are translated to the
// same policy, select the same targets and have the same words. The effects of the status don't count.
func Fingerprint(p core.Policy, selector labels.Selector, words ...string) string {
	p.Fingerprint, p.WasStopped = "", false
	body, err := json.Marshal([]any{p, selector.String(), words})
	if err != nil {
		return "" // without a fingerprint, nothing starts
	}
	digest := sha256.Sum256(body)
	return hex.EncodeToString(digest[:])
}
