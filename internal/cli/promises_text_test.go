package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestTablesOfPromises pins the tables of fettle status, and how many rows they leave out.
func TestTablesOfPromises(t *testing.T) {
	all := []NodePromise{
		{Node: "node-c", Policy: "b", ProvenAfter: "50s"}, {Node: "node-a", Policy: "a", ProvenAfter: "50s"}, {Node: "node-b", Policy: "a", ProvenAfter: "50s"}, {Node: "node-d", Policy: "a"},
	}
	without := []NodePromise{{Node: "node-e", Policy: "a", Missing: "NoAgent", Message: "it has no Lease"}, {Node: "node-f", Policy: "b", Missing: "Withdrawn", Message: "its agent took it back"}}
	text := ""
	for _, limit := range []int{0, 1} {
		text += printed(false, func(p *page) {
			sp := statusPage{page: *p, limit: limit}
			sp.withPromise(all)
			sp.withoutPromise(without)
		})
	}
	golden(t, "promises-tables.txt", text)
}

// TestWarningsOfPromises: a node has one text for each kind of remediation that can't start, and none where it can.
func TestWarningsOfPromises(t *testing.T) {
	const (
		none  = "no promise stands of %s that it selects, so no SelfFenceRemediation of such a node can start (NoAgent: 100%% so)"
		both  = "both power and promise are required of %s that it selects, by a FencePolicy, so no SelfFenceRemediation of such a node can start; name a PowerRemediationTemplate"
		power = "no promise stands of %s that it selects, and a FencePolicy requires both power and promise, so no PowerRemediation of such a node can start (NoAgent: 100%% so)"
		timed = "the promise of %s that it selects is not timed, and a FencePolicy requires both power and promise, so no PowerRemediation of such a node can start"
	)
	missing, stands, untimed := NodePromise{Missing: "NoAgent", Message: "100% so"}, NodePromise{Timed: true}, NodePromise{}
	required := func(n NodePromise) NodePromise { n.RequiredProof = "PowerAndPromise"; return n }
	for _, tc := range []struct {
		n           NodePromise
		self, power bool
		want        []string
	}{
		{missing, true, true, []string{none}}, {missing, false, true, nil}, {stands, true, true, nil}, {untimed, true, true, nil}, {untimed, false, true, nil},
		{required(missing), true, true, []string{both, power}}, {required(missing), true, false, []string{both}}, {required(missing), false, true, []string{power}},
		{required(untimed), true, true, []string{both, timed}}, {required(untimed), false, true, []string{timed}}, {required(stands), true, true, []string{both}},
		{required(stands), false, true, nil}, {required(missing), false, false, nil},
	} {
		if d := cmp.Diff(tc.want, tc.n.warnings(tc.self, tc.power)); d != "" {
			t.Errorf("of %+v, self %t, power %t (-want +got)\n%s", tc.n, tc.self, tc.power, d)
		}
	}
}

// TestPromiseInWords pins what explain says of a promise.
func TestPromiseInWords(t *testing.T) {
	stands := NodePromise{Policy: "p", Timed: true, Device: "wdt", Validity: "20s", ProvenAfter: "50s", Witnesses: []string{"x"}}
	text := ""
	for _, n := range []*NodePromise{
		nil, &stands, {Policy: "p", Timed: true, Validity: "20s", ProvenAfter: "50s", RequiredProof: "PowerAndPromise"}, {Policy: "p", RequiredProof: "PowerAndPromise"},
		{Policy: "p", Missing: "NoAgent", Message: "so", RequiredProof: "PowerAndPromise"}, {Missing: "NoAgent", Message: "so"},
	} {
		text += printed(false, func(p *page) { p.promise(n) }) + "\n"
	}
	golden(t, "promises-words.txt", text)
}

// TestPromisesAreReadWhereAStepNeedsThem: of a health check, or of a repair that runs. Where only the policies were read, a node that fences
// itself needs more.
func TestPromisesAreReadWhereAStepNeedsThem(t *testing.T) {
	step := func(version, kind string) []core.Step {
		return []core.Step{nodeStep("Reboot", 0), {Template: core.Reference{APIVersion: version, Kind: kind}}}
	}
	self, power := step("fettle.io/v1alpha1", selfFenceTemplateKind), step("fettle.io/v1alpha1", powerTemplateKind)
	for sentence, tc := range map[string]struct {
		policies    []core.Policy
		repairs     []core.Repair
		self, power bool
	}{
		"nothing":                 {},
		"a health check":          {[]core.Policy{{}, {Steps: self}}, nil, true, false},
		"a check of the power":    {[]core.Policy{{Steps: power}}, nil, false, true},
		"a kind of another group": {[]core.Policy{{Steps: step("fence.example/v1alpha1", selfFenceTemplateKind)}}, nil, false, false},
		"a repair":                {nil, []core.Repair{{}, {Steps: self}, {Steps: power}}, true, true},
		"a repair by other steps": {nil, []core.Repair{{Steps: []core.Step{nodeStep("Reboot", 0)}}}, false, false},
		"repairs that have ended": {nil, []core.Repair{{Steps: self, Ended: noon}, {Steps: power, Ended: noon}}, false, false},
	} {
		for _, read := range []*promiseReading{nil, {some: true}, {}} {
			v := &view{external: newExternalFacts()}
			v.external.promises = read
			needs, needsPower := v.needsPromises(tc.policies, tc.repairs), v.needsPowerPromises(tc.policies, tc.repairs)
			if needs != (tc.self && (read == nil || read.some)) || needsPower != (tc.power && read == nil) {
				t.Errorf("%s, where %+v was read, needs promises: %t, and for the power: %t", sentence, read, needs, needsPower)
			}
		}
	}
}

