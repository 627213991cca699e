package nhc

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// Remediator is a kind of templates that the cluster serves, and that a health check may name.
type Remediator struct {
	APIVersion, Kind string
	// Resource is its name with its group, as kubectl takes it.
	Resource   string
	Namespaced bool
}

// maxSuggested bounds the remediators that a status names. The names in an API may be as long as 253 characters.
const maxSuggested = 5

// line is what an author adds to the spec to have this remediator asked.
func (r *Remediator) line() string {
	namespace := ""
	if r.Namespaced {
		namespace = "namespace: NAMESPACE, "
	}
	return fmt.Sprintf("remediationTemplate: {apiVersion: %s, kind: %s, %sname: NAME}", r.APIVersion, r.Kind, namespace)
}

// suggestRemediators adds to the problems of health checks that name no remedy which remediators the cluster has.
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

// suggestion says which remediators the cluster has, and what to add to a spec that names none.
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
