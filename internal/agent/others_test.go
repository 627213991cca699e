package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// leaseAt returns the Lease of a node with a revision.
func leaseAt(t *testing.T, node string, revision uint64) coordinationv1.Lease {
	t.Helper()
	l, err := promiselease.Encode(node, promiselease.Record{Lease: selffence.Lease{Revision: revision, State: selffence.Promised, Promise: promised()}}, at())
	if err != nil {
		t.Fatal(err)
	}
	return *l
}

// page is an answer with Leases.
func page(revision, next string, items ...coordinationv1.Lease) reply {
	return reply{http.StatusOK, coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: revision, Continue: next}, Items: items}}
}

// TestListsLeases: all pages are read, by a read that is as new as the moment.
func TestListsLeases(t *testing.T) {
	t.Parallel()
	unread := leaseAt(t, "c", 6)
	unread.Annotations["fettle.io/later"] = "x"
	s := serve(t, page("9", "more", leaseAt(t, "a", 5)), page("9", "", leaseAt(t, "b", 7), unread))
	all, revision, err := agent.NewAllLeases(s.Server).List(t.Context())
	if err != nil || revision != 9 || len(all) != 3 || all["a"].Revision != 5 || all["b"].Promise != promised() || all["c"] != (promiselease.Record{}) {
		t.Errorf("the Leases are %+v at %d, %v", all, revision, err)
	}
	lines := s.lines()
	if len(lines) != 2 || lines[0] != "GET "+theLease+"?limit=250" || lines[1] != "GET "+theLease+"?continue=more&limit=250" {
		t.Errorf("the requests are %q", lines)
	}
	for what, answers := range map[string][]reply{
		"a refusal":        {status(403, metav1.StatusReasonForbidden)},
		"no revision":      {page("", "")},
		"half of a list":   {page("9", "more"), status(410, metav1.StatusReasonExpired)},
		"another revision": {page("x", "")},
		"a large revision": {page("18446744073709551616", "")},
	} {
		if all, _, err := agent.NewAllLeases(serve(t, answers...).Server).List(t.Context()); err == nil {
			t.Errorf("%s is a list: %v", what, all)
		}
	}
}

// TestListsLongLeases: a node that an attacker controls may fill its Lease, as by metadata.managedFields. All Leases are read nevertheless.
func TestListsLongLeases(t *testing.T) {
	t.Parallel()
	long := func(node string, revision uint64) coordinationv1.Lease {
		l := leaseAt(t, node, revision)
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 1400<<10)}}
		return l
	}
	a, b, c := long("a", 5), long("b", 7), leaseAt(t, "c", 8)
	s := serve(t, page("9", "", a, b, c), page("9", "", a, b, c), page("9", "more", a), page("9", "", b, c))
	all, revision, err := agent.NewAllLeases(s.Server).List(t.Context())
	if err != nil || revision != 9 || len(all) != 3 || all["b"].Promise != promised() || all["c"].Revision != 8 {
		t.Errorf("the Leases are %d at %d, %v", len(all), revision, err)
	}
	want := []string{"?limit=250", "?limit=125", "?limit=62", "?continue=more&limit=124"}
	for i, line := range s.lines() {
		if i >= len(want) || line != "GET "+theLease+want[i] {
			t.Errorf("request %d is %s", i, line)
		}
	}
}

// TestFollowsLongLeases: a long Lease ends no watch.
func TestFollowsLongLeases(t *testing.T) {
	t.Parallel()
	l := leaseAt(t, "a", 11)
	l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 1400<<10)}}
	text, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": l})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	err = agent.NewAllLeases(serve(t, reply{http.StatusOK, string(text) + "\n"}).Server).Follow(t.Context(), 10, func(string, promiselease.Record, uint64) { told++ })
	if told != 1 || err != nil {
		t.Errorf("%d changes are told, %v", told, err)
	}
}

