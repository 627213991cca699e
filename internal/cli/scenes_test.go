package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// scenes are what the goldens show, each by the file that it is in. The first machine is explained.
var scenes = map[string]func(*scene){
	"healthy":   func(*scene) {},
	"suspect":   func(s *scene) { s.ready(0, "Unknown", 3*time.Minute) },
	"unhealthy": func(s *scene) { s.ready(0, "Unknown", 6*time.Minute) },
	"suspect-then-held": func(s *scene) {
		s.ready(0, "Unknown", 3*time.Minute)
		s.ready(1, "False", time.Hour)
	},
	"no-owner": func(s *scene) {
		s.ready(0, "False", time.Hour)
		s.Targets[0].Owner = core.ID{}
	},
	"too-many": func(s *scene) {
		for i := range 3 {
			s.ready(i, "Unknown", time.Duration(i+5)*time.Minute)
		}
	},
	"paused": func(s *scene) {
		s.ready(0, "False", time.Hour)
		s.Policies[0].Paused = true
	},
	"invalid": func(s *scene) {
		s.ready(0, "False", time.Hour)
		s.Policies[0].Problem = `spec.maxUnhealthy is "many"; give a number such as 2 or a percentage such as 40%`
	},
	"in-flight": func(s *scene) {
		s.ready(0, "False", 10*time.Minute)
		s.ready(1, "False", time.Hour)
		s.Targets[1].Deleting = true
		s.repair(1, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	},
	"deleting": func(s *scene) {
		s.ready(0, "Unknown", time.Hour)
		s.Targets[0].Deleting = true
		s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	},
	"deleted-by-others": func(s *scene) { s.Targets[0].Deleting = true },
	"refused-call": func(s *scene) {
		s.ready(0, "Unknown", time.Hour)
		s.repair(0, time.Minute, v1alpha1.RepairStatus{
			Phase: v1alpha1.RepairRunning, Attempts: 4, LastError: "admission webhook \"keep.example\" denied the request", Message: "the remedy was refused and is tried again after a pause",
			LastAttempt: &metav1.MicroTime{Time: noon.Add(-3 * time.Second)},
		})
	},
	"recovers": func(s *scene) {
		s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	},
	"backing-off": backingOff,
	"given-up": func(s *scene) {
		backingOff(s)
		s.Policies[0].Backoff.GiveUpAfter = 7
	},
	"cooling-down": func(s *scene) {
		s.ready(0, "Unknown", time.Hour)
		s.Policies[0].WasStopped, s.Policies[0].StormCooldown = true, 30*time.Second
		s.Policies[0].Cooldown = core.CooldownState{First: noon.Add(-10 * time.Second), Last: noon.Add(-10 * time.Second), Unhealthy: 1}
	},
	"never-joined": func(s *scene) {
		s.Targets[0].Node, s.Targets[0].StartupFrom = core.Node{State: core.NodeAwaited}, noon.Add(-4*time.Minute)
	},
	"node-gone": func(s *scene) { s.Targets[0].Node = core.Node{State: core.NodeGone, Name: "node-a"} },
	"node-gone-delayed": func(s *scene) {
		s.Targets[0].Node = core.Node{State: core.NodeGone, Name: "node-a"}
		s.Policies[0].Criteria.NodeGoneDelay = 5 * time.Minute
	},
	"conditions-together": func(s *scene) {
		s.ready(0, "False", time.Minute)
		s.Policies[0].Criteria.Conditions = nil
		s.Policies[0].Criteria.Groups = []core.ConditionGroup{{For: 5 * time.Minute, Tests: []core.ConditionTest{
			{Type: "Ready", Status: "False"}, {Type: "AgentReady", Missing: true},
		}}}
	},
	"dry-run": func(s *scene) {
		s.ready(0, "Unknown", time.Hour)
		s.Policies[0].DryRun = true
	},
	"overlap": func(s *scene) {
		s.ready(0, "Unknown", time.Hour)
		young := s.check("young", time.Hour)
		young.Paused = true
	},
	"control-plane": func(s *scene) {
		s.ready(0, "Unknown", time.Hour)
		s.Targets[0].ControlPlane, s.Targets[0].QuorumReadAt = true, noon
	},
	"unselected": func(s *scene) {
		s.Policies[0].Members = []int{1, 2, 3, 4}
	},
	"remediated": func(s *scene) { s.Targets[0].ExternallyRemediated = true },
	"asked":      func(s *scene) { s.Targets[0].RepairRequest.At = noon.Add(-time.Minute) },
	"asked-and-held": func(s *scene) {
		s.Targets[0].RepairRequest.At = noon.Add(-time.Minute)
		s.Policies[0].Paused = true
	},
	"asked-in-vain":  func(s *scene) { s.Targets[0].RepairRequest.At = noon.Add(-core.RequestLasts) },
	"asked-nonsense": func(s *scene) { s.Targets[0].RepairRequest.Unreadable = true },
	"asked-too-soon": func(s *scene) { s.Targets[0].RepairRequest.At = noon.Add(time.Hour) },
	"untimed": func(s *scene) {
		s.Targets[0].Node.Conditions = []core.Condition{{Type: "Ready", Status: "Unknown"}}
	},
}

// backingOff: the seventh replacement in a row has failed.
func backingOff(s *scene) {
	s.Targets[0].Failed, s.Targets[0].FailedSince, s.Targets[0].Created = true, noon.Add(-time.Minute), noon.Add(-100*time.Second)
	r := s.repair(1, 2*time.Minute, v1alpha1.RepairStatus{
		Phase: v1alpha1.RepairSucceeded, Message: "the target is gone; its owner replaces it", FinishedAt: &metav1.Time{Time: noon.Add(-90 * time.Second)},
	})
	delete(s.repairs, r.Namespace+"/"+r.Name)
	r.Spec.Target.UID, r.Spec.Target.Name, r.Spec.Retry = "uid-gone", "worker-x", 6
	r.Name = core.RepairName(core.ID{Kind: "Machine", Namespace: r.Namespace, Name: "worker-x", UID: "uid-gone"}, 1)
	s.repairs[r.Namespace+"/"+r.Name] = r
}

// lacksRole is how the first machine is not selected.
func lacksRole(core.ID, core.ID) ([]string, bool) { return []string{"role=worker"}, true }

func TestScenes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			scenes[name](s)
			w := s.assessment()
			status := buildStatus([]*assessment{w}, "", header())
			meta := &metav1.PartialObjectMetadata{}
			if s.Targets[0].Deleting {
				meta.DeletionTimestamp, meta.Finalizers = &metav1.Time{Time: noon.Add(-50 * time.Second)}, []string{"machine.machine.openshift.io"}
			}
			e := Explanation{Header: header(), Targets: []ExplainedTarget{w.explainTarget(0, meta, lacksRole)}}
			text := "$ fettle status\n" + statusText(&status, 20) + "\n$ fettle explain machine/worker-a\n" + printed(false, func(p *page) { p.explanation(&e) })
			for i := range w.cluster.Repairs {
				r := w.explainRepair(i, meta)
				r.Header = header()
				text += "\n$ fettle explain repair/" + r.Repair.Name + "\n" + printed(false, func(p *page) { p.repairExplanation(&r) })
			}
			golden(t, name+".txt", text)
		})
	}
}

