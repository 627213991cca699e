package cluster

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Backup restarts the sandbox, and returns a copy of etcd's data from in between.
func (c *Cluster) Backup(t testing.TB) string {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "etcd")
	_ = c.process.end(syscall.SIGTERM, graceOfServers)
	if err := os.CopyFS(backup, os.DirFS(c.etcd())); err != nil {
		t.Fatalf("copying what etcd has: %v", err)
	}
	c.start(t)
	return backup
}

// Restore restarts the sandbox with a backup in place of etcd's data.
func (c *Cluster) Restore(t testing.TB, backup string) {
	t.Helper()
	_ = c.process.end(syscall.SIGTERM, graceOfServers)
	if err := os.RemoveAll(c.etcd()); err != nil {
		t.Fatalf("removing what etcd has: %v", err)
	}
	if err := os.CopyFS(c.etcd(), os.DirFS(backup)); err != nil {
		t.Fatalf("restoring a backup: %v", err)
	}
	if err := os.Chmod(c.etcd(), 0o700); err != nil {
		t.Fatalf("restoring a backup: %v", err)
	}
	c.start(t)
}

func (c *Cluster) etcd() string { return filepath.Join(c.Dir, "etcd") }
