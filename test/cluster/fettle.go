package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fettleStopsWithin is the longest that Fettle may take to stop.
const fettleStopsWithin = 30 * time.Second

// raceBuild builds Fettle with the race detector, once for all tests of a package. Packages that are tested at the same
// time take turns, and all but the first find the binary.
var raceBuild = sync.OnceValues(func() (string, error) {
	path := filepath.Join(Root(), "bin", "fettle-race")
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	cmd := exec.Command("go", "build", "-race", "-o", path, "./cmd/fettle")
	cmd.Dir = Root()
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

// Fettle is a running fettle controller.
type Fettle struct {
	process *process
	ended   bool
	killed  bool
}

// StartFettle runs a fettle controller with the race detector, as its own service account. It ends with the test at the
// latest. The test fails if it does not end well.
func (c *Cluster) StartFettle(t testing.TB, args ...string) *Fettle {
	t.Helper()
	return c.StartFettleWith(t, c.FettleKubeconfig(t), args...)
}

// FettleKubeconfig writes a kubeconfig of Fettle's service account.
func (c *Cluster) FettleKubeconfig(t testing.TB) string {
	t.Helper()
	return c.KubeconfigOf(t, "fettle-system", "fettle")
}

// KubeconfigOf writes a kubeconfig of a service account.
func (c *Cluster) KubeconfigOf(t testing.TB, namespace, name string) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), name+".kubeconfig")
	grant := exec.Command(Binary(t, "fettle-sandbox"), "kubeconfig", "--dir", c.Dir,
		"--service-account", namespace+"/"+name, "--out", kubeconfig)
	if out, err := grant.CombinedOutput(); err != nil {
		t.Fatalf("making a kubeconfig of %s: %v\n%s", name, err, out)
	}
	return kubeconfig
}

// StartFettleWith is StartFettle with another kubeconfig.
func (c *Cluster) StartFettleWith(t testing.TB, kubeconfig string, args ...string) *Fettle {
	t.Helper()
	binary, err := raceBuild()
	if err != nil {
		t.Fatalf("building fettle: %v", err)
	}
	return c.startBinary(t, binary, kubeconfig, args)
}

// StartChanged is StartFettle with another build of Fettle. It replaces or adds files of the repository, by their
// paths. Tests plant faults this way that can't be caused from outside.
func (c *Cluster) StartChanged(t testing.TB, files map[string]string, args ...string) *Fettle {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range files {
		file := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		overlay.Replace[filepath.Join(Root(), path)] = file
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatalf("writing a file of another build: %v", err)
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatalf("writing an overlay: %v", err)
	}
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "fettle-changed")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatalf("writing an overlay: %v", err)
	}
	build := exec.Command("go", "build", "-race", "-overlay", file, "-o", binary, "./cmd/fettle")
	build.Dir = Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building fettle with changes: %v\n%s", err, out)
	}
	return c.startBinary(t, binary, c.FettleKubeconfig(t), args)
}

func (c *Cluster) startBinary(t testing.TB, binary, kubeconfig string, args []string) *Fettle {
	t.Helper()
	if !contains(args, "--leader-elect") {
		args = append(args, "--leader-elect=false")
	}
	cmd := exec.Command(binary, append([]string{"controller", "--kubeconfig", kubeconfig}, args...)...)
	f := &Fettle{process: run(t, cmd, filepath.Join(t.TempDir(), "fettle.log"))}
	t.Cleanup(func() { f.Stop(t) })
	return f
}

func contains(args []string, prefix string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, prefix) {
			return true
		}
	}
	return false
}

// Stop sends Fettle SIGTERM. The test fails if Fettle does not end, or if it found a data race.
func (f *Fettle) Stop(t testing.TB) {
	t.Helper()
	if f.ended {
		return
	}
	f.ended = true
	_ = f.process.cmd.Process.Signal(syscall.SIGCONT) // a halted process would not receive the next signal
	if err := f.process.end(syscall.SIGTERM, fettleStopsWithin); err != nil {
		t.Errorf("fettle did not end well: %v\n%s", err, f.process.tail())
	}
	if t.Failed() {
		t.Logf("what fettle logged last:\n%s", f.process.tail())
	}
}

// Kill sends Fettle SIGKILL.
func (f *Fettle) Kill(t testing.TB) {
	t.Helper()
	f.ended, f.killed = true, true
	_ = f.process.end(syscall.SIGKILL, fettleStopsWithin)
	f.wantNoRace(t)
}

// Ended reports whether the test has ended Fettle, or has seen it end.
func (f *Fettle) Ended() bool { return f.ended }

// Killed reports whether the test has killed Fettle.
func (f *Fettle) Killed() bool { return f.killed }

// LogFile returns the file to which Fettle logs. It goes with the test.
func (f *Fettle) LogFile() string { return f.process.log }

// Halt stops Fettle in the middle of its work, until Resume.
func (f *Fettle) Halt(t testing.TB) {
	t.Helper()
	if err := f.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("halting fettle: %v", err)
	}
}

// Resume continues a halted Fettle.
func (f *Fettle) Resume(t testing.TB) {
	t.Helper()
	if err := f.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatalf("resuming fettle: %v", err)
	}
}

// WantEnd waits until Fettle has ended on its own, with an error.
func (f *Fettle) WantEnd(t testing.TB) {
	t.Helper()
	select {
	case err := <-f.process.done:
		f.process.done <- err
		f.ended = true
		if err == nil {
			t.Errorf("fettle ended without an error\n%s", f.process.tail())
		}
		f.wantNoRace(t)
	case <-time.After(patience):
		t.Fatalf("fettle did not end within %s\n%s", patience, f.process.tail())
	}
}

// wantNoRace fails the test if a process found a data race. Its exit code may be about something else.
func (f *Fettle) wantNoRace(t testing.TB) {
	t.Helper()
	if log, err := os.ReadFile(f.process.log); err != nil || races(log) > 0 {
		t.Errorf("fettle has a data race (%v)\n%s", err, f.process.tail())
	}
}
