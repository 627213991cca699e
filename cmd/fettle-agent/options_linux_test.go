package main

import (
	"bytes"
	"strings"
	"testing"
)

// output runs the command with arguments, and returns its output.
func output(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	return out.String(), err
}

func TestHelp(t *testing.T) {
	t.Setenv(nodeNameVariable, "worker-7")
	out, err := output(t, "--help")
	if err != nil {
		t.Fatalf("asking for help: %v", err)
	}
	for _, words := range []string{
		"until a signal ends it", "fettle-agent --node-name", "-kubeconfig file", "-node-name name", `(default "worker-7")`,
		"-state-dir directory", `(default "/run/fettle")`, "-stop-within duration", "(default 45s)", "(default 9643)", "-log-level level", "-log-format format",
	} {
		if !strings.Contains(out, words) {
			t.Errorf("the help does not say %q:\n%s", words, out)
		}
	}
}

func TestVersionIsPrinted(t *testing.T) {
	t.Parallel()
	if out, err := output(t, "--version"); err != nil || out != "fettle-agent "+version+"\n" {
		t.Errorf("printed %q (%v)", out, err)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for port, args := range map[uint16][]string{9643: nil, 1: {"--port", "1"}, 65535: {"--port=65535"}} {
		if o, err := parse(args, nil); err != nil || o.port != port {
			t.Errorf("%q has the port %d (%v)", args, o.port, err)
		}
	}
}

// TestRefusedFlags: nothing of the node is touched with flags that can't be right.
func TestRefusedFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--node-name is ""`:          {"--node-name", ""},
		`--node-name is "Worker_7"`:  {"--node-name", "Worker_7"},
		`--address is "here"`:        {"--node-name", "worker-7", "--address", "here"},
		`--address is "fe80::1%eth`:  {"--node-name", "worker-7", "--address", "fe80::1%eth0"},
		"--port is 0":                {"--node-name", "worker-7", "--address", "192.0.2.1", "--port", "0"},
		"it must be a port":          {"--node-name", "worker-7", "--port", "65536"},
		"--stop-within is 0s":        {"--node-name", "worker-7", "--stop-within", "0s"},
		"--log-level is":             {"--node-name", "worker-7", "--log-level", "loud"},
		"--log-format is":            {"--node-name", "worker-7", "--log-format", "rhyme"},
		"flag provided but not defi": {"--please"},
		"takes flags alone":          {"please"},
	} {
		if _, err := output(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