func statusText(s *Status, limit int) string {
	return printed(false, func(p *page) {
		sp := statusPage{page: *p, limit: limit, where: "in namespace machines", command: "fettle"}
		sp.all(s)
	})
}

// TestShapesOfPrograms pins what -o json prints. The shapes may grow and never change.
func TestShapesOfPrograms(t *testing.T) {
	for _, name := range []string{"in-flight", "suspect"} {
		s := newScene()
		scenes[name](s)
		w := s.assessment()
		status := buildStatus([]*assessment{w}, "", header())
		answers := map[string]any{"status": &status}
		e := Explanation{Header: header(), Subject: Reference{Kind: "machine", Name: "worker-a"}, Targets: []ExplainedTarget{w.explainTarget(0, nil, lacksRole)}}
		e.Kind = kindExplanation
		answers["explanation"] = &e
		if len(w.cluster.Repairs) > 0 {
			r := w.explainRepair(0, nil)
			r.Header = header()
			r.Kind = kindRepairExplanation
			answers["repair"] = &r
		}
		for kind, answer := range answers {
			var out bytes.Buffer
			if err := (&output{format: formatJSON}).emit(&out, answer, nil); err != nil {
				t.Fatalf("printing: %v", err)
			}
			golden(t, name+"-"+kind+".json", out.String())
			var doc map[string]any
			if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc["apiVersion"] != APIVersion || doc["at"] != "2026-08-01T12:00:00Z" {
				t.Errorf("%s of %s: %v, apiVersion %v, at %v", kind, name, err, doc["apiVersion"], doc["at"])
			}
		}
	}
}

