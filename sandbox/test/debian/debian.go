// Package debian gets programs of Debian for tests that need clients of others. Where that can't be done, the test is
// skipped and says why. With REAL_PARTS=required in the environment it fails.
package debian

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

const timeout = 5 * time.Minute

// Install installs a package unless a file of it is there already.
func Install(t *testing.T, name, file string) {
	t.Helper()
	if _, err := os.Stat(file); err == nil {
		return
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		unavailable(t, "%s of the Debian package %s is missing, and so is apt-get", file, name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	install := func() ([]byte, error) {
		command := exec.CommandContext(ctx, apt, "-o", "DPkg::Lock::Timeout=120",
			"install", "-y", "--no-install-recommends", name)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		return command.CombinedOutput()
	}
	out, err := install()
	if err != nil {
		_ = exec.CommandContext(ctx, apt, "update").Run() // the lists may be missing
		out, err = install()
	}
	if err != nil {
		unavailable(t, "apt-get doesn't install the Debian package %s: %v\n%s", name, err, out)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the Debian package %s has no %s", name, file)
	}
}

// unavailable skips the test, or fails it where real parts are required.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("REAL_PARTS") == "required" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Run runs a client and returns what it printed.
func Run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	// Python's requests prefers the authorities and proxies of the environment to those of the caller.
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		return strings.HasSuffix(name, "_CA_BUNDLE") || strings.HasSuffix(name, "_PROXY")
	})
	out, err := command.CombinedOutput()
	return string(out), err
}
