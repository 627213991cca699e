package cli

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/core"
)

// foreignOn returns the first request about a target that Fettle did not create, and that stands in the way of a
// policy's own request. It returns nil if there is none. Dry runs don't count.
func (w *assessment) foreignOn(target int) *core.Request {
	for _, q := range w.requestsOn(target) {
		if !q.Own && !q.Answers && !q.Leaving && w.wouldAsk(q, target) {
			return q
		}
	}
	return nil
}

// wouldAsk reports whether a policy, dry runs apart, would create the same request.
func (w *assessment) wouldAsk(q *core.Request, target int) bool {
	return slices.ContainsFunc(w.verdictsOf[target], func(v core.Verdict) bool {
		p := &w.policies[v.Policy]
		named := q.Policy == (core.ID{}) || (q.Policy.Kind == p.ID.Kind && q.Policy.Namespace == p.ID.Namespace && q.Policy.Name == p.ID.Name)
		return named && !p.DryRun && slices.ContainsFunc(w.policySteps(v.Policy, target), func(s core.Step) bool {
			return s.Remedy == q.Remedy && s.Template == q.Template
		})
	})
}

// deletion returns the command that deletes a request.
func deletion(q *core.Request) string {
	kind := q.ID.Kind
	if version, err := schema.ParseGroupVersion(q.APIVersion); err == nil && version.Group != "" {
		kind += "." + version.Group
	}
	return "kubectl delete " + kind + " " + q.ID.Name + inNamespace(q.ID.Namespace)
}

// nextOfForeign says what follows from a request that Fettle did not create, for an unhealthy target.
func nextOfForeign(q *core.Request) string {
	return fmt.Sprintf("Fettle did not make %s, and makes no other request while it exists. If it is left over from an earlier fault: %s", q.ID, deletion(q))
}

// nextOfHealthy says what happens next to a healthy target.
func (w *assessment) nextOfHealthy(target int) Next {
	if q := w.foreignOn(target); q != nil {
		return Next{Text: fmt.Sprintf("It is healthy. %s exists, which Fettle did not make and does not delete; while it exists, Fettle makes no other request. "+
			"Once its remediator is done: %s", q.ID, deletion(q))}
	}
	return Next{Text: "Nothing: it is healthy."}
}

// mostLeftOver bounds the requests that notes name.
const mostLeftOver = 10

// notesOnLeftOver returns sentences about requests for healthy targets that stay, since Fettle did not create them. It
// looks in a namespace, or in all.
func (w *assessment) notesOnLeftOver(namespace string) []string {
	var notes []string
	left := 0
	for i := range w.cluster.Targets {
		q := w.foreignOn(i)
		if v, judged := w.worst(i); q == nil || !isIn(w.cluster.Targets[i].ID, namespace) || !judged || (v.Health != core.Healthy && v.Reason != core.Recovering) {
			continue
		}
		left++
		if left <= mostLeftOver {
			notes = append(notes, fmt.Sprintf("%s stands, though %s %s is healthy. Fettle did not make it, and does not delete it. Once its remediator is done: %s",
				q.ID, strings.ToLower(q.Target.Kind), q.Target.Name, deletion(q)))
		}
	}
	if left > mostLeftOver {
		notes = append(notes, fmt.Sprintf("There are %d more such objects that Fettle did not make.", left-mostLeftOver))
	}
	return notes
}