func TestNoLeader(t *testing.T) {
	s := newScene()
	s.ready(0, "Unknown", time.Hour)
	w := s.assessment()
	h := header()
	lease := h.Controller
	lapsed := controllerOf(nil, "you may not get lease x", "fettle-system", noon)
	if lapsed.Leads != "unknown" || !strings.Contains(lapsed.Message, "you may not get lease x") {
		t.Errorf("a lease that can't be read gives %+v", lapsed)
	}
	*lease = Controller{Leads: "no", Holder: "fettle-0", Lease: lease.Lease, Renewed: instant(noon.Add(-time.Hour)), Message: "NO LEADER: so."}
	e := Explanation{Header: h, Targets: []ExplainedTarget{w.explainTarget(0, nil, lacksRole)}}
	if text := printed(false, func(p *page) { p.explanation(&e) }); !strings.HasPrefix(text, "NO LEADER") || !strings.Contains(text, "last renewed by fettle-0, 60m ago") {
		t.Errorf("the missing leader is not said first:\n%s", text)
	}
}

func TestLeadersByTheirLease(t *testing.T) {
	cases := map[string]struct {
		holder string
		ago    time.Duration
		leads  string
	}{
		"renewed just now":         {"fettle-0", 2 * time.Second, "yes"},
		"renewed at the last time": {"fettle-0", 15 * time.Second, "yes"},
		"lapsed":                   {"fettle-0", 16 * time.Second, "no"},
		"given back":               {"", time.Second, "no"},
	}
	for sentence, tc := range cases {
		lease := leaseOf(tc.holder, noon.Add(-tc.ago))
		if c := controllerOf(lease, "", "ns", noon); c.Leads != tc.leads || (c.Leads == "no") != strings.Contains(c.Message, "nothing will be repaired") {
			t.Errorf("a lease %s gives %+v, want %s", sentence, c, tc.leads)
		}
	}
}

// TestLimitedRows: of a large fleet the gravest are shown, and how many there are.
func TestLimitedRows(t *testing.T) {
	s := newScene()
	s.Policies[0].ShortCircuit.MaxUnhealthy = core.Percent(0)
	for i := range s.Targets {
		s.ready(i, "Unknown", time.Duration(i+3)*time.Minute)
	}
	status := buildStatus([]*assessment{s.assessment()}, "", header())
	text := statusText(&status, 2)
	if !strings.Contains(text, "worker-e") || !strings.Contains(text, "worker-d") || strings.Contains(text, "worker-a ") || !strings.Contains(text, "… and 3 machines more (--limit 0 shows all)") {
		t.Errorf("two rows, the longest unhealthy first, want:\n%s", text)
	}
	if text := statusText(&status, 0); strings.Contains(text, "…") || strings.Count(text, "\nworker-") != 5 {
		t.Errorf("all rows want:\n%s", text)
	}
}

func TestNoHealthChecks(t *testing.T) {
	s := newScene()
	s.Policies = nil
	status := buildStatus([]*assessment{s.assessment()}, "", header())
	if text := statusText(&status, 20); !strings.Contains(text, "no health checks in namespace machines. Add -A") {
		t.Errorf("where to look is not said:\n%s", text)
	}
}
