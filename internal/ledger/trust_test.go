package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

// TestI14OnlyRepairsBesideTheirTargetCount: a Repair that contradicts itself, or is where Fettle would not have put
// it, is ignored with a reason. None of its content is kept.
func TestI14OnlyRepairsBesideTheirTargetCount(t *testing.T) {
	aNode := core.ID{Kind: "Node", Name: "n", UID: "n-uid"}
	ofNode, elsewhere := core.RepairName(aNode, 1), core.RepairName(core.ID{Kind: "Machine", Namespace: "tenant", Name: "m", UID: "m-uid"}, 1)
	nodeSpec := func(node, namespace, holder string) string {
		return `{"target": {"kind": "Node", "name": "n", "uid": "n-uid", "node": "` + node + `"}, "holder": "` + holder + `",
			"policy": {"kind": "NodeHealthCheck", "namespace": "` + namespace + `", "name": "workers", "uid": "check-uid"}, "ladder": [{"remedy": "Ask"}]}`
	}
	inTenant := strings.ReplaceAll(aSpec(), `"machines"`, `"tenant"`)
	long := strings.Repeat("x", 2*maxNameLength+1)
	cases := map[string]struct{ namespace, name, spec, status, want string }{
		"one of Fettle's":                         {"machines", ofM, aSpec(), `{}`, ""},
		"a node's":                                {"fettle-system", ofNode, nodeSpec("n", "", "fettle.io/NodeHealthCheck-workers"), `{}`, ""},
		"a node's, of an earlier version":         {"fettle-system", ofNode, nodeSpec("n", "", "NodeHealthCheck-workers"), `{}`, ""},
		"the lease of another health check":       {"fettle-system", ofNode, nodeSpec("n", "", "fettle.io/NodeHealthCheck-others"), `{}`, inconsistent},
		"a tenant's, about machines of others":    {"tenant", ofM, aSpec(), `{}`, wrongNamespace},
		"the same, by the name of its own":        {"tenant", elsewhere, aSpec(), `{}`, wrongNamespace},
		"a tenant's own":                          {"tenant", elsewhere, inTenant, `{}`, ""},
		"about a node":                            {"tenant", ofNode, nodeSpec("n", "", ""), `{}`, wrongNamespace},
		"about a node, of a workload cluster":     {"fettle-system", ofNode, strings.Replace(nodeSpec("n", "", ""), `"ladder"`, `"cluster": "east", "ladder"`, 1), `{}`, inconsistent},
		"a name of its own":                       {"machines", "r", aSpec(), `{}`, wrongName},
		"the name of another target":              {"machines", elsewhere, aSpec(), `{}`, wrongName},
		"the number 0":                            {"machines", core.RepairName(core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}, 0), aSpec(), `{}`, wrongName},
		"a health check of others":                {"machines", ofM, aSpec(`"policy": {"kind": "MachineHealthCheck", "namespace": "tenant", "name": "w", "uid": "w"}`), `{}`, inconsistent},
		"a pool of others":                        {"tenant", elsewhere, strings.Replace(inTenant, `"MachineSet", "namespace": "tenant"`, `"MachineSet", "namespace": "machines"`, 1), `{}`, inconsistent},
		"a lease, for a machine":                  {"machines", ofM, aSpec(`"holder": "MachineHealthCheck-workers"`), `{}`, inconsistent},
		"the lease of others":                     {"fettle-system", ofNode, nodeSpec("n", "", "maintenance"), `{}`, inconsistent},
		"the lease of another node":               {"fettle-system", ofNode, nodeSpec("victim", "", "NodeHealthCheck-workers"), `{}`, inconsistent},
		"no target":                               {"machines", ofM, `{}`, `{}`, unreadable},
		"a long name":                             {"machines", ofM, aSpec(`"holder": "` + long + `"`), `{}`, tooLarge},
		"a long remedy":                           {"machines", ofM, aSpec(`"ladder": [{"remedy": "` + long + `"}]`), `{}`, tooLarge},
		"steps without end":                       {"machines", ofM, aSpec(`"ladder": [` + strings.Repeat(`{"remedy": "A"},`, maxSteps) + `{"remedy": "A"}]`), `{}`, tooLarge},
		"steps that were given up, without end":   {"machines", ofM, aSpec(), `{"steps": [` + strings.Repeat(`{},`, maxSteps) + `{}]}`, tooLarge},
		"as many steps as a health check may set": {"machines", ofM, aSpec(`"ladder": [` + strings.Repeat(`{"remedy": "A"},`, maxSteps-1) + `{"remedy": "A"}]`), `{}`, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := writtenAs(t, tc.namespace, tc.name, tc.spec, tc.status)
			if p.ignored.reason != tc.want || p.counts() != (tc.want == "") {
				t.Fatalf("ignored for %q (%s), want %q", p.ignored.reason, p.ignored.text, tc.want)
			}
			if kept := p.repair.Target.UID != "" || p.repair.Steps != nil || p.cluster != (core.ClusterKey{}); kept != (tc.want == "") {
				t.Errorf("what is kept of it is %+v", p.repair)
			}
			if !strings.Contains(p.problem, p.ignored.text) {
				t.Errorf("people are told %q", p.problem)
			}
		})
	}
}

