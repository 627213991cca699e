package core

import (
	"testing"
	"time"
)

// TestStepsOfAHandBack: the natures of the steps decide which is the last step that comes by itself, and which step has the
// target replaced.
func TestStepsOfAHandBack(t *testing.T) {
	step := func(n Nature) Step { return Step{Nature: n} }
	deletes, creates, marks, asks := step(Delete), step(CreateRequest), step(Annotate), step(AskOwner)
	for name, c := range map[string]struct {
		steps    []Step
		tried    int
		last     bool // the current step is the last of itself
		replaces bool // it has the target replaced, and the first step does not
	}{
		"no step":                          {nil, 0, true, false},
		"a deletion":                       {[]Step{deletes}, 0, true, true},
		"a request":                        {[]Step{creates}, 0, true, false},
		"a request to the owner":           {[]Step{asks}, 0, true, false},
		"a request, before the owner's":    {[]Step{creates, asks}, 0, true, false},
		"the owner's after a request":      {[]Step{creates, asks}, 1, true, true},
		"a request, before a deletion":     {[]Step{creates, deletes}, 0, false, false},
		"a mark, before the owner's":       {[]Step{marks, asks}, 0, false, false},
		"the owner's after a mark":         {[]Step{marks, asks}, 1, true, false},
		"the first of two requests":        {[]Step{creates, creates, asks}, 0, false, false},
		"the second of two, and the owner": {[]Step{creates, creates, asks}, 1, true, false},
		"a deletion after a mark":          {[]Step{marks, deletes}, 1, true, true},
	} {
		r := Repair{Steps: c.steps, Tried: make([]StepRecord, c.tried)}
		if got := r.lastOfItself(); got != c.last {
			t.Errorf("%s: it is the last of itself: %t", name, got)
		}
		if current, more := r.step(); more && r.replaces(current) != c.replaces {
			t.Errorf("%s: it replaces: %t", name, !c.replaces)
		}
	}
	if (&Repair{}).replaces(&asks) {
		t.Error("without a first step the owner's replaces")
	}
}

// TestHandedBackSince: a condition carries whole seconds, and none was set at the zero time.
func TestHandedBackSince(t *testing.T) {
	at := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	for since, want := range map[time.Time]bool{
		at.Add(-time.Hour): true, at: true, at.Add(time.Second - 1): true, at.Add(time.Second): false, at.Add(1500 * time.Millisecond): false,
	} {
		if got := (&Target{HandedBack: at}).handedBackSince(since); got != want {
			t.Errorf("since %s: %t", since, got)
		}
	}
	if (&Target{}).handedBackSince(time.Time{}) {
		t.Error("a target that was never handed back was, since the zero time")
	}
}
