package cli

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// steps prints the steps of a repair. For a single step without a template or a limit, the remedy is enough.
func (p *page) steps(steps []Step) {
	if len(steps) == 0 || (len(steps) == 1 && steps[0].Template == nil) {
		return
	}
	p.head("Steps of the repair")
	for i := range steps {
		s := &steps[i]
		what := s.Remedy
		if s.Template != nil {
			what = s.Template.Kind + " " + qualified(Reference{Namespace: s.Template.Namespace, Name: s.Template.Name})
		}
		if s.Timeout != "" {
			what += ", for " + s.Timeout
		}
		p.item("%d. %s: %s", i+1, what, p.stateOf(s))
	}
}

func (p *page) stateOf(s *Step) string {
	switch s.State {
	case stepPlanned:
		if s.Message != "" {
			return p.in(red, s.Message)
		}
		return "planned"
	case stepDue:
		return p.in(yellow, "due") + " since " + p.when(s.Began) + p.ending(s)
	case stepUnknown:
		return p.in(yellow, "can't tell") + " whether it is under way: " + s.Message
	case stepNotTaken:
		return "not taken"
	case stepEnded:
		return p.endedWith(s)
	case stepUnderWay:
		return p.in(yellow, "under way") + " since " + p.when(s.Began) + p.ending(s)
	}
	return fmt.Sprintf("%s %s: %s", p.in(red, givenUp(s.State)), p.when(s.Ended), s.Message)
}

// endedWith is for a step that was under way when the repair ended, or whose target is gone.
func (p *page) endedWith(s *Step) string {
	if s.Ended == nil {
		return "over, since " + s.Message
	}
	return "ended with the repair " + p.when(s.Ended)
}

func givenUp(state string) string {
	if state == core.TimedOut.String() {
		return "timed out"
	}
	return strings.ToLower(state)
}

func (p *page) ending(s *Step) string {
	if s.Ends == nil {
		return ""
	}
	return ", times out at " + p.when(s.Ends)
}

func (p *page) requests(requests []Request) {
	if len(requests) == 0 {
		return
	}
	p.head("Remediation objects")
	for i := range requests {
		r := &requests[i]
		from := ""
		if r.Template != "" {
			from = " from template " + r.Template
		}
		p.item("%s %s, made %s%s: %s", r.Kind, qualified(r.Reference), p.when(r.Created), from, p.answerOf(r))
		p.fencing(r.Fencing)
	}
}

// leavingText says since when an object is being deleted, and what keeps it.
func (p *page) leavingText(r *Request) string {
	text := ", being deleted"
	if r.LeavingSince != nil {
		text += " since " + p.when(r.LeavingSince)
	}
	if r.KeptBy != "" {
		text += ", kept by the finalizers " + r.KeptBy
	}
	return text
}

// answerOf returns the remediator's answer to a request, and what Fettle told it.
func (p *page) answerOf(r *Request) string {
	text := "not taken up yet"
	switch {
	case r.Succeeded == core.Yes.String():
		text = p.in(green, "succeeded")
	case r.Succeeded == core.No.String():
		text = p.in(red, "failed")
	case r.Processing == core.Yes.String():
		text = p.in(yellow, "processing")
	case r.Phase != "":
		text = p.in(yellow, "in phase "+r.Phase)
	}
	if r.ReplacesNode {
		text += ", expects the node to be gone for good"
	}
	if r.TimedOut != nil {
		text += ", told to stop " + p.when(r.TimedOut)
	}
	if r.Leaving {
		text += p.leavingText(r)
	}
	if r.Earlier {
		text += ", about an earlier one of this name"
	}
	if r.Foreign {
		text += ", not made by Fettle, which neither stops nor deletes it"
	}
	return text
}
