package core_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func TestRepairName(t *testing.T) {
	long := strings.Repeat("a", 253)
	dotted := strings.Repeat("a.", 126) + "a"
	dashed := strings.Repeat("a", 231) + strings.Repeat("-", 20) + "ab"
	ids := map[string]core.ID{
		"ordinary":        {Kind: "Machine", Namespace: "machines", Name: "worker-7f9x2", UID: "1"},
		"of another UID":  {Kind: "Machine", Namespace: "machines", Name: "worker-7f9x2", UID: "2"},
		"of another kind": {Kind: "Node", Namespace: "machines", Name: "worker-7f9x2", UID: "1"},
		"elsewhere":       {Kind: "Machine", Namespace: "others", Name: "worker-7f9x2", UID: "1"},
		"with dots":       {Kind: "Machine", Name: "ip-10-0-1-7.example.org", UID: "1"},
		"longest":         {Kind: "Machine", Name: long, UID: "1"},
		"longest, dots":   {Kind: "Machine", Name: dotted, UID: "1"},
		"longest, dashes": {Kind: "Machine", Name: dashed, UID: "1"},
	}
	seen := map[string]string{}
	for sentence, id := range ids {
		for _, n := range []int{1, 2, 10, 1 << 31} {
			name := core.RepairName(id, n)
			if len(name) > 253 || !subdomain.MatchString(name) {
				t.Errorf("%s: %q (%d characters) is not the name of an object", sentence, name, len(name))
			}
			if other, taken := seen[name]; taken {
				t.Errorf("%s and %s are both %q", sentence, other, name)
			}
			seen[name] = sentence
			if again := core.RepairName(id, n); again != name {
				t.Errorf("%s: %q, then %q", sentence, name, again)
			}
		}
	}
}
