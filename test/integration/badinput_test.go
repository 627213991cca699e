package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestNonsenseIsRefused: the API server refuses what a schema can refuse. The message names the field and a valid
// value.
func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	f := newMachineFixture(t, c, "bad")
	for _, tc := range refusedSpecs() {
		err := f.tryHealthCheck("bad", nil, tc.spec)
		if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("%.200s: want it refused, got %v", tc.spec, err)
			_ = f.Delete(cluster.Context(t), f.check("bad"))
			continue
		}
		for _, words := range tc.says {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%.200s: the message does not say %q: %.500s", tc.spec, words, err)
			}
		}
	}
	f.refusesRepairs()
}

type refused struct {
	spec string
	says []string
}

// refusedSpecs are values of the wrong type, sign, size and encoding for every field.
func refusedSpecs() []refused {
	var all []refused
	add := func(format string, values []string, says ...string) {
		for _, value := range values {
			all = append(all, refused{fmt.Sprintf(format, value), says})
		}
	}
	types := func(but ...string) []string {
		return slices.DeleteFunc([]string{`true`, `7`, `1.5`, `"word"`, `[a]`, `[]`, `{a: b}`, `{}`}, func(v string) bool { return slices.Contains(but, v) })
	}
	huge := `"` + strings.Repeat("9", 1<<20) + `"`
	amounts := []string{
		`101%`, `"-1%"`, `-1`, `99999999999`, `many`, `"1.5"`, `"4 0%"`, `"40 %"`, `１０%`, `"0x10"`, `"1e2"`, `""`, `" "`, `"%"`, `"+1"`, `9223372036854775808`,
		`-9223372036854775808`, `1e308`, `"1\n"`, `"1\u202e"`, `∞`, huge,
	}
	add(`maxUnhealthy: %s`, append(amounts, types(`7`)...), "maxUnhealthy")
	add(`maxUnhealthy: %s`, []string{`101%`, `-1`, `many`, `１０%`, `""`}, "spec.maxUnhealthy", "a percentage from 0% to 100%, such as 40%")
	durations := []string{
		`"10"`, `x10m`, `99999999999h`, `999999999h`, `"-10m"`, `"5 minutes"`, `"5 m"`, `1d`, `∞`, `""`, `1e3s`, `"+5m"`, `1h-5m`, `５m`, `"5m\n"`, `"0 whatever"`, huge,
	}
	add(`nodeStartupTimeout: %s`, append(durations, types()...), "spec.nodeStartupTimeout")
	add(`nodeStartupTimeout: %s`, []string{`"10"`, `1d`, `"-10m"`, `"5 m"`}, "a duration such as 300s, 10m or 1h30m")
	add(`unhealthyConditions: [{type: Ready, status: "False", timeout: %s}]`, append(durations, types()...), "spec.unhealthyConditions[0].timeout")
	add(`unhealthyConditions: [{type: Ready, status: "False", timeout: %s}]`, []string{`"10"`, `1d`, `"-10m"`}, "a duration such as 300s, 10m or 1h30m")
	add(`unhealthyConditions: [{type: %s, status: "False"}]`, append(types(`"word"`), `""`, `null`, huge), "type")
	add(`unhealthyConditions: [{type: Ready, status: %s}]`, append(types(`"word"`), `""`, `null`, huge), "status")
	add(`unhealthyConditions: [{status: "False"%s}]`, []string{``}, "spec.unhealthyConditions[0].type")
	add(`unhealthyConditions: %s`, append(types(), `[7]`, `[null]`, `[{}]`, `[`+strings.Repeat(`{type: a, status: b},`, 101)+`]`), "unhealthyConditions")
	add(`selector: %s`, types(`{}`, `{a: b}`), "selector")
	add(`selector: {matchLabels: %s}`, types(`{}`, `{a: b}`), "selector.matchLabels")
	add(`selector: {matchLabels: {role: %s}}`, types(`"word"`), "selector.matchLabels")
	add(`selector: {matchExpressions: %s}`, types(`[]`), "selector.matchExpressions")
	add(`selector: {matchExpressions: [{key: %s, operator: Exists}]}`, types(`"word"`), "selector.matchExpressions[0].key")
	add(`selector: {matchExpressions: [{key: a, operator: %s}]}`, append(types(), `exists`, `""`, `=`), "operator")
	add(`selector: {matchExpressions: [{key: a, operator: In%s}]}`, []string{``, `, values: []`}, "at least one value")
	add(`selector: {matchExpressions: [{key: a, operator: %s, values: [b]}]}`, []string{`Exists`, `DoesNotExist`}, "take no values")
	add(`selector: {matchExpressions: [{key: a, operator: In, values: %s}]}`, types(`[a]`, `[]`), "values")
	add(`remediationTemplate: %s`, types(), "remediationTemplate")
	add(`remediationTemplate: %s`, []string{
		`{}`, `{kind: RebootTemplate, name: a}`, `{apiVersion: a.example/v1, name: a}`, `{apiVersion: a.example/v1, kind: RebootTemplate}`, `{apiVersion: a.example/v1, kind: RebootTemplate, name: ""}`,
		`{apiVersion: a.example/v1, kind: Reboot, name: a}`, `{apiVersion: a.example/v1, kind: Template, name: a}`,
	}, "spec.remediationTemplate", "a kind that ends in Template")
	add(`remediationTemplate: {name: %s}`, types(`"word"`), "remediationTemplate.name")
	return all
}

