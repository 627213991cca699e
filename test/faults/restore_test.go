package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestClusterIsRestored restores etcd from a backup while Fettle runs. The health check was paused after the backup. So
// Fettle remembers a newer version of it than the API server has by then, and a wrong one.
func TestClusterIsRestored(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	s := newMachineFixture(t, c, "restored")
	s.addMachines(names("m", 4))
	s.healthCheck("example", unlimited)
	s.StartFettle(t)
	s.wantStatus("example", 4, 4, "")
	backup := c.Backup(t)
	s.passTime()
	s.must("pausing the health check", s.Patch(cluster.Context(t), s.check("example"), annotated(v1beta1.PausedAnnotation)))
	s.wantReason("example", v1beta1.PausedReason)

	c.Restore(t, backup)
	check := s.check("example")
	s.must("reading the health check", s.Get(cluster.Context(t), keyOf(check), check))
	if _, paused := check.GetAnnotations()[v1beta1.PausedAnnotation]; paused {
		t.Fatal("the cluster was not restored, so this shows nothing")
	}
	s.longBroken([]string{"m-00"})
	s.Eventually(t, "the machine is repaired", func(ctx context.Context) error {
		m := s.machine("m-00") // the monitor watches from revisions that are still to come
		if err := s.Get(ctx, keyOf(m), m); err != nil {
			return err
		}
		if m.GetDeletionTimestamp() == nil {
			return errors.New("it stands")
		}
		return nil
	})
	s.must("letting the machine go", s.release(cluster.Context(t), "m-00"))
}

// passTime brings the cluster to revisions far beyond the revisions of its start.
func (s *machineFixture) passTime() {
	s.t.Helper()
	s.each(names("filler", 1000), func(ctx context.Context, name string) error {
		filler := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		if err := s.Create(ctx, filler); err != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
		return nil
	})
}
