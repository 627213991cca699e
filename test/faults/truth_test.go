package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

func (s *machineFixture) listRepairs(ctx context.Context) ([]v1alpha1.Repair, error) {
	var list v1alpha1.RepairList
	err := s.List(ctx, &list, client.InNamespace(s.namespace))
	return list.Items, err
}

func (s *machineFixture) isDeleting(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		if m.name == name && m.deleting {
			return true
		}
	}
	return false
}

// tellsTheTruth: when everything has come to rest, Fettle's reports agree with the monitor: how and when every repair
// ended, and the state of the machines that are left.
func (s *machineFixture) tellsTheTruth() {
	s.t.Helper()
	repairs, err := s.listRepairs(cluster.Context(s.t))
	s.must("listing repairs", err)
	for i := range repairs {
		if err := s.isTrue(&repairs[i]); err != nil {
			s.t.Errorf("repair %s does not tell the truth: %v\n%+v", repairs[i].Name, err, repairs[i].Status)
		}
	}
	for _, i := range some(len(repairs)) {
		s.explainsRepair(&repairs[i])
	}
	left, err := s.listMachines(cluster.Context(s.t))
	s.must("listing machines", err)
	for _, i := range some(len(left)) {
		s.explainsMachine(left[i])
	}
}

func (s *machineFixture) isTrue(r *v1alpha1.Repair) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[r.Spec.Target.UID]
	switch {
	case m == nil:
		return errors.New("the watch has not shown its machine")
	case r.Status.FinishedAt == nil || r.Status.Message == "":
		return errors.New("it does not say when and why it ended")
	case r.Status.Phase == v1alpha1.RepairSucceeded && !m.gone:
		return errors.New("its machine is there")
	case r.Status.Phase != v1alpha1.RepairSucceeded && m.deleting && !m.ours:
		return errors.New("its machine was deleted")
	case r.Spec.Target.Name != m.name || r.Spec.Target.Node == "":
		return fmt.Errorf("it does not name its machine %s and the node", m.name)
	}
	return nil
}

// some returns the first, the middle and the last of so many.
func some(n int) []int {
	if n == 0 {
		return nil
	}
	return slices.Compact([]int{0, n / 2, n - 1})
}

// explain runs fettle explain, as a user with all rights.
func (s *stage) explain(namespace, subject string, answer any) {
	s.t.Helper()
	cmd := exec.Command(cluster.Binary(s.t, "fettle"), "explain", subject, "--namespace", namespace, "--kubeconfig", s.Kubeconfig(), "-o", "json")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		s.t.Errorf("explaining %s: %v\n%s%s", subject, err, out, complaints.Bytes())
	}
}

func (s *machineFixture) explainsRepair(r *v1alpha1.Repair) {
	s.t.Helper()
	var said struct {
		Repair struct {
			Phase, Progress string
			Finished        time.Time
			Attempts        int
			Target          struct{ Name, UID string }
		}
		Target *struct{ Name string }
		Next   struct{ Text string }
	}
	s.explain(s.namespace, "repair/"+r.Name, &said)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.machines[r.Spec.Target.UID]
	wrong := said.Repair.Phase != string(s.repairs[r.Name].phase) || said.Repair.Target.UID != r.Spec.Target.UID ||
		said.Repair.Target.Name != seen.name || (said.Target == nil) != seen.gone || said.Repair.Finished.IsZero() ||
		said.Repair.Progress == "" || said.Repair.Attempts != int(r.Status.Attempts) || said.Next.Text == ""
	if wrong {
		s.t.Errorf("fettle explain repair/%s says %+v; the monitor has seen %+v of its machine %+v", r.Name, said, *s.repairs[r.Name], *seen)
	}
}

func (s *machineFixture) explainsMachine(name string) {
	s.t.Helper()
	var said struct {
		Targets []struct {
			Name, Health, Repair, Unselected string
			DeletingSince                    time.Time
			Verdicts                         []struct{ Health, Message string }
			Next                             struct{ Text string }
		}
	}
	s.explain(s.namespace, "machine/"+name, &said)
	if len(said.Targets) != 1 {
		s.t.Errorf("fettle explain machine/%s says %+v, want one target", name, said)
		return
	}
	target := said.Targets[0]
	healthy := target.Health == "healthy"
	selected := len(target.Verdicts) > 0
	wrong := target.Name != name || !target.DeletingSince.IsZero() || target.Repair != "" || target.Next.Text == "" ||
		(selected && healthy == s.isBroken(name)) || selected == (target.Unselected != "")
	if wrong {
		s.t.Errorf("fettle explain machine/%s says %+v; that it is broken is %t", name, target, s.isBroken(name))
	}
}

func (s *machineFixture) isBroken(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		if m.name == name && !m.gone {
			return m.meant
		}
	}
	return false
}
