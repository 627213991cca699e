package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// anewEnvironment is set in the second process of TestBeginAnew.
const anewEnvironment = "FETTLE_TEST_ANEW"

// TestBeginAnew: the new process has the same number, arguments and environment, and no state.
func TestBeginAnew(t *testing.T) {
	switch first := os.Getenv(anewEnvironment); first {
	case "":
	case "first":
		t.Setenv(anewEnvironment, strconv.Itoa(os.Getpid()))
		t.Fatal(reexec(errRolledBack))
	default:
		fmt.Printf("was %s, is %d, with %s\n", first, os.Getpid(), os.Args[1])
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatalf("finding this program: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestBeginAnew$")
	cmd.Env = append(os.Environ(), anewEnvironment+"=first")
	out, err := cmd.CombinedOutput()
	pid := strconv.Itoa(cmd.Process.Pid)
	if want := "was " + pid + ", is " + pid + ", with -test.run=^TestBeginAnew$"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("it does not say %q (%v):\n%s", want, err, out)
	}
}
