package cli

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// unready has the node of the health check infra fail.
func (f *managementCluster) unready(labels string) {
	f.put(nodesList, `{metadata: {name: node-infra, uid: node-uid-infra, labels: {role: infra`+labels+`}}, status: {conditions: [{type: Ready, status: Unknown, lastTransitionTime: "2026-08-01T11:00:00Z"}]}}`)
}

// budgets has the budget of etcd on OpenShift.
const budgets = "/apis/policy/v1/namespaces/openshift-etcd/poddisruptionbudgets"

var externalScenes = map[string]managementScene{
	"none-served": {func(f *managementCluster) {
		f.unready("")
		delete(f.items, versionsList)
		delete(f.items, nodeLeasesList)
		delete(f.items, rebootsList)
		delete(f.items, templatesList)
	}, []string{"status", "explain node/node-infra"}},
	"refused": {func(f *managementCluster) {
		f.unready("")
		for _, list := range []string{versionsList, nodeLeasesList, rebootsList} {
			f.messages[list] = "no"
		}
	}, []string{"status", "explain node/node-infra"}},
	"failing": {func(f *managementCluster) {
		f.unready("")
		for _, list := range []string{versionsList, nodeLeasesList, rebootsList} {
			f.set(list, http.StatusInternalServerError)
		}
		f.set(templatesList, http.StatusInternalServerError)
	}, []string{"status", "explain node/node-infra"}},
	"undiscovered": {func(f *managementCluster) {
		f.unready("")
		f.set("/apis/fix.example/v1", http.StatusInternalServerError)
		f.set("/apis/config.openshift.io/v1", http.StatusInternalServerError)
	}, []string{"status", "explain node/node-infra"}},
	"unknown-kinds": {func(f *managementCluster) {
		f.unready("")
		f.set("/apis/fix.example/v1", http.StatusNotFound)
	}, []string{"status"}},
	"due": {func(f *managementCluster) {
		f.unready("")
		f.put(versionsList, `{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: other}, status: {conditions: [{type: Progressing, status: "False"}]}}`)
	}, []string{"status", "explain node/node-infra"}},
	"upgrading": {func(f *managementCluster) {
		f.unready("")
		f.put(versionsList, `{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, status: {conditions: [{type: Progressing, status: "True"}]}}`)
		f.put(nodeLeasesList, `{metadata: {namespace: medik8s-leases, name: node-node-infra}, spec: {holderIdentity: maintenance, leaseDurationSeconds: 3600, renewTime: "2026-08-01T11:59:00.000000Z"}}`)
	}, []string{"status", "explain node/node-infra"}},
	"upgrade-hidden-from-machines": {func(f *managementCluster) {
		delete(f.items, nodeChecksList)
		f.messages[versionsList] = "no"
	}, []string{"status"}},
	"quorum-refused": {func(f *managementCluster) {
		f.unready(", node-role.kubernetes.io/control-plane: ''")
		f.messages[budgets] = `poddisruptionbudgets.policy is forbidden: User "u" cannot list resource "poddisruptionbudgets" in API group "policy"`
	}, []string{"explain node/node-infra"}},
	"quorum-failing": {func(f *managementCluster) {
		f.unready(", node-role.kubernetes.io/control-plane: ''")
		f.set(budgets, http.StatusInternalServerError)
	}, []string{"explain node/node-infra"}},
	"quorum-outside-openshift": {func(f *managementCluster) {
		f.unready(", node-role.kubernetes.io/control-plane: ''")
		delete(f.items, versionsList)
		f.list("/api/v1/namespaces/kube-system/pods", "v1", "PodList")
		f.list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "coordination.k8s.io/v1", "LeaseList")
		f.set("/api/v1/namespaces/kube-system", object(f.t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, annotations: {fettle.io/etcd: external}}}"))
	}, []string{"explain node/node-infra"}},
	"quorum-of-the-healthy": {func(f *managementCluster) {
		f.put(nodesList, `{metadata: {name: node-infra, uid: node-uid-infra, labels: {role: infra, node-role.kubernetes.io/control-plane: ''}}, status: {conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-07-01T00:00:00Z"}]}}`)
	}, []string{"explain node/node-infra -o yaml"}},
}

