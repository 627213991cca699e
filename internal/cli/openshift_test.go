package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/slim"
)

// externalCheck is a health check of the strategy external-baremetal.
func externalCheck() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
		"metadata": map[string]any{"name": "metal", "namespace": "machines", "annotations": map[string]any{"machine.openshift.io/remediation-strategy": "external-baremetal"}},
		"spec":     map[string]any{"selector": map[string]any{}},
	}}
}

// TestFlagOfTheStrategy: commands decide as controllers with the same flag, and without it as those without.
func TestFlagOfTheStrategy(t *testing.T) {
	for _, tc := range []struct {
		args         []string
		remedy, says string
	}{
		{nil, openshift.AnnotateMachine, "unhealthy machines get the annotation"},
		{[]string{"--external-baremetal=Mark"}, openshift.AnnotateMachine, "unhealthy machines get the annotation"},
		{[]string{"--external-baremetal=PowerRemediation"}, openshift.RequestMachineRemediation, "unhealthy machines get a PowerRemediation"},
	} {
		d := &OpenShift{}
		s := newSession(Options{Dialects: []Dialect{d, NHC{}}})
		cmd := statusCommand(s.Options)
		if usage := cmd.Flags().Lookup("external-baremetal"); usage == nil || usage.DefValue != "Mark" {
			t.Errorf("the help names no default, or another: %+v", usage)
		}
		if err := cmd.ParseFlags(tc.args); err != nil {
			t.Fatal(err)
		}
		reading := d.Read()
		reading.Sources()[0].Put(externalCheck())
		seen := reading.Observe(noon)
		if got := seen[0].Policies[0].Steps[0].Remedy; got != tc.remedy {
			t.Errorf("%v: the first step is %s, want %s", tc.args, got, tc.remedy)
		}
		remarks, _ := d.Review(externalCheck())
		if !slices.ContainsFunc(remarks, func(r Remark) bool { return strings.Contains(r.Text, tc.says) }) {
			t.Errorf("%v: no remark of %+v says %q", tc.args, remarks, tc.says)
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&OpenShift{}).addFlags(flags)
	if err := flags.Parse([]string{"--external-baremetal=power"}); err == nil || !strings.Contains(err.Error(), "give Mark or PowerRemediation") {
		t.Errorf("an unknown way is no error: %v", err)
	}
}

// TestSourcesOfOpenShift: machines are read after their health checks, and nodes after both, so that no node is read too early.
func TestSourcesOfOpenShift(t *testing.T) {
	wantSources(t, &OpenShift{}, []string{
		"machinehealthchecks.machine.openshift.io: *unstructured.UnstructuredList of MachineHealthCheckList, in a namespace",
		"machines.machine.openshift.io: *openshift.MachineList of , in a namespace",
		"machinesets.machine.openshift.io: *unstructured.UnstructuredList of MachineSetList, in a namespace, or else unknown: whether the template of a machine set that was given up has changed since",
		"nodes: *slim.NodeList of ",
	}, externalCheck(), &openshift.Machine{Meta: slim.Meta{Name: "a"}}, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "uid": "set"}}}, &slim.Node{Meta: slim.Meta{Name: "a"}})
}

// wantSources fails unless a dialect reads these lists in this order. The first object of each counts, and not once more.
func wantSources(t *testing.T, d Dialect, want []string, objects ...client.Object) {
	t.Helper()
	var got []string
	for i, s := range d.Read().Sources() {
		line := fmt.Sprintf("%s: %T of %s", s.Resource, s.List, s.List.GetObjectKind().GroupVersionKind().Kind)
		if s.Namespaced {
			line += ", in a namespace"
		}
		if s.Without != "" {
			line += ", or else unknown: " + s.Without
		}
		got = append(got, line)
		if i < len(objects) && (!s.Put(objects[i]) || s.Put(objects[i])) {
			t.Errorf("%s: an object counts never, or twice", s.Resource)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the lists (-want +got):\n%s", diff)
	}
}

// TestFieldOfTheStrategy: a health check without a template has the annotation in its place.
func TestFieldOfTheStrategy(t *testing.T) {
	with := externalCheck()
	with.Object["spec"] = map[string]any{"remediationTemplate": map[string]any{"name": "x"}}
	for _, tc := range []struct {
		u           *unstructured.Unstructured
		field, want string
	}{
		{externalCheck(), "spec.remediationTemplate", "metadata.annotations.machine.openshift.io/remediation-strategy"},
		{externalCheck(), "spec.selector", "spec.selector"},
		{with, "spec.remediationTemplate", "spec.remediationTemplate"},
	} {
		if got := (&OpenShift{}).FieldOf(tc.u, tc.field); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.field, got, tc.want)
		}
	}
}

// TestBuiltInTemplatesNeedNotExist: commands know those of the strategy, and no others.
func TestBuiltInTemplatesNeedNotExist(t *testing.T) {
	find := newExternalFacts().templates.BuiltIn
	r := core.Reference{APIVersion: "fettle.io/v1alpha1", Kind: "PowerRemediationTemplate", Namespace: "machines", Name: "external-baremetal"}
	if got := find(r); got.Object == nil || got.Problem != "" || got.Pending {
		t.Errorf("the template is %+v", got)
	}
	if r.Name = "reboot"; find(r).Object != nil {
		t.Error("another template is built in")
	}
}

// TestMissingPower: each right of config/power that the controller lacks is named.
func TestMissingPower(t *testing.T) {
	all := []string{"get secrets.", "delete nodes.", "list pods.", "list volumeattachments.storage.k8s.io", "get baremetalhosts.metal3.io"}
	lack := func(j *accessReviewer) ([]string, error) {
		return (&session{cluster: j, connection: &connection{controller: "home", bmcs: "bmcs"}}).missingPower(t.Context())
	}
	if lacks, err := lack(&accessReviewer{allowed: all}); len(lacks) > 0 || err != nil {
		t.Errorf("nothing is missing, yet it lacks %q (%v)", lacks, err)
	}
	for i, without := range all {
		want := strings.TrimSuffix(without, ".")
		if i == 0 {
			want += " of namespace bmcs"
		}
		if lacks, err := lack(&accessReviewer{allowed: slices.Delete(slices.Clone(all), i, i+1)}); err != nil || !slices.Equal(lacks, []string{want}) {
			t.Errorf("it lacks %q (%v), want %q", lacks, err, want)
		}
	}
	down := errors.New("the API server is down")
	if lacks, err := lack(&accessReviewer{refuse: down}); len(lacks) > 0 || !errors.Is(err, down) {
		t.Errorf("it lacks %q (%v)", lacks, err)
	}
	markers, err := os.ReadFile("../remediator/powercycle/rights/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(markers), "+kubebuilder:rbac:"); n != len(powerRights) {
		t.Errorf("config/power grants %d rights, and %d are reviewed", n, len(powerRights))
	}
}
