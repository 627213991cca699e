package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// newFencingScene has nodes a to e, one health check that has them fenced by their power, and a BMC of node-a. node-a
// is unhealthy, and its repair has begun.
func newFencingScene(t *testing.T) *nodeScene {
	t.Helper()
	s := newNodeScene(t)
	s.Policies[0].Steps = []core.Step{{
		Remedy: "RequestNodeRemediation", Nature: core.CreateRequest,
		Template: core.Reference{APIVersion: "fettle.io/v1alpha1", Kind: powerTemplateKind, Namespace: "remediators", Name: "usual"},
	}}
	for _, kind := range []string{powerKind, powerTemplateKind} {
		s.around.templates.Begin(v1alpha1.GroupVersion.WithKind(kind), true)
	}
	s.put("{apiVersion: fettle.io/v1alpha1, kind: PowerRemediationTemplate, metadata: {name: usual, namespace: remediators}, spec: {template: {spec: {}}}}")
	s.around.bmcs = newBMCReading("fettle-system")
	s.bmc("bmc-a", "node-a", "{power: 'On', "+reachableStatus("True", "Succeeded", time.Hour)+"}")
	s.ready(0, "Unknown", 8*time.Minute)
	s.repair(0, 2*time.Minute, nil)
	return s
}

func reachableStatus(status, reason string, ago time.Duration) string {
	return "conditions: [{type: Reachable, status: '" + status + "', reason: " + reason + ", message: it says " + reason + ", lastTransitionTime: '" + noon.Add(-ago).Format(time.RFC3339) + "'}]"
}

func (s *nodeScene) bmc(name, node, status string) {
	s.t.Helper()
	s.around.bmcs.put(&unstructured.Unstructured{Object: object(s.t, bmcText(name, "{nodeName: "+node+", credentialsName: x, address: 'ipmi://"+name+"'}", status))})
}

// fenced is the PowerRemediation of node-a, with its status as YAML.
func (s *nodeScene) fenced(status string) {
	s.t.Helper()
	text := strings.NewReplacer("fix.example/v1", "fettle.io/v1alpha1", ".fix.example/", ".fettle.io/").Replace(
		requestedText(signature(powerKind, "node-a"), powerKind, "node-a", 2*time.Minute, "status: "+status))
	u := &unstructured.Unstructured{Object: object(s.t, text)}
	s.around.templates.Put(u.GroupVersionKind(), u)
	s.around.putFencing(u.GroupVersionKind(), u)
}

// These are parts of statuses.
const (
	underWay = "conditions: [{type: Processing, status: 'True', reason: PowerNotOff, message: the power is not off yet}]"
	ofNodeA  = "node: {name: node-a, uid: node-uid-a, bootID: boot-1}, bmc: {name: bmc-a, uid: u, generation: 1}"
)

