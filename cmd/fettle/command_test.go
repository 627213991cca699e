package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/workload"
)

// run runs a command with arguments, as main does, and returns its output.
func run(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestVersionIsPrinted(t *testing.T) {
	out, err := run(t, versionCommand())
	if want := "fettle " + version + "\n"; err != nil || out != want {
		t.Errorf("printed %q (%v), want %q", out, err, want)
	}
	if _, err := run(t, versionCommand(), "please"); err == nil {
		t.Error("an argument that means nothing is accepted")
	}
}

func TestHelpTellsEveryFlag(t *testing.T) {
	out, err := run(t, controllerCommand(), "--help")
	if err != nil {
		t.Fatalf("asking for help: %v", err)
	}
	for _, words := range []string{
		"until a signal ends it", "config/rbac", "fettle controller --kubeconfig ~/.kube/config", "--kubeconfig string", "$KUBECONFIG",
		"--leader-elect ", "(default true)", "--leader-election-namespace string", `(default "fettle-system")`,
		"--health-probe-bind-address string", "--metrics-bind-address string", "0 serves none",
		"--repair-retention duration", "(default 24h0m0s)", "--repair-retention-count int", "(default 1000)",
		"--log-level string", `(default "info")`, "--log-format string", "--metrics-cert-dir string", "over TLS",
		"--leader-elect-lease-duration duration", "(default 15s)", "--leader-elect-renew-deadline duration", "(default 10s)",
		"--leader-elect-retry-period duration", "(default 2s)",
		"--dialects strings", "(default [openshift,cluster-api,nhc])", "--remediators strings", "(default [machine-deletion,power,self-fence])", "--bmc-namespace string",
	} {
		if !strings.Contains(out, words) {
			t.Errorf("the help does not say %q:\n%s", words, out)
		}
	}
	for line := range strings.SplitSeq(out, "\n") {
		if strings.TrimRight(line, " ") != line {
			t.Errorf("the line %q ends in blanks", line)
		}
	}
}

// TestNonsenseOnTheCommandLine is refused before any connection. The message names the flag and
// valid values.
func TestNonsenseOnTheCommandLine(t *testing.T) {
	cases := map[string]struct {
		args []string
		says []string
	}{
		"an unknown log level":             {[]string{"--log-level=loud"}, []string{"--log-level", `"loud"`, "debug, info, warn or error"}},
		"an empty log level":               {[]string{"--log-level="}, []string{"--log-level", "debug, info, warn or error"}},
		"an unknown log format":            {[]string{"--log-format=xml"}, []string{"--log-format", `"xml"`, "json or text"}},
		"a probe address in words":         {[]string{"--health-probe-bind-address=here"}, []string{"--health-probe-bind-address", `"here"`, ":8081"}},
		"a metrics port alone":             {[]string{"--metrics-bind-address=8443"}, []string{"--metrics-bind-address", `"8443"`, "0 to serve nothing"}},
		"a port beyond all ports":          {[]string{"--metrics-bind-address=:65536"}, []string{"--metrics-bind-address"}},
		"a port below zero":                {[]string{"--metrics-bind-address=:-1"}, []string{"--metrics-bind-address"}},
		"no address at all":                {[]string{"--metrics-bind-address="}, []string{"--metrics-bind-address"}},
		"a directory that is not":          {[]string{"--metrics-cert-dir=/nowhere"}, []string{"--metrics-cert-dir", "/nowhere", "tls.crt"}},
		"a certificate that is none":       {[]string{"--metrics-cert-dir=" + filepath.Dir(file(t, "nonsense"))}, []string{"--metrics-cert-dir", "tls.key"}},
		"a lease of no length":             {[]string{"--leader-elect-lease-duration=0s"}, []string{"--leader-elect-lease-duration is 0s", "--leader-elect-renew-deadline"}},
		"a lease shorter than itself":      {[]string{"--leader-elect-renew-deadline=20s"}, []string{"--leader-elect-lease-duration is 15s", "20s"}},
		"a retry that never is":            {[]string{"--leader-elect-retry-period=0s"}, []string{"--leader-elect-retry-period is 0s"}},
		"a retry that is too late":         {[]string{"--leader-elect-retry-period=9s"}, []string{"--leader-elect-retry-period is 9s", "10s"}},
		"a lease in no namespace":          {[]string{"--leader-election-namespace="}, []string{"--leader-election-namespace"}},
		"repairs in no namespace":          {[]string{"--repair-namespace="}, []string{"--repair-namespace is \"\""}},
		"repairs where none can be":        {[]string{"--repair-namespace=Fettle System"}, []string{"--repair-namespace", "Fettle System"}},
		"a filter that is no label":        {[]string{"--watch-filter=a b"}, []string{"--watch-filter is \"a b\"", "cluster.x-k8s.io/watch-filter"}},
		"no retention":                     {[]string{"--repair-retention=0s"}, []string{"--repair-retention is 0s", "above zero"}},
		"no memory for nodes":              {[]string{"--workload-clusters-max-memory=0"}, []string{"--workload-clusters-max-memory is 0", "at least"}},
		"no nodes":                         {[]string{"--workload-cluster-max-nodes=0"}, []string{"--workload-cluster-max-nodes is 0", "at least 1"}},
		"a negative retention":             {[]string{"--repair-retention=-1h"}, []string{"--repair-retention is -1h0m0s", "above zero"}},
		"no repairs kept":                  {[]string{"--repair-retention-count=0"}, []string{"--repair-retention-count is 0", "at least 1"}},
		"fewer than none kept":             {[]string{"--repair-retention-count=-5"}, []string{"--repair-retention-count is -5", "at least 1"}},
		"a namespace that can't be":        {[]string{"--leader-election-namespace=Fettle System"}, []string{"--leader-election-namespace", "Fettle System"}},
		"both at once":                     {[]string{"--repair-retention=0s", "--repair-retention-count=0"}, []string{"--repair-retention is", "--repair-retention-count is"}},
		"a retention without unit":         {[]string{"--repair-retention=24"}, []string{"--repair-retention", "24"}},
		"a count in words":                 {[]string{"--repair-retention-count=many"}, []string{"--repair-retention-count", "many"}},
		"an unknown dialect":               {[]string{"--dialects=openshift,latin"}, []string{`--dialects has "latin"`, "openshift, cluster-api, nhc"}},
		"an unknown remediator":            {[]string{"--remediators=reboot"}, []string{`--remediators has "reboot"`, "machine-deletion"}},
		"nothing to run":                   {[]string{"--dialects=", "--remediators="}, []string{"--dialects and --remediators are both empty"}},
		"an unknown flag":                  {[]string{"--frobnicate"}, []string{"--frobnicate"}},
		"a namespace of BMCs that is none": {[]string{"--bmc-namespace=No"}, []string{"--bmc-namespace"}},
		"an argument":                      {[]string{"now"}, []string{"now"}},
		"a kubeconfig that is not":         {[]string{"--kubeconfig=/nowhere/config"}, []string{"--kubeconfig", "/nowhere/config"}},
		"a kubeconfig that is a word":      {[]string{"--kubeconfig=" + file(t, "nonsense")}, []string{"--kubeconfig"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			_, err := run(t, controllerCommand(), tc.args...)
			if err == nil {
				t.Fatalf("it runs with %v", tc.args)
			}
			for _, words := range tc.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("the message does not say %q: %v", words, err)
				}
			}
		})
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatalf("writing a file: %v", err)
	}
	return path
}