// refusesRepairs: the API server refuses a Repair that typed clients can't read.
func (f *machineFixture) refusesRepairs() {
	f.t.Helper()
	reference := map[string]any{"kind": "Machine", "name": "m", "uid": "u"}
	for _, tc := range []struct {
		field string
		value any
	}{
		{"startedAt", "2026-08-03T12:00:00Z"}, {"startedAt", "yesterday"}, {"startedAt", 5}, {"startedAt", nil}, {"retry", -1}, {"retry", 1 << 40},
		{"target", "m"}, {"target", map[string]any{"kind": "Machine", "name": "m"}}, {"target", map[string]any{"kind": "", "name": "m", "uid": "u"}},
		{"policy", []any{}}, {"owner", 7}, {"ladder", []any{}}, {"ladder", []any{map[string]any{"remedy": ""}}}, {"reason", ""}, {"unhealthySince", "long"},
	} {
		r := object("fettle.io/v1alpha1", "Repair", f.namespace, "by-hand")
		spec := map[string]any{
			"target": reference, "policy": reference, "reason": "Because", "ladder": []any{map[string]any{"remedy": "Hammer"}}, "startedAt": "2026-08-03T12:00:00.000000Z",
		}
		spec[tc.field] = tc.value
		r.Object["spec"] = spec
		err := f.Create(cluster.Context(f.t), r)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.field) {
			f.t.Errorf("%s: %v: want it refused by its name, got %v", tc.field, tc.value, err)
		}
	}
}

// TestSeedManifestsAreAccepted: the examples of the proposal and of the product guide apply as printed, with names in
// place of their placeholders (docs/reference/proposals.md#machine-health-checks,
// docs/reference/proposals.md#openshift-guide).
func TestSeedManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Namespace(t, "openshift-machine-api")
	examples, err := filepath.Glob(filepath.Join(cluster.Root(), "internal", "dialect", "openshift", "testdata", "*.yaml"))
	if err != nil || len(examples) != 3 {
		t.Fatalf("want the three examples of the proposal and the guide, have %v (%v)", examples, err)
	}
	for _, example := range examples {
		text, err := os.ReadFile(example)
		if err != nil {
			t.Fatalf("reading an example: %v", err)
		}
		for _, u := range cluster.Decode(t, text) {
			u.SetName(strings.TrimSuffix(filepath.Base(example), ".yaml"))
			if err := c.Create(cluster.Context(t), u); err != nil {
				t.Errorf("%s: %v", example, err)
			}
		}
	}
}

// badAnnotation: Fettle reports an invalid annotation once, on its object. Other objects are not affected.
func badAnnotation(f *machineFixture) {
	f.machine("a", machineOptions{phase: "Failed", labels: map[string]string{"role": "pet"}})
	f.machine("b", machineOptions{phase: "Failed"})
	f.healthCheck("broken", map[string]string{annotation.MaxInFlight: "lots"}, "selector: {matchLabels: {role: pet}}")
	said := f.wantStatus("broken", 0, 1, 0, v1beta1.InvalidSpecReason)
	if said.Severity != v1beta1.SeverityError || !strings.Contains(said.Message, annotation.MaxInFlight) || !strings.Contains(said.Message, "unlimited") {
		f.t.Errorf("the condition does not say what is wrong and what to write instead: %+v", said)
	}
	f.wantEvent("broken", v1beta1.InvalidSpecReason)
	f.healthCheck("fine", nil, readyCheck())
	f.wantMachines("a")
	before := len(f.requestsAbout())
	f.Never(f.t, "no requests while nothing changes", quiet, func(context.Context) error {
		if after := len(f.requestsAbout()); after > before+3 {
			return fmt.Errorf("%d requests in %s", after-before, quiet)
		}
		return nil
	})
	f.annotate(f.check("broken"), annotation.MaxInFlight, "2")
	f.wantMachines()
}

// repair creates a Repair as a user might who has read about them.
func (f *machineFixture) repair(name string, spec, status any) {
	f.t.Helper()
	r := object("fettle.io/v1alpha1", "Repair", f.namespace, name)
	r.Object["spec"] = spec
	f.create(r)
	if status == nil {
		return
	}
	r.Object["status"] = status
	if err := f.Status().Update(cluster.Context(f.t), r); err != nil {
		f.t.Fatalf("giving repair %s its status: %v", name, err)
	}
}

func (f *machineFixture) requestsAbout() []cluster.Request {
	f.t.Helper()
	var about []cluster.Request
	for _, r := range f.Requests(f.t) {
		if r.Namespace == f.namespace {
			about = append(about, r)
		}
	}
	return about
}