// TestFollowsLeases: each change is told until the API server ends the watch, or tells something that is none.
func TestFollowsLeases(t *testing.T) {
	t.Parallel()
	event := func(kind string, object any) string {
		text, err := json.Marshal(map[string]any{"type": kind, "object": object})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	unread := leaseAt(t, "b", 12)
	unread.Annotations["fettle.io/later"] = "x"
	bookmark := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "15"}}
	well := event("ADDED", leaseAt(t, "a", 11)) + event("MODIFIED", unread) + event("DELETED", leaseAt(t, "c", 13)) + event("BOOKMARK", bookmark)
	const want = "a:Promised@11 b:@12 c:@13 :@15"
	for what, c := range map[string]struct {
		more  string
		fails bool
	}{
		"all is well":       {"", false},
		"an error":          {event("ERROR", metav1.Status{Code: 410}), true},
		"an unknown change": {event("LATER", leaseAt(t, "d", 16)), true},
		"no revision":       {event("ADDED", coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "d"}}), true},
		"no name":           {event("ADDED", bookmark), true},
		"no change":         {"{\n", true},
		"an empty line":     {"\n", false},
		"half a change":     {`{"type":"DELETED","object":{"metadata":{"name":"d","resourceVersion":"16"},"spec":7}}` + "\n", true},
		"a long change":     {`{"type":"` + strings.Repeat("x", 3<<20) + "\n", true},
	} {
		s := serve(t, reply{http.StatusOK, well + c.more})
		var told []string
		err := agent.NewAllLeases(s.Server).Follow(t.Context(), 10, func(node string, r promiselease.Record, revision uint64) {
			told = append(told, fmt.Sprintf("%s:%s@%d", node, r.State, revision))
		})
		if got := strings.Join(told, " "); got != want || (err != nil) != c.fails {
			t.Errorf("%s: the changes are %s, %v", what, got, err)
		}
		if lines := s.lines(); len(lines) != 1 || lines[0] != "GET "+theLease+"?allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds=330&watch=true" {
			t.Errorf("the requests are %q", lines)
		}
	}
	for what, answer := range map[string]reply{"a refusal": status(403, metav1.StatusReasonForbidden), "no answer": {}} {
		err := agent.NewAllLeases(serve(t, answer).Server).Follow(t.Context(), 10, func(string, promiselease.Record, uint64) { t.Errorf("%s is a change", what) })
		if err == nil || apierrors.IsForbidden(err) != (what == "a refusal") {
			t.Errorf("%s is the error %v", what, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := agent.NewAllLeases(serve(t).Server).Follow(ended, 10, nil); err == nil {
		t.Error("a watch that was ended is no error")
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	node := func(labels map[string]string) reply {
		return reply{http.StatusOK, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}
	}
	s := serve(t, node(map[string]string{"topology.kubernetes.io/zone": "z", "node-role.kubernetes.io/control-plane": ""}), node(nil), status(404, metav1.StatusReasonNotFound))
	l := agent.NewAllLeases(s.Server)
	for _, want := range []agent.Place{{Zone: "z", Control: true}, {}} {
		if got, err := l.Place(t.Context(), "n"); err != nil || got != want {
			t.Errorf("the place is %+v, want %+v, %v", got, want, err)
		}
	}
	if got, err := l.Place(t.Context(), "n"); err == nil {
		t.Errorf("a node that is gone is at %+v", got)
	}
	if lines := s.lines(); lines[0] != "GET /base/api/v1/nodes/n?resourceVersion=0" {
		t.Errorf("the requests are %q", lines)
	}
}

// TestAnAnswerThatIsAlwaysTooLong: an agent requests half as many Leases again and again, and gives up with one.
func TestAnAnswerThatIsAlwaysTooLong(t *testing.T) {
	t.Parallel()
	var replies []reply
	for range 10 {
		replies = append(replies, reply{http.StatusOK, strings.Repeat(" ", 2<<20) + " "})
	}
	s := serve(t, replies...)
	if _, _, err := agent.NewAllLeases(s.Server).List(t.Context()); err == nil || len(s.lines()) != 8 || !strings.HasSuffix(s.lines()[7], "?limit=1") {
		t.Errorf("the requests are %q: %v", s.lines(), err)
	}
}

// closing answers each request with a text, and counts how often its body was closed.
type closing struct {
	text   string
	closed int
}

func (c *closing) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: closer{strings.NewReader(c.text), c}, Request: r}, nil
}

type closer struct {
	*strings.Reader

	of *closing
}

func (c closer) Close() error {
	c.of.closed++
	return nil
}

// TestTheLongestChange: a change may have 2 MiB with the end of its line. A watch is closed at its end.
func TestTheLongestChange(t *testing.T) {
	t.Parallel()
	const text = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"15"}}}`
	for more, fits := range map[int]bool{0: true, 1: false} {
		answers := &closing{text: text + strings.Repeat(" ", 2<<20-len(text)-1+more) + "\n"}
		s, err := agent.NewServer(&rest.Config{Host: "http://api", Transport: answers})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		err = agent.NewAllLeases(s).Follow(t.Context(), 10, func(string, promiselease.Record, uint64) { told++ })
		if (err == nil) != fits || (told == 1) != fits || answers.closed != 1 {
			t.Errorf("with %d bytes more, %d changes are told, and the watch is closed %d times: %v", more, told, answers.closed, err)
		}
	}
}
