package main

import (
	"strings"
	"testing"
)

func TestAgentFlags(t *testing.T) {
	t.Setenv(nodeNameVariable, "worker-7")
	out, err := run(t, agentCommand(), "--help")
	if err != nil {
		t.Fatalf("asking for help: %v", err)
	}
	for _, words := range []string{
		"until a signal ends it", "fettle agent --node-name", "--kubeconfig string", "--node-name string", `(default "worker-7")`,
		"--state-dir string", `(default "/run/fettle")`, "--stop-within duration", "(default 45s)", "--log-level string", "--log-format string",
	} {
		if !strings.Contains(out, words) {
			t.Errorf("the help does not say %q:\n%s", words, out)
		}
	}
}

// TestAgentRefusesFlags: nothing of the node is touched with flags that can't be right.
func TestAgentRefusesFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--node-name is ""`:         {"--node-name", ""},
		`--node-name is "Worker_7"`: {"--node-name", "Worker_7"},
		"--stop-within is 0s":       {"--node-name", "worker-7", "--stop-within", "0s"},
		"--log-level is":            {"--node-name", "worker-7", "--log-level", "loud"},
		"--log-format is":           {"--node-name", "worker-7", "--log-format", "rhyme"},
		"unknown command":           {"please"},
	} {
		if _, err := run(t, agentCommand(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
