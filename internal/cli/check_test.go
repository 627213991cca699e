package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// good is a health check about which there is nothing to say.
const good = `apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: workers
  namespace: machines
spec:
  selector:
    matchLabels: {role: worker}
  unhealthyConditions:
  - {type: Ready, status: "False", timeout: 300s}
  - {type: Ready, status: Unknown, timeout: 300s}
  maxUnhealthy: 40%
`

// offline runs fettle check without a cluster, on a file of this content.
func offline(t *testing.T, content string, flags ...string) (out string, status int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatalf("writing a file: %v", err)
	}
	return runCheck(t, append([]string{"--offline", path}, flags...)...)
}

func runCheck(t *testing.T, args ...string) (out string, status int) {
	t.Helper()
	var printed bytes.Buffer
	cmd := checkCommand(Options{Name: "fettle", UserAgent: "test", Dialects: []Dialect{&OpenShift{}, NHC{}}, Now: func() time.Time { return noon }})
	cmd.SetArgs(args)
	cmd.SetOut(&printed)
	cmd.SetErr(&printed)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	if err != nil {
		printed.WriteString(err.Error())
	}
	return printed.String(), ExitStatus(err)
}

// swap is the good health check with one text in place of another.
func swap(t *testing.T, old, with string) string {
	t.Helper()
	if !strings.Contains(good, old) {
		t.Fatalf("%q is not in the good health check", old)
	}
	return strings.Replace(good, old, with, 1)
}

