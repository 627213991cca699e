package core

import (
	"testing"
	"time"
)

// TestStepsOfRepairs: which step is under way, which comes next, and whether all were tried or the repair has left its target in place.
func TestStepsOfRepairs(t *testing.T) {
	deletes, asks := Step{Remedy: "Delete"}, Step{Remedy: "Ask", Nature: CreateRequest}
	over := time.Unix(1, 0)
	for name, c := range map[string]struct {
		repair                     Repair
		step, after, failed, lasts bool
	}{
		"no step":                     {Repair{Outcome: Succeeded, Ended: over}, false, false, false, false},
		"one step":                    {Repair{Steps: []Step{asks}}, true, false, false, false},
		"one step that succeeded":     {Repair{Steps: []Step{asks}, Outcome: Succeeded, Ended: over}, true, false, false, true},
		"one step that was given up":  {Repair{Steps: []Step{asks}, Tried: make([]StepRecord, 1), Outcome: Withdrawn, Ended: over}, false, false, true, true},
		"it is still running":         {Repair{Steps: []Step{asks}, Tried: make([]StepRecord, 1)}, false, false, true, false},
		"more are given up than made": {Repair{Steps: []Step{asks}, Tried: make([]StepRecord, 2), Ended: over}, false, false, true, true},
		"one step that deletes":       {Repair{Steps: []Step{deletes}, Outcome: Succeeded, Ended: over}, true, false, false, false},
		"two steps":                   {Repair{Steps: []Step{asks, deletes}}, true, true, false, false},
		"the first was given up":      {Repair{Steps: []Step{asks, deletes}, Tried: make([]StepRecord, 1)}, true, false, false, false},
		"both were given up":          {Repair{Steps: []Step{asks, deletes}, Tried: make([]StepRecord, 2), Ended: over}, false, false, true, true},
		"withdrawn in its first step": {Repair{Steps: []Step{asks, deletes}, Outcome: Withdrawn, Ended: over}, true, true, false, false},
	} {
		_, step := c.repair.step()
		_, after := c.repair.stepAfter()
		if step != c.step || after != c.after || c.repair.failed() != c.failed || c.repair.lasted() != c.lasts {
			t.Errorf("%s: a step is under way: %t, one follows: %t, all were tried: %t, the target is left in place: %t",
				name, step, after, c.repair.failed(), c.repair.lasted())
		}
	}
}

// TestStepsDoTheSame: by their remedy, its nature and its template, whatever their limits are.
func TestStepsDoTheSame(t *testing.T) {
	step := Step{Remedy: "Ask", Nature: CreateRequest, Template: Reference{Name: "t"}}
	for name, c := range map[string]struct {
		other Step
		want  bool
	}{
		"another limit":    {Step{Remedy: "Ask", Nature: CreateRequest, Template: Reference{Name: "t"}, Limit: time.Hour}, true},
		"another remedy":   {Step{Remedy: "Tell", Nature: CreateRequest, Template: Reference{Name: "t"}}, false},
		"another nature":   {Step{Remedy: "Ask", Nature: AskOwner, Template: Reference{Name: "t"}}, false},
		"another template": {Step{Remedy: "Ask", Nature: CreateRequest, Template: Reference{Name: "u"}}, false},
	} {
		if got := step.equal(&c.other); got != c.want {
			t.Errorf("%s: they do the same: %t", name, got)
		}
	}
}

// TestEffectOfUnknownNatures: it is that of the nature that needs the most.
func TestEffectOfUnknownNatures(t *testing.T) {
	for nature, want := range map[Nature]Effect{-1: effects[Delete], Delete: effects[Delete], AskOwner: effects[AskOwner], AskOwner + 1: effects[Delete]} {
		if got := nature.Effect(); got != want {
			t.Errorf("nature %d has the effect %+v, want %+v", nature, got, want)
		}
	}
}
