package core_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

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

// TestLeaseOfAnUnansweredCall: the API server may have granted a call of a remedy that failed. So the lease of the node stays for a minute,
// though the repair has ended.
func TestLeaseOfAnUnansweredCall(t *testing.T) {
	p := check("p", []int{0}, classic, func(p *core.Policy) { p.Holder = "p" })
	m := machine("m")
	m.Node.Name = "n"
	for name, c := range map[string]struct {
		attempts, releases int
		at, next           time.Duration
	}{
		"no call has failed":            {attempts: 0, at: time.Second, releases: 1},
		"a call has just failed":        {attempts: 1, at: time.Second, next: time.Minute},
		"a call failed within a minute": {attempts: 2, at: time.Minute - 1, next: time.Minute},
		"a call failed a minute ago":    {attempts: 1, at: time.Minute, releases: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := core.Repair{Name: "r", Target: m.ID, Node: "n", Policy: p.ID, Started: ago(time.Hour), Ended: noon, Outcome: core.Recovered}
			r.Attempts, r.LastAttempt = c.attempts, noon
			f := with([]core.Target{m}, []core.Repair{r})
			f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
			f.Leases = []core.NodeLease{{Node: "n", Holder: "p", Renewed: ago(time.Hour)}}
			d := core.Decide([]core.Policy{p}, f, noon.Add(c.at))
			if len(d.LeaseReleases) != c.releases {
				t.Errorf("it releases %v, want %d", d.LeaseReleases, c.releases)
			}
			if c.next > 0 && !d.NextAt.Equal(noon.Add(c.next)) {
				t.Errorf("the next pass is at %s, want %s", d.NextAt, noon.Add(c.next))
			}
		})
	}
}
