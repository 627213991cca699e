package cli

import (
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