var fencingScenes = map[string]func(*nodeScene){
	"begins": func(s *nodeScene) { s.fenced("{}") },
	"refused": func(s *nodeScene) {
		s.fenced("{conditions: [{type: Succeeded, status: 'False', reason: RemediationCannotStartNodeIsNewer, message: the node is newer than the remediation}]}")
	},
	"no-request": func(*nodeScene) {},
	"unreadable": func(s *nodeScene) { s.fenced("{phase: 7}") },
	"cannot-start-any-more": func(s *nodeScene) {
		s.fenced("{phase: Failed, conditions: [{type: Succeeded, status: 'False', reason: BootTimedOut, message: the node is not back}, {type: Processing, status: 'True', reason: Begun, message: it begins}]}")
	},
	"preparing": func(s *nodeScene) { s.fenced("{phase: Preparing}") },
	"powering-off": func(s *nodeScene) {
		s.fenced("{phase: PoweringOff, phaseSince: '2026-08-01T11:59:00.500000Z', attempt: 1, poweredOff: true, " + ofNodeA + ", " + underWay + "}")
	},
	"releasing": func(s *nodeScene) {
		s.fenced("{phase: Releasing, phaseSince: '2026-08-01T11:59:30.000000Z', attempt: 1, poweredOff: true, workloadReleased: true, proof: {kind: PowerOff, at: '2026-08-01T11:59:20.123456Z'}, " + ofNodeA + "}")
	},
	"second-cycle": func(s *nodeScene) {
		s.fenced("{phase: PoweringOff, reason: BootTimedOut, attempt: 2, voidProofs: 1, " + ofNodeA + "}")
	},
	"second-cycle-released": func(s *nodeScene) {
		s.fenced("{phase: PoweringOff, reason: BootTimedOut, attempt: 2, workloadReleased: true, " + ofNodeA + "}")
	},
	"void-proofs": func(s *nodeScene) {
		s.fenced("{phase: Releasing, voidProofs: 2, proof: {kind: PowerOff, at: '2026-08-01T11:59:20.000000Z'}}")
	},
	"other-boot": func(s *nodeScene) {
		s.fenced("{phase: Restoring, proof: {kind: NewBoot, at: '2026-08-01T11:59:20.000000Z', bootID: boot-2}, " + ofNodeA + "}")
	},
	"cannot-start": func(s *nodeScene) {
		s.around.bmcs.byName = map[string]*v1alpha1.BMC{}
		s.fenced("{phase: Failed, conditions: [{type: Processing, status: 'True', reason: Begun, message: it begins}, {type: Succeeded, status: 'False', reason: RemediationCannotStartNoBMC, message: no BMC names node node-a}]}")
	},
	"succeeded": func(s *nodeScene) {
		s.fenced("{phase: Succeeded, proof: {kind: NewBoot, at: '2026-08-01T11:59:20.000000Z', bootID: boot-2}, conditions: [{type: Succeeded, status: 'True', reason: Done, message: done}, {type: Processing, status: 'False', reason: Done, message: done}]}")
	},
	"several-bmcs": func(s *nodeScene) { s.bmc("bmc-b", "node-a", "{}") },
	"bmcs-hidden": func(s *nodeScene) {
		s.around.bmcs.unread = "you may not list bmcs.fettle.io in namespace fettle-system"
	},
	"not-reachable": func(s *nodeScene) {
		s.bmc("bmc-a", "node-a", "{"+reachableStatus("False", "AuthenticationRefused", time.Minute)+", authenticationHeldUntil: '2026-08-01T12:10:00Z', power: Unknown}")
		s.bmc("bmc-b", "node-b", "{"+reachableStatus("False", "Unreachable", time.Hour)+", authenticationHeldUntil: '2026-08-01T12:00:00Z'}")
		s.bmc("bmc-c", "node-c", "{"+reachableStatus("Unknown", "NotTried", time.Hour)+"}")
		other := "{type: Other, status: 'False', reason: Other, message: other, lastTransitionTime: '2026-08-01T11:00:00Z'}"
		s.bmc("bmc-d", "node-d", "{"+strings.Replace(reachableStatus("True", "Succeeded", time.Hour), "]", ", "+other+"]", 1)+"}")
		s.bmc("bmc-e", "node-e", "{"+reachableStatus("False", "TimedOut", time.Second)+"}")
	},
}

// recordedEvidence are the power cycles of a remediation that a repair of node-a has recorded.
func recordedEvidence(r *v1alpha1.Repair) {
	at := func(seconds int) *metav1.MicroTime {
		return &metav1.MicroTime{Time: noon.Add(-2*time.Minute + time.Duration(seconds)*time.Second)}
	}
	of := v1alpha1.ObjectReference{Kind: powerKind, Namespace: "remediators", Name: "node-a", UID: "uid-of-the-remediation"}
	r.Status.Evidence = []v1alpha1.FencingEvidence{
		{Remediation: of, PowerCycle: 1, BMC: "bmc-a", Protocol: "IPMI", BootIDBefore: "boot-1", CommandedAt: at(1)},
		{
			Remediation: of, PowerCycle: 2, Method: "PowerOff", BMC: "bmc-a", Protocol: "Redfish", BootIDBefore: "boot-1", BootIDAfter: "boot-2",
			CommandedAt: at(10), ProvenAt: at(20), ReleasedAt: at(21), BackAt: at(60),
		},
		{Remediation: of, Method: "NewBoot", BMC: "bmc-a", ProvenAt: at(80)},
		{Remediation: of, Method: "NewBoot", ProvenAt: at(90)},
	}
}

