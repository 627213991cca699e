package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// machineScene has machines whose steps make requests to a remediator, and an object for the first of them that Fettle did not make.
func machineScene(t *testing.T) *nodeScene {
	t.Helper()
	s := newNodeScene(t)
	s.machines = newScene()
	namespace := s.machines.Targets[0].ID.Namespace
	for i := range s.machines.Targets {
		s.machines.Targets[i].Parts = core.NoParts()
	}
	s.machines.Policies[0].Steps = []core.Step{{
		Remedy: "RequestMachineRemediation", Nature: core.CreateRequest,
		Template: core.Reference{APIVersion: "fix.example/v1", Kind: "RebootTemplate", Namespace: namespace, Name: "usual"},
	}}
	m := s.machines.Targets[0].ID
	s.put("{apiVersion: fix.example/v1, kind: Reboot, metadata: {name: " + m.Name + ", namespace: " + namespace + ", uid: reboot," +
		" annotations: {machine.openshift.io/cloned-from-name: usual}," +
		" ownerReferences: [{apiVersion: machine.openshift.io/v1beta1, kind: Machine, name: " + m.Name + ", uid: " + m.UID + "}]}}")
	return s
}

// TestLeftOver: a request that an older version made for a healthy machine is not withdrawn. A message says so, with the command
// that deletes it.
func TestLeftOver(t *testing.T) {
	s := machineScene(t)
	w := s.assessment()
	m := s.machines.Targets[0].ID
	command := "kubectl delete Reboot.fix.example " + m.Name + " -n " + m.Namespace
	target := w.find(machineSubject, m.Name, "")[0]
	if next := w.nextOf(target).Text; !strings.Contains(next, "which Fettle did not make") || !strings.HasSuffix(next, command) {
		t.Errorf("explain says %q, want what stands and %q", next, command)
	}
	notes := w.notesOnLeftOver("")
	if len(notes) != 1 || !strings.HasSuffix(notes[0], command) {
		t.Errorf("status notes %q, want one with %q", notes, command)
	}
	if notes := w.notesOnLeftOver("elsewhere"); len(notes) > 0 {
		t.Errorf("in another namespace status notes %q, want nothing", notes)
	}
	s.machines.ready(0, "Unknown", 8*time.Minute)
	if notes := s.assessment().notesOnLeftOver(""); len(notes) > 0 {
		t.Errorf("of a machine that is not well status notes %q, want nothing: it may be needed", notes)
	}
	s.machines.ready(0, "True", 8*time.Minute)
	s.machines.Policies[0].DryRun = true
	if notes := s.assessment().notesOnLeftOver(""); len(notes) > 0 {
		t.Errorf("of a rehearsal status notes %q, want nothing: another operator repairs", notes)
	}
}

// TestManyLeftOver: status names ten of the objects that are left over, and counts the others.
func TestManyLeftOver(t *testing.T) {
	for _, more := range []int{5, 6, 7} {
		s := machineScene(t)
		for i := range 4 + more {
			m := s.machines.Targets[0]
			if i < 4 {
				m = s.machines.Targets[i+1]
			} else {
				m.ID.Name, m.ID.UID, m.Node.Name, m.Node.UID = fmt.Sprintf("more-%d", i), fmt.Sprintf("more-%d", i), fmt.Sprintf("node-%d", i), fmt.Sprintf("node-%d", i)
				s.machines.Policies[0].Members = append(s.machines.Policies[0].Members, len(s.machines.Targets))
				s.machines.Targets = append(s.machines.Targets, m)
			}
			s.put("{apiVersion: fix.example/v1, kind: Reboot, metadata: {name: " + m.ID.Name + ", namespace: " + m.ID.Namespace + ", uid: reboot-" + m.ID.Name + "," +
				" annotations: {machine.openshift.io/cloned-from-name: usual}," +
				" ownerReferences: [{apiVersion: machine.openshift.io/v1beta1, kind: Machine, name: " + m.ID.Name + ", uid: " + m.ID.UID + "}]}}")
		}
		notes := s.assessment().notesOnLeftOver("")
		wantNotes, wantLast := 10, "kubectl delete"
		if more > 5 {
			wantNotes, wantLast = 11, fmt.Sprintf("There are %d more such objects that Fettle did not make.", more-5)
		}
		if len(notes) != wantNotes || !strings.Contains(notes[len(notes)-1], wantLast) {
			t.Errorf("of %d objects status notes %q, want %d notes, the last with %q", 5+more, notes, wantNotes, wantLast)
		}
	}
}

