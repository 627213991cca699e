package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// nodeScene is a small cluster of nodes, and what surrounds them.
type nodeScene struct {
	scene

	t      *testing.T
	around externalFacts
	// machines are seen beside the nodes, when there are any.
	machines *scene
}

// newNodeScene has nodes a to e, all healthy, and one health check with two steps whose templates are there.
func newNodeScene(t *testing.T) *nodeScene {
	t.Helper()
	s := &nodeScene{t: t, around: newExternalFacts()}
	s.scene = scene{Observation: core.Observation{Kind: "Node", Observed: core.Yes}, repairs: map[string]*v1alpha1.Repair{}}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		id := core.ID{Kind: "Node", Name: "node-" + name, UID: "node-uid-" + name}
		s.Targets = append(s.Targets, core.Target{
			ID: id, Created: noon.Add(-24 * time.Hour), NodeReadAt: noon, Revision: "1", Parts: core.NoParts(),
			Node: core.Node{State: core.NodePresent, Name: id.Name, UID: id.UID, Conditions: []core.Condition{
				{Type: "Ready", Status: "True", Since: noon.Add(-23 * time.Hour)},
			}},
		})
	}
	s.check("workers", 48*time.Hour)
	for _, kind := range []string{"Reboot", "Fence"} {
		s.around.templates.Begin(templateKind(kind), true)
		s.around.templates.Begin(requestKind(kind), true)
		s.put("{apiVersion: fix.example/v1, kind: " + kind + "Template, metadata: {name: usual, namespace: remediators}, spec: {template: {spec: {}}}}")
	}
	return s
}

func templateKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "fix.example", Version: "v1", Kind: kind + "Template"}
}

func requestKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "fix.example", Version: "v1", Kind: kind}
}

// put adds an object as a person writes it.
func (s *nodeScene) put(text string) {
	s.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		s.t.Fatalf("reading %s: %v", text, err)
	}
	if u.GetKind() == "Lease" {
		s.around.leases.Put(u)
	} else {
		s.around.templates.Put(u.GroupVersionKind(), u)
	}
}

func nodeStep(kind string, limit time.Duration) core.Step {
	return core.Step{
		Remedy: "RequestNodeRemediation", Nature: core.CreateRequest, Limit: limit,
		Template: core.Reference{APIVersion: "fix.example/v1", Kind: kind + "Template", Namespace: "remediators", Name: "usual"},
	}
}

// check adds a health check of an age, which selects all nodes.
func (s *nodeScene) check(name string, age time.Duration) *core.Policy {
	p := s.scene.check(name, age)
	p.ID = core.ID{Kind: "NodeHealthCheck", Name: name, UID: "uid-" + name}
	p.ShortCircuit, p.MaxInFlight, p.Backoff = core.ShortCircuit{MaxUnhealthy: core.Percent(49)}, core.Unlimited(), core.Backoff{}
	p.Steps = []core.Step{nodeStep("Reboot", 5*time.Minute), nodeStep("Fence", 10*time.Minute)}
	p.Criteria.NodeStartup, p.WaitsForUpgrades, p.Holder = 0, true, "fettle.io/NodeHealthCheck-"+name
	return p
}

