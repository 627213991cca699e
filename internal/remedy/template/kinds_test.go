package template

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRequestsAreWatchedOnceTheirTemplateIsFound, and for running repairs in any case. Naming a kind alone has nothing but
// its templates watched.
func TestRequestsAreWatchedOnceTheirTemplateIsFound(t *testing.T) {
	policy := []core.Policy{{Ladder: []core.Step{nodeStep("t")}}}
	overlooked := []core.Policy{{Ladder: policy[0].Ladder, Overlooked: true}}
	running := []core.Repair{{Ladder: []core.Step{nodeStep("t")}}}
	for sentence, tc := range map[string]struct {
		templates standing
		template  bool
		policies  []core.Policy
		repairs   []core.Repair
		want      []schema.GroupVersionKind
	}{
		"nothing is known":              {standing{}, false, policy, nil, []schema.GroupVersionKind{xTemplates}},
		"the templates may not be read": {namespaced(forbidden), false, policy, nil, []schema.GroupVersionKind{xTemplates}},
		"the template does not exist":   {namespaced(inStep), false, policy, nil, []schema.GroupVersionKind{xTemplates}},
		"the template is found":         {namespaced(inStep), true, policy, nil, []schema.GroupVersionKind{xTemplates, xs}},
		"the health check is too many":  {namespaced(inStep), true, overlooked, nil, nil},
		"a repair runs":                 {namespaced(inStep), false, nil, running, []schema.GroupVersionKind{xTemplates, xs}},
		"a repair has ended":            {namespaced(inStep), true, nil, []core.Repair{{Ladder: running[0].Ladder, Ended: noon}}, nil},
		"nothing names it":              {namespaced(inStep), true, nil, nil, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := NewClient(Config{}).Of(Fleet{}, func() {})
			k := d.Client.need(xTemplates)
			if k.standing = tc.templates; tc.templates.state == inStep {
				k.shelf = newShelf(nil)
			}
			if tc.template {
				k.shelf.put(parse(t, plainTemplate))
			}
			surveyed := slices.Clone(tc.policies)
			d.Survey(surveyed, &core.Fleet{Repairs: slices.Clone(tc.repairs)})
			if got := d.neededKinds(); !slices.Equal(got, tc.want) {
				t.Errorf("it needs %v, want %v", got, tc.want)
			}
			// What is read is waited for. What is not read is no reason to wait.
			waits := tc.templates.state == unread || tc.template
			if len(tc.policies) > 0 && !tc.policies[0].Overlooked && surveyed[0].Ladder[0].Pending != waits {
				t.Errorf("the step is pending: %t, want %t", surveyed[0].Ladder[0].Pending, waits)
			}
		})
	}
}

// neededKinds returns the kinds that the last survey needed, in the order in which they came.
func (d *Docket) neededKinds() []schema.GroupVersionKind {
	var needed []schema.GroupVersionKind
	for _, gvk := range d.order {
		if d.needsNow(d.kinds[gvk]) {
			needed = append(needed, gvk)
		}
	}
	return needed
}

// TestStandingRequestsKeepTheirKindWatched, as long as Fettle made them: it has to withdraw them.
func TestStandingRequestsKeepTheirKindWatched(t *testing.T) {
	for sentence, own := range map[string]bool{"Fettle's own": true, "another's": false} {
		d := knows(t, namespaced(inStep), namespaced(inStep))
		u := parse(t, owned)
		if own {
			signFor(u, &core.ID{UID: "w-uid"})
		}
		d.kinds[xs].shelf.put(u)
		d.kinds[xs].shelf.put(u.DeepCopy()) // as after each change of it
		d.Survey(nil, &core.Fleet{})
		if got := slices.Contains(d.neededKinds(), xs); got != own {
			t.Errorf("%s: its kind is needed: %t", sentence, got)
		}
		d.kinds[xs].shelf.drop(types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()})
		d.Survey(nil, &core.Fleet{})
		if slices.Contains(d.neededKinds(), xs) {
			t.Errorf("%s: its kind is needed though it is gone", sentence)
		}
	}
}

