package specparse

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/core"
)

// Fingerprint returns what is the same of two versions of a health check if they are translated to the same policy, and
// select the same. The words are what else counts. What follows from the status does not.
func Fingerprint(p core.Policy, selector labels.Selector, words ...string) string {
	p.Fingerprint, p.WasStopped = "", false
	body, err := json.Marshal([]any{p, selector.String(), words})
	if err != nil {
		return "" // nothing begins
	}
	digest := sha256.Sum256(body)
	return hex.EncodeToString(digest[:])
}
