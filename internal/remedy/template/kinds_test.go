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
	policy := []core.Policy{{Steps: []core.Step{nodeStep("t")}}}
	overlooked := []core.Policy{{Steps: policy[0].Steps, Unjudged: true}}
	running := []core.Repair{{Steps: []core.Step{nodeStep("t")}}}
	for sentence, tc := range map[string]struct {
		templates watchStatus
		template  bool
		policies  []core.Policy
		repairs   []core.Repair
		want      []schema.GroupVersionKind
	}{
		"nothing is known":              {watchStatus{}, false, policy, nil, []schema.GroupVersionKind{xTemplates}},
		"the templates may not be read": {namespaced(forbidden), false, policy, nil, []schema.GroupVersionKind{xTemplates}},
		"the template does not exist":   {namespaced(synced), false, policy, nil, []schema.GroupVersionKind{xTemplates}},
		"the template is found":         {namespaced(synced), true, policy, nil, []schema.GroupVersionKind{xTemplates, xs}},
		"the health check is too many":  {namespaced(synced), true, overlooked, nil, nil},
		"a repair runs":                 {namespaced(synced), false, nil, running, []schema.GroupVersionKind{xTemplates, xs}},
		"a repair has ended":            {namespaced(synced), true, nil, []core.Repair{{Steps: running[0].Steps, Ended: noon}}, nil},
		"nothing names it":              {namespaced(synced), true, nil, nil, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := NewClient(Config{}).ForCluster(core.ClusterKey{}, func() {})
			k := d.Client.need(xTemplates)
			if k.watchStatus = tc.templates; tc.templates.state == synced {
				k.store = newStore(nil)
			}
			if tc.template {
				k.store.put(parse(t, plainTemplate))
			}
			surveyed := slices.Clone(tc.policies)
			d.AddFacts(surveyed, &core.Cluster{Repairs: slices.Clone(tc.repairs)})
			if got := d.neededKinds(); !slices.Equal(got, tc.want) {
				t.Errorf("it needs %v, want %v", got, tc.want)
			}
			// The client waits for a kind that is being read, and for no other.
			waits := tc.templates.state == pending || tc.template
			if len(tc.policies) > 0 && !tc.policies[0].Unjudged && surveyed[0].Steps[0].Pending != waits {
				t.Errorf("the step is pending: %t, want %t", surveyed[0].Steps[0].Pending, waits)
			}
		})
	}
}

// neededKinds returns the kinds that the last survey needed, in the order in which they came.
func (d *ClusterClient) neededKinds() []schema.GroupVersionKind {
	var needed []schema.GroupVersionKind
	for _, gvk := range d.order {
		if d.needsNow(d.kinds[gvk]) {
			needed = append(needed, gvk)
		}
	}
	return needed
}

// TestRequestsKeepTheirKindWatched, as long as Fettle made them: it has to withdraw them.
func TestRequestsKeepTheirKindWatched(t *testing.T) {
	for sentence, own := range map[string]bool{"Fettle's own": true, "another's": false} {
		d := knows(t, namespaced(synced), namespaced(synced))
		u := parse(t, owned)
		if own {
			signFor(u, &core.ID{UID: "w-uid"})
		}
		d.kinds[xs].store.put(u)
		d.kinds[xs].store.put(u.DeepCopy()) // as after each change of it
		d.AddFacts(nil, &core.Cluster{})
		if got := slices.Contains(d.neededKinds(), xs); got != own {
			t.Errorf("%s: its kind is needed: %t", sentence, got)
		}
		d.kinds[xs].store.drop(types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()})
		d.AddFacts(nil, &core.Cluster{})
		if slices.Contains(d.neededKinds(), xs) {
			t.Errorf("%s: its kind is needed though it is gone", sentence)
		}
	}
}