// evidenceScenes have a repair with evidence whose remediation is gone.
var evidenceScenes = map[string]func(*nodeScene){
	"running": func(s *nodeScene) { s.repair(0, 2*time.Minute, recordedEvidence) },
	"standing": func(s *nodeScene) {
		s.repair(0, 2*time.Minute, recordedEvidence)
		s.fenced("{phase: Restoring, protocol: IPMI, node: {name: node-a, bootID: boot-1, backBootID: boot-2}, bmc: {name: bmc-a, uid: u, generation: 1}}")
		s.repair(0, 2*time.Minute, func(r *v1alpha1.Repair) {
			recordedEvidence(r)
			r.Status.Evidence[1].Remediation.UID = "uid-of-another"
			for _, i := range []int{0, 2, 3} {
				r.Status.Evidence[i].Remediation.UID = s.request0(powerKind)
			}
		})
	},
	"ended": func(s *nodeScene) {
		s.ready(0, "True", time.Minute)
		s.repair(0, 2*time.Minute, func(r *v1alpha1.Repair) {
			recordedEvidence(r)
			r.Status.Phase, r.Status.FinishedAt = v1alpha1.RepairSucceeded, &metav1.Time{Time: noon.Add(-time.Minute)}
		})
	},
	"node-gone": func(s *nodeScene) {
		s.repair(0, 2*time.Minute, func(r *v1alpha1.Repair) {
			recordedEvidence(r)
			r.Status.Phase, r.Status.FinishedAt = v1alpha1.RepairSucceeded, &metav1.Time{Time: noon.Add(-time.Minute)}
		})
		s.Targets[0].ID.UID = "uid-of-a-later-node"
	},
}

// request0 returns the UID of the only object of a kind of Fettle's group.
func (s *nodeScene) request0(kind string) string {
	s.t.Helper()
	var cluster core.Cluster
	s.around.templates.AddFacts(slices.Clone(s.Policies), &cluster)
	for _, r := range cluster.Requests {
		if r.ID.Kind == kind {
			return r.ID.UID
		}
	}
	s.t.Fatalf("there is no %s", kind)
	return ""
}

// TestEvidenceScenes: how a node was fenced is explained from its repair, also when the remediation is gone.
func TestEvidenceScenes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(evidenceScenes)) {
		t.Run(name, func(t *testing.T) {
			s := newFencingScene(t)
			evidenceScenes[name](s)
			w := s.assessment()
			e := Explanation{Header: header()}
			for _, i := range w.find(nodeSubject, "node-a", "") {
				e.Targets = append(e.Targets, w.explainTarget(i, nil, lacksRole))
			}
			of := w.explainRepair(0, nil)
			of.Header = header()
			golden(t, "evidence-"+name+".txt", "$ fettle explain node/node-a\n"+printed(false, func(p *page) { p.explanation(&e) })+
				"\n$ fettle explain repair/"+of.Repair.Name+"\n"+printed(false, func(p *page) { p.repairExplanation(&of) }))
		})
	}
}