// TestI14WhatFettleRecordsCounts, or it would be recorded again and again. Evidence that would not count is not recorded.
func TestI14WhatFettleRecordsCounts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		if p := stored(t, render(someEntry().Draw(r, "entry"), "repairs")); !p.counts() {
			r.Errorf("%s/%s is ignored: %s", p.Namespace, p.Name, p.problem)
		}
	})
	w := &writer{}
	entry := anEntry(func(e *core.NewRepair) { e.Target.Node.Name = strings.Repeat("n", 10_000) })
	if _, created, err := NewClient(Config{Writer: w}).Store(core.ClusterKey{}).Create(t.Context(), entry); created || err == nil || len(w.lines) > 0 {
		t.Errorf("a Repair that would be ignored is recorded: %q (%v)", w.lines, err)
	}
}

// ledgerOf is a ledger with the Repairs that it is given by hand.
func ledgerOf(t *testing.T) (*Client, *informertest.Informers, *[]string) {
	t.Helper()
	var logged []string
	in := informertest.New()
	in.SetSynced(true)
	c := NewClient(Config{
		Namespace: "repairs", Informers: in, Writer: &writer{}, Wake: func(core.ClusterKey) { logged = append(logged, "woken") }, Log: logr.Discard(),
		Events: recorder(func(line string) { logged = append(logged, line) }),
	})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	return c, in, &logged
}

// flood adds Repairs that count to the ledger, of machines of a namespace.
func flood(in *informertest.Informers, cluster core.ClusterKey, namespace string, n int, created time.Time) []*record {
	pages := make([]*record, n)
	for i := range pages {
		pages[i] = &record{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("m-%s-%d", cluster.Name, i), CreationTimestamp: metav1.NewTime(created)},
			repair:     core.Repair{Namespace: namespace, Target: core.ID{Kind: "Machine", Namespace: namespace, Name: "m", UID: fmt.Sprint(i)}, Ended: created}, cluster: cluster,
		}
		in.Of("Repair").Handler.OnAdd(pages[i], true)
	}
	return pages
}