func TestCheckOfFiles(t *testing.T) {
	annotated := func(key, value string) string {
		return swap(t, "  namespace: machines\n", "  namespace: machines\n  annotations: {"+key+": "+value+"}\n")
	}
	cases := map[string]struct {
		text   string
		status int
		says   []string
	}{
		"good":                        {good, 0, []string{"file.yaml:1 MachineHealthCheck machines/workers", "No problems in 1 health check."}},
		"JSON":                        {`{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineHealthCheck","metadata":{"name":"w"},"spec":{"maxUnhealthy":"x"}}`, 1, []string{`spec.maxUnhealthy is "x"`}},
		"not YAML":                    {good + "  bad: [\n", 1, []string{"it is not YAML", "problem, line 1"}},
		"a tab":                       {swap(t, "  maxUnhealthy", "\tmaxUnhealthy"), 1, []string{"problem, line 12: it is not YAML"}},
		"a key twice":                 {good + "  maxUnhealthy: 2\n", 1, []string{"problem, line 13: it is not YAML", "already"}},
		"a field that is misspelt":    {swap(t, "maxUnhealthy", "maxUnhealty"), 1, []string{"problem, line 12: spec.maxUnhealty is not a field", "did you mean maxUnhealthy?"}},
		"a field deep inside":         {swap(t, "timeout: 300s", "timout: 300s"), 1, []string{"problem, line 10: spec.unhealthyConditions[0].timout", "did you mean timeout?"}},
		"a field from nowhere":        {good + "  frobnicate: 1\n", 1, []string{"line 13", "there are selector, unhealthyConditions, maxUnhealthy"}},
		"a status that YAML reads":    {swap(t, `"False"`, "False"), 1, []string{"problem, line 10", "it is a bool and must be a string", `put it into quotes, such as "False"`}},
		"the second status":           {swap(t, "status: Unknown", "status: no"), 1, []string{"problem, line 11", "it is a bool"}},
		"a timeout without unit":      {swap(t, "timeout: 300s", "timeout: 300"), 1, []string{"problem, line 10", "give a duration such as 300s"}},
		"a timeout in words":          {swap(t, "timeout: 300s", "timeout: soon"), 1, []string{`line 10: spec.unhealthyConditions[0].timeout is "soon"`}},
		"two faults":                  {strings.Replace(swap(t, "40%", "140%"), "timeout: 300s", "timeout: -1s", 1), 1, []string{"line 10", "line 12", "2 problems found in 1 health check"}},
		"a fraction":                  {swap(t, "40%", "0.4"), 1, []string{"problem, line 12: spec.maxUnhealthy is of the wrong type"}},
		"a list instead of an object": {swap(t, "selector:\n    matchLabels: {role: worker}", "selector: []"), 1, []string{"problem, line 7: spec.selector is of the wrong type"}},
		"a text instead of a list":    {swap(t, "  - {type: Ready, status: \"False\", timeout: 300s}\n  - {type: Ready, status: Unknown, timeout: 300s}\n", "    Ready\n"), 1, []string{"spec.unhealthyConditions is of the wrong type"}},
		"an unknown operator":         {swap(t, "matchLabels: {role: worker}", "matchExpressions: [{key: a, operator: Near}]"), 1, []string{"spec.selector is not a label selector"}},
		"no name":                     {swap(t, "  name: workers\n", ""), 1, []string{"metadata.name is missing"}},
		"a name that is a number":     {swap(t, "name: workers", "name: 5"), 1, []string{"metadata.name is of the wrong type"}},
		"another version":             {swap(t, "v1beta1", "v1"), 1, []string{"problem, line 1: apiVersion is"}},
		"no kind":                     {swap(t, "kind: MachineHealthCheck\n", ""), 1, []string{"no apiVersion or no kind"}},
		"only a word":                 {"hello\n", 1, []string{"not an object"}},
		"nothing":                     {"# nothing\n", 1, []string{"There is no health check"}},
		"only other kinds":            {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", 1, []string{"skipped: it is a ConfigMap of v1", "There is no health check"}},
		"other kinds too":             {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n" + good, 0, []string{"skipped", "file.yaml:5 MachineHealthCheck machines/workers"}},
		"the second of several":       {good + "--- # next\n" + swap(t, "40%", "x"), 1, []string{"file.yaml:14 MachineHealthCheck", "line 25: spec.maxUnhealthy"}},
		"a List":                      {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(swap(t, "40%", "x")), "\n", "\n  ") + "\n", 1, []string{"file.yaml:4 MachineHealthCheck", "line 15: spec.maxUnhealthy"}},
		"an annotation with nonsense": {annotated("fettle.io/max-in-flight", "some"), 1, []string{`problem, line 6: annotation fettle.io/max-in-flight is "some"`}},

		"an empty selector":          {swap(t, "selector:\n    matchLabels: {role: worker}", "selector: {}"), 0, []string{"warning, line 7: spec.selector is empty", "control plane"}},
		"no limit":                   {swap(t, "  maxUnhealthy: 40%\n", ""), 0, []string{"warning, line 6: spec.maxUnhealthy is not set"}},
		"a limit of all":             {swap(t, "40%", "100%"), 0, []string{"warning, line 12: spec.maxUnhealthy is 100% and never stops"}},
		"a limit of none":            {swap(t, "40%", "0"), 0, []string{"spec.maxUnhealthy is 0, so nothing is ever repaired"}},
		"a negative limit":           {swap(t, "40%", "-1"), 0, []string{"is negative and counts as 0"}},
		"no timeout":                 {swap(t, "timeout: 300s", "timeout: 0s"), 0, []string{"warning, line 10: spec.unhealthyConditions[0].timeout is 0"}},
		"a timeout that is missing":  {swap(t, ", timeout: 300s", ""), 0, []string{"warning, line 10: spec.unhealthyConditions[0].timeout is 0"}},
		"no conditions":              {swap(t, "  unhealthyConditions:\n  - {type: Ready, status: \"False\", timeout: 300s}\n  - {type: Ready, status: Unknown, timeout: 300s}\n", ""), 0, []string{"there are no unhealthyConditions"}},
		"silence is not listed":      {swap(t, "  - {type: Ready, status: Unknown, timeout: 300s}\n", ""), 0, []string{"falls silent is never found"}},
		"a condition twice":          {swap(t, "status: Unknown", `status: "False"`), 0, []string{"once more, after [0]; the shorter timeout decides"}},
		"conditions that contradict": {swap(t, "{type: Ready, status: Unknown, timeout: 300s}", `{type: Ready, status: "True", timeout: 300s}`), 0, []string{"contradict each other", "takes nodes that are Ready for unhealthy"}},
		"an unknown status":          {swap(t, "status: Unknown", "status: Maybe"), 0, []string{`is "Maybe"`, "never matches"}},
		"startup without end":        {good + "  nodeStartupTimeout: \"0\"\n", 0, []string{"warning, line 13", "never joins is never found"}},
		"a remediation template":     {good + "  remediationTemplate: {apiVersion: a.example/v1, kind: RebootTemplate, name: t}\n", 0, []string{"No problems in 1 health check."}},
		"half of a template":         {good + "  remediationTemplate: {kind: RebootTemplate, name: t}\n", 1, []string{"problem, line 13: spec.remediationTemplate lacks apiVersion"}},
		"a template elsewhere":       {good + "  remediationTemplate: {apiVersion: a.example/v1, kind: RebootTemplate, name: t, namespace: elsewhere}\n", 0, []string{"warning, line 13", "namespace is ignored"}},
		"an outside remediator":      {annotated("machine.openshift.io/remediation-strategy", "external-baremetal"), 0, []string{"warning, line 6", "host.metal3.io/external-remediation", "Failed are deleted"}},
		"an unknown strategy":        {annotated("machine.openshift.io/remediation-strategy", "reboot"), 0, []string{"warning, line 6", `"reboot", which means nothing`}},
		"a strategy and a template":  {annotated("machine.openshift.io/remediation-strategy", "external-baremetal") + "  remediationTemplate: {apiVersion: a.example/v1, kind: RebootTemplate, name: t}\n", 0, []string{"warning, line 6", "is ignored"}},
		"a pause":                    {annotated("cluster.x-k8s.io/paused", `""`), 0, []string{"warning, line 6", "nothing is repaired until it is removed"}},
		"an annotation misspelt":     {annotated("fettle.io/max-inflight", `"2"`), 0, []string{"warning, line 6: annotation fettle.io/max-inflight means nothing"}},
		"nothing in flight":          {annotated("fettle.io/max-in-flight", `"0"`), 0, []string{"so nothing is ever repaired"}},
		"a byte order mark and CRLF": {"\xef\xbb\xbf" + strings.ReplaceAll(good, "\n", "\r\n"), 0, []string{"No problems in 1 health check."}},
		"the Cluster API's kind":     {swap(t, "machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta2"), 1, []string{"skipped: it is a MachineHealthCheck of cluster.x-k8s.io/v1beta2"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			out, status := offline(t, tc.text)
			if status != tc.status {
				t.Errorf("exit status %d, want %d", status, tc.status)
			}
			for _, words := range tc.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q", words)
				}
			}
			warned := strings.Contains(out, "warning")
			if _, strict := offline(t, tc.text, "--strict"); tc.status == 0 && (strict == 1) != warned {
				t.Errorf("with --strict the exit status is %d, and there are warnings: %t", strict, warned)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

func TestCheckOfWhatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for sentence, args := range map[string][]string{
		"a file that is not there": {"--offline", missing},
		"no file":                  {"--offline"},
		"an unknown flag":          {"--frobnicate", missing},
		"an unknown format":        {"--offline", "-o", "xml", missing},
		"a directory":              {"--offline", t.TempDir()},
	} {
		if out, status := runCheck(t, args...); status != 2 || out == "" {
			t.Errorf("%s: exit status %d, %q", sentence, status, out)
		}
	}
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte(swap(t, "40%", "x")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := runCheck(t, "--offline", missing, path); status != 1 || !strings.Contains(out, "not checked:") || !strings.Contains(out, "spec.maxUnhealthy") {
		t.Errorf("a problem beside what can't be read: exit status %d\n%s", status, out)
	}
}

func TestNoClusterToCheckAgainst(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	path := filepath.Join(t.TempDir(), "good.yaml")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	out, status := runCheck(t, path)
	if status != 2 || !strings.Contains(out, "--offline judges the files alone") || !strings.Contains(out, "machines/workers") {
		t.Errorf("exit status %d, want 2 and what to do:\n%s", status, out)
	}
}

func TestCheckForPrograms(t *testing.T) {
	out, status := offline(t, swap(t, "40%", "x")+"---\napiVersion: v1\nkind: ConfigMap\n", "-o", "yaml")
	out = strings.ReplaceAll(out, t.TempDir(), "")
	for _, words := range []string{"apiVersion: cli.fettle.io/v1alpha1", "kind: CheckResult", "outcome: Problems", "field: spec.maxUnhealthy", "line: 12", "skipped: it is a ConfigMap"} {
		if status != 1 || !strings.Contains(out, words) {
			t.Errorf("exit status %d; it does not say %q:\n%s", status, words, out)
		}
	}
}

// TestEffects: the effects of a health check among others.
func TestEffects(t *testing.T) {
	s := newScene()
	s.ready(0, "Unknown", time.Hour)
	s.ready(1, "Unknown", time.Minute)
	s.Targets[4].ControlPlane = true
	young := s.check("young", time.Hour)
	young.ShortCircuit.MaxUnhealthy = core.Percent(10)
	young.Members = young.Members[:3]
	w := s.assessment()
	text := ""
	for i := range w.policies {
		e := w.effect(i)
		d := newDocument("file.yaml", 1)
		d.Kind, d.Namespace, d.Name, d.Effect, d.Admission = "MachineHealthCheck", "machines", w.policies[i].ID.Name, &e, accepted
		d.Warnings = w.clusterWarnings(i, e)
		text += printed(false, func(p *page) { p.document(&d) })
	}
	s.Policies = s.Policies[:1]
	s.Policies[0].ID.UID = ""
	w = s.assessment()
	e := w.effect(0)
	s.check("young", time.Hour)
	both := s.assessment()
	other := both.effect(1)
	text += "Led by another:\n" + printed(false, func(p *page) { p.effect(&other) })
	text += "The first alone:\n" + printed(false, func(p *page) { p.effect(&e) })
	golden(t, "effects.txt", text)
}

// TestWhatIsSaidOfAFile pins all that is said of a document, and nothing more.
func TestWhatIsSaidOfAFile(t *testing.T) {
	const end = "\n1 problem found in 1 health check.\nexit status 1"
	for text, want := range map[string]string{
		"hello\n":                               "file.yaml:1 \n  problem, line 1: it is not an object with apiVersion, kind and metadata\n" + end,
		"apiVersion: v1\nmetadata: {name: a}\n": "file.yaml:1 a\n  problem, line 1: it has no apiVersion or no kind, so it is not known what it is\n" + end,
		"kind: BMC\nmetadata: {name: a}\n":      "file.yaml:1 BMC a\n  problem, line 1: it has no apiVersion or no kind, so it is not known what it is\n" + end,
		swap(t, "40%", "x"):                     "file.yaml:1 MachineHealthCheck machines/workers\n  problem, line 12: spec.maxUnhealthy is \"x\"; give a number such as 2 or a percentage such as 40%, at most 100%\n" + end,
		"apiVersion: fettle.io/v1alpha1\nkind: PowerRemediationTemplate\nmetadata: {name: a}\nspec: {template: {spec: {}}, templat: 1}\n": "file.yaml:1 PowerRemediationTemplate a\n" +
			"  problem, line 4: spec.templat is not a field of a PowerRemediationTemplate, so it would be ignored; did you mean template?\n" + strings.Replace(end, "health check", "object", 1),
	} {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, status := runCheck(t, path)
		if d := cmp.Diff(want, strings.ReplaceAll(out, filepath.Dir(path)+"/", "")+fmt.Sprint("exit status ", status)); d != "" {
			t.Errorf("%s (-want +got)\n%s", text, d)
		}
	}
}

// TestDocumentsByTheirFiles: documents are in the order of the names of their files, and of a file in their own.
func TestDocumentsByTheirFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.yaml": good + "---\n" + swap(t, "name: workers", "name: last"), "a.yaml": swap(t, "name: workers", "name: first")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, status := runCheck(t, "--offline", filepath.Join(dir, "b.yaml"), filepath.Join(dir, "a.yaml"))
	const want = "a.yaml:1 MachineHealthCheck machines/first\n\nb.yaml:1 MachineHealthCheck machines/workers\n\nb.yaml:14 MachineHealthCheck machines/last\n\nNo problems in 3 health checks.\n"
	if d := cmp.Diff(want, strings.ReplaceAll(out, dir+"/", "")); d != "" || status != 0 {
		t.Errorf("exit status %d (-want +got)\n%s", status, d)
	}
}

// TestFilesAreCompleted: a shell offers the files that can be checked.
func TestFilesAreCompleted(t *testing.T) {
	if out, status := runCheck(t, "__complete", ""); status != 0 || !strings.HasPrefix(out, "yaml\nyml\njson\n:8\n") {
		t.Errorf("exit status %d, %q", status, out)
	}
}

// TestAnAnswerThatCannotBeWritten is no success, whatever the files have.
func TestAnAnswerThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := checkCommand(Options{Name: "fettle", Dialects: []Dialect{&OpenShift{}}, Now: func() time.Time { return noon }})
	cmd.SetArgs([]string{"--offline", "-o", "json", path})
	cmd.SetOut(fullDisk{})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); ExitStatus(err) != 1 || err.Error() != "printing the answer: the disk is full" {
		t.Errorf("exit status %d, %v", ExitStatus(err), err)
	}
}
