package template

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// state is the state of the watch of a kind.
type state int8

const (
	// pending: the client does not know yet whether the kind is served, or is reading its objects.
	pending state = iota
	// unserved: the cluster does not serve the kind.
	unserved
	// forbidden: Fettle may not list or watch it.
	forbidden
	// failing: the API server answered with another error.
	failing
	// synced: the store has its objects as the cluster has them.
	synced
	// hidden: the user of a Reading may not list its objects, or reading them failed. The field why says which.
	hidden
)

// watchStatus is the status of a kind. The field why explains the states failing and hidden.
type watchStatus struct {
	state state
	why   string
	// namespaced is known once the kind was found.
	namespaced core.Tri
}

// stepFacts are the facts about the template of a step.
type stepFacts struct {
	templates, requests watchStatus
	// template is nil when it does not exist.
	template *unstructured.Unstructured
	// kindRepeated is set when another step of the policy creates requests of the same kind. templateRepeated is set
	// when that step has the same template too.
	kindRepeated, templateRepeated bool
}

// problem returns a sentence that says why a step can't be taken now, or an empty text. The second result reports
// whether the template does not exist.
func (s *stepFacts) problem(step *core.Step) (text string, missing bool) {
	t := step.Template
	switch status := &s.templates; status.state {
	case synced:
	case unserved:
		return fmt.Sprintf("there is no template %s, since the cluster does not serve %s; install the remediator that defines it, or name another template", t, kindText(t)), true
	case pending, forbidden, failing, hidden:
		return fmt.Sprintf("template %s can't be read: %s", t, status.text(kindText(t))), false
	}
	switch {
	case s.templates.namespaced == core.Yes && t.Namespace == "":
		return fmt.Sprintf("template %s has no namespace, and its kind has one; name the namespace of the template", t), true
	case s.template == nil:
		return fmt.Sprintf("template %s does not exist; create it, or name another template", t), true
	case specTemplateFor(step.Remedy, s.template) == nil:
		return fmt.Sprintf("template %s has no object in spec.template, so nothing can be made from it; mend it, or name another template", t), false
	}
	if text := s.requestProblem(step); text != "" {
		return text, false
	}
	return s.repetitionProblem(step), false
}

// isRead reports whether the client is still reading a kind that the step needs. It reads the kind of the requests once
// it has found the template.
func (s *stepFacts) isRead() bool {
	return s.templates.state == pending || (s.templates.state == synced && s.template != nil && s.requests.state == pending)
}

// requestProblem says why no request can be created from a template that is valid.
func (s *stepFacts) requestProblem(step *core.Step) string {
	t := step.Template
	made := t
	made.Kind = made.Kind[:len(made.Kind)-len(templateSuffix)]
	switch status := &s.requests; status.state {
	case synced:
	case unserved:
		return fmt.Sprintf("no request can be created from template %s, since the cluster does not serve %s; install the remediator that defines it", t, kindText(made))
	case pending, forbidden, failing, hidden:
		return fmt.Sprintf("what was made from template %s can't be read: %s", t, status.text(kindText(made)))
	}
	switch {
	case isMachineRemedy(step.Remedy) && s.requests.namespaced == core.No:
		return fmt.Sprintf("template %s is of no use for machines, since %s has no namespace and machines do; name another template", t, kindText(made))
	case step.Remedy == NodeRemedy && s.requests.namespaced == core.Yes && t.Namespace == "":
		return fmt.Sprintf("template %s has no namespace, and %s needs the one of its template; name another template", t, kindText(made))
	}
	return ""
}

// repetitionProblem says why two steps can't use the same kind: both requests would have one name.
func (s *stepFacts) repetitionProblem(step *core.Step) string {
	t := step.Template
	switch {
	case s.templateRepeated:
		return fmt.Sprintf("template %s is named by two steps; name each template once", t)
	case s.kindRepeated && isMachineRemedy(step.Remedy):
		return fmt.Sprintf("%s is the kind of two steps, and a machine can have one of its requests only; name templates of different kinds", t.Kind)
	case s.kindRepeated && !manyPerNode(s.template):
		return fmt.Sprintf("%s is the kind of two steps, and its remediator serves one template per node: template %s lacks the annotation %s; name templates of different kinds",
			t.Kind, t, v1alpha1.MultipleTemplatesAnnotation)
	}
	return ""
}

// text explains any state but synced and unserved.
func (s *watchStatus) text(kind string) string {
	switch s.state {
	case forbidden:
		return fmt.Sprintf("Fettle may not list and watch %s; create a ClusterRole with the label %s=true that grants the kinds of this template; fettle check prints one for the health check, and docs/contract.md shows how",
			kind, annotation.AggregateToFettleLabel)
	case failing:
		return s.why + "; it is tried again"
	case hidden:
		return s.why
	case pending, unserved, synced:
	}
	return kind + " is being read"
}

// kindText names a kind for users.
func kindText(r core.Reference) string { return r.Kind + " (" + r.APIVersion + ")" }

// notATemplate says why a reference can't be that of a template.
func notATemplate(r core.Reference) string {
	if err := specparse.RequestKind(r.APIVersion, r.Kind); err != nil {
		return "the kind of the template is " + err.Error()
	}
	return fmt.Sprintf("%s can't be a template: that has an apiVersion such as example.org/v1, and a kind that ends in %s", r, templateSuffix)
}

// tooManyKinds says why the client doesn't watch the kinds of a step.
func tooManyKinds(r core.Reference) string {
	return fmt.Sprintf("template %s is not looked for, since health checks of this cluster name too many kinds: at most %d kinds of templates and requests are watched for one cluster, "+
		"the oldest health checks first, and %d for all; have health checks name fewer kinds", r, mostKindsOfCluster, mostKinds)
}

// repeatedIn reports whether another of the steps has the kind of one of them, and whether it has the template too.
func repeatedIn(steps []core.Step, of int) (kind, same bool) {
	step := &steps[of]
	_, mine, _ := kindsOf(step.Template)
	for i := range steps {
		if i == of || !isTemplateRemedy(steps[i].Remedy) {
			continue
		}
		if _, theirs, ok := kindsOf(steps[i].Template); ok && theirs.GroupKind() == mine.GroupKind() {
			kind = true
			same = same || steps[i].Template.Name == step.Template.Name && steps[i].Template.Namespace == step.Template.Namespace
		}
	}
	return kind, same
}
