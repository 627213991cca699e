package debian

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// timeout is how long apt-get may take, with waiting for another one.
	timeout = 5 * time.Minute
	// maxDownload bounds a package that is downloaded.
	maxDownload = 128 << 20
)

// Install installs a package unless a file of it is there already.
func Install(t *testing.T, name, file string) {
	t.Helper()
	if _, err := os.Stat(file); err == nil {
		return
	}
	if out, err := apt(t, "", "install", "-y", "--no-install-recommends", name); err != nil {
		Unavailable(t, "apt-get doesn't install the Debian package %s: %v\n%s", name, err, out)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the Debian package %s has no %s", name, file)
	}
}

// Unpack downloads a package and returns a folder with its files. Nothing is installed.
func Unpack(t *testing.T, name string) string {
	t.Helper()
	folder := t.TempDir()
	// A line has the address in quotes, the name of the file, its size in bytes and its hash.
	out, err := apt(t, folder, "download", "--print-uris", name)
	fields := strings.Fields(out)
	if err != nil || len(fields) != 4 {
		Unavailable(t, "apt-get doesn't know the Debian package %s: %v\n%s", name, err, out)
	}
	if size, err := strconv.Atoi(fields[2]); err != nil || size > maxDownload {
		Unavailable(t, "the Debian package %s has %s bytes, which is too large a download", name, fields[2])
	}
	if out, err := apt(t, folder, "download", name); err != nil {
		Unavailable(t, "apt-get doesn't download the Debian package %s: %v\n%s", name, err, out)
	}
	files := filepath.Join(folder, "files")
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "-x", filepath.Join(folder, fields[1]), files).CombinedOutput(); err != nil {
		t.Fatalf("unpacking the Debian package %s: %v\n%s", name, err, out)
	}
	return files
}

// Dependency returns the first package that a package depends on and whose name begins so.
func Dependency(t *testing.T, name, prefix string) string {
	t.Helper()
	out, err := run(t, "", "apt-cache", "depends", "--important", name)
	for line := range strings.Lines(out) {
		if found, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(found, prefix) {
			return found
		}
	}
	Unavailable(t, "the Debian package %s depends on no %s…: %v\n%s", name, prefix, err, out)
	return ""
}

// apt runs apt-get in a folder and returns what it printed.
func apt(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	// As the user of the test, since the user of apt may not write to the folder.
	return run(t, folder, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120", "-o", "APT::Sandbox::User=root"}, args...)...)
}

// run runs a program of apt. If that fails, the lists of packages may be missing, so it gets them and tries again.
func run(t *testing.T, folder, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		Unavailable(t, "apt-get is missing, which gets programs of Debian for this test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	once := func(name string, args ...string) (string, error) {
		command := exec.CommandContext(ctx, name, args...)
		command.Dir = folder
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
		out, err := command.CombinedOutput()
		return string(out), err
	}
	out, err := once(name, args...)
	if err != nil {
		_, _ = once("apt-get", "update") // a failure shows in what follows
		out, err = once(name, args...)
	}
	return out, err
}

// Unavailable skips the test, or fails it where real parts are required.
func Unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("REAL_PARTS") == "required" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Start runs a program until the test ends, and returns a channel that is closed when the program has ended. The program ends with this
// process at the latest. Its output is logged where the test fails.
func Start(t *testing.T, command *exec.Cmd) <-chan struct{} {
	t.Helper()
	said, ended, started := &bytes.Buffer{}, make(chan struct{}), make(chan error)
	command.Stdout, command.Stderr = said, said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the program
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", command.Path, err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s printed: %s", filepath.Base(command.Path), said)
		}
	})
	return ended
}