// TestI15KindsAreBounded: one fleet has so many kinds watched and no more, those of running repairs and of the oldest health
// checks; the others say so. All fleets together are bounded too.
func TestI15KindsAreBounded(t *testing.T) {
	check := func(fleet string, i int) core.Policy {
		s := nodeStep("t")
		s.Template.Kind = fmt.Sprintf("K%s%dTemplate", fleet, i)
		return core.Policy{
			ID: core.ID{Kind: "NodeHealthCheck", Name: fmt.Sprint(i)}, Created: noon.Add(-time.Duration(i) * time.Minute), Ladder: []core.Step{s},
		}
	}
	if mostKinds > 512 || mostKindsOfFleet > 64 {
		t.Fatalf("%d kinds may be watched, and %d for one fleet: docs/threat-model.md says fewer", mostKinds, mostKindsOfFleet)
	}
	c := NewClient(Config{})
	for f := range 2 * mostKinds / mostKindsOfFleet {
		name := string(rune('a' + f))
		d := c.Of(Fleet{Cluster: name}, func() {})
		var policies []core.Policy
		for i := range 2 * mostKindsOfFleet {
			policies = append(policies, check(name, i))
		}
		running := core.Repair{Ladder: check(name, -1).Ladder}
		fleet := core.Fleet{Repairs: []core.Repair{running}}
		for range 3 { // what a fleet needs is counted anew each time
			again := slices.Clone(policies)
			d.Survey(again, &core.Fleet{Repairs: []core.Repair{running}})
		}
		d.Survey(policies, &fleet)
		if len(c.kinds) > mostKinds || d.needed > mostKindsOfFleet {
			t.Fatalf("%d kinds are kept, %d for one fleet", len(c.kinds), d.needed)
		}
		full := f >= mostKinds/mostKindsOfFleet
		for i := range policies {
			refused := strings.Contains(policies[i].Ladder[0].Problem, "too many kinds")
			// The first are the youngest, and the kinds of the repair count too.
			if want := full || i < mostKindsOfFleet+2; refused != want {
				t.Fatalf("fleet %s: of health check %d it is said: %s", name, i, policies[i].Ladder[0].Problem)
			}
		}
		if refused := strings.Contains(fleet.Repairs[0].Ladder[0].Problem, "too many kinds"); refused != full {
			t.Errorf("fleet %s: the running repair is refused: %t", name, refused)
		}
		if full && !slices.ContainsFunc(fleet.Unseen, func(r core.Reference) bool { return r.Kind == running.Ladder[0].Template.Kind }) {
			t.Errorf("fleet %s: the requests of the running repair are taken for seen", name)
		}
	}
}

// TestKindsOfKubernetesAreNeverWatched, nor kinds that Fettle itself reads, whatever names them.
func TestKindsOfKubernetesAreNeverWatched(t *testing.T) {
	for _, kind := range []string{"v1 PodTemplate", "v1 SecretTemplate", "apps/v1 DeploymentTemplate", "cluster.x-k8s.io/v1beta2 MachineTemplate", "fettle.io/v1alpha1 RepairTemplate", "coordination.k8s.io/v1 LeaseTemplate"} {
		d := NewClient(Config{}).Of(Fleet{}, func() {})
		s := nodeStep("t")
		s.Template.APIVersion, s.Template.Kind, _ = strings.Cut(kind, " ")
		policies := []core.Policy{{Ladder: []core.Step{s}}}
		fleet := core.Fleet{Repairs: []core.Repair{{Ladder: []core.Step{s}}}}
		d.Survey(policies, &fleet)
		if len(d.kinds) > 0 {
			t.Errorf("%s: %d kinds are watched", kind, len(d.kinds))
		}
		for _, ladder := range [][]core.Step{policies[0].Ladder, fleet.Repairs[0].Ladder} {
			if !strings.Contains(ladder[0].Problem, "can't be the template of a remediator") {
				t.Errorf("%s: the problem is %q", kind, ladder[0].Problem)
			}
		}
		if needs := NewReading().Needs(policies, nil); len(needs) > 0 {
			t.Errorf("%s: a person reads %v", kind, needs)
		}
	}
}
