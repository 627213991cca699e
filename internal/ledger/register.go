package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// Bounds of what is kept of one namespace. A tenant can fill one.
const (
	// mostInNamespace bounds the Repairs of one fleet in one namespace that count.
	mostInNamespace = 20_000
	// mostClusters bounds the workload clusters of one namespace that are kept for the sake of their Repairs alone.
	mostClusters = 500
)

// register has the Repairs that were read, and by fleet the Repairs that count. The caller locks.
type register struct {
	pages map[string]*page
	// counting are the pages of each fleet that count.
	counting map[Fleet]map[string]*page
	// since is when the oldest Repair of a workload cluster was created, as far as it was known when the first was read.
	since map[Fleet]time.Time
	// places counts, for each fleet, the pages of one namespace that count. Waiting are those beyond the bound, which count once
	// there is room.
	places  map[place]int
	waiting map[place]map[string]*page
	// ignored counts the pages that don't count by why.
	ignored map[string]int
}

// place is a namespace with Repairs of one fleet.
type place struct {
	fleet     Fleet
	namespace string
}

func newRegister() register {
	return register{
		pages: map[string]*page{}, counting: map[Fleet]map[string]*page{}, since: map[Fleet]time.Time{},
		places: map[place]int{}, waiting: map[place]map[string]*page{}, ignored: map[string]int{},
	}
}

func keyOf(p *page) string { return p.Namespace + "/" + p.Name }

func (p *page) place() place { return place{p.fleet, p.Namespace} }

// put takes in a page and returns the one before it, nil for none.
func (r *register) put(p *page) *page {
	key := keyOf(p)
	old := r.drop(key)
	r.pages[key] = p
	if !p.counts() {
		r.ignored[p.ignored.reason]++
		return old
	}
	at := p.place()
	if r.places[at] >= mostInNamespace {
		if r.waiting[at] == nil {
			r.waiting[at] = map[string]*page{}
		}
		r.waiting[at][key] = p
		r.ignored[tooMany]++
		return old
	}
	r.count(p)
	return old
}

func (r *register) count(p *page) {
	if r.counting[p.fleet] == nil {
		r.counting[p.fleet], r.since[p.fleet] = map[string]*page{}, p.CreationTimestamp.Time
	}
	r.counting[p.fleet][keyOf(p)] = p
	r.places[p.place()]++
}

// drop removes a page and returns it, nil where there is none.
func (r *register) drop(key string) *page {
	p := r.pages[key]
	if p == nil {
		return nil
	}
	delete(r.pages, key)
	at := p.place()
	switch {
	case !p.counts():
		r.ignored[p.ignored.reason]--
	case r.waiting[at][key] != nil:
		r.endWait(at, key)
	default:
		r.discount(p)
	}
	return p
}

func (r *register) endWait(at place, key string) {
	r.ignored[tooMany]--
	delete(r.waiting[at], key)
	if len(r.waiting[at]) == 0 {
		delete(r.waiting, at)
	}
}

// discount removes a page from the pages that count, and lets a waiting page take its room.
func (r *register) discount(p *page) {
	at := p.place()
	delete(r.counting[p.fleet], keyOf(p))
	r.places[at]--
	if r.places[at] == 0 {
		delete(r.places, at)
	}
	for key, next := range r.waiting[at] {
		r.endWait(at, key)
		r.count(next)
		break
	}
	if len(r.counting[p.fleet]) == 0 {
		delete(r.counting, p.fleet)
		delete(r.since, p.fleet)
	}
}

// fleets returns the workload clusters that have Repairs which count: of each namespace those whose Repairs are the oldest.
func (r *register) fleets() []Fleet {
	found := make([]Fleet, 0, len(r.counting))
	for f := range r.counting {
		if f != (Fleet{}) {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b Fleet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), r.since[a].Compare(r.since[b]), cmp.Compare(a.Cluster, b.Cluster))
	})
	kept, inNamespace := found[:0], map[string]int{}
	for _, f := range found {
		inNamespace[f.Namespace]++
		if inNamespace[f.Namespace] <= mostClusters {
			kept = append(kept, f)
		}
	}
	return kept
}

// overfull describes why nothing can be recorded in a namespace, and returns nil where it can.
func (r *register) overfull(at place) error {
	if len(r.waiting[at]) == 0 {
		return nil
	}
	return fmt.Errorf("namespace %s has more than %d Repairs, which is more than Fettle reads, so nothing is begun for its targets; delete the ones that Fettle has not made",
		at.namespace, mostInNamespace)
}

// freeName returns the first name, from the given one on, that no ignored Repair has in a namespace. A Repair that is not
// Fettle's must not keep a target from being repaired.
func (r *register) freeName(namespace, name string, target core.ID) string {
	for range mostInNamespace {
		if p := r.pages[namespace+"/"+name]; p == nil || p.counts() {
			return name
		}
		name = core.NextRepairName(name, target)
	}
	return name
}

var ignoredRepairs = prometheus.NewDesc( //nolint:gochecknoglobals // a constant
	"fettle_repairs_ignored", "Repairs from which nothing follows, since Fettle has not recorded them or can't read them, by why.", []string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (*Client) Describe(out chan<- *prometheus.Desc) { out <- ignoredRepairs }

// Collect implements prometheus.Collector.
func (c *Client) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, reason := range reasons {
		out <- prometheus.MustNewConstMetric(ignoredRepairs, prometheus.GaugeValue, float64(c.register.ignored[reason]), reason)
	}
}
