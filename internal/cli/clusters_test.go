package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// clusterScene is a management cluster that tests make by hand: the workload clusters east and west in one namespace, with
// three workers and a health check each. Node names repeat.
type clusterScene struct {
	t       *testing.T
	reading *clusterAPIReading
	// objects are what is in the management cluster, and nodes those of the workload clusters, by cluster.
	objects map[string]string
	nodes   map[string][]string
	// unseen are clusters whose nodes can't be read.
	unseen  map[string]string
	repairs map[string]*v1alpha1.Repair
	owners  []string
	// annotations are those of the explained machine.
	annotations map[string]string
}

func newClusterScene(t *testing.T) *clusterScene {
	t.Helper()
	s := &clusterScene{
		t: t, reading: ClusterAPI{}.Read().(*clusterAPIReading),
		objects: map[string]string{}, nodes: map[string][]string{}, unseen: map[string]string{}, repairs: map[string]*v1alpha1.Repair{},
	}
	for _, cluster := range []string{"east", "west"} {
		s.objects["Cluster/"+cluster] = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {namespace: fleets, name: ` + cluster + `, uid: ` + cluster + `}
spec: {}
status:
  conditions:
  - {type: InfrastructureReady, status: "True", lastTransitionTime: "2026-07-01T00:00:00Z"}
  - {type: ControlPlaneInitialized, status: "True", lastTransitionTime: "2026-07-01T00:00:00Z"}`
		s.objects["MachineHealthCheck/"+cluster] = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {namespace: fleets, name: ` + cluster + `, uid: check-` + cluster + `, creationTimestamp: "2026-07-01T00:00:00Z"}
spec:
  clusterName: ` + cluster + `
  selector: {matchLabels: {pool: workers}}
  checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}
status:
  expectedMachines: 3
  currentHealthy: 2
  conditions: [{type: RemediationAllowed, status: "True", reason: RemediationAllowed, lastTransitionTime: "2026-07-01T00:00:00Z"}]`
		for _, name := range []string{"a", "b", "c"} {
			s.machine(cluster, name, "MachineSet", "cluster.x-k8s.io/v1beta2", "pool: workers")
		}
	}
	return s
}

