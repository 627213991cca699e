package agent_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// leaseOf is the Lease of a node with an address.
func leaseOf(t *testing.T, node string, change func(*promiselease.Record)) coordinationv1.Lease {
	t.Helper()
	r := promiselease.Record{
		Lease:   selffence.Lease{Revision: 7, State: selffence.Promised, Promise: promised()},
		Address: netip.MustParseAddrPort("192.0.2.1:9643"),
	}
	if change != nil {
		change(&r)
	}
	l, err := promiselease.Encode(node, r, at())
	if err != nil {
		t.Fatal(err)
	}
	return *l
}

// inZone is the answer with the labels of a node.
func inZone(zone string) reply {
	return reply{http.StatusOK, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"topology.kubernetes.io/zone": zone}}}}
}

// TestFewNeighbours: an agent that finds too few neighbours looks again soon, and less and less often.
func TestFewNeighbours(t *testing.T) {
	t.Parallel()
	page := func(count int) []reply {
		list, replies := coordinationv1.LeaseList{}, []reply{{}, inZone("")}
		for i := range count {
			list.Items = append(list.Items, leaseOf(t, fmt.Sprintf("n%d", i), nil))
			replies = append(replies, inZone(""))
		}
		replies[0] = reply{http.StatusOK, list}
		return replies
	}
	looks := func(count int) *agent.Neighbours {
		n := agent.NewNeighbours(serve(t, page(count)...).Server, "n", agent.Directory(t.TempDir()))
		if err := n.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := looks(2)
	for few, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		if pause, now := n.PauseAfter(few); pause != want || now != few+1 {
			t.Errorf("after %d looks with too few, the pause is %s, and %d are counted, want %s", few, pause, now, want)
		}
	}
	if pause, _ := n.PauseAfter(1000); pause < time.Hour || pause >= 2*time.Hour {
		t.Errorf("the longest pause is %s", pause)
	}
	if pause, now := looks(3).PauseAfter(5); pause < time.Hour || now != 0 {
		t.Errorf("with enough neighbours the pause is %s, and %d looks are counted", pause, now)
	}
}

// TestNeighbours: the neighbours are nodes that promise something, those of other zones first. They are stored.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	list := coordinationv1.LeaseList{Items: []coordinationv1.Lease{
		leaseOf(t, "n", nil),
		leaseOf(t, "withdrawn", func(r *promiselease.Record) { r.State = selffence.Withdrawn }),
		leaseOf(t, "silent", func(r *promiselease.Record) { r.Address = netip.AddrPort{} }),
	}}
	for i := range 20 {
		list.Items = append(list.Items, leaseOf(t, fmt.Sprintf("n%d", i), nil))
	}
	replies := []reply{{http.StatusOK, list}, inZone("here")}
	for i := range 12 {
		replies = append(replies, inZone([]string{"here", "elsewhere", ""}[i%3]))
	}
	s, dir := serve(t, replies...), agent.Directory(t.TempDir())
	n := agent.NewNeighbours(s.Server, "n", dir)
	if err := n.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, line := range s.lines()[2:] {
		node, _, _ := strings.Cut(strings.TrimPrefix(line, "GET /base/api/v1/nodes/"), "?")
		read = append(read, node)
	}
	want := slices.Concat([]string{read[1], read[4], read[7], read[10]}, []string{read[0], read[2]})
	if got := n.Names(); !slices.Equal(got, want) {
		t.Errorf("the neighbours are %v, want %v", got, want)
	}
	for _, bad := range []string{"n", "withdrawn", "silent"} {
		if slices.Contains(read, bad) {
			t.Errorf("%s is a neighbour", bad)
		}
	}
	again := agent.NewNeighbours(s.Server, "n", dir)
	if got := again.Names(); !slices.Equal(got, want) {
		t.Errorf("after a restart the neighbours are %v, want %v", got, want)
	}
	if a, is := again.Address(want[0]); !is || a.String() != "192.0.2.1:9643" {
		t.Errorf("the address is %s, %t", a, is)
	}
	if _, is := again.Address("other"); is {
		t.Error("a stranger has an address")
	}
	if err := again.Refresh(t.Context()); err == nil || !slices.Equal(again.Names(), want) {
		t.Errorf("after a failure the neighbours are %v: %v", again.Names(), err)
	}
}