// TestI15FloodOfRepairs: of one namespace as many count as may, and others are none the worse. Nothing is begun where there
// are more, and they count once there is room.
func TestI15FloodOfRepairs(t *testing.T) {
	c, in, _ := ledgerOf(t)
	home := c.Store(core.ClusterKey{})
	flooded := flood(in, core.ClusterKey{}, "machines", maxInNamespace+5, noon)
	flood(in, core.ClusterKey{}, "others", 3, noon)
	if entries, _ := home.Repairs(); len(entries) != maxInNamespace+3 {
		t.Errorf("%d repairs count", len(entries))
	}
	if n := ignoredOf(t, c)[tooMany]; n != 5 {
		t.Errorf("%v are ignored as too many, want 5", n)
	}
	if _, created, err := home.Create(t.Context(), anEntry()); created || err == nil || !strings.Contains(err.Error(), "has more than 20000 Repairs, which is more than Fettle reads, so nothing is begun for its targets; delete all that") {
		t.Errorf("a repair is recorded in a namespace that is flooded: %v", err)
	}
	for _, p := range flooded[:5] {
		in.Of("Repair").Handler.OnDelete(p)
	}
	if entries, _ := home.Repairs(); len(entries) != maxInNamespace+3 || ignoredOf(t, c)[tooMany] != 0 {
		t.Errorf("%d repairs count after room was made, and %v are ignored", len(entries), ignoredOf(t, c))
	}
	if _, created, err := home.Create(t.Context(), anEntry()); !created || err != nil {
		t.Errorf("a repair can't be recorded after that: %v", err)
	}
	for _, p := range flooded[5:] {
		in.Of("Repair").Handler.OnDelete(p)
	}
	flood(in, core.ClusterKey{}, "machines", 7, noon)
	if entries, _ := home.Repairs(); len(entries) != 7+3 || ignoredOf(t, c)[tooMany] != 0 {
		t.Errorf("%d repairs count after the flood, and %v are ignored", len(entries), ignoredOf(t, c))
	}
}

// pagedReader is an API server that has Repairs, and answers two of them in a call.
type pagedReader struct {
	client.Reader

	items []unstructured.Unstructured
}

func (p pagedReader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	from, _ := strconv.Atoi(o.Continue)
	to := min(from+2, len(p.items))
	list, _ := into.(*unstructured.UnstructuredList)
	list.Items = p.items[from:to]
	list.SetContinue("")
	if to < len(p.items) {
		list.SetContinue(strconv.Itoa(to))
	}
	return nil
}

// TestI14RunningListsOnlyRepairsThatCount: the list of running repairs before a remedy has no forged Repair. It has
// no Repair of another cluster, and none that has ended.
func TestI14RunningListsOnlyRepairsThatCount(t *testing.T) {
	of := func(namespace, name, spec, status string) unstructured.Unstructured {
		return *rawAs(t, namespace, name, spec, status)
	}
	live := pagedReader{items: []unstructured.Unstructured{
		of("tenant", ofM, aSpec(), `{}`),
		of("machines", "r", aSpec(), `{}`),
		of("machines", ofM, aSpec(`"cluster": "east"`), `{}`),
		of("machines", ofM, aSpec(), `{"phase": "Succeeded", "finishedAt": "2026-08-03T13:00:00Z"}`),
		of("machines", ofM, aSpec(), `{}`),
	}}
	got, err := NewClient(Config{Namespace: "fettle-system", Live: live}).Store(core.ClusterKey{}).Running(t.Context())
	if err != nil || len(got) != 1 || got[0].Name != ofM || got[0].Namespace != "machines" {
		t.Errorf("these run: %+v (%v)", got, err)
	}
}

// TestI15FloodOfClusters: Repairs that name workload clusters have as many of them kept as may be, the oldest first.
func TestI15FloodOfClusters(t *testing.T) {
	c, in, _ := ledgerOf(t)
	old := core.ClusterKey{Namespace: "tenant", Name: "zzz-old"}
	for i := range maxClusters + 50 {
		flood(in, core.ClusterKey{Namespace: "tenant", Name: fmt.Sprintf("c-%d", i)}, "tenant", 1, noon)
	}
	flood(in, old, "tenant", 1, noon.Add(-time.Hour))
	flood(in, core.ClusterKey{Namespace: "others", Name: "east"}, "others", 1, noon)
	kept := map[core.ClusterKey]bool{}
	for _, f := range c.Clusters() {
		kept[f] = true
	}
	if len(kept) != maxClusters+1 || !kept[old] || !kept[core.ClusterKey{Namespace: "others", Name: "east"}] {
		t.Errorf("%d clusters are kept, the oldest among them: %t", len(kept), kept[old])
	}
}

