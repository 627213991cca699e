package healthcheck

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/messages"
)

// The types of the conditions of health checks of machines.
const (
	AllowedCondition           = "RemediationAllowed"
	TemplateAvailableCondition = "ExternalRemediationTemplateAvailable"
	RequestAvailableCondition  = "ExternalRemediationRequestAvailable"
)

// The reasons of these conditions.
const (
	InvalidSpecReason              = "InvalidSpec"
	PausedReason                   = "Paused"
	TooManyUnhealthyReason         = "TooManyUnhealthy"
	StormCooldownReason            = "StormCooldown"
	TemplateUnusableReason         = "TemplateUnusable"
	ExternalTemplateNotFoundReason = "ExternalRemediationTemplateNotFound"
	ExternalTemplateUnusableReason = "ExternalRemediationTemplateUnusable"
	RequestCreationFailedReason    = "ExternalRemediationRequestCreationFailed"
)

// The severities of conditions that are False, for the lists of conditions that have severities.
const (
	SeverityError   = "Error"
	SeverityWarning = "Warning"
	SeverityInfo    = "Info"
)

const cannotBeFollowed = "Nothing is repaired, since this health check can't be followed: "

// Condition is a condition without its times, for any list of conditions.
type Condition struct {
	Type                      string
	Status                    metav1.ConditionStatus
	Reason, Severity, Message string
}

// MachineConditions has the texts in which the conditions of the APIs of machines differ. Its
// methods return the conditions.
type MachineConditions struct {
	// Resource names health checks in commands of kubectl, and Noun names one target in messages.
	Resource, Noun string
	// Paused names the annotations that pause a health check.
	Paused string
	// Restriction returns the message of an open short circuit.
	Restriction func(*core.PolicyReport) string
	// Reason is the reason of the condition while repairs are allowed.
	Reason string
	// Remedy is the name of the remedy that creates remediation objects.
	Remedy string
}

// Allowed returns the condition that says whether repairs are allowed. It is False also while the
// health check is paused or can't be followed, or its template can't be used. So no user waits for
// a repair in vain.
func (w MachineConditions) Allowed(r *core.PolicyReport) Condition {
	c := Condition{Type: AllowedCondition, Status: metav1.ConditionFalse}
	step, _ := w.RequestStep(&r.Policy)
	switch {
	case r.Policy.Problem != "":
		c.Reason, c.Severity, c.Message = InvalidSpecReason, SeverityError, cannotBeFollowed+r.Policy.Problem
		if r.Policy.Unjudged {
			c.Reason = core.UnjudgedReason
		}
	case r.Policy.Paused:
		c.Reason, c.Severity = PausedReason, SeverityInfo
		c.Message = "Nothing is repaired while the annotation " + w.Paused + " is set; remove it to go on"
	case !r.Tally.Permitted:
		c.Reason, c.Severity, c.Message = TooManyUnhealthyReason, SeverityWarning, w.Restriction(r)+messages.GoneTargets(r)
	case r.Tally.CoolingDown:
		c.Reason, c.Severity = StormCooldownReason, SeverityInfo
		c.Message = "Repairs were stopped until just now; they resume when no more machines have recovered for a moment (annotation " + annotation.StormCooldown + ")"
	case r.Clock != 0:
		c.Reason, c.Severity, c.Message = r.Clock.String(), SeverityWarning, messages.Clock(r)
	case step.Problem != "":
		c.Reason, c.Severity, c.Message = TemplateUnusableReason, SeverityError, "Fettle can't request a repair from a remediator: "+step.Problem
	default:
		given := messages.GivenUp(r, w.Resource, annotation.ResumedAt)
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, w.Reason, given+messages.UnhealthyTargets(r, w.Noun)
		if given != "" {
			c.Reason = messages.GivenUpReason
		}
	}
	return c
}

// RequestStep returns the step of a policy that creates remediation objects, and false where it has none.
func (w MachineConditions) RequestStep(p *core.Policy) (core.Step, bool) {
	i := slices.IndexFunc(p.Steps, w.creates)
	if i < 0 {
		return core.Step{}, false
	}
	return p.Steps[i], true
}

func (w MachineConditions) creates(s core.Step) bool { return s.Remedy == w.Remedy }

// Requests reports whether a step of the repair creates a remediation object.
func (w MachineConditions) Requests(r *core.Repair) bool {
	return slices.ContainsFunc(r.Steps, w.creates)
}

// Refused reports whether the repair is running and the API server has refused to create its
// remediation object.
func (w MachineConditions) Refused(r *core.Repair) bool {
	return r.Running() && r.Attempts > 0 && w.Requests(r)
}

// External returns the two conditions of a health check with a template, and nil without one.
func (w MachineConditions) External(r *core.PolicyReport) []Condition {
	step, has := w.RequestStep(&r.Policy)
	if !has {
		return nil
	}
	template := Condition{Type: TemplateAvailableCondition, Status: metav1.ConditionTrue}
	if step.Problem != "" {
		template.Status, template.Severity, template.Message = metav1.ConditionFalse, SeverityError, step.Problem
		template.Reason = ExternalTemplateUnusableReason
		if step.Missing {
			template.Reason = ExternalTemplateNotFoundReason
		}
	}
	request := Condition{Type: RequestAvailableCondition, Status: metav1.ConditionTrue}
	if refused := w.refused(r); len(refused) > 0 {
		first := refused[0]
		request.Status, request.Severity, request.Reason = metav1.ConditionFalse, SeverityError, RequestCreationFailedReason
		request.Message = fmt.Sprintf("No remediation object could be created for %s; it is tried again after a pause; kubectl -n %s describe repair %s says why",
			messages.Names(targetsOf(refused)), first.Repair.Namespace, first.Repair.Name)
	}
	return []Condition{template, request}
}

// refused returns the cases of the policy's own repairs whose remediation object could not be
// created, sorted by target.
func (w MachineConditions) refused(r *core.PolicyReport) []core.MemberReport {
	var refused []core.MemberReport
	for i := range r.Members {
		c := &r.Members[i]
		if c.Repair != nil && w.Refused(c.Repair) && len(c.Requests) == 0 && c.Lead == r.Policy.ID {
			refused = append(refused, *c)
		}
	}
	slices.SortFunc(refused, func(a, b core.MemberReport) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	return refused
}

func targetsOf(cases []core.MemberReport) []core.ID {
	targets := make([]core.ID, len(cases))
	for i := range cases {
		targets[i] = cases[i].Target
	}
	return targets
}