// TestFencingScenes: a node that is fenced is explained with how far that has come, and its BMC.
func TestFencingScenes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(fencingScenes)) {
		t.Run(name, func(t *testing.T) {
			s := newFencingScene(t)
			fencingScenes[name](s)
			w := s.assessment()
			status := buildStatus([]*assessment{w}, "", header())
			e := Explanation{Header: header()}
			for _, i := range w.find(nodeSubject, "node-a", "") {
				e.Targets = append(e.Targets, w.explainTarget(i, nil, lacksRole))
			}
			golden(t, "fencing-"+name+".txt", "$ fettle status\n"+statusText(&status, 2)+"\n$ fettle explain node/node-a\n"+printed(false, func(p *page) { p.explanation(&e) }))
		})
	}
}

// TestFencingIsOfItsOwnCluster: nothing is said of BMCs for a workload cluster, and for a health check with other steps.
func TestFencingIsOfItsOwnCluster(t *testing.T) {
	s := newFencingScene(t)
	s.bmc("bmc-b", "node-b", "{"+reachableStatus("False", "Unreachable", time.Hour)+"}")
	s.Targets[0].Node.Name = ""
	if e := s.assessment().explainTarget(0, nil, lacksRole); len(e.BMCs) != 0 || e.BMCProblem != "" {
		t.Errorf("a target without a node has BMCs %+v, %q", e.BMCs, e.BMCProblem)
	}
	s.Targets[0].Node.Name = "node-a"
	for i := range 2 * mostNames {
		s.bmc(fmt.Sprint("bmc-a-", i), "node-a", "{}")
	}
	if e := s.assessment().explainTarget(0, nil, lacksRole); len(e.BMCs) != mostNames {
		t.Errorf("it names %d BMCs, want %d", len(e.BMCs), mostNames)
	}
	elsewhere := newAssessment(core.ClusterKey{Namespace: "n", Name: "east"}, []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: NHC{}}}, nil, &s.around, noon)
	if status := buildStatus([]*assessment{elsewhere}, "", header()); len(status.UnreachableBMCs) != 0 {
		t.Errorf("a workload cluster has BMCs %+v", status.UnreachableBMCs)
	}
	if e := elsewhere.explainTarget(0, nil, lacksRole); len(e.BMCs) != 0 || e.BMCProblem != "" {
		t.Errorf("a node of a workload cluster has BMCs %+v, %q", e.BMCs, e.BMCProblem)
	}
	s.Policies[0].Steps = []core.Step{nodeStep("Reboot", 0)}
	w := s.assessment()
	if e := w.explainTarget(1, nil, lacksRole); len(e.BMCs) != 0 || e.BMCProblem != "" {
		t.Errorf("without a step that needs one, a node has BMCs %+v", e)
	}
}

// TestFencingChanges: a change of what is shown is one, and any other is none.
func TestFencingChanges(t *testing.T) {
	around := newExternalFacts()
	put := func(kind, status string) bool {
		u := &unstructured.Unstructured{Object: object(t, "{metadata: {name: a, namespace: n}, status: "+status+"}")}
		return around.putFencing(v1alpha1.GroupVersion.WithKind(kind), u)
	}
	const whole = "{phase: Releasing, phaseSince: '2026-08-01T11:00:00.000000Z', proof: {kind: NewBoot, at: '2026-08-01T11:00:00.000000Z', bootID: b}}"
	for _, c := range []struct {
		status  string
		changes bool
	}{
		{"{}", true}, {"{}", false},
		{whole, true}, {whole, false}, {strings.Replace(whole, "}}", "}, machine: {kind: Machine, name: m}}", 1), false},
		{strings.Replace(whole, "Releasing", "Booting", 1), true}, {whole, true},
		{strings.Replace(whole, "phaseSince: '2026-08-01T11", "phaseSince: '2026-08-01T10", 1), true}, {whole, true},
		{strings.Replace(whole, "at: '2026-08-01T11", "at: '2026-08-01T10", 1), true}, {whole, true},
		{strings.Replace(whole, "bootID: b", "bootID: c", 1), true}, {whole, true},
		{strings.Replace(whole, "NewBoot", "PowerOff", 1), true}, {"{phase: Releasing, phaseSince: '2026-08-01T11:00:00.000000Z'}", true}, {whole, true},
	} {
		if changed := put(powerKind, c.status); changed != c.changes {
			t.Errorf("%s changes it: %t", c.status, changed)
		}
	}
	other := v1alpha1.GroupVersion.WithKind(powerKind)
	other.Group = "power.example"
	if put(powerTemplateKind, "{}") || around.putFencing(other, &unstructured.Unstructured{Object: map[string]any{}}) || len(around.fencings) != 1 {
		t.Errorf("a template counts as a remediation: %+v", around.fencings)
	}
}