// repair records a repair of a node that began some time ago, with the ladder of the first health check.
func (s *nodeScene) repair(node int, ago time.Duration, change func(*v1alpha1.Repair)) {
	r := s.scene.repair(node, ago, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	delete(s.repairs, r.Namespace+"/"+r.Name)
	r.Namespace, r.Spec.Owner, r.Spec.Ladder = "fettle-system", nil, nil
	for _, step := range s.Policies[0].Steps {
		written := v1alpha1.RepairStep{Remedy: step.Remedy, Nature: v1alpha1.StepCreateRequest, Template: (*v1alpha1.TemplateReference)(&step.Template)}
		if step.Limit > 0 {
			written.Timeout = &metav1.Duration{Duration: step.Limit}
		}
		r.Spec.Ladder = append(r.Spec.Ladder, written)
	}
	if change != nil {
		change(r)
	}
	s.repairs[r.Namespace+"/"+r.Name] = r
}

// request adds a request of Fettle's to a remediator, with lines of its status.
func (s *nodeScene) request(kind, node string, ago time.Duration, lines ...string) {
	s.t.Helper()
	s.requested(signature(kind, node), kind, node, ago, lines...)
}

// signature is what Fettle writes on an object that it makes.
func signature(kind, node string) string {
	return ", fettle.io/requested-by-uid: uid-workers, fettle.io/requested-as: " + kind + ".fix.example/remediators/" + node + "/" +
		strings.Replace(node, "node-", "node-uid-", 1)
}

// stopped is a request whose remediator was told to stop a minute ago.
func (s *nodeScene) stopped(kind, node string, ago time.Duration) {
	s.t.Helper()
	s.requested(signature(kind, node)+", remediation.medik8s.io/nhc-timed-out: \""+noon.Add(-time.Minute).Format(time.RFC3339)+"\"", kind, node, ago)
}

// foreign is the same, made by another for the same health check.
func (s *nodeScene) foreign(kind, node string, ago time.Duration) {
	s.t.Helper()
	s.requested("", kind, node, ago)
}

// kept is a request of Fettle's that was withdrawn some time ago and that a finalizer keeps.
func (s *nodeScene) kept(kind, node, uid string, ago time.Duration) {
	s.t.Helper()
	s.put(requestedText(", fettle.io/requested-by-uid: uid-workers, fettle.io/requested-as: "+kind+".fix.example/remediators/"+node+"/"+uid, kind, node, ago, hasFailed) +
		"  deletionTimestamp: " + noon.Add(-ago).Format(time.RFC3339) + "\n  finalizers: [fix.example/undo]\n")
}

func (s *nodeScene) requested(signature, kind, node string, ago time.Duration, lines ...string) {
	s.t.Helper()
	s.put(requestedText(signature, kind, node, ago, lines...))
}

func requestedText(signature, kind, node string, ago time.Duration, lines ...string) string {
	return "apiVersion: fix.example/v1\nkind: " + kind + "\n" + strings.Join(append(lines, ""), "\n") +
		"metadata:\n  name: " + node + "\n  namespace: remediators\n  uid: " + strings.ToLower(kind) + "-" + node +
		"\n  creationTimestamp: " + noon.Add(-ago).Format(time.RFC3339) +
		"\n  annotations: {remediation.medik8s.io/template-name: usual, remediation.medik8s.io/node-name: " + node + signature + "}" +
		"\n  ownerReferences: [{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: workers, uid: uid-workers}]\n"
}

// lease has a holder hold the lease of a node from some time ago, for a time.
func (s *nodeScene) lease(node, holder string, ago, during time.Duration) {
	s.t.Helper()
	s.put("{kind: Lease, metadata: {namespace: medik8s-leases, name: node-" + node + "}, spec: {holderIdentity: " + holder +
		", leaseDurationSeconds: " + strconv.Itoa(int(during.Seconds())) + ", renewTime: \"" + noon.Add(-ago).Format(metav1.RFC3339Micro) + "\"}}")
}

func (s *nodeScene) assessment() *assessment {
	seen := []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: NHC{}}}
	if s.machines != nil {
		seen = append([]observed{{ClusterObservation: ClusterObservation{Observation: s.machines.Observation}, dialect: &OpenShift{}}}, seen...)
	}
	return newAssessment(core.ClusterKey{}, seen, detailsOf(s.repairs), &s.around, noon)
}

const (
	processing = "status: {conditions: [{type: Processing, status: \"True\"}]}"
	hasFailed  = "status: {conditions: [{type: Processing, status: \"False\"}, {type: Succeeded, status: \"False\"}]}"
)

// firstStepOver has a repair's first step given up some time ago.
func firstStepOver(ago time.Duration, outcome v1alpha1.StepOutcome) func(*v1alpha1.Repair) {
	return func(r *v1alpha1.Repair) {
		r.Status.Step, r.Status.Message = 1, "the remediator says that it failed"
		r.Status.Steps = []v1alpha1.RepairAttempt{{Outcome: outcome, EndedAt: metav1.NewMicroTime(noon.Add(-ago)), Message: "the remediator says that it failed"}}
	}
}

