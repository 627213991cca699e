package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/slim"
)

// listing is a list of all nodes of a cluster that is being read. After a turn it goes on at the next page.
type listing struct {
	*session

	// limit is how many nodes a page may have, and next is the token of the next page.
	limit int
	next  string
	nodes []*slim.Node
	// weight is the memory that the nodes take.
	weight   int
	revision string
}

// list stores all nodes and returns their revision.
func (s *session) list(ctx context.Context) (string, error) {
	l := &listing{session: s, limit: page}
	if err := s.turns.run(ctx, s.listsSlowly.Load(), l.readOn, s.noteSlowList); err != nil {
		s.budget.release(s.cluster.Namespace, l.weight)
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	if s.listed.IsZero() {
		s.listed = s.Now()
	}
	changed := s.nodes.Replace(l.nodes)
	s.budget.release(s.cluster.Namespace, s.weight)
	s.nodeCount, s.weight = len(l.nodes), l.weight
	s.updateAndWake(state.listed, changed)
	return l.revision, nil
}

// noteSlowList records that a list has used its turn up. Until it is done, the cluster is unknown.
func (s *session) noteSlowList() {
	s.listsSlowly.Store(true)
	s.update(func(now state, _ time.Time) state {
		return now.lost(fmt.Sprintf("the API server at %s lists its nodes more slowly than others; the list goes on as soon as those allow", sanitize.URL(s.host)))
	})
}

// readOn reads the remaining pages, and reports whether it has read any.
func (l *listing) readOn(ctx context.Context) (bool, error) {
	before := len(l.nodes)
	err := l.pages(ctx)
	return len(l.nodes) > before, err
}

// pages reads the remaining pages.
func (l *listing) pages(ctx context.Context) error {
	for {
		chunk, err := l.page(ctx)
		switch bound, is := errors.AsType[*boundError](err); {
		case is && bound.name == "bytes" && l.limit > 1:
			l.limit = max(1, l.limit/4) // the nodes are large
			continue
		case err != nil:
			return err
		}
		if err := l.add(chunk); err != nil || l.next == "" {
			return err
		}
	}
}

// page reads one page.
func (l *listing) page(ctx context.Context) (*slim.NodeList, error) {
	request := l.Get().Resource("nodes").Param("limit", strconv.Itoa(l.limit))
	if l.next != "" {
		request.Param("continue", l.next)
	}
	body, err := l.read(withLimit(ctx, pageBytes), request)
	if err != nil {
		return nil, err
	}
	return decodeNodes(body, l.Bounds.Nodes)
}

// add adds the nodes of a page. It refuses a list that would never end: each page must have nodes, and their number
// is bounded.
func (l *listing) add(chunk *slim.NodeList) error {
	if chunk.Continue != "" && (len(chunk.Items) == 0 || len(chunk.Continue) > tokenBytes || chunk.Continue == l.next) {
		return errEndless
	}
	weight := 0
	for i := range chunk.Items {
		n := chunk.Items[i] // a copy, or one stored node would keep the whole page in memory
		l.nodes = append(l.nodes, &n)
		weight += weigh(node.FactsOf(&n))
	}
	if !l.budget.reserve(l.cluster.Namespace, weight) {
		return tooHeavyTogether(l.Bounds.Memory)
	}
	l.weight += weight
	l.next, l.revision = chunk.Continue, chunk.ResourceVersion
	return l.Bounds.check(len(l.nodes), l.weight)
}

// readNode reads a node.
func (api *apiClient) readNode(ctx context.Context, name string) (*slim.Node, error) {
	ctx, cancel := context.WithTimeout(withLimit(withoutLogging(ctx), nodeBytes), readTimeout)
	defer cancel()
	body, err := api.read(ctx, api.Get().Resource("nodes").Name(name))
	if err != nil {
		return nil, err
	}
	return decodeNode(body)
}

// read returns the body of an answer in protobuf.
func (api *apiClient) read(ctx context.Context, request *rest.Request) ([]byte, error) {
	var contentType string
	result := request.MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err //nolint:wrapcheck // the callers say what was being done
	}
	body, _ := result.ContentType(&contentType).Raw() // its error is the one above
	if !isProtobuf(contentType) {
		return nil, errEncoding
	}
	return body, nil
}

// Bounds are the limits of workload clusters that an administrator sets. A zero field has a default.
type Bounds struct {
	// Nodes is how many nodes one cluster may have.
	Nodes int
	// Memory is how many bytes the nodes of all clusters may take.
	Memory int
}

func (b Bounds) orDefault() Bounds {
	if b.Nodes == 0 {
		b.Nodes = DefaultNodes
	}
	if b.Memory == 0 {
		b.Memory = DefaultMemory
	}
	return b
}

// check returns an error if a cluster has too many nodes, or nodes that take too much memory.
func (b Bounds) check(nodes, weight int) error {
	switch {
	case nodes > b.Nodes:
		return tooManyNodes(b.Nodes)
	case weight > b.Nodes*keptBytes:
		return tooHeavy(b.Nodes)
	}
	return nil
}

// The memory that the fixed parts of a node, a condition and a label take.
const nodeWeight, conditionWeight, labelWeight = 512, 80, 48

// weigh estimates the memory that a stored node takes. It counts words that other nodes may share, since an
// attacker's words differ.
func weigh(f node.Facts) int {
	weight := nodeWeight + len(f.Node.Name) + len(f.Node.UID) + len(f.Revision)
	for _, c := range f.Node.Conditions {
		weight += conditionWeight + len(c.Type) + len(c.Status) + len(c.Reason)
	}
	for _, l := range f.Labels {
		weight += labelWeight + len(l.Key()) + len(l.Value())
	}
	return weight
}
