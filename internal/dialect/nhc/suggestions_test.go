package nhc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// TestHealthCheckWithoutRemedyIsReported: its problem names the remediators of the cluster and what to add. Other problems
// name none.
func TestHealthCheckWithoutRemedyIsReported(t *testing.T) {
	reboots := Remediator{APIVersion: "reboot.example/v1", Kind: "RebootRemediationTemplate", Resource: "rebootremediationtemplates.reboot.example", Namespaced: true}
	fences := Remediator{APIVersion: "fence.example/v2", Kind: "FenceRemediationTemplate", Resource: "fenceremediationtemplates.fence.example"}
	own := Remediator{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "XRemediationTemplate", Resource: "xremediationtemplates.cluster.x-k8s.io"}
	var many []Remediator
	for i := range 7 {
		r := fences
		r.APIVersion = strings.Repeat("long", 60) + fmt.Sprint(i) + ".example/v1"
		many = append(many, r)
	}
	for name, c := range map[string]struct {
		have    []Remediator
		want    []string
		without string
	}{
		"two, after the problem itself": {[]Remediator{reboots}, []string{"name: NAME}; this cluster has remediators"}, "left out"},
		"two": {[]Remediator{reboots, fences}, []string{
			"are both missing; give one of them", "this cluster has remediators, so add one of these to the spec",
			"remediationTemplate: {apiVersion: reboot.example/v1, kind: RebootRemediationTemplate, namespace: NAMESPACE, name: NAME}, or " +
				"remediationTemplate: {apiVersion: fence.example/v2, kind: FenceRemediationTemplate, name: NAME}",
			"kubectl get rebootremediationtemplates.reboot.example -A, or kubectl get fenceremediationtemplates.fence.example -A",
		}, "left out"},
		"none":                 {nil, []string{"this cluster has no kind of remediation templates, so install a remediator first"}, "add one"},
		"an invalid one":       {[]Remediator{own}, []string{"no kind of remediation templates"}, "XRemediation"},
		"more than there fits": {many, nil, ""},
	} {
		client := &Client{store: newStore(), Config: Config{Remediators: func() []Remediator { return c.have }}}
		client.store.putCheck(posted(t, "bare", "1", `{}`))
		client.store.putCheck(posted(t, "sound", "1", withReboot(``)))
		client.store.putCheck(posted(t, "stepped", "1", `{selector: 7, escalatingRemediations: [{order: 1, timeout: 5m, remediationTemplate: {kind: X}}]}`))
		client.store.putCheck(posted(t, "empty", "1", `{escalatingRemediations: [{order: 1, timeout: 5s, remediationTemplate: {kind: X}}]}`))
		client.store.putCheck(posted(t, "wrong", "1", `{remediationTemplate: 7}`))
		policies, _ := client.store.snapshot()
		policies = append(policies, core.Policy{ID: checkID("deleted")})
		client.suggestRemediators(policies)
		said := map[string]*core.Policy{}
		for i := range policies {
			said[policies[i].ID.Name] = &policies[i]
		}
		for _, words := range c.want {
			if !strings.Contains(said["bare"].Problem, words) {
				t.Errorf("%s: it does not say %q: %s", name, words, said["bare"].Problem)
			}
		}
		if c.without != "" && strings.Contains(said["bare"].Problem, c.without) {
			t.Errorf("%s: it says %q: %s", name, c.without, said["bare"].Problem)
		}
		if n := len(said["bare"].Problem); n > specparse.MaxProblems {
			t.Errorf("%s: it has %d bytes", name, n)
		}
		if p := said["stepped"].Problem + said["empty"].Problem; strings.Contains(p, "this cluster") || said["empty"].Problem == "" {
			t.Errorf("%s: health checks with steps say %q", name, p)
		}
		if said["sound"].Problem != "" || strings.Contains(said["wrong"].Problem, "this cluster") {
			t.Errorf("%s: others say %q and %q", name, said["sound"].Problem, said["wrong"].Problem)
		}
	}
	for n, want := range map[int]string{5: "", 6: "(1 more are left out)", 7: "(2 more are left out)"} {
		if text := suggestion(many[:n]); !strings.Contains(text, want) || strings.Contains(text, "left out") != (want != "") {
			t.Errorf("of %d it does not say how many are left out: %s", n, text)
		}
	}
}
