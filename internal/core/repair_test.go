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
		"too long by one": {Kind: "Machine", Name: long[:254-20], UID: "1"},
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

// TestNumbersOfRepairNames: a name is that of a repair if it has a number from 1 on, and the next name has the next number.
func TestNumbersOfRepairNames(t *testing.T) {
	id := core.ID{Kind: "Machine", Namespace: "machines", Name: "worker-7", UID: "1"}
	const most = 1 << 30
	for name, c := range map[string]struct {
		ours bool
		next int
	}{
		core.RepairName(id, 1):                    {true, 2},
		core.RepairName(id, 2):                    {true, 3},
		core.RepairName(id, most):                 {true, most + 1},
		core.RepairName(id, most+1):               {false, 1},
		core.RepairName(id, 0):                    {false, 1},
		core.RepairName(core.ID{Name: "x"}, 1):    {false, 2},
		"worker":                                  {false, 1},
		"worker-7":                                {false, 8},
		"worker-99999999999999999999999999999999": {false, 1},
	} {
		if got := core.IsRepairName(name, id); got != c.ours {
			t.Errorf("%q is the name of a repair: %t", name, got)
		}
		if got, want := core.NextRepairName(name, id), core.RepairName(id, c.next); got != want {
			t.Errorf("after %q comes %q, want %q", name, got, want)
		}
	}
}

// TestWhenStepsWereGivenUp: only a step that was given up has such an instant, for the requests of its repair.
func TestWhenStepsWereGivenUp(t *testing.T) {
	n, p := aNode("n"), check("p", nil, escalating)
	r := repair(n, p, gaveUp(ago(time.Minute)))
	other := core.Reference{APIVersion: "other.example/v1", Kind: "OtherTemplate", Name: "other"}
	for name, c := range map[string]struct {
		request core.Request
		want    time.Time
	}{
		"the first step":          {requestFor(p, n, rebooting), ago(time.Minute)},
		"the step under way":      {requestFor(p, n, reprovisioning), time.Time{}},
		"no step of the repair":   {requestFor(p, n, other), time.Time{}},
		"a request of another":    {requestFor(check("q", nil), n, rebooting), time.Time{}},
		"a request without names": {requestFor(p, n, rebooting, anonymous), ago(time.Minute)},
	} {
		if got := r.GaveUp(&c.request); !got.Equal(c.want) {
			t.Errorf("%s was given up at %s, want %s", name, got, c.want)
		}
	}
}

// TestEndInWholeSeconds: the end of a repair is not before its start, in whole seconds.
func TestEndInWholeSeconds(t *testing.T) {
	r := core.Repair{Started: noon.Add(1500 * time.Millisecond)}
	for told, want := range map[time.Duration]time.Duration{0: time.Second, time.Second: time.Second, 3 * time.Second: 3 * time.Second} {
		if got := r.EndAt(noon.Add(told)); !got.Equal(noon.Add(want)) {
			t.Errorf("told to end after %s, it ends after %s, want %s", told, got.Sub(noon), want)
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
