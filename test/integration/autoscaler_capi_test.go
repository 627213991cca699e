package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// isScaled: the stand-in for the cluster autoscaler scales a machine deployment, whose machine set Cluster API's own
// controllers serve. It removes a healthy machine, adds some while another is replaced, and removes a machine that
// Fettle has marked.
func (m *managed) isScaled(t *testing.T) {
	a := &standInAutoscaler{
		Client: m.Client, t: t, namespace: "default", apiVersion: clusterAPI, scales: "MachineDeployment",
		mark: "cluster.x-k8s.io/delete-machine", ofSet: "cluster.x-k8s.io/deployment-name",
	}
	well := m.anyWorker(t, "west").Name
	a.remove("west-workers", well)
	a.isGone(m.Cluster, well)
	m.wantHealthy("west", "2/2")

	a.scale("west-workers", 1) // the limit of 40 % allows one of three, and none of two
	m.wantHealthy("west", "3/3")
	sick := m.anyWorker(t, "west")
	m.breakMachine(t, sick.Spec.InfrastructureRef.Name)
	m.isMarked(t, "west", sick.Name)
	a.scale("west-workers", 1)
	a.isGone(m.Cluster, sick.Name)
	m.wantHealthy("west", "4/4")

	judged := m.anyWorker(t, "west")
	m.breakMachine(t, judged.Spec.InfrastructureRef.Name)
	m.isMarked(t, "west", judged.Name)
	if !a.remove("west-workers", judged.Name) {
		a.scale("west-workers", -1)
	}
	a.isGone(m.Cluster, judged.Name)
	m.wantHealthy("west", "3/3")
	m.Eventually(t, "the repairs have ended", func(ctx context.Context) error { return m.noRepairOf(ctx, well) })
}

// isMarked waits until Fettle has marked a machine for its owner, or the machine is gone by then.
func (m *managed) isMarked(t *testing.T, of, name string) {
	t.Helper()
	m.After(t, 30*time.Second, name+" is marked", func(ctx context.Context) error {
		workers, err := m.workers(ctx, of)
		if err != nil || workers[name] == nil {
			return err
		}
		if meta.FindStatusCondition(workers[name].Status.Conditions, byOwner) == nil {
			return errors.New("its conditions are " + wordsOf(workers[name].Status.Conditions))
		}
		return nil
	})
}

// noRepairOf returns an error if a machine has a repair, or if any repair runs.
func (m *managed) noRepairOf(ctx context.Context, machine string) error {
	var list v1alpha1.RepairList
	if err := m.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if r := &list.Items[i]; r.Spec.Target.Name == machine || r.Status.FinishedAt == nil {
			return fmt.Errorf("there is a repair of %s, which is %s", r.Spec.Target.Name, r.Status.Phase)
		}
	}
	return nil
}