// TestI15IgnoredRepairsAreLoggedInBounds: each is told once, a flood is not told one by one, and the metric counts all. None
// of them wakes an engine.
func TestI15IgnoredRepairsAreLoggedInBounds(t *testing.T) {
	c, in, logged := ledgerOf(t)
	var last *record
	for i := range 200 {
		last = writtenAs(t, "tenant", fmt.Sprintf("r-%d", i), aSpec(), `{"steps": [{"outcome": "Failed"}]}`)
		in.Of("Repair").Handler.OnAdd(last, true)
		in.Of("Repair").Handler.OnUpdate(last, last)
	}
	if len(*logged) != warningBurst {
		t.Errorf("%d events, want %d: %q", len(*logged), warningBurst, *logged)
	}
	if !strings.Contains((*logged)[0], "RepairIgnored") || !strings.Contains((*logged)[0], "only Repairs of that namespace count for it") {
		t.Errorf("it is told as %q", (*logged)[0])
	}
	if n := ignoredOf(t, c)[wrongNamespace]; n != 200 {
		t.Errorf("%v are counted", n)
	}
	in.Of("Repair").Handler.OnAdd(writtenAs(t, "others", "r", aSpec(), `{}`), true)
	if len(*logged) != warningBurst+1 {
		t.Error("no event is in another namespace")
	}
	in.Of("Repair").Handler.OnAdd(writtenAs(t, "tenant", core.RepairName(core.ID{Kind: "Machine", Namespace: "tenant", Name: "m", UID: "m-uid"}, 1),
		strings.ReplaceAll(aSpec(`"retry": "often"`), `"machines"`, `"tenant"`), `{"phase": "Succeeded"}`), true)
	if events := *logged; len(events) != warningBurst+2 || !strings.Contains(events[len(events)-1], "RepairUnreadable") {
		t.Error("the flood hides a Repair that counts and can't be read")
	}
	in.Of("Repair").Handler.OnDelete(last)
	if n := ignoredOf(t, c)[wrongNamespace]; n != 200 || len(*logged) != warningBurst+2 {
		t.Errorf("after one was deleted %v are counted: %q", n, *logged)
	}
}

// TestI15WhatIsKeptOfARepair: texts are cut, and what is ignored is not kept.
func TestI15WhatIsKeptOfARepair(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	p := written(t, aSpec(), `{"answer": "`+long+`", "steps": [{"outcome": "Failed", "message": "`+long+`"}]}`)
	if !p.counts() || len(p.repair.Answer) > maxText+8 || len(p.repair.Tried[0].Text) > maxText+8 {
		t.Errorf("%d and %d bytes are kept", len(p.repair.Answer), len(p.repair.Tried[0].Text))
	}
	p = written(t, aSpec(`"target": {"kind": "`+long+`", "namespace": "machines", "name": "m", "uid": "m-uid"}`), `{}`)
	if p.counts() || len(p.problem) > maxProblem {
		t.Errorf("a kind of %d bytes is kept; problem of %d bytes", len(p.repair.Target.Kind), len(p.problem))
	}
}

// ignoredOf reads the metric.
func ignoredOf(t *testing.T, c *Client) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatalf("registering metrics: %v", err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != len(reasons) {
		t.Fatalf("the metrics are %v (%v)", families, err)
	}
	found := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	return found
}

// TestHolderOfAnEarlierVersion: a repair that an earlier version has recorded holds its lease under the present name.
func TestHolderOfAnEarlierVersion(t *testing.T) {
	name := core.RepairName(core.ID{Kind: "Node", Name: "n", UID: "n-uid"}, 1)
	for recorded, want := range map[string]string{
		"": "", "NodeHealthCheck-workers": "fettle.io/NodeHealthCheck-workers", "fettle.io/NodeHealthCheck-workers": "fettle.io/NodeHealthCheck-workers",
	} {
		spec := `{"target": {"kind": "Node", "name": "n", "uid": "n-uid", "node": "n"}, "holder": "` + recorded + `",
			"policy": {"kind": "NodeHealthCheck", "name": "workers", "uid": "check-uid"}, "ladder": [{"remedy": "Ask"}]}`
		if p := writtenAs(t, "fettle-system", name, spec, `{}`); !p.counts() || p.repair.Holder != want {
			t.Errorf("recorded as %q it is held by %q, want %q (%s)", recorded, p.repair.Holder, want, p.ignored.text)
		}
	}
}
