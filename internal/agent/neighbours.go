package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Neighbours are the other agents through which this one reaches the API server if its own path is cut. They are stored, since they are needed when
// the agent can't read them from the API server.
type Neighbours struct {
	server *Server
	node   string
	dir    Directory

	mu  sync.Mutex
	all []neighbour
}

// neighbour is another agent.
type neighbour struct {
	Node    string         `json:"node"`
	Address netip.AddrPort `json:"address"`
	// Near is set for a node in the zone of this one.
	Near bool `json:"near"`
}

// Bounds of neighbours.
const (
	// neighbourPage is among how many Leases the neighbours are chosen.
	neighbourPage = 250
	// mostNeighbours are stored, and candidates is of how many nodes the zone is read.
	mostNeighbours = 6
	candidates     = 12
	maxNeighbours  = 8 << 10
	neighbourEvery = time.Hour
	neighbourAgain = time.Minute
)

const neighbourFile = "neighbours.json"

var errNeighbours = errors.New("the stored neighbours are not those of this program")

// NewNeighbours returns the neighbours of a node, as an earlier process has stored them in a directory. A file that can't be read counts for none.
func NewNeighbours(s *Server, node string, dir Directory) *Neighbours {
	n := &Neighbours{server: s, node: node, dir: dir}
	if all, err := dir.loadNeighbours(); err == nil {
		n.all = all
	}
	return n
}

// Names returns the nodes of the neighbours, those of other zones first.
func (n *Neighbours) Names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	for _, o := range n.all {
		names = append(names, o.Node)
	}
	return names
}

// Address returns where the agent of a neighbour listens. It is a peer.Addresses.
func (n *Neighbours) Address(node string) (netip.AddrPort, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.all {
		if o.Node == node {
			return o.Address, true
		}
	}
	return netip.AddrPort{}, false
}

// Run chooses neighbours anew until the context ends. A failure changes nothing.
func (n *Neighbours) Run(ctx context.Context) {
	for few := 0; ctx.Err() == nil; {
		pause := neighbourAgain
		if n.refresh(ctx) == nil {
			pause, few = n.pauseAfter(few)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// pauseAfter returns the pause after a refresh, and how many in succession have found too few neighbours. Where all agents start together,
// the first refreshes find none. The pause doubles, since a cluster may have too few agents for good.
func (n *Neighbours) pauseAfter(few int) (pause time.Duration, now int) {
	pause = neighbourEvery + spread(n.node)
	if len(n.Names()) >= mostRelays {
		return pause, 0
	}
	return min(neighbourAgain<<min(few, mostDoublings), pause), few + 1
}

// refresh chooses neighbours among the first Leases.
func (n *Neighbours) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	limit := neighbourPage
	page, err := n.server.leases(ctx, "", &limit)
	if err != nil {
		return err
	}
	chosen := n.choose(page.Items)
	own, err := n.zone(ctx, n.node)
	if err != nil {
		return err
	}
	for i := range chosen {
		zone, err := n.zone(ctx, chosen[i].Node)
		chosen[i].Near = err != nil || zone == "" || zone == own // what is not known to be elsewhere may fail together with this node
	}
	slices.SortStableFunc(chosen, func(a, b neighbour) int { return cmp.Compare(number(a.Near), number(b.Near)) })
	chosen = chosen[:min(mostNeighbours, len(chosen))]
	n.mu.Lock()
	same := slices.Equal(n.all, chosen)
	n.all = chosen
	n.mu.Unlock()
	if same {
		return nil
	}
	return n.dir.saveNeighbours(chosen)
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// choose returns candidates in an order of this node's own, so that nodes have different neighbours.
func (n *Neighbours) choose(all []coordinationv1.Lease) []neighbour {
	var chosen []neighbour
	for i := range all {
		r, err := promiselease.Decode(&all[i])
		name := all[i].Name
		if err == nil && r.State == selffence.Promised && r.Address.IsValid() && name != n.node && len(validation.IsDNS1123Subdomain(name)) == 0 {
			chosen = append(chosen, neighbour{Node: name, Address: r.Address})
		}
	}
	rank := func(o neighbour) []byte {
		sum := sha256.Sum256([]byte(n.node + "/" + o.Node))
		return sum[:]
	}
	slices.SortFunc(chosen, func(a, b neighbour) int { return bytes.Compare(rank(a), rank(b)) })
	return chosen[:min(candidates, len(chosen))]
}

// zone returns the zone of a node, or nothing if it has none.
func (n *Neighbours) zone(ctx context.Context, node string) (string, error) {
	var o metav1.PartialObjectMetadata
	c := call{method: http.MethodGet, path: path.Join(nodes, node), query: url.Values{"resourceVersion": {"0"}}, accept: onlyMetadata}
	if err := n.server.do(ctx, c, &o); err != nil {
		return "", fmt.Errorf("reading the labels of a node: %w", err)
	}
	return o.Labels[zoneLabel], nil
}

// loadNeighbours returns the stored neighbours.
func (d Directory) loadNeighbours() ([]neighbour, error) {
	text, err := d.read(neighbourFile, maxNeighbours)
	if err != nil {
		return nil, err
	}
	var all []neighbour
	if json.Unmarshal(text, &all) != nil || len(all) > mostNeighbours {
		return nil, errNeighbours
	}
	return all, nil
}

// saveNeighbours replaces the stored neighbours.
func (d Directory) saveNeighbours(all []neighbour) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding the neighbours: %w", err)
	}
	return d.replace(neighbourFile, text)
}
