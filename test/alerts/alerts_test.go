package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// rules returns the groups of rules in the manifest, as Prometheus reads them.
func rules(t *testing.T) map[string]any {
	t.Helper()
	manifest := cluster.Manifest(t, "config/monitoring/prometheus_rule.yaml")
	spec, found, err := unstructured.NestedMap(manifest[0].Object, "spec")
	if err != nil || !found {
		t.Fatalf("the manifest has no rules: %v", err)
	}
	return spec
}

// alerts returns the rules. The caller may change them in place.
func alerts(t *testing.T, spec map[string]any) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, group := range spec["groups"].([]any) {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			all = append(all, rule.(map[string]any))
		}
	}
	if len(all) < 9 {
		t.Fatalf("only %d alerts were found", len(all))
	}
	return all
}

// stories returns the stories in testdata, or only those in which one alert occurs.
func stories(t *testing.T, alert string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatalf("reading the stories: %v", err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatalf("reading the stories: %v", err)
	}
	all["tests"] = slices.DeleteFunc(all["tests"].([]any), func(story any) bool {
		for _, check := range story.(map[string]any)["alert_rule_test"].([]any) {
			if alert == "" || check.(map[string]any)["alertname"] == alert {
				return false
			}
		}
		return true
	})
	return all
}

// play runs stories against rules, with promtool.
func play(t *testing.T, spec, stories map[string]any) error {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]any{"rules.yaml": spec, "alerts.yaml": stories} {
		text, err := yaml.Marshal(content)
		if err != nil {
			t.Fatalf("writing %s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatalf("preparing promtool: %v", err)
		}
	}
	out, err := exec.Command(cluster.Tool(t, "promtool"), "test", "rules", filepath.Join(dir, "alerts.yaml")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	if err := play(t, rules(t), stories(t, "")); err != nil {
		t.Error(err)
	}
}

// TestBrokenAlertsAreFound: the stories notice when an alert never fires, always fires, or doesn't wait.
func TestBrokenAlertsAreFound(t *testing.T) {
	t.Parallel()
	faults := map[string]func(rule map[string]any){
		"never fires":  func(rule map[string]any) { rule["expr"] = "vector(0) > 1" },
		"always fires": func(rule map[string]any) { rule["expr"] = fmt.Sprintf("(%s) or vector(1)", rule["expr"]) },
		"doesn't wait": func(rule map[string]any) { delete(rule, "for") },
	}
	for i, rule := range alerts(t, rules(t)) {
		for fault, plant := range faults {
			t.Run(fmt.Sprintf("%s %s", rule["alert"], fault), func(t *testing.T) {
				t.Parallel()
				spec := rules(t)
				plant(alerts(t, spec)[i])
				if err := play(t, spec, stories(t, rule["alert"].(string))); err == nil {
					t.Errorf("no story notices that the alert %s", fault)
				} else if !strings.Contains(err.Error(), fmt.Sprint("alertname: ", rule["alert"])) {
					t.Errorf("the stories fail for another reason: %v", err)
				}
			})
		}
	}
}

// TestAlertsAreExplained: each alert has a summary, a severity, and a link to its page.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(cluster.Root(), "docs", "alerts.md"))
	if err != nil {
		t.Fatalf("reading the page: %v", err)
	}
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		headings[m[1]] = true
	}
	for _, rule := range alerts(t, rules(t)) {
		name := rule["alert"].(string)
		annotations := rule["annotations"].(map[string]any)
		for _, key := range []string{"summary", "description"} {
			if text, _ := annotations[key].(string); !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %s is %q and not a sentence", name, key, text)
			}
		}
		if severity := rule["labels"].(map[string]any)["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s: severity is %v", name, severity)
		}
		if url, _ := annotations["runbook_url"].(string); !strings.HasSuffix(url, "/docs/alerts.md#"+strings.ToLower(name)) {
			t.Errorf("%s: runbook_url is %q", name, url)
		}
		if !headings[name] {
			t.Errorf("docs/alerts.md has no section %s", name)
		}
		delete(headings, name)
	}
	for name := range headings {
		t.Errorf("docs/alerts.md explains %s, which is no alert", name)
	}
}

// TestGatesAreExplained: docs/metrics.md names each gate and each reason of a verdict, and docs/alerts.md says what
// opens each gate that FettleRepairsHeld names.
func TestGatesAreExplained(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(cluster.Root(), "docs", name))
		if err != nil {
			t.Fatalf("reading the documentation: %v", err)
		}
		return string(text)
	}
	metrics, explained := read("metrics.md"), read("alerts.md")
	elsewhere := []core.Gate{core.TooManyUnhealthy, core.PolicyInvalid, core.AttemptPause}
	gates := 0
	for g := core.Gate(1); g.String() != core.Gate(0).String(); g++ {
		gates++
		name := "`" + g.String() + "`"
		if !strings.Contains(metrics, name) {
			t.Errorf("docs/metrics.md does not name the gate %s", name)
		}
		if !slices.Contains(elsewhere, g) && !strings.Contains(explained, name) {
			t.Errorf("docs/alerts.md does not say what opens the gate %s", name)
		}
	}
	reasons := 0
	for r := core.Reason(1); r.String() != core.Reason(0).String(); r++ {
		reasons++
		if !strings.Contains(metrics, "`"+r.String()+"`") {
			t.Errorf("docs/metrics.md does not name the reason %s", r)
		}
	}
	if gates < 20 || reasons < 11 {
		t.Errorf("only %d gates and %d reasons were found", gates, reasons)
	}
}