// brokenList answers the second page of FencePolicies with an error.
type brokenList struct {
	client.Client

	pages int
}

func (c *brokenList) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	c.pages++
	if c.pages%2 == 0 {
		return errors.New("the connection is reset")
	}
	policies := l.(*v1alpha1.FencePolicyList)
	policies.Continue, policies.Items = "more", []v1alpha1.FencePolicy{{Spec: v1alpha1.FencePolicySpec{RequiredProof: v1alpha1.PowerAndPromise}}}
	return nil
}

// TestPoliciesThatAreReadInPart are not known, and a health check that uses the power alone needs no more.
func TestPoliciesThatAreReadInPart(t *testing.T) {
	if r := readPowerPromises(t.Context(), &brokenList{}); !r.some || r.unread != "" {
		t.Errorf("it has read %+v", r)
	}
}

// TestNodesThatCannotBeFenced: each is named once, in order, and only if it is of the user's own cluster. A health check that needs no promise
// is told nothing.
func TestNodesThatCannotBeFenced(t *testing.T) {
	self := []core.Step{{Template: core.Reference{APIVersion: "fettle.io/v1alpha1", Kind: selfFenceTemplateKind}}}
	power := []core.Step{{Template: core.Reference{APIVersion: "fettle.io/v1alpha1", Kind: powerTemplateKind}}}
	all := &promiseReading{policies: []v1alpha1.FencePolicy{{Spec: v1alpha1.FencePolicySpec{RequiredProof: v1alpha1.PowerAndPromise}}}}
	const none = "no promise stands of 2 nodes that it selects, so no SelfFenceRemediation of such a node can start (NoFencePolicy: no FencePolicy selects it; create one, or label the node): node-a, node-z"
	for sentence, tc := range map[string]struct {
		key      core.ClusterKey
		steps    []core.Step
		promises *promiseReading
		name     string
		says     []string
		explains bool
	}{
		"its own cluster":         {core.ClusterKey{}, self, &promiseReading{}, "workers", []string{none}, true},
		"a workload cluster":      {core.ClusterKey{Namespace: "n", Name: "east"}, self, &promiseReading{}, "workers", nil, false},
		"only policies were read": {core.ClusterKey{}, self, &promiseReading{some: true}, "workers", nil, true},
		"nothing was read":        {core.ClusterKey{}, self, nil, "workers", nil, false},
		"no policy":               {core.ClusterKey{}, self, &promiseReading{}, "others", nil, true},
		"other steps":             {core.ClusterKey{}, []core.Step{nodeStep("Reboot", 0)}, &promiseReading{unread: "you may not"}, "workers", nil, false},
		"other steps, with both":  {core.ClusterKey{}, []core.Step{nodeStep("Reboot", 0)}, all, "workers", nil, false},
		"power alone":             {core.ClusterKey{}, power, &promiseReading{}, "workers", nil, false},
		"unread":                  {core.ClusterKey{}, self, &promiseReading{unread: "you may not"}, "workers", []string{"whether the nodes that it selects promise to fence themselves, since you may not"}, false},
	} {
		s := newFencingScene(t)
		s.Policies[0].Steps, s.Policies[0].Members = tc.steps, []int{2, 3, 1, 0}
		s.Targets[1].Node.Name, s.Targets[2].Node.Name, s.Targets[3].Node.Name = "", "node-a", "node-z"
		s.around.promises = tc.promises
		w := newAssessment(tc.key, []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: NHC{}}}, nil, &s.around, noon)
		d := draft{Document: newDocument("file.yaml", 1), dialect: NHC{}, object: &unstructured.Unstructured{}}
		d.Kind, d.Name = "NodeHealthCheck", tc.name
		warnOfNodesWithoutPromise([]*assessment{w}, []*draft{&d}, tc.promises)
		says := d.Unchecked
		for _, f := range d.Warnings {
			says = append(says, f.Message)
		}
		if diff := cmp.Diff(tc.says, says); diff != "" {
			t.Errorf("%s (-want +got)\n%s", sentence, diff)
		}
		var e, nowhere ExplainedTarget
		w.fillPromise(0, &e)
		w.fillPromise(1, &nowhere)
		if (e.Promise != nil) != tc.explains || nowhere.Promise != nil {
			t.Errorf("%s: explain has %+v, and without a node %+v", sentence, e.Promise, nowhere.Promise)
		}
	}
}