// TestExternalFacts: each fact that is not known is told with its reason: a right that the user lacks, a failure, or a kind that is not served.
func TestExternalFacts(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(externalScenes)) {
		t.Run(name, func(t *testing.T) {
			f := startManagementCluster(t)
			externalScenes[name].change(f)
			f.transcript(t, "commands-external-"+name, externalScenes[name].lines...)
		})
	}
}

// policyReading has health checks alone.
type policyReading struct{ policies []core.Policy }

func (r *policyReading) Sources() []Source { return nil }

func (r *policyReading) Observe(time.Time) []ClusterObservation {
	return []ClusterObservation{{Observation: core.Observation{Policies: r.policies}}}
}

func (r *policyReading) Unmet(core.ID, core.ID) ([]string, bool) { return nil, false }

// TestNeedsMore: a command that watches reads again when a health check or a running repair needs facts that were not read.
func TestNeedsMore(t *testing.T) {
	step := func(version, kind string) core.Step {
		s := nodeStep("Reboot", 0)
		s.Template.APIVersion, s.Template.Kind = version, kind
		return s
	}
	reboot := nodeStep("Reboot", 0)
	power, fence := step("fettle.io/v1alpha1", powerTemplateKind), step("fettle.io/v1alpha1", selfFenceTemplateKind)
	read := func(v *view) {
		v.external.versionsRead, v.external.leasesRead = true, true
		v.external.bmcs, v.external.promises = &bmcReading{}, &promiseReading{}
		for _, kind := range []string{"Reboot"} {
			v.external.templates.Begin(templateKind(kind), true)
			v.external.templates.Begin(requestKind(kind), true)
		}
		for _, kind := range []string{powerKind, powerTemplateKind, selfFenceKind, selfFenceTemplateKind} {
			v.external.templates.Begin(v1alpha1.GroupVersion.WithKind(kind), true)
		}
	}
	for name, c := range map[string]struct {
		policies []core.Policy
		repairs  []core.Step
		change   func(*externalFacts)
		want     bool
	}{
		"nothing":                          {nil, nil, func(s *externalFacts) { *s = newExternalFacts() }, false},
		"all is read":                      {[]core.Policy{{Holder: "a", Steps: []core.Step{reboot, power, fence}}}, []core.Step{reboot, power, fence}, func(*externalFacts) {}, false},
		"versions":                         {[]core.Policy{{}}, nil, func(s *externalFacts) { s.versionsRead = false }, true},
		"versions, and no health check":    {nil, []core.Step{reboot}, func(s *externalFacts) { s.versionsRead = false }, false},
		"leases":                           {[]core.Policy{{}, {Holder: "a"}}, nil, func(s *externalFacts) { s.leasesRead = false }, true},
		"leases, and no holder":            {[]core.Policy{{}}, nil, func(s *externalFacts) { s.leasesRead = false }, false},
		"a template":                       {[]core.Policy{{Steps: []core.Step{step("fix.example/v1", "OtherTemplate")}}}, nil, func(*externalFacts) {}, true},
		"a template of a repair":           {nil, []core.Step{step("fix.example/v1", "OtherTemplate")}, func(*externalFacts) {}, true},
		"BMCs":                             {[]core.Policy{{Steps: []core.Step{power}}}, nil, func(s *externalFacts) { s.bmcs = nil }, true},
		"BMCs of a repair":                 {nil, []core.Step{power}, func(s *externalFacts) { s.bmcs = nil }, true},
		"promises":                         {[]core.Policy{{Steps: []core.Step{fence}}}, nil, func(s *externalFacts) { s.promises = nil }, true},
		"promises that power may need too": {[]core.Policy{{Steps: []core.Step{power}}}, nil, func(s *externalFacts) { s.promises = nil }, true},
	} {
		v := &view{parts: []*part{{Reading: &policyReading{c.policies}}}, external: newExternalFacts()}
		if c.repairs != nil {
			v.repairDetails = map[string]ledger.Details{"a/b": {Repair: core.Repair{Steps: c.repairs}}}
		}
		read(v)
		c.change(&v.external)
		if got := v.needsMore(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestVersionsThatChange: a ClusterVersion changes an answer when it is new, or when it begins or ends to progress.
func TestVersionsThatChange(t *testing.T) {
	v := &view{external: newExternalFacts()}
	put := func(status string) bool {
		u := &unstructured.Unstructured{Object: object(t, `{metadata: {name: version}, status: {conditions: [{type: Progressing, status: "`+status+`"}]}}`)}
		return v.putVersion(u)
	}
	got := []bool{put("False"), put("False"), put("True"), put("True"), put("False")}
	if want := []bool{true, false, true, false, true}; !slices.Equal(got, want) {
		t.Errorf("they change it: %t, want %t", got, want)
	}
	v.dropVersion("version")
	if len(v.external.versions) > 0 {
		t.Error("a deleted ClusterVersion stays")
	}
}

// TestRequestsThatChange: a request that differs changes an answer, and a deleted one is forgotten.
func TestRequestsThatChange(t *testing.T) {
	f := startManagementCluster(t)
	f.unready("")
	request := func(status string) string {
		return strings.ReplaceAll(requestedText(signature("Reboot", "node-infra"), "Reboot", "node-infra", time.Minute, status), "workers", "infra")
	}
	f.put(rebootsList, request("status: {}"))
	f.serve()
	s := f.session()
	v, err := s.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(v.followed, func(f followed) bool { return f.Resource.Resource == "reboots" })
	source := v.followed[at].Source
	put := func(status string) bool {
		return source.Put(&unstructured.Unstructured{Object: object(t, request(status))})
	}
	got := []bool{put("status: {}"), put(processing), put(processing)}
	source.Drop("remediators/node-infra")
	if got = append(got, put(processing)); !slices.Equal(got, []bool{false, true, false, true}) {
		t.Errorf("the same, another, the same again, and the same after its deletion: they change an answer %t", got)
	}
}

// TestUnserved: a cluster does not serve a kind if each of several errors says so.
func TestUnserved(t *testing.T) {
	missing, gone, down := &meta.NoKindMatchError{}, apierrors.NewNotFound(schema.GroupResource{}, "a"), errors.New("down")
	for i, c := range []struct {
		err  error
		want bool
	}{
		{missing, true}, {gone, true}, {down, false}, {nil, false}, {utilerrors.NewAggregate([]error{missing, gone}), true},
		{utilerrors.NewAggregate([]error{missing, down}), false}, {fmt.Errorf("listing: %w", utilerrors.NewAggregate([]error{down, missing})), false},
	} {
		if got := isUnserved(c.err); got != c.want {
			t.Errorf("%d: %v: %t, want %t", i, c.err, got, c.want)
		}
	}
}

// TestNotesOnRepairs: the Repairs that are ignored are named up to a bound, and the rest are counted.
func TestNotesOnRepairs(t *testing.T) {
	for ignored, more := range map[int]string{mostIgnored: "", mostIgnored + 2: "2 more Repairs are ignored. Their events say why."} {
		v := &view{repairDetails: map[string]ledger.Details{"z/partly": {Problem: "its steps are odd"}, "z/good": {}}}
		var want []string
		for i := range ignored {
			k := fmt.Sprintf("a/%02d", i)
			v.repairDetails[k] = ledger.Details{Ignored: true, Problem: "so"}
			if i < mostIgnored {
				want = append(want, "Repair "+k+" is ignored: so. Only Fettle makes Repairs. Delete it.")
			}
		}
		want = append(want, "Repair z/partly can't be read as a whole, and counts as far as it can: its steps are odd.")
		if more != "" {
			want = append(want, more)
		}
		if diff := cmp.Diff(want, v.notesOnRepairs()); diff != "" {
			t.Errorf("%d are ignored (-want +got):\n%s", ignored, diff)
		}
	}
}