// nodeScenes are what the goldens show. The first node is explained.
var nodeScenes = map[string]func(*nodeScene){
	"healthy": func(*nodeScene) {},
	"suspect": func(s *nodeScene) { s.ready(0, "Unknown", 3*time.Minute) },
	"due":     func(s *nodeScene) { s.ready(0, "Unknown", 6*time.Minute) },
	"first-step": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, nil)
		s.request("Reboot", "node-a", 2*time.Minute, processing)
		s.lease("node-a", "fettle.io/NodeHealthCheck-workers", 2*time.Minute, 6*time.Minute)
	},
	"namesake-kept": func(s *nodeScene) { // an earlier node of the name has left an object that a finalizer keeps
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, time.Second, nil)
		s.kept("Reboot", "node-a", "node-uid-earlier", 5*time.Minute)
	},
	"first-step-recorded": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, time.Second, nil)
	},
	"first-step-failed": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, nil)
		s.request("Reboot", "node-a", 2*time.Minute, hasFailed)
	},
	"second-step": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, firstStepOver(time.Minute, v1alpha1.StepFailed))
		s.request("Reboot", "node-a", 2*time.Minute, hasFailed)
		s.request("Fence", "node-a", time.Minute)
	},
	"second-step-held": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.Policies[0].Paused = true
		s.repair(0, 2*time.Minute, firstStepOver(time.Second, v1alpha1.StepTimedOut))
		s.request("Reboot", "node-a", 2*time.Minute, processing)
	},
	"exhausted": exhausted,
	"exhausted-beside-another": func(s *nodeScene) {
		exhausted(s)
		s.foreign("Reboot", "node-a", 50*time.Minute)
	},
	"succeeded": func(s *nodeScene) { // and the node has not recovered yet
		s.Policies[0].Steps = []core.Step{nodeStep("Reboot", 0)}
		s.ready(0, "Unknown", 12*time.Minute)
		s.repair(0, 6*time.Minute, nil)
		s.request("Reboot", "node-a", 6*time.Minute, `status: {conditions: [{type: Succeeded, status: "True", lastTransitionTime: "`+noon.Add(-4*time.Minute).Format(time.RFC3339)+`"}]}`)
	},
	"classic": func(s *nodeScene) {
		s.Policies[0].Steps = []core.Step{nodeStep("Reboot", 0)}
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, nil)
		s.request("Reboot", "node-a", 2*time.Minute)
	},
	"healthy-delay": func(s *nodeScene) {
		s.Policies[0].HealthyDelay = 10 * time.Minute
		s.ready(0, "True", time.Minute)
		s.repair(0, 4*time.Minute, func(r *v1alpha1.Repair) {
			at := metav1.NewMicroTime(noon.Add(-time.Minute))
			r.Status.RecoveredAt = &at
		})
		s.request("Reboot", "node-a", 4*time.Minute, processing)
	},
	"healthy-until-confirmed": func(s *nodeScene) {
		s.Policies[0].HealthyDelay = -1
		s.ready(0, "True", time.Minute)
		s.repair(0, 4*time.Minute, nil)
		s.request("Reboot", "node-a", 4*time.Minute, processing)
	},
	"settling": func(s *nodeScene) { // the agent may have started just now, and not have looked yet
		s.ready(0, "True", time.Hour)
		s.Targets[0].Node.Conditions = append(s.Targets[0].Node.Conditions, core.Condition{Type: "KernelDeadlock", Status: "False", Since: noon.Add(-20 * time.Second)})
		s.Policies[0].Criteria.Conditions = append(s.Policies[0].Criteria.Conditions, core.ConditionCriterion{Type: "KernelDeadlock", Status: "True", For: time.Minute})
		s.repair(0, 4*time.Minute, nil)
		s.request("Reboot", "node-a", 4*time.Minute, processing)
	},
	"confirmed": func(s *nodeScene) {
		s.Policies[0].HealthyDelay, s.Targets[0].ConfirmedHealthy = -1, true
		s.ready(0, "True", time.Minute)
		s.repair(0, 4*time.Minute, nil)
		s.request("Reboot", "node-a", 4*time.Minute, processing)
	},
	"orphan": func(s *nodeScene) {
		s.request("Reboot", "node-a", time.Hour)
	},
	"orphan-of-another": func(s *nodeScene) {
		s.foreign("Reboot", "node-a", time.Hour)
	},
	"step-of-another": func(s *nodeScene) {
		s.Policies[0].Steps = []core.Step{nodeStep("Reboot", 0)}
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, nil)
		s.foreign("Reboot", "node-a", time.Hour)
	},
	"leased": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.lease("node-a", "node-maintenance", 10*time.Minute, time.Hour)
	},
	"excluded": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.Targets[0].Node.Excluded = true
	},
	"upgrading": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.around.versions["version"] = true
	},
	"template-missing": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.Policies[0].Steps[1].Template.Name = "rare"
	},
	"storm": func(s *nodeScene) {
		for i := range 3 {
			s.ready(i, "Unknown", 8*time.Minute)
		}
	},
	"control-plane": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.Targets[0].ControlPlane, s.Targets[0].QuorumSurvives, s.Targets[0].QuorumReadAt = true, core.No, noon
	},
	"hidden": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.around.templates.Hide(requestKind("Fence"), "you may not list fences.fix.example")
		s.around.unread.leases = "you may not list leases in namespace medik8s-leases"
		s.around.unread.upgrade = "you may not list clusterversions.config.openshift.io"
	},
	"hidden-repair": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, nil)
		s.around.templates.Hide(requestKind("Reboot"), "you may not list reboots.fix.example")
	},
	"hidden-and-held": func(s *nodeScene) {
		s.ready(0, "Unknown", 8*time.Minute)
		s.Policies[0].Paused = true
		s.around.unread.leases = "you may not list leases in namespace medik8s-leases"
	},
	"hidden-suspect": func(s *nodeScene) {
		s.ready(0, "Unknown", 3*time.Minute)
		s.around.unread.upgrade = "you may not list clusterversions.config.openshift.io"
	},
	"machine-leads": func(s *nodeScene) {
		s.machines = newScene()
		s.machines.Policies[0].Created = noon.Add(-72 * time.Hour)
		s.bothReady(0, "Unknown", 8*time.Minute)
	},
	"node-leads": func(s *nodeScene) {
		s.machines = newScene()
		s.Policies[0].Created = noon.Add(-72 * time.Hour)
		s.bothReady(0, "Unknown", 8*time.Minute)
		s.repair(0, 2*time.Minute, nil)
		s.request("Reboot", "node-a", 2*time.Minute, processing)
	},
}