// TestDeletions: kubectl is given the group of a kind, if it has one.
func TestDeletions(t *testing.T) {
	for version, want := range map[string]string{"fix.example/v1": "kubectl delete Reboot.fix.example a -n ns", "v1": "kubectl delete Reboot a -n ns", "a/b/c": "kubectl delete Reboot a -n ns"} {
		if got := deletion(&core.Request{APIVersion: version, ID: core.ID{Kind: "Reboot", Namespace: "ns", Name: "a"}}); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// TestIgnoredRepairIsExplained: a Repair that exists and counts for nothing is not told as a missing one.
func TestIgnoredRepairIsExplained(t *testing.T) {
	v := &view{repairDetails: map[string]ledger.Details{
		"tenant/forged": {Ignored: true, Problem: "its target is elsewhere"}, "machines/good": {},
	}}
	for namespace, want := range map[string]bool{"tenant": true, "": true, "machines": false} {
		why := v.ignored(namespace, "forged")
		if got := strings.Contains(why, "its target is elsewhere") && strings.HasSuffix(why, "kubectl delete repair forged -n tenant"); got != want {
			t.Errorf("in namespace %q: %q, want it explained: %t", namespace, why, want)
		}
	}
	if why := v.ignored("", "good"); why != "" {
		t.Errorf("a Repair that counts: %q, want nothing", why)
	}
	if notes := v.notesOnRepairs(); !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "tenant/forged") }) {
		t.Errorf("status notes %q, want the ignored Repair", notes)
	}
}

// TestForeignRequests: only a request that Fettle did not create, and that a policy would create too, stands in the way.
func TestForeignRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *core.Request, of core.ID)
		want   bool
	}{
		"it is foreign":                  {func(*core.Request, core.ID) {}, true},
		"Fettle created it":              {func(q *core.Request, _ core.ID) { q.Own = true }, false},
		"it answers another":             {func(q *core.Request, _ core.ID) { q.Answers = true }, false},
		"it is being deleted":            {func(q *core.Request, _ core.ID) { q.Leaving = true }, false},
		"it names the policy":            {func(q *core.Request, of core.ID) { q.Policy = of }, true},
		"it names another kind":          {func(q *core.Request, of core.ID) { of.Kind = "Other"; q.Policy = of }, false},
		"it names another namespace":     {func(q *core.Request, of core.ID) { of.Namespace = "other"; q.Policy = of }, false},
		"it names another policy":        {func(q *core.Request, of core.ID) { of.Name = "other"; q.Policy = of }, false},
		"it is of another remedy":        {func(q *core.Request, _ core.ID) { q.Remedy = "Other" }, false},
		"it is made of another template": {func(q *core.Request, _ core.ID) { q.Template.Name = "other" }, false},
	} {
		s := machineScene(t)
		w := s.assessment()
		target := w.find(machineSubject, s.machines.Targets[0].ID.Name, "")[0]
		q := w.foreignOn(target)
		if q == nil {
			t.Fatal("no request is foreign")
		}
		c.change(q, s.machines.Policies[0].ID)
		if got := w.foreignOn(target) != nil; got != c.want {
			t.Errorf("%s: it stands in the way: %t, want %t", name, got, c.want)
		}
	}
}