func TestBMCChanges(t *testing.T) {
	r := newBMCReading("fettle-system")
	put := func(spec, status string) bool {
		return r.put(&unstructured.Unstructured{Object: object(t, bmcText("bmc-a", spec, status))})
	}
	for _, c := range []struct {
		spec, status string
		changes      bool
	}{
		{"{nodeName: a}", "{}", true}, {"{nodeName: a}", "{}", false}, {"{nodeName: b}", "{}", true}, {"{nodeName: b}", "{refusedLogins: 1}", false},
		{"{nodeName: b}", "{power: 'On'}", true}, {"{nodeName: b}", "{power: 'On', authenticationHeldUntil: '2026-08-01T11:00:00Z'}", true},
	} {
		if changed := put(c.spec, c.status); changed != c.changes {
			t.Errorf("%s %s changes it: %t", c.spec, c.status, changed)
		}
	}
	r.source().Drop("fettle-system/bmc-a")
	if len(r.byName) != 0 {
		t.Error("a deleted BMC stays")
	}
}

// fencedCluster serves a health check that has node-a fenced, a BMC that is not reachable, and a remediation.
func fencedCluster(t *testing.T) *fakeAPI {
	t.Helper()
	a := startAPI(t)
	nodesAndCheck(a)
	a.list("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", "remediation.medik8s.io/v1alpha1", "NodeHealthCheckList",
		strings.Replace(fencedNodes, "  name: workers\n", "  name: workers\n  uid: uid-workers\n", 1))
	a.bmcs(bmcText("bmc-a", "{nodeName: node-a, credentialsName: x, address: 'ipmi://a'}", "{"+reachableStatus("False", "Unreachable", time.Hour)+"}"))
	a.list(fettleAPI+"/powerremediations", "fettle.io/v1alpha1", "PowerRemediationList", strings.NewReplacer("fix.example/v1", "fettle.io/v1alpha1", ".fix.example/", ".fettle.io/", "node-uid-a", "node-a").Replace(
		requestedText(signature(powerKind, "node-a"), powerKind, "node-a", 2*time.Minute, "status: {phase: PoweringOff, "+ofNodeA+"}")))
	return a
}