// exhausted has both steps of the repair of node-a be given up.
func exhausted(s *nodeScene) {
	s.ready(0, "Unknown", time.Hour)
	s.repair(0, 50*time.Minute, func(r *v1alpha1.Repair) {
		firstStepOver(45*time.Minute, v1alpha1.StepTimedOut)(r)
		r.Status.Steps = append(r.Status.Steps, v1alpha1.RepairAttempt{Outcome: v1alpha1.StepTimedOut, EndedAt: metav1.NewMicroTime(noon.Add(-35 * time.Minute)), Message: "too slow"})
	})
	s.stopped("Fence", "node-a", 45*time.Minute)
}

// bothReady sets the Ready condition of a machine's node, in the facts of both dialects.
func (s *nodeScene) bothReady(i int, status string, ago time.Duration) {
	s.ready(i, status, ago)
	s.machines.ready(i, status, ago)
}

func TestNodeScenes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(nodeScenes)) {
		t.Run(name, func(t *testing.T) {
			s := newNodeScene(t)
			nodeScenes[name](s)
			w := s.assessment()
			status := buildStatus([]*assessment{w}, "", header())
			e := Explanation{Header: header()}
			for _, i := range w.find(nodeSubject, "node-a", "") {
				e.Targets = append(e.Targets, w.explainTarget(i, nil, lacksRole))
			}
			text := "$ fettle status\n" + statusText(&status, 20) + "\n$ fettle explain node/node-a\n" + printed(false, func(p *page) { p.explanation(&e) })
			for i := range w.cluster.Repairs {
				r := w.explainRepair(i, nil)
				r.Header = header()
				text += "\n$ fettle explain repair/" + r.Repair.Name + "\n" + printed(false, func(p *page) { p.repairExplanation(&r) })
			}
			golden(t, "node-"+name+".txt", text)
		})
	}
}