// machine adds a machine with its node.
func (s *clusterScene) machine(cluster, name, ownerKind, ownerVersion, label string) {
	s.objects["Machine/"+cluster+"-"+name] = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  namespace: fleets
  name: ` + cluster + "-" + name + `
  uid: ` + cluster + "-" + name + `
  creationTimestamp: "2026-07-01T00:00:00Z"
  labels: {cluster.x-k8s.io/cluster-name: ` + cluster + `, ` + label + `}
  ownerReferences: [{apiVersion: ` + ownerVersion + `, kind: ` + ownerKind + `, name: ` + cluster + `-owner, uid: ` + cluster + `-owner, controller: true}]
status: {nodeRef: {name: node-` + name + `}}`
	s.node(cluster, name, "True", 23*time.Hour)
}

// node sets how the node of a machine is, and since how long ago.
func (s *clusterScene) node(cluster, name, ready string, ago time.Duration) {
	s.nodes[cluster] = append(s.nodes[cluster], `{"metadata": {"name": "node-`+name+`", "uid": "`+cluster+`-node-`+name+`"},
		"status": {"conditions": [{"type": "Ready", "status": "`+ready+`", "lastTransitionTime": "`+noon.Add(-ago).Format(time.RFC3339)+`"}]}}`)
}

// edit changes the text of an object.
func (s *clusterScene) edit(object, old, fresh string) {
	s.t.Helper()
	if !strings.Contains(s.objects[object], old) {
		s.t.Fatalf("%s has no %q", object, old)
	}
	s.objects[object] = strings.Replace(s.objects[object], old, fresh, 1)
}

// requestsReplacement has a machine request its replacement from its owner, which answers.
func (s *clusterScene) requestsReplacement(machine, reason, message string) {
	s.edit("Machine/"+machine, "status: {", `status: {conditions: [
  {type: HealthCheckSucceeded, status: "False", reason: UnhealthyNode, message: "Health check failed:\n  * Condition Ready on Node has been Unknown for at least 5m0s", lastTransitionTime: "2026-08-01T11:50:00Z"},
  {type: OwnerRemediated, status: "False", reason: `+reason+`, message: "`+message+`", lastTransitionTime: "2026-08-01T11:50:00Z"}], `)
}

// repair records the repair of a machine.
func (s *clusterScene) repair(cluster, machine string, status v1alpha1.RepairStatus) {
	r := &v1alpha1.Repair{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleets", Name: core.RepairName(core.ID{Kind: "Machine", Namespace: "fleets", Name: machine, UID: machine}, 1)},
		Spec: v1alpha1.RepairSpec{
			Cluster: cluster, Target: v1alpha1.RepairTarget{ObjectReference: v1alpha1.ObjectReference{Kind: "Machine", Namespace: "fleets", Name: machine, UID: machine}, Node: "node-a"},
			Policy: v1alpha1.ObjectReference{Kind: "MachineHealthCheck", Namespace: "fleets", Name: cluster, UID: "check-" + cluster}, Reason: "UnhealthyCondition", Message: "so",
			Ladder: []v1alpha1.RepairStep{{Remedy: "MarkOwner", Nature: "AskOwner"}}, StartedAt: metav1.MicroTime{Time: noon.Add(-10 * time.Minute)},
		},
		Status: status,
	}
	s.repairs["fleets/"+r.Name] = r
}

// view is what is read of the scene.
func (s *clusterScene) view() *view {
	s.t.Helper()
	into := map[string]func() client.Object{
		"Cluster": func() client.Object { return &clusterapi.Cluster{} }, "Machine": func() client.Object { return &clusterapi.Machine{} },
		"MachineHealthCheck": func() client.Object { return &unstructured.Unstructured{} },
	}
	sources := map[string]Source{}
	for _, source := range s.reading.Sources() {
		sources[source.Resource.Resource] = source
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		kind, _, _ := strings.Cut(key, "/")
		o := into[kind]()
		if err := yaml.Unmarshal([]byte(s.objects[key]), o); err != nil {
			s.t.Fatalf("reading %s: %v", key, err)
		}
		if !sources[strings.ToLower(kind)+"s"].Put(o) {
			s.t.Fatalf("%s changes nothing", key)
		}
	}
	v := &view{parts: []*part{{Dialect: ClusterAPI{}, Reading: s.reading}}, repairDetails: detailsOf(s.repairs), external: newExternalFacts(), at: noon}
	v.concerns = func(*view, *ClusterObservation) bool { return true }
	for _, cluster := range []string{"east", "west"} {
		f := core.ClusterKey{Namespace: "fleets", Name: cluster}
		if why, is := s.unseen[cluster]; is {
			s.reading.Unseen(f, why)
			continue
		}
		source := s.reading.Nodes(f)
		for _, text := range s.nodes[cluster] {
			n := &slim.Node{}
			if err := yaml.Unmarshal([]byte(text), n); err != nil {
				s.t.Fatalf("reading a node: %v", err)
			}
			source.Put(n)
		}
	}
	return v
}

// clusterScenes are what the goldens show, each by the file that it is in. Machine east-a is explained.
var clusterScenes = map[string]func(*clusterScene){
	"healthy": func(*clusterScene) {},
	"one-each": func(s *clusterScene) {
		s.node("east", "a", "Unknown", time.Hour)
		s.node("west", "b", "Unknown", 3*time.Minute)
	},
	"stopped-in-one": func(s *clusterScene) {
		s.node("east", "a", "Unknown", time.Hour)
		for _, name := range []string{"a", "b"} {
			s.node("west", name, "Unknown", time.Hour)
		}
	},
	"silent-owner": func(s *clusterScene) {
		s.node("east", "a", "Unknown", time.Hour)
		s.requestsReplacement("east-a", "WaitingForRemediation", "")
		s.repair("east", "east-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning, Answer: "there has been no answer for more than 5m, since 2026-08-01T11:50:00Z"})
	},
	"unseen": func(s *clusterScene) {
		s.unseen["east"] = "you may not get Secret fleets/east-kubeconfig"
		s.requestsReplacement("east-a", "RemediationDeferred", "not yet")
		s.repair("east", "east-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	},
	"unseen-stopped": func(s *clusterScene) {
		s.unseen["east"] = "you may not get Secret fleets/east-kubeconfig"
		s.edit("MachineHealthCheck/east", `status: "True", reason: RemediationAllowed`, `status: "False", reason: TooManyUnhealthy, message: "Too many are"`)
	},
	"judged-elsewhere": func(s *clusterScene) {
		s.node("east", "a", "Unknown", time.Hour)
		s.edit("MachineHealthCheck/east", `[{type: RemediationAllowed, status: "True", reason: RemediationAllowed,`,
			`[{type: RemediationAllowed, status: Unknown, reason: NodesJudgedElsewhere, message: "Nothing new is repaired, since the nodes of cluster east are those of another; pause one",`)
	},
	"paused": func(s *clusterScene) {
		s.node("east", "a", "Unknown", time.Hour)
		s.edit("Cluster/east", "spec: {}", "spec: {paused: true}")
	},
	"upgrading": func(s *clusterScene) {
		s.waits("east", `{type: RollingOut, status: "True", reason: RollingOut}`)
		s.waits("west", `{type: RollingOut, status: "False", reason: NotRollingOut}`)
	},
	"upgrade-unknown": func(s *clusterScene) {
		s.waits("east", `{type: RollingOut, status: Unknown, reason: RollingOutUnknown}`)
	},
	"no-cluster": func(s *clusterScene) { delete(s.objects, "Cluster/east") },
	"control-plane-waits": func(s *clusterScene) {
		s.control()
		s.annotations = map[string]string{"controlplane.cluster.x-k8s.io/remediation-for": `{"machine":"east-x","timestamp":"2026-08-01T11:45:00Z","retryCount":3}`}
	},
	"control-plane-pauses": func(s *clusterScene) {
		s.control()
		s.annotations = map[string]string{"controlplane.cluster.x-k8s.io/remediation-for": `{"machine":"east-x","timestamp":"2026-08-01T11:45:00Z","retryCount":1}`}
	},
	"control-plane-unread": func(s *clusterScene) {
		s.control()
		s.owners = nil
	},
	"skipped": func(s *clusterScene) {
		s.edit("Machine/east-a", "  labels:", "  annotations: {cluster.x-k8s.io/paused: ''}\n  labels:")
	},
	"unparsable": func(s *clusterScene) {
		s.node("east", "a", "Unknown", time.Hour)
		s.requestsReplacement("east-a", "WaitingForRemediation", "")
		s.repair("east", "east-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		s.edit("MachineHealthCheck/east", "checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]}", "checks: {unhealthyNodeConditions: 7}")
	},
	"unchecked-and-replaced": func(s *clusterScene) {
		s.node("east", "a", "Unknown", time.Hour)
		s.requestsReplacement("east-a", "MachineDeleting", "Machine is deleting")
		s.repair("east", "east-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		delete(s.objects, "MachineHealthCheck/east")
	},
	"orphaned": func(s *clusterScene) {
		s.repair("gone", "east-z", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	},
}

// waits has the health check of a cluster wait for upgrades, of which a condition of the Name tells, and machine a fail.
func (s *clusterScene) waits(cluster, condition string) {
	s.node(cluster, "a", "Unknown", time.Hour)
	s.edit("MachineHealthCheck/"+cluster, "metadata: {", `metadata: {annotations: {fettle.io/wait-for-upgrades: "true"}, `)
	s.edit("Cluster/"+cluster, "  conditions:\n", "  conditions:\n  - "+condition+"\n")
}

// control makes machine a of east one of a control plane of three, which requests its replacement.
func (s *clusterScene) control() {
	for _, name := range []string{"a", "b", "c"} {
		s.machine("east", name, "KubeadmControlPlane", "controlplane.cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/control-plane: '', pool: workers")
	}
	s.node("east", "a", "Unknown", time.Hour)
	s.requestsReplacement("east-a", "CannotBeRemediated", "KubeadmControlPlane can't remediate this machine because the operation already failed 3 times (MaxRetry)")
	s.repair("east", "east-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	s.owners = []string{`
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {namespace: fleets, name: east-owner, uid: east-owner}
spec: {remediation: {maxRetry: 3, retryPeriodSeconds: 1200}}
status: {initialization: {controlPlaneInitialized: true}, lastRemediation: {machine: east-x, time: "2026-08-01T11:45:00Z", retryCount: 3}}`}
}

// explain answers for machine east-a as the session does, apart from what it reads.
func (s *clusterScene) explain(v *view, w *assessment, target int) ExplainedTarget {
	s.t.Helper()
	e := w.explainTarget(target, nil, v.unmet)
	if by, out := w.skippedBy(target); out {
		e.Unselected = "It is excluded from all health checking, by " + by + " on it. It counts for no limit."
	}
	var owners []*unstructured.Unstructured
	for _, text := range s.owners {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), u); err != nil {
			s.t.Fatalf("reading an owner: %v", err)
		}
		owners = append(owners, u)
	}
	if a, replaced := s.reading.Answer(w.cluster.Targets[target].ID, s.annotations, owners, noon); replaced {
		if len(owners) == 0 {
			a.Unknown = whyNoOwner(metav1.OwnerReference{Kind: a.Owner.Kind, Name: a.Owner.Name}, apierrors.NewForbidden(schema.GroupResource{}, "", nil))
		}
		e.OwnerAnswer = &a
	}
	e.Next = nextOfRequested(e.Next, e.OwnerAnswer)
	return e
}

func TestClusterScenes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(clusterScenes)) {
		t.Run(name, func(t *testing.T) {
			s := newClusterScene(t)
			clusterScenes[name](s)
			v := s.view()
			assessments := v.decided()
			h := header()
			h.Notes = v.allNotes()
			status := buildStatus(assessments, "", h)
			text := "$ fettle status\n" + statusText(&status, 20)
			in, err := (&session{}).findIn(assessments, machineSubject, "east-a", "fleets")
			if err != nil {
				t.Fatal(err)
			}
			e := Explanation{Header: h}
			for _, target := range in.targets {
				e.Targets = append(e.Targets, s.explain(v, in.assessment, target))
			}
			text += "\n$ fettle explain machine/east-a\n" + printed(false, func(p *page) { p.explanation(&e) })
			for _, key := range slices.Sorted(maps.Keys(s.repairs)) {
				w, i, found := (&session{}).findRepair(assessments, s.repairs[key].Name)
				if !found {
					t.Fatalf("repair %s is in no cluster", key)
				}
				r := w.explainRepair(i, nil)
				r.Header = h
				text += "\n$ fettle explain repair/" + r.Repair.Name + "\n" + printed(false, func(p *page) { p.repairExplanation(&r) })
			}
			golden(t, "clusters-"+name+".txt", text)
		})
	}
}

// TestUpgradesOfTheManagementCluster are no matter of a workload cluster: neither while one is under way, nor while the user
// may not see.
func TestUpgradesOfTheManagementCluster(t *testing.T) {
	for sentence, change := range map[string]func(*externalFacts){
		"under way": func(s *externalFacts) { s.versions["version"] = true },
		"unseen":    func(s *externalFacts) { s.unread.upgrade = "you may not list clusterversions.config.openshift.io" },
	} {
		s := newClusterScene(t)
		s.waits("west", `{type: RollingOut, status: "False", reason: NotRollingOut}`)
		s.waits("east", `{type: RollingOut, status: Unknown, reason: RollingOutUnknown}`)
		v := s.view()
		change(&v.external)
		for _, w := range v.decided() {
			for _, r := range w.decision.Refusals {
				if w.key.Name != "east" || w.isHidden(r) {
					t.Errorf("%s: %q is held back by %s: %s", sentence, w.key.Name, r.Gate, r.Text())
				}
			}
		}
		if notes := v.allNotes(); len(notes) > 0 {
			t.Errorf("%s: it notes %q", sentence, notes)
		}
	}
}

// decided decides on each cluster by itself, without asking for quorum.
func (v *view) decided() []*assessment {
	by := map[core.ClusterKey][]observed{{}: nil}
	for _, f := range v.observations() {
		by[f.Cluster] = append(by[f.Cluster], f)
	}
	var assessments []*assessment
	for _, cluster := range inOrder(by) {
		assessments = append(assessments, newAssessment(cluster, by[cluster], v.repairDetails, &v.external, v.at))
	}
	return assessments
}

// TestClustersAreReportedApart: a repair, and the limits of a cluster, are of that cluster alone, whatever has the same name elsewhere.
func TestClustersAreReportedApart(t *testing.T) {
	s := newClusterScene(t)
	for _, name := range []string{"a", "b", "c"} {
		s.node("west", name, "Unknown", time.Hour)
	}
	s.repair("west", "east-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning}) // of another cluster than its name says
	for _, w := range s.view().decided() {
		refused := 0
		for _, r := range w.decision.Refusals {
			if r.Gate == core.TooManyUnhealthy {
				refused++
			}
		}
		got := [3]int{len(w.decision.Verdicts), len(w.cluster.Repairs), refused}
		if want := map[string][3]int{"": {}, "east": {3, 0, 0}, "west": {3, 1, 3}}[w.key.Name]; got != want {
			t.Errorf("in %q there are %v verdicts, repairs and refusals, want %v", w.key.Name, got, want)
		}
	}
}