// runCommand runs a command, and returns what it prints.
func runCommand(t *testing.T, command func(Options) *cobra.Command, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := command(Options{Name: "fettle", UserAgent: "test", Dialects: []Dialect{&OpenShift{}, NHC{}}, Now: func() time.Time { return noon }})
	cmd.SetArgs(append([]string{}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	return out.String()
}

// TestFencingInACluster: status and explain read BMCs and remediations, and only where a health check needs them.
func TestFencingInACluster(t *testing.T) {
	a := fencedCluster(t)
	out := runCommand(t, statusCommand)
	if strings.Contains(out, "Which BMCs") || !strings.Contains(out, "BMC NOT REACHABLE") || !strings.Contains(out, "bmc-a") {
		t.Errorf("status says nothing of the BMC:\n%s", out)
	}
	var status Status
	if err := json.Unmarshal([]byte(runCommand(t, statusCommand, "-o", "json")), &status); err != nil || len(status.UnreachableBMCs) != 1 || status.UnreachableBMCs[0].Reason != "Unreachable" {
		t.Errorf("it has %+v, %v", status.UnreachableBMCs, err)
	}
	var e Explanation
	if err := json.Unmarshal([]byte(runCommand(t, explainCommand, "node/node-a", "-o", "json")), &e); err != nil || len(e.Targets) != 1 || len(e.Targets[0].BMCs) != 1 ||
		len(e.Targets[0].Requests) != 1 || e.Targets[0].Requests[0].Fencing == nil || e.Targets[0].Requests[0].Fencing.BootID != "boot-1" {
		t.Errorf("it has %+v, %v", e.Targets, err)
	}
	a.wantOnlyReads(t)

	a.set(bmcsPath, http.StatusForbidden)
	if out := runCommand(t, statusCommand); !strings.Contains(out, "Which BMCs are reachable is not known: you may not list bmcs.fettle.io in namespace fettle-system.") {
		t.Errorf("it does not say that BMCs are not known:\n%s", out)
	}
	a.forget()
	a.list("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", "remediation.medik8s.io/v1alpha1", "NodeHealthCheckList", goodNodes)
	runCommand(t, statusCommand)
	if slices.ContainsFunc(a.forget(), func(r string) bool { return strings.HasSuffix(r, "/bmcs") }) {
		t.Error("BMCs are read, and no health check needs them")
	}
}

// TestBMCsAreReadWhereAStepNeedsThem: of a health check, or of a repair that runs.
func TestBMCsAreReadWhereAStepNeedsThem(t *testing.T) {
	power := []core.Step{{Template: core.Reference{APIVersion: "fettle.io/v1alpha1", Kind: powerTemplateKind}}}
	for sentence, tc := range map[string]struct {
		policies []core.Policy
		repairs  []core.Repair
		want     bool
	}{
		"nothing":                    {nil, nil, false},
		"a health check":             {[]core.Policy{{}, {Steps: power}}, nil, true},
		"a health check of others":   {[]core.Policy{{Steps: []core.Step{nodeStep("Reboot", 0)}}}, nil, false},
		"a group of others":          {[]core.Policy{{Steps: []core.Step{{Template: core.Reference{APIVersion: "a.example/v1", Kind: powerTemplateKind}}}}}, nil, false},
		"a repair":                   {nil, []core.Repair{{}, {Steps: power}}, true},
		"a repair that has ended":    {nil, []core.Repair{{Steps: power, Ended: noon}}, false},
		"a repair by other remedies": {nil, []core.Repair{{Steps: []core.Step{nodeStep("Reboot", 0)}}}, false},
	} {
		v := &view{external: newExternalFacts()}
		if got := v.needsBMCs(tc.policies, tc.repairs); got != tc.want {
			t.Errorf("%s needs BMCs: %t", sentence, got)
		}
		v.external.bmcs = newBMCReading("fettle-system")
		if v.needsBMCs(tc.policies, tc.repairs) {
			t.Errorf("%s needs BMCs once more", sentence)
		}
	}
}

// TestFencingIsOfPowerRemediations: an object of another kind may have the same name.
func TestFencingIsOfPowerRemediations(t *testing.T) {
	w := &assessment{fencings: map[string]Fencing{powerKind + " n/node-a": {Phase: "Releasing"}, selfFenceKind + " n/node-c": {Phase: "Booting"}}}
	for _, c := range []struct {
		kind, version, name string
		want                bool
	}{
		{powerKind, "fettle.io/v1alpha1", "node-a", true}, {powerKind, "fettle.io/v1alpha1", "node-b", false},
		{selfFenceKind, "fettle.io/v1alpha1", "node-c", true}, {selfFenceKind, "fettle.io/v1alpha1", "node-a", false},
		{powerKind, "power.example/v1", "node-a", false}, {"MachineDeletionRemediation", "fettle.io/v1alpha1", "node-a", false},
	} {
		r := w.requestWithFencing(&core.Request{ID: core.ID{Kind: c.kind, Namespace: "n", Name: c.name}, APIVersion: c.version})
		if (r.Fencing != nil) != c.want {
			t.Errorf("%+v has %+v", c, r.Fencing)
		}
	}
}
