package test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSandboxSaysOnceThatItIsReadyAndEndsOnSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	if want := filepath.Join(dir, "kubeconfig"); p.kubeconfig != want {
		t.Errorf("the ready line names %s, not %s", p.kubeconfig, want)
	}
	info, err := os.Stat(p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("others may read the administrator's kubeconfig: its mode is %v", mode)
	}
	// The default service account is needed to create a pod.
	create(t, connect(t, p.kubeconfig), newPod("first", "no-such-node"))
	if code := p.terminate(); code != 0 {
		t.Errorf("ending it on request is a success, but the exit code is %d: %s", code, p.stderr)
	}
	if out := p.lines.all(); len(out) != 1 {
		t.Errorf("the ready line is all that it prints, but it printed %q", out)
	}
	if out := p.stderr.String(); out != "" {
		t.Errorf("a good run has nothing to complain about, but it printed %q", out)
	}
}

func TestSecondStartOnTheSameDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	before, err := os.ReadFile(p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := run(t, "--dir", dir)
	if code == 0 || stdout != "" || !strings.Contains(stderr, "already running") {
		t.Errorf("a second start must say that one runs already; exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	after, err := os.ReadFile(p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("a refused start must touch nothing, but the kubeconfig changed")
	}
	create(t, connect(t, p.kubeconfig), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "still-works", Namespace: "default"}})
}

func TestRestartKeepsObjectsPortAndCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, "--dir", dir)
	c := connect(t, first.kubeconfig)
	create(t, c,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}})
	out := filepath.Join(dir, "robot.kubeconfig")
	if _, stderr, code := run(t, "kubeconfig", "--dir", dir, "--service-account", "default/robot", "--out", out); code != 0 {
		t.Fatalf("writing a service account's kubeconfig: %s", stderr)
	}
	if code := first.terminate(); code != 0 {
		t.Fatalf("exit code %d: %s", code, first.stderr)
	}

	second := start(t, "--dir", dir)
	if first.port != second.port {
		t.Errorf("the port was %s and is %s", first.port, second.port)
	}
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}}
	get(t, c, kept) // with the credentials of the first run
	robot := connect(t, out)
	err := robot.Get(context.Background(), client.ObjectKeyFromObject(kept), kept)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:robot") {
		t.Errorf("the token must still be known, and RBAC must refuse what no role grants; got: %v", err)
	}
}

func TestKubeconfigOfAMissingServiceAccountIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, "--dir", dir)
	_, stderr, code := run(t, "kubeconfig", "--dir", dir, "--service-account", "default/nobody")
	if code == 0 || !strings.Contains(stderr, "no service account default/nobody") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestMistakesAreExplained(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args []string
		want string
	}{
		"no directory":         {args: nil, want: "--dir is required"},
		"no KWOK":              {args: []string{"--dir", t.TempDir(), "--kubelets", "--kwok", "/nowhere/kwok"}, want: "make build"},
		"an impossible period": {args: []string{"--dir", t.TempDir(), "--node-monitor-period", "-1s"}, want: "must be positive"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := run(t, tc.args...)
			if code == 0 || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, tc.want)
			}
		})
	}
}

func TestSandboxEndsWhenItsKubeletsDie(t *testing.T) {
	t.Parallel()
	p := start(t, "--dir", t.TempDir(), "--kubelets")
	child := onlyChild(t, p.cmd.Process.Pid)
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.exitCode(); code == 0 || !strings.Contains(p.stderr.String(), "KWOK") {
		t.Errorf("a sandbox without kubelets must not go on as if it had them; exit code %d, stderr %q", code, p.stderr)
	}
}

func TestKubeletsDieWithTheSandbox(t *testing.T) {
	t.Parallel()
	p := start(t, "--dir", t.TempDir(), "--kubelets")
	child := onlyChild(t, p.cmd.Process.Pid)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.exitCode()
	eventually(t, "KWOK ends with the sandbox that was killed", func() string {
		if err := syscall.Kill(child, 0); err == nil && !isZombie(child) {
			return "it runs"
		}
		return ""
	})
}
