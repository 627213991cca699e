package child_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/sandbox/child"
)

func start(t *testing.T, script string) *child.Child {
	t.Helper()
	c, err := child.Start(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatalf("starting a program: %v", err)
	}
	return c
}

// started starts a script and returns once it has printed something.
func started(t *testing.T, script string) *child.Child {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatalf("making a pipe: %v", err)
	}
	defer reader.Close()
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout = writer
	c, err := child.Start(cmd)
	_ = writer.Close()
	if err != nil {
		t.Fatalf("starting a program: %v", err)
	}
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatalf("waiting for the program: %v", err)
	}
	return c
}

func TestProgramThatEndsIsReported(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{"exit 0": "ended by itself", "exit 3": "exit status 3"} {
		if err := <-start(t, script).Died(); !strings.Contains(err.Error(), want) {
			t.Errorf("%q is reported as %q, want %q", script, err, want)
		}
	}
}

func TestStopTerminatesFirst(t *testing.T) {
	t.Parallel()
	c := started(t, `trap "exit 7" TERM; echo ready; while :; do sleep 0.02; done`)
	c.Stop(time.Minute)
	if err := <-c.Died(); !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("the program ended with %q, want its own end", err)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	c := started(t, `trap "" TERM; echo ready; while :; do sleep 0.02; done`)
	c.Stop(100 * time.Millisecond)
	if err := <-c.Died(); !strings.Contains(err.Error(), "killed") {
		t.Errorf("the program ended with %q, want that it was killed", err)
	}
}

func TestProgramThatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := child.Start(exec.Command("/nonexistent/program")); err == nil {
		t.Error("a program that does not exist was started")
	}
}