func TestOptionsThatMakeSense(t *testing.T) {
	for _, retention := range []core.Retention{{For: 24 * time.Hour, Max: 1000}, {For: 1, Max: 1}} {
		if err := (&controllerOptions{remediators: allRemediators(), repairNamespace: "fettle-system", bmcNamespace: "fettle-system", retention: retention, workloadBounds: workload.Bounds{Nodes: 1, Memory: 1 << 20}, healthAddress: off, metricsAddress: off}).validate(); err != nil {
			t.Errorf("%+v is refused: %v", retention, err)
		}
	}
	for _, address := range []string{off, ":8081", ":0", "127.0.0.1:8081", "[::1]:8081", "localhost:8081"} {
		if err := checkAddress("flag", address); err != nil {
			t.Errorf("%s is refused: %v", address, err)
		}
	}
}

func TestLogLevels(t *testing.T) {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "INFO": slog.LevelInfo}
	for name, level := range levels {
		log, err := newLogger(t.Context(), name, "json")
		if err != nil {
			t.Errorf("%s is refused: %v", name, err)
			continue
		}
		h := logr.ToSlogHandler(log)
		if !h.Enabled(t.Context(), level) || h.Enabled(t.Context(), level-1) {
			t.Errorf("at %s, what is logged does not begin at %s", name, level)
		}
	}
}

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: u, user: {token: none}}]
`

func TestClientIsPacedByTheServer(t *testing.T) {
	config, err := restConfig(file(t, kubeconfig))
	if err != nil {
		t.Fatalf("reading a kubeconfig: %v", err)
	}
	if config.Host != "https://192.0.2.1:6443" || config.QPS != -1 || config.UserAgent != "fettle/"+version {
		t.Errorf("host %s, rate limit %v, user agent %s", config.Host, config.QPS, config.UserAgent)
	}
}

func TestKubeconfigOfTheEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", file(t, kubeconfig))
	config, err := restConfig("")
	if err != nil || config.Host != "https://192.0.2.1:6443" {
		t.Errorf("got %v, %v", config, err)
	}
}

func TestNoClusterToBeFound(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/config")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := restConfig(""); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("the message does not say what to give: %v", err)
	}
}