// TestStoredNeighbours: a file that was damaged counts for none.
func TestStoredNeighbours(t *testing.T) {
	t.Parallel()
	one := `{"node":"a","address":"192.0.2.1:1","near":false}`
	for text, want := range map[string]int{
		"": 0, "x": 0, "[" + one + "]": 1, "[" + strings.Repeat(one+",", 6) + one + "]": 0, "[" + one + "]" + strings.Repeat(" ", 8<<10): 0,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "neighbours.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := agent.NewNeighbours(nil, "n", agent.Directory(dir)).Names(); len(got) != want {
			t.Errorf("%.60s: the neighbours are %v", text, got)
		}
	}
}

// TestThroughAnother: a request reaches the API server through another agent, and is verified to be its own. Another server gets no request there.
func TestThroughAnother(t *testing.T) {
	t.Parallel()
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	t.Cleanup(api.Close)
	h := newSigner(t).holder(t.TempDir()) // both agents may be of one node here
	if err := h.looks(2); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		host, authority string
		reached         bool
	}{
		"the API server":     {api.URL, authorityOf(api), true},
		"of another name":    {"https://other.invalid:443", authorityOf(api), false},
		"of other authority": {api.URL, newSigningKeyText(t), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay := peer.NewServer(h.Identity, func(peer.Refusal) {})
			relay.Relay(func(ctx context.Context) (net.Conn, error) {
				return agent.Direct(ctx, "tcp", api.Listener.Addr().String())
			})
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = relay.Serve(ctx, l) }()
			defer func() { end(); <-done }()
			at := netip.MustParseAddrPort(l.Addr().String())
			client := peer.NewClient(h.Identity, func(string) (netip.AddrPort, bool) { return at, true })
			d := agent.Dialer{
				Direct: func(context.Context, string, string) (net.Conn, error) { return nil, errAway }, Relay: client.Relay,
				Neighbours: func() []string { return []string{"n"} },
			}
			s, err := agent.NewServer(&rest.Config{Host: c.host, Dial: d.DialContext, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(c.authority)}, Timeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			_, err = agent.NewLeases(s, "n", func() time.Time { return time.Time{} }).Read(t.Context())
			reached := err != nil && strings.Contains(err.Error(), "the code 404 ")
			if reached != c.reached || errors.Is(err, errAway) {
				t.Errorf("the API server is reached: %t, want %t: %v", reached, c.reached, err)
			}
		})
	}
}

func authorityOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func newSigningKeyText(t *testing.T) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: newSigningKey(t, "other").cert.Raw}))
}

// TestNeighboursOfAnUnknownZone: where the zone of this node can't be read, no neighbour is chosen, and the error says why.
func TestNeighboursOfAnUnknownZone(t *testing.T) {
	t.Parallel()
	list := reply{http.StatusOK, coordinationv1.LeaseList{Items: []coordinationv1.Lease{leaseOf(t, "a", nil)}}}
	s := serve(t, list, status(403, metav1.StatusReasonForbidden))
	n := agent.NewNeighbours(s.Server, "n", agent.Directory(t.TempDir()))
	if err := n.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the labels") || len(n.Names()) > 0 {
		t.Errorf("the neighbours are %v: %v", n.Names(), err)
	}
	if want := "GET " + theLease + "?limit=250"; s.lines()[0] != want {
		t.Errorf("the request is %s, want %s", s.lines()[0], want)
	}
}

// TestTheSameNeighbours are not stored again.
func TestTheSameNeighbours(t *testing.T) {
	t.Parallel()
	list := reply{http.StatusOK, coordinationv1.LeaseList{Items: []coordinationv1.Lease{leaseOf(t, "a", nil)}}}
	s, dir := serve(t, list, inZone("here"), inZone("here"), list, inZone("here"), inZone("here")), t.TempDir()
	n := agent.NewNeighbours(s.Server, "n", agent.Directory(dir))
	for range 2 {
		if err := n.Refresh(t.Context()); err != nil || len(n.Names()) != 1 {
			t.Fatalf("the neighbours are %v: %v", n.Names(), err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
