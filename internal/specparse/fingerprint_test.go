package specparse

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/core"
)

// TestFingerprint differs as soon as the policy, its selector or one of the words does, and not by what follows from the
// status.
func TestFingerprint(t *testing.T) {
	policy := func(change func(*core.Policy)) core.Policy {
		p := core.Policy{ID: core.ID{Name: "a", UID: "a-uid"}, Steps: []core.Step{{Remedy: "Delete"}}, ShortCircuit: core.ShortCircuit{Range: &core.Range{To: 2}}}
		change(&p)
		return p
	}
	same := func(*core.Policy) {}
	workers, all := labels.SelectorFromSet(labels.Set{"role": "worker"}), labels.Everything()
	was := Fingerprint(policy(same), workers, "blue", "")
	for sentence, c := range map[string]struct {
		now  string
		same bool
	}{
		"made anew":        {Fingerprint(policy(same), labels.SelectorFromSet(labels.Set{"role": "worker"}), "blue", ""), true},
		"held":             {Fingerprint(policy(func(p *core.Policy) { p.WasStopped = true }), workers, "blue", ""), true},
		"printed before":   {Fingerprint(policy(func(p *core.Policy) { p.Fingerprint = "before" }), workers, "blue", ""), true},
		"another UID":      {Fingerprint(policy(func(p *core.Policy) { p.ID.UID = "another" }), workers, "blue", ""), false},
		"paused":           {Fingerprint(policy(func(p *core.Policy) { p.Paused = true }), workers, "blue", ""), false},
		"another limit":    {Fingerprint(policy(func(p *core.Policy) { p.ShortCircuit.Range = &core.Range{To: 3} }), workers, "blue", ""), false},
		"another step":     {Fingerprint(policy(func(p *core.Policy) { p.Steps[0].Remedy = "Ask" }), workers, "blue", ""), false},
		"another selector": {Fingerprint(policy(same), all, "blue", ""), false},
		"another word":     {Fingerprint(policy(same), workers, "green", ""), false},
		"other places":     {Fingerprint(policy(same), workers, "", "blue"), false},
	} {
		if c.now == "" || (c.now == was) != c.same {
			t.Errorf("%s: the fingerprint is %q, and was %q", sentence, c.now, was)
		}
	}
}
