package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestPassesMakeNoCalls counts requests at the API server. A pass over an unchanged pool makes none, however many nodes
// are healthy or under remediation, and however many templates there are. Today's operator lists each remediation kind
// once for each node (reference of medik8s 5.2).
func TestPassesMakeNoCalls(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettleForNodes(t)
	address := cluster.FreeAddress(t)
	c.StartFettle(t, "--metrics-bind-address="+address)
	p := newPool(t, c, "calls")
	s := &scraper{machineFixture: p.machineFixture, url: "https://" + address + "/metrics", token: c.MetricsReader(t)}

	for i := range 40 {
		p.nodes(fmt.Sprintf("healthy-%d", i))
	}
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.template(reinstall, "replace", true)
	p.healthCheck(p.steps("10m", rebooting, "reboot", reinstall, "install", reinstall, "replace"))
	p.wantNodeStatus("43/43 healthy, Enabled, unhealthy:")
	p.passesMakeNoCalls(s, "all nodes are healthy")

	p.fails("a", "b", "c")
	p.wantObjects("a reboot", "b reboot", "c reboot")
	p.say("a reboot", "Processing=False", "Succeeded=False")
	p.say("b reboot", "Processing=True", "Succeeded=Unknown")
	p.wantObjects("a reboot", "a install", "b reboot", "c reboot")
	p.wantNodeStatus("40/43 healthy, Remediating, unhealthy: a[reboot install] b[reboot] c[reboot]")
	p.passesMakeNoCalls(s, "three nodes are under remediation")

	p.recovers("a", "b", "c")
	p.wantObjects()
	p.nothingIsLeft("a", "43/43")
	p.passesMakeNoCalls(s, "all have recovered")
	p.readsEachKindOnce()
}

// passesMakeNoCalls makes Fettle pass over its cluster, and counts its requests meanwhile. The test changes how long a
// node may be not ready. The results stay the same, since nodes are either ready or have long not been.
func (p *pool) passesMakeNoCalls(s *scraper, when string) {
	p.t.Helper()
	const passes = 10
	p.comesToRest()
	before, began := s.passes(), time.Now()
	for i := range passes {
		duration := []string{"1s", short}[i%2]
		p.change(p.own(), fmt.Sprintf(`{"spec":{"unhealthyConditions":[
			{"type":"Ready","status":"False","duration":%[1]q},{"type":"Ready","status":"Unknown","duration":%[1]q}]}}`, duration))
		p.Eventually(p.t, "a pass follows from a changed health check", func(context.Context) error {
			if now := s.passes(); now <= before {
				return fmt.Errorf("there are %g passes, as before", now)
			}
			return nil
		})
		before = s.passes()
	}
	p.comesToRest()
	for _, r := range append(p.RequestsSince(p.t, began), p.EndedWatches(p.t)...) {
		// Reviews of the rights of a reader of metrics have nothing to do with passes.
		if r.At.Before(began) || strings.HasSuffix(r.Resource, "reviews") {
			continue
		}
		p.t.Errorf("%s, and passes in which nothing has changed made a request: %+v", when, r)
	}
}

// passes counts the passes so far, however they ended.
func (s *scraper) passes() float64 {
	s.t.Helper()
	answer, err := cluster.Get(s.t, s.url, s.token, nil)
	if err != nil || answer.Status != http.StatusOK {
		s.t.Fatalf("reading metrics: %d (%v)", answer.Status, err)
	}
	total := 0.0
	for name, value := range cluster.Series(s.t, answer.Body) {
		if strings.HasPrefix(name, "fettle_passes_total") {
			total += value
		}
	}
	return total
}

// readsEachKindOnce: templates and remediation objects are watched. Where an API server can't stream the initial list,
// a single list replaces it.
func (p *pool) readsEachKindOnce() {
	p.t.Helper()
	lists := map[string]int{}
	for _, r := range p.Requests(p.t) {
		if !strings.Contains(r.Resource, "remediation") {
			continue
		}
		switch r.Verb {
		case "list":
			lists[r.Resource]++
		case "get":
			p.t.Errorf("an object was read one by one: %+v", r)
		}
	}
	for resource, n := range lists {
		if n > 1 {
			p.t.Errorf("%s were listed %d times", resource, n)
		}
	}
}
