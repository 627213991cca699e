package nhc

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// Remediator is a kind of remediation templates that the cluster serves.
type Remediator struct {
	APIVersion, Kind string
	// Resource is its plural with its group, as kubectl takes it.
	Resource   string
	Namespaced bool
}

// maxSuggested bounds the remediators that a status names. Their names may have 253 characters.
const maxSuggested = 5

// line returns what an author adds to the spec to use this remediator.
func (r *Remediator) line() string {
	namespace := ""
	if r.Namespaced {
		namespace = "namespace: NAMESPACE, "
	}
	return fmt.Sprintf("remediationTemplate: {apiVersion: %s, kind: %s, %sname: NAME}", r.APIVersion, r.Kind, namespace)
}

// suggestRemediators adds the remediators of the cluster to the problems of health checks that name no remedy.
func (c *Client) suggestRemediators(policies []core.Policy) {
	if c.Remediators == nil {
		return
	}
	for i := range policies {
		if p := &policies[i]; c.store.namesNoRemedy(p.ID.Name) {
			p.Problem = specparse.JoinProblems([]string{p.Problem, suggestion(c.Remediators())})
		}
	}
}

// suggestion returns the remediators of the cluster, and what an author adds to the spec.
func suggestion(remediators []Remediator) string {
	var lines, resources []string
	more := 0
	for i := range remediators {
		r := &remediators[i]
		switch {
		case specparse.RequestKind(r.APIVersion, r.Kind) != nil:
		case len(lines) == maxSuggested:
			more++
		default:
			lines, resources = append(lines, r.line()), append(resources, "kubectl get "+r.Resource+" -A")
		}
	}
	if len(lines) == 0 {
		return "this cluster has no kind of remediation templates, so install a remediator first"
	}
	text := "this cluster has remediators, so add one of these to the spec: " + strings.Join(lines, ", or ")
	if more > 0 {
		text += fmt.Sprintf(" (%d more are left out)", more)
	}
	return text + "; the names of templates are listed by " + strings.Join(resources, ", or ")
}
