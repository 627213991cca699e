package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/promiselease"
)

// AllLeases reads the Leases of other nodes.
type AllLeases struct{ server *Server }

// NewAllLeases returns the Leases of all nodes in an API server that nothing else uses: a request that fails closes its connections.
func NewAllLeases(s *Server) *AllLeases { return &AllLeases{s} }

// Bounds of what is read of other nodes.
const (
	pageSize  = 250
	maxLeases = 20000
	// maxEvent bounds a change, and idleTime how long none may be heard. The Lease of this node changes with each renewal. A Lease may be as long
	// as the API server stores any object. The agent of a node that an attacker controls may fill its metadata.managedFields.
	maxEvent = maxAnswer
	idleTime = time.Minute
	// watchSeconds is the time limit of a watch, which the API server keeps.
	watchSeconds = 330
)

var (
	errManyLeases = errors.New("there are too many Leases")
	errWatch      = errors.New("the API server has ended a watch of Leases with an error")
	errRevision   = errors.New("the API server has answered without a revision")
)

// First implements Others.
func (l *AllLeases) First(ctx context.Context, most int) (map[string]promiselease.Record, int, error) {
	page, err := l.server.leases(ctx, "", &most)
	if err != nil {
		return nil, 0, err
	}
	some := map[string]promiselease.Record{}
	for i := range page.Items {
		some[page.Items[i].Name] = recordOf(&page.Items[i])
	}
	switch rest := page.RemainingItemCount; {
	case page.Continue == "":
		return some, len(some), nil
	case rest != nil:
		return some, len(some) + int(min(*rest, maxLeases)), nil
	}
	return some, 0, nil
}

// Of implements Others. The API server answers from its memory.
func (l *AllLeases) Of(ctx context.Context, nodes []string) (map[string]promiselease.Record, error) {
	all := map[string]promiselease.Record{}
	for _, node := range nodes {
		var lease coordinationv1.Lease
		err := l.server.do(ctx, call{method: http.MethodGet, path: path.Join(leases, node), query: url.Values{"resourceVersion": {"0"}}}, &lease)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading the Lease of node %s: %w", node, err)
		case lease.Name == node:
			all[node] = recordOf(&lease)
		}
	}
	return all, nil
}

// List implements Others. The Leases are those of the moment, not what the API server has in memory. They may not be older than what this agent
// has acknowledged before it has restarted.
func (l *AllLeases) List(ctx context.Context) (map[string]promiselease.Record, uint64, error) {
	all := map[string]promiselease.Record{}
	var revision uint64
	for next, limit := "", pageSize; ; {
		page, err := l.server.leases(ctx, next, &limit)
		if err != nil {
			return nil, 0, err
		}
		for i := range page.Items {
			all[page.Items[i].Name] = recordOf(&page.Items[i])
		}
		if len(all) > maxLeases {
			return nil, 0, errManyLeases
		}
		if revision == 0 {
			revision = revisionOf(page.ResourceVersion)
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	if revision == 0 {
		return nil, 0, errRevision
	}
	return all, revision, nil
}

// leases reads a page of Leases. While the answer is too long, it requests half as many: one Lease is never too long. The next page may be
// twice as long again.
func (s *Server) leases(ctx context.Context, next string, limit *int) (*coordinationv1.LeaseList, error) {
	for {
		query := url.Values{"limit": {strconv.Itoa(*limit)}}
		if next != "" {
			query.Set("continue", next)
		}
		var page coordinationv1.LeaseList
		err := s.do(ctx, call{method: http.MethodGet, path: leases, query: query}, &page)
		switch {
		case err == nil:
			*limit = min(2**limit, pageSize)
			return &page, nil
		case !errors.Is(err, errTooLong) || *limit == 1:
			return nil, fmt.Errorf("listing the Leases: %w", err)
		}
		*limit /= 2
	}
}

// recordOf returns what a Lease says. An unreadable Lease says nothing.
func recordOf(l *coordinationv1.Lease) promiselease.Record {
	r, err := promiselease.Decode(l)
	if err != nil {
		return promiselease.Record{}
	}
	return r
}

func revisionOf(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Follow implements Others.
func (l *AllLeases) Follow(ctx context.Context, since uint64, changed func(string, promiselease.Record, uint64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(idleTime, cancel)
	defer idle.Stop()
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {strconv.FormatUint(since, 10)},
		"timeoutSeconds": {strconv.Itoa(watchSeconds)},
	}
	return l.server.stream(ctx, call{method: http.MethodGet, path: leases, query: query}, func(line []byte) error {
		idle.Reset(idleTime)
		return note(line, changed)
	})
}

// note notes one change.
func note(line []byte, changed func(string, promiselease.Record, uint64)) error {
	var event struct {
		Type   string               `json:"type"`
		Object coordinationv1.Lease `json:"object"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("decoding a change of a Lease: %w", err)
	}
	revision, name := revisionOf(event.Object.ResourceVersion), event.Object.Name
	if event.Type == "ERROR" || revision == 0 {
		return errWatch
	}
	switch {
	case event.Type == "BOOKMARK":
		changed("", promiselease.Record{}, revision)
	case name == "":
		return errWatch
	case event.Type == "ADDED", event.Type == "MODIFIED":
		changed(name, recordOf(&event.Object), revision)
	case event.Type == "DELETED":
		changed(name, promiselease.Record{}, revision)
	default:
		return errWatch
	}
	return nil
}

// Labels of nodes.
const (
	zoneLabel    = "topology.kubernetes.io/zone"
	controlLabel = "node-role.kubernetes.io/control-plane"
)

// Place implements Others.
func (l *AllLeases) Place(ctx context.Context, node string) (Place, error) {
	var n metav1.PartialObjectMetadata
	c := call{method: http.MethodGet, path: path.Join(nodes, node), query: url.Values{"resourceVersion": {"0"}}, accept: onlyMetadata}
	if err := l.server.do(ctx, c, &n); err != nil {
		return Place{}, fmt.Errorf("reading the labels of node %s: %w", node, err)
	}
	_, control := n.Labels[controlLabel]
	return Place{Zone: n.Labels[zoneLabel], Control: control}, nil
}

// stream sends a request, and passes on each line of its answer.
func (s *Server) stream(ctx context.Context, c call, each func([]byte) error) error {
	request, err := s.request(ctx, c)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.dialer.CloseAll()
		return fmt.Errorf("sending a request to the API server: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEvent)
	if response.StatusCode != http.StatusOK {
		lines.Scan()
		return refusal(response.StatusCode, lines.Bytes())
	}
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading changes: %w", err)
	}
	return nil
}
