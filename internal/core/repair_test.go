package core_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

func TestRetention(t *testing.T) {
	old := func(name, namespace string, age time.Duration) core.Repair {
		r := past(name, ago(age))
		r.Namespace, r.Ended = namespace, ago(age)
		return r
	}
	running := repair(machine("r"), policy("p", nil), started(ago(1000*time.Hour)))
	hours := func(h ...int) []core.Repair {
		var rs []core.Repair
		for i, n := range h {
			rs = append(rs, old(string(rune('a'+i)), "n", time.Duration(n)*time.Hour))
		}
		return rs
	}
	cases := map[string]struct {
		reason  string
		keep    core.Retention
		repairs []core.Repair
		expired []int
		next    time.Time
	}{
		"nothing":                {"no repairs", core.Retention{For: time.Hour, Most: 5}, nil, nil, time.Time{}},
		"running ones are kept":  {"they are not finished", core.Retention{}, []core.Repair{running}, nil, time.Time{}},
		"young ones are kept":    {"by age", core.Retention{For: 24 * time.Hour, Most: 5}, hours(3, 1), nil, noon.Add(21 * time.Hour)},
		"at the hour they go":    {"at its end, not after it", core.Retention{For: 3 * time.Hour, Most: 5}, hours(3, 1), []int{0}, noon.Add(2 * time.Hour)},
		"too many, oldest first": {"by number", core.Retention{For: 24 * time.Hour, Most: 2}, hours(2, 9, 3, 1), []int{1, 2}, noon.Add(22 * time.Hour)},
		"each namespace has its own number": {
			"by namespace", core.Retention{For: 24 * time.Hour, Most: 1},
			[]core.Repair{old("a", "m", time.Hour), old("b", "n", 2*time.Hour), old("c", "n", 3*time.Hour)}, []int{2}, noon.Add(22 * time.Hour),
		},
		"running ones don't count": {"by number", core.Retention{For: 24 * time.Hour, Most: 1}, append(hours(2), running), nil, noon.Add(22 * time.Hour)},
		"none are kept":            {"zero", core.Retention{}, hours(1, 2), []int{1, 0}, time.Time{}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			expired, next := c.keep.Expired(c.repairs, noon)
			if len(expired) == 0 {
				expired = nil
			}
			if diff := cmp.Diff(c.expired, expired); diff != "" {
				t.Errorf("%s: expired (-want +got):\n%s", c.reason, diff)
			}
			if !next.Equal(c.next) {
				t.Errorf("%s: next %v, want %v", c.reason, next, c.next)
			}
		})
	}
}
