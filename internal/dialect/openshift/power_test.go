package openshift

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
)

// powers has a policy request PowerRemediations from a built-in template.
func powers(template string) func(*core.Policy) {
	return func(p *core.Policy) {
		requests("fettle.io/v1alpha1", "PowerRemediationTemplate", template)(p)
		p.FailedSteps, p.RequestsAwaitMarks = deletion(), true
	}
}

// TestWaysOfTheStrategy: the annotation of a health check decides, and else the controller's setting does.
func TestWaysOfTheStrategy(t *testing.T) {
	const (
		strategy = v1beta1.RemediationStrategyAnnotation
		way      = annotation.ExternalBaremetal
		release  = annotation.PowerRelease
	)
	problem := func(text string) func(*core.Policy) { return func(p *core.Policy) { p.Problem = text } }
	with := func(pairs ...string) map[string]string {
		all := map[string]string{strategy: "external-baremetal"}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	for sentence, tc := range map[string]struct {
		usual       ExternalBaremetal
		spec        string
		annotations map[string]string
		want        core.Policy
	}{
		"no setting":                       {"", `{}`, with(), plain(handsOver)},
		"the setting marks":                {Mark, `{}`, with(), plain(handsOver)},
		"the setting powers":               {PowerRemediation, `{}`, with(), plain(powers("external-baremetal"))},
		"the health check marks":           {PowerRemediation, `{}`, with(way, "Mark"), plain(handsOver)},
		"the health check powers":          {Mark, `{}`, with(way, "PowerRemediation"), plain(powers("external-baremetal"))},
		"a node is deleted":                {PowerRemediation, `{}`, with(release, "DeleteNode"), plain(powers("external-baremetal"))},
		"a node is tainted":                {PowerRemediation, `{}`, with(release, "Taint"), plain(powers("external-baremetal-taint"))},
		"a release without a power":        {Mark, `{}`, with(release, "Taint"), plain(handsOver)},
		"no strategy":                      {PowerRemediation, `{}`, nil, plain()},
		"no strategy, and a way":           {PowerRemediation, `{}`, map[string]string{way: "PowerRemediation", release: "Taint"}, plain()},
		"another strategy":                 {PowerRemediation, `{}`, map[string]string{strategy: "reboot"}, plain()},
		"a template goes before":           {PowerRemediation, `{remediationTemplate: {apiVersion: x.example/v1, kind: XTemplate, name: x}}`, with(), plain(requests("x.example/v1", "XTemplate", "x"))},
		"an unknown way":                   {PowerRemediation, `{}`, with(way, "mark"), plain(powers("external-baremetal"), problem(`annotation fettle.io/external-baremetal is "mark"; give Mark or PowerRemediation`))},
		"an unknown way is no other":       {Mark, `{}`, with(way, ""), plain(handsOver, problem(`annotation fettle.io/external-baremetal is ""; give Mark or PowerRemediation`))},
		"an unknown release":               {PowerRemediation, `{}`, with(release, "taint"), plain(powers("external-baremetal"), problem(`annotation fettle.io/power-release is "taint"; give DeleteNode or Taint`))},
		"an unknown release of marks":      {Mark, `{}`, with(release, ""), plain(handsOver, problem(`annotation fettle.io/power-release is ""; give DeleteNode or Taint`))},
		"nothing that is known, and power": {PowerRemediation, `{}`, with(way, "a", release, "b"), plain(powers("external-baremetal"), problem("annotation fettle.io/external-baremetal is \"a\"; give Mark or PowerRemediation; annotation fettle.io/power-release is \"b\"; give DeleteNode or Taint"))},
	} {
		t.Run(sentence, func(t *testing.T) {
			u := check(t, "check", "12", tc.spec, tc.annotations)
			got := translate(u, tc.usual)
			if diff := cmp.Diff(tc.want, got.policy, asTranslated()); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			of := []core.Policy{readingOf(tc.usual, u), clientOf(tc.usual, u)}
			for _, p := range of {
				if diff := cmp.Diff(got.policy, p, cmpopts.IgnoreFields(core.Policy{}, "Members")); diff != "" {
					t.Errorf("another reads (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// readingOf returns the policy of a reading.
func readingOf(usual ExternalBaremetal, u *unstructured.Unstructured) core.Policy {
	r := NewReading(usual)
	r.PutCheck(u)
	return r.Observe(noon).Policies[0]
}

// clientOf returns the policy of a client that has written a status.
func clientOf(usual ExternalBaremetal, u *unstructured.Unstructured) core.Policy {
	c := NewClient(Config{External: usual})
	c.store.putCheck(u)
	u = u.DeepCopy()
	u.SetResourceVersion("13")
	c.store.storeWritten(u)
	policies, _ := c.store.snapshot(nil)
	return policies[0]
}

// TestLiveReadHasTheSetting: a health check that has not changed has the fingerprint with which its repairs were decided.
func TestLiveReadHasTheSetting(t *testing.T) {
	u := check(t, "check", "1", `{}`, map[string]string{v1beta1.RemediationStrategyAnnotation: "external-baremetal"})
	live := getter(func(_ string, into client.Object) error {
		into.(*unstructured.Unstructured).Object = u.DeepCopy().Object
		return nil
	})
	prints := map[string]bool{}
	for _, usual := range []ExternalBaremetal{Mark, PowerRemediation} {
		c := NewClient(Config{External: usual, Live: live})
		c.store.putCheck(u)
		policies, _ := c.store.snapshot(nil)
		got, err := c.ReadPolicy(t.Context(), policies[0].ID)
		if err != nil || got == "" || got != policies[0].Fingerprint {
			t.Errorf("%s: the fingerprint is %q, want %q (%v)", usual, got, policies[0].Fingerprint, err)
		}
		prints[got] = true
	}
	if len(prints) != 2 {
		t.Error("the setting does not change the fingerprint")
	}
}

// TestWaysByName: a flag takes their names alone.
func TestWaysByName(t *testing.T) {
	for name, valid := range map[string]bool{"Mark": true, "PowerRemediation": true, "": false, "mark": false, "Power": false} {
		way := ExternalBaremetal("unset")
		err := way.Set(name)
		want := "unset"
		if valid {
			want = name
		}
		if (err == nil) != valid || way.String() != want || way.Type() != "way" {
			t.Errorf("%q makes %q of type %q (%v)", name, way.String(), way.Type(), err)
		}
	}
}

// TestBuiltInTemplates: the strategy has two templates in each namespace, whose hosts are provisioned anew when no power
// cycle helps.
func TestBuiltInTemplates(t *testing.T) {
	reference := func(change func(*core.Reference)) core.Reference {
		r := core.Reference{APIVersion: "fettle.io/v1alpha1", Kind: "PowerRemediationTemplate", Namespace: "machines", Name: "external-baremetal"}
		change(&r)
		return r
	}
	for sentence, tc := range map[string]struct {
		of      core.Reference
		release string
	}{
		"the node is deleted":  {reference(func(*core.Reference) {}), "DeleteNode"},
		"the node is tainted":  {reference(func(r *core.Reference) { r.Name = "external-baremetal-taint" }), "Taint"},
		"another name":         {reference(func(r *core.Reference) { r.Name = "reboot" }), ""},
		"without a name":       {reference(func(r *core.Reference) { r.Name = "" }), ""},
		"without a namespace":  {reference(func(r *core.Reference) { r.Namespace = "" }), ""},
		"another kind":         {reference(func(r *core.Reference) { r.Kind = "MachineDeletionRemediationTemplate" }), ""},
		"another group":        {reference(func(r *core.Reference) { r.APIVersion = "example.org/v1alpha1" }), ""},
		"in another namespace": {reference(func(r *core.Reference) { r.Namespace = "elsewhere" }), "DeleteNode"},
	} {
		got := BuiltInTemplate(tc.of)
		if tc.release == "" {
			if got != nil {
				t.Errorf("%s: there is %v", sentence, got)
			}
			continue
		}
		want := map[string]any{
			"apiVersion": "fettle.io/v1alpha1", "kind": "PowerRemediationTemplate", "metadata": map[string]any{"name": tc.of.Name, "namespace": tc.of.Namespace},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"release": tc.release, "onFailure": "DeleteMachine"}}},
		}
		if diff := cmp.Diff(want, got.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestRemarksOnWays: the author learns who powers the hosts, and which annotations have no effect.
func TestRemarksOnWays(t *testing.T) {
	const (
		strategy = v1beta1.RemediationStrategyAnnotation
		way      = annotation.ExternalBaremetal
		release  = annotation.PowerRelease
		left     = "are left to the controller that repairs their hosts"
		power    = "unhealthy machines get a PowerRemediation"
		template = `, remediationTemplate: {apiVersion: x.example/v1, kind: XTemplate, name: x}`
		sound    = `{selector: {matchLabels: {role: worker}}, maxUnhealthy: 40%, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}, {type: Ready, status: "False", timeout: 300s}]`
	)
	for sentence, tc := range map[string]struct {
		usual       ExternalBaremetal
		more        string
		annotations map[string]string
		want        []string
	}{
		"marked":                         {Mark, "", map[string]string{strategy: externalStrategy}, []string{strategy + ": " + left}},
		"marked, and a release":          {Mark, "", map[string]string{strategy: externalStrategy, release: "Taint"}, []string{release + ": since machines are marked", strategy + ": " + left}},
		"powered":                        {PowerRemediation, "", map[string]string{strategy: externalStrategy}, []string{strategy + ": " + power}},
		"powered by the annotation":      {Mark, "", map[string]string{strategy: externalStrategy, way: "PowerRemediation", release: "Taint"}, []string{strategy + ": " + power}},
		"no strategy":                    {PowerRemediation, "", nil, nil},
		"no strategy and ways":           {PowerRemediation, "", map[string]string{way: "Mark", release: "Taint"}, []string{way + ": is ignored, since it is for machines", release + ": is ignored, since it is for machines"}},
		"a way of another strategy":      {PowerRemediation, "", map[string]string{strategy: "reboot", way: "Mark"}, []string{strategy + ": which means nothing", way + ": is ignored"}},
		"a way that is not known":        {Mark, "", map[string]string{strategy: externalStrategy, way: "x"}, []string{way + ": give Mark or PowerRemediation"}},
		"a way beside a template":        {Mark, template, map[string]string{strategy: externalStrategy, way: "Mark"}, []string{strategy + ": is ignored", way + ": is ignored"}},
		"a release that is not known":    {PowerRemediation, "", map[string]string{strategy: externalStrategy, release: "x"}, []string{release + ": give DeleteNode or Taint"}},
		"the setting decides on remarks": {PowerRemediation, "", map[string]string{strategy: externalStrategy, way: "Mark", release: "Taint"}, []string{release + ": since machines are marked", strategy + ": " + left}},
	} {
		remarks, _ := Review(check(t, "check", "1", sound+tc.more+"}", tc.annotations), tc.usual)
		if len(remarks) != len(tc.want) {
			t.Errorf("%s: %d remarks, want %d: %+v", sentence, len(remarks), len(tc.want), remarks)
			continue
		}
		for i, r := range remarks {
			field, says, _ := strings.Cut(tc.want[i], ": ")
			if r.Field != "metadata.annotations."+field || !strings.Contains(r.Text, says) {
				t.Errorf("%s: %s: %s; want %s", sentence, r.Field, r.Text, tc.want[i])
			}
		}
	}
}

// TestClaimOfAMachine: a machine says which remediation works on it.
func TestClaimOfAMachine(t *testing.T) {
	for value, want := range map[string]string{
		"":          `remediation "" has claimed it by annotation fettle.io/claimed-by`,
		"m/a/a-uid": `remediation "m/a/a-uid" has claimed it by annotation fettle.io/claimed-by`,
	} {
		if got := readMachine(aMachine("a", annotated(annotation.ClaimedBy, value))).target; !got.Claimed || got.Claimant != want {
			t.Errorf("%s: %q, want %q", value, got.Claimant, want)
		}
	}
	for _, m := range []*Machine{aMachine("a"), aMachine("a", annotated("fettle.io/other", "x"))} {
		if got := readMachine(m).target; got.Claimed || got.Claimant != "" {
			t.Errorf("without a claim it says %q", got.Claimant)
		}
	}
}
