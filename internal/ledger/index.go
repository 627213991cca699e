package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// The bounds on each namespace, since a tenant can fill one.
const (
	// maxInNamespace bounds the Repairs of one cluster in one namespace that count.
	maxInNamespace = 20_000
	// maxClusters bounds the workload clusters of one namespace that are kept only because they have Repairs.
	maxClusters = 500
)

// index stores the records of Repairs. The caller locks.
type index struct {
	records map[string]*record
	// counting has the records of each cluster that count.
	counting map[core.ClusterKey]map[string]*record
	// since is when the oldest Repair of a cluster was created, as far as it was known when the first one was read.
	since map[core.ClusterKey]time.Time
	// counts has the number of records that count in each bucket. waiting has the records beyond the bound, which
	// count once there is room.
	counts  map[bucket]int
	waiting map[bucket]map[string]*record
	// ignored counts the records that don't count, by reason.
	ignored map[string]int
}

// bucket is a namespace with Repairs of one cluster.
type bucket struct {
	cluster   core.ClusterKey
	namespace string
}

func newIndex() index {
	return index{
		records: map[string]*record{}, counting: map[core.ClusterKey]map[string]*record{}, since: map[core.ClusterKey]time.Time{},
		counts: map[bucket]int{}, waiting: map[bucket]map[string]*record{}, ignored: map[string]int{},
	}
}

func keyOf(p *record) string { return p.Namespace + "/" + p.Name }

func (p *record) bucket() bucket { return bucket{p.cluster, p.Namespace} }

// put stores a record and returns the record that it replaces, or nil.
func (r *index) put(p *record) *record {
	key := keyOf(p)
	old := r.drop(key)
	r.records[key] = p
	if !p.counts() {
		r.ignored[p.ignored.reason]++
		return old
	}
	at := p.bucket()
	if r.counts[at] >= maxInNamespace {
		if r.waiting[at] == nil {
			r.waiting[at] = map[string]*record{}
		}
		r.waiting[at][key] = p
		r.ignored[tooMany]++
		return old
	}
	r.count(p)
	return old
}

func (r *index) count(p *record) {
	if r.counting[p.cluster] == nil {
		r.counting[p.cluster], r.since[p.cluster] = map[string]*record{}, p.CreationTimestamp.Time
	}
	r.counting[p.cluster][keyOf(p)] = p
	r.counts[p.bucket()]++
}

// drop removes a record and returns it, or nil if there is none.
func (r *index) drop(key string) *record {
	p := r.records[key]
	if p == nil {
		return nil
	}
	delete(r.records, key)
	at := p.bucket()
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

func (r *index) endWait(at bucket, key string) {
	r.ignored[tooMany]--
	delete(r.waiting[at], key)
	if len(r.waiting[at]) == 0 {
		delete(r.waiting, at)
	}
}

// discount removes a record from the records that count. A waiting record takes its place.
func (r *index) discount(p *record) {
	at := p.bucket()
	delete(r.counting[p.cluster], keyOf(p))
	r.counts[at]--
	if r.counts[at] == 0 {
		delete(r.counts, at)
	}
	for key, next := range r.waiting[at] {
		r.endWait(at, key)
		r.count(next)
		break
	}
	if len(r.counting[p.cluster]) == 0 {
		delete(r.counting, p.cluster)
		delete(r.since, p.cluster)
	}
}

// clusters returns the workload clusters with Repairs that count. Beyond the bound it leaves out the clusters of a
// namespace whose Repairs are the newest.
func (r *index) clusters() []core.ClusterKey {
	found := make([]core.ClusterKey, 0, len(r.counting))
	for f := range r.counting {
		if f != (core.ClusterKey{}) {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b core.ClusterKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), r.since[a].Compare(r.since[b]), cmp.Compare(a.Name, b.Name))
	})
	kept, inNamespace := found[:0], map[string]int{}
	for _, f := range found {
		inNamespace[f.Namespace]++
		if inNamespace[f.Namespace] <= maxClusters {
			kept = append(kept, f)
		}
	}
	return kept
}

// overfull returns an error if nothing can be recorded in a bucket.
func (r *index) overfull(at bucket) error {
	if len(r.waiting[at]) == 0 {
		return nil
	}
	return fmt.Errorf("namespace %s has more than %d Repairs, which is more than Fettle reads, so nothing is begun for its targets; delete all that Fettle has not made",
		at.namespace, maxInNamespace)
}

// freeName returns the first name, from the given one on, that no ignored Repair of the namespace has. A Repair
// that is not Fettle's must not prevent a repair.
func (r *index) freeName(namespace, name string, target core.ID) string {
	for range maxInNamespace {
		if p := r.records[namespace+"/"+name]; p == nil || p.counts() {
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
		out <- prometheus.MustNewConstMetric(ignoredRepairs, prometheus.GaugeValue, float64(c.index.ignored[reason]), reason)
	}
}
