package cli

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// textOf returns the text of a refusal. For a back-off it adds after how many failures Fettle gives up.
func (w *assessment) textOf(r core.Refusal) string {
	n := w.policies[r.Policy].Backoff.GiveUpAfter
	switch {
	case r.Gate != core.BackingOff || n == 0:
		return r.Text()
	case r.Relapsed:
		return fmt.Sprintf("%s; it is given up after %d in a row", r.Text(), n)
	}
	return fmt.Sprintf("%s; the pool is given up after %d in a row", r.Text(), n)
}

// refusalsBy returns the refusals of a policy's own gates, dry runs apart.
func (w *assessment) refusalsBy(policy int) []core.Refusal {
	return slices.DeleteFunc(slices.Clone(w.decision.Refusals), func(r core.Refusal) bool { return r.Policy != policy || r.DryRun })
}

// resumption returns the commands that resume repairs that were given up, as sentences to append. It is empty if none
// of the refusals needs one.
func (w *assessment) resumption(refusals []core.Refusal) string {
	text, seen := "", map[int]bool{}
	for _, r := range refusals {
		if r.Gate != core.PoolGivenUp || seen[r.Policy] {
			continue
		}
		seen[r.Policy] = true
		resource := w.dialectOf[r.Policy].Read().Sources()[0].Resource
		id := w.policies[r.Policy].ID
		text += fmt.Sprintf(" Once the cause is mended, kubectl annotate --overwrite%s %s %s %s=$(date -u +%%FT%%TZ) resumes repairs.", inNamespace(id.Namespace), resource, id.Name, annotation.ResumedAt)
	}
	return text
}