// TestI15KindsAreBounded: one cluster has so many kinds watched and no more, those of running repairs and of the oldest health
// checks; the others say so. All clusters together are bounded too.
func TestI15KindsAreBounded(t *testing.T) {
	check := func(name string, i int) core.Policy {
		s := nodeStep("t")
		s.Template.Kind = fmt.Sprintf("K%s%dTemplate", name, i)
		return core.Policy{
			ID: core.ID{Kind: "NodeHealthCheck", Name: fmt.Sprint(i)}, Created: noon.Add(-time.Duration(i) * time.Minute), Steps: []core.Step{s},
		}
	}
	if mostKinds > 512 || mostKindsOfCluster > 64 {
		t.Fatalf("%d kinds may be watched, and %d for one cluster: docs/threat-model.md says fewer", mostKinds, mostKindsOfCluster)
	}
	c := NewClient(Config{})
	for f := range 2 * mostKinds / mostKindsOfCluster {
		name := string(rune('a' + f))
		d := c.ForCluster(core.ClusterKey{Name: name}, func() {})
		var policies []core.Policy
		for i := range 2 * mostKindsOfCluster {
			policies = append(policies, check(name, i))
		}
		running := core.Repair{Steps: check(name, -1).Steps}
		cluster := core.Cluster{Repairs: []core.Repair{running}}
		for range 3 { // what a cluster needs is counted anew each time
			again := slices.Clone(policies)
			d.AddFacts(again, &core.Cluster{Repairs: []core.Repair{running}})
		}
		d.AddFacts(policies, &cluster)
		if len(c.kinds) > mostKinds || d.neededCount > mostKindsOfCluster {
			t.Fatalf("%d kinds are kept, %d for one cluster", len(c.kinds), d.neededCount)
		}
		full := f >= mostKinds/mostKindsOfCluster
		for i := range policies {
			refused := strings.Contains(policies[i].Steps[0].Problem, "too many kinds")
			// The first are the youngest, and the kinds of the repair count too.
			if want := full || i < mostKindsOfCluster+2; refused != want {
				t.Fatalf("cluster %s: of health check %d it is said: %s", name, i, policies[i].Steps[0].Problem)
			}
		}
		if refused := strings.Contains(cluster.Repairs[0].Steps[0].Problem, "too many kinds"); refused != full {
			t.Errorf("cluster %s: the running repair is refused: %t", name, refused)
		}
		if full && !slices.ContainsFunc(cluster.UnlistedTemplates, func(r core.Reference) bool { return r.Kind == running.Steps[0].Template.Kind }) {
			t.Errorf("cluster %s: the requests of the running repair are taken for seen", name)
		}
	}
}

// TestKindsOfKubernetesAreNeverWatched, nor kinds that Fettle itself reads, whatever names them.
func TestKindsOfKubernetesAreNeverWatched(t *testing.T) {
	for _, kind := range []string{"v1 PodTemplate", "v1 SecretTemplate", "apps/v1 DeploymentTemplate", "cluster.x-k8s.io/v1beta2 MachineTemplate", "fettle.io/v1alpha1 RepairTemplate", "coordination.k8s.io/v1 LeaseTemplate"} {
		d := NewClient(Config{}).ForCluster(core.ClusterKey{}, func() {})
		s := nodeStep("t")
		s.Template.APIVersion, s.Template.Kind, _ = strings.Cut(kind, " ")
		policies := []core.Policy{{Steps: []core.Step{s}}}
		cluster := core.Cluster{Repairs: []core.Repair{{Steps: []core.Step{s}}}}
		d.AddFacts(policies, &cluster)
		if len(d.kinds) > 0 {
			t.Errorf("%s: %d kinds are watched", kind, len(d.kinds))
		}
		for _, steps := range [][]core.Step{policies[0].Steps, cluster.Repairs[0].Steps} {
			if !strings.Contains(steps[0].Problem, "can't be the template of a remediator") {
				t.Errorf("%s: the problem is %q", kind, steps[0].Problem)
			}
		}
		if needs := NewReading().Needs(policies, nil); len(needs) > 0 {
			t.Errorf("%s: a person reads %v", kind, needs)
		}
	}
}

// TestKindOfRequestsIsTooMany: the kind of the template is the last that a cluster may need.
func TestKindOfRequestsIsTooMany(t *testing.T) {
	var steps []core.Step
	for i := range mostKindsOfCluster - 1 {
		s := nodeStep("t")
		s.Template.Kind = fmt.Sprintf("K%dTemplate", i)
		steps = append(steps, s)
	}
	policies, cluster := []core.Policy{{Steps: append(steps, nodeStep("t"))}}, core.Cluster{}
	knows(t, namespaced(synced), watchStatus{}, plainTemplate).AddFacts(policies, &cluster)
	const want = "template XTemplate remediators/t is not looked for, since health checks of this cluster name too many kinds: at most 64 kinds of templates and requests are watched for one cluster, " +
		"the oldest health checks first, and 512 for all; have health checks name fewer kinds"
	if got := policies[0].Steps[mostKindsOfCluster-1].Problem; got != want {
		t.Errorf("the problem is %q, want %q", got, want)
	}
	if !slices.Contains(cluster.UnlistedTemplates, core.Reference{APIVersion: "x.example/v1", Kind: "XTemplate"}) {
		t.Errorf("its requests are taken for seen: %v", cluster.UnlistedTemplates)
	}
}
