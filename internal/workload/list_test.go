package workload

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
)

// knows returns which of these nodes are known of a cluster.
func (c *Connection) knows(names ...string) []string {
	var known []string
	c.Lookup(func(find func(string) (node.Facts, bool)) {
		for _, name := range names {
			if _, found := find(name); found {
				known = append(known, name)
			}
		}
	})
	return known
}

// wantKnown checks which nodes are known, and that memory is reserved for them and nothing else.
func (s *server) wantKnown(c *Connection, names ...string) {
	s.Helper()
	known, weight := c.knows(names...), 0
	for range names {
		weight += nodeWeight + len("a7") // a name and a revision of one letter
	}
	if answers, why := c.Answers(); answers != core.Yes || !slices.Equal(known, names) {
		s.Errorf("it answers %s (%s), and known of %v are %v", answers, why, names, known)
	}
	if held := c.budget.held(); held != weight {
		s.Errorf("%d bytes are accounted for, want %d", held, weight)
	}
}

// held returns the number of reserved bytes.
func (m *memoryBudget) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// beyond returns how often a bound was exceeded, and how many bounds were.
func (c *Connection) beyond(bound string) (times uint64, bounds int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exceeded[bound], len(c.exceeded)
}

// wantBound checks that a cluster is unknown since it exceeded a bound, and that none of its nodes is kept.
func (s *server) wantBound(c *Connection, bound, words string) {
	s.Helper()
	answers, why := c.Answers()
	if times, bounds := c.beyond(bound); answers != core.Unknown || !strings.Contains(why, words) || times == 0 || bounds != 1 {
		s.Errorf("it answers %s (%s) after it exceeded %s %d times, and %d bounds; want %q", answers, why, bound, times, bounds, words)
	}
	if held := c.budget.held(); held != 0 {
		s.Errorf("%d bytes are accounted for", held)
	}
}

// TestListGoesOnPageByPage, and the watch begins where the last page was.
func TestListGoesOnPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.list = func(w http.ResponseWriter, r *http.Request) {
			pages := map[string]func(){
				"":   func() { s.sendsPage(w, "t1", "a", "b") },
				"t1": func() { s.sendsPage(w, strings.Repeat("t", tokenBytes), "c") },
			}
			if page := pages[r.URL.Query().Get("continue")]; page != nil {
				page()
				return
			}
			s.sendsPage(w, "", "d")
		}
		c, end := s.connects()
		defer end()
		after(time.Second)
		s.wantKnown(c, "a", "b", "c", "d")
		want := []string{"/api/v1/nodes?limit=250", "/api/v1/nodes?continue=t1&limit=250", "/api/v1/nodes?continue=" + strings.Repeat("t", tokenBytes) + "&limit=250"}
		if diff := cmp.Diff(want, s.requests("list")); diff != "" {
			t.Errorf("pages (-want +got):\n%s", diff)
		}
		at, err := url.Parse(s.requests("watch")[0])
		if err != nil || at.Query().Get("resourceVersion") != "7" || at.Query().Get("allowWatchBookmarks") != "true" {
			t.Errorf("the watch is %s", at)
		}
	})
}

// TestListOfLargeNodesHasSmallPages: after a page that is too large, the next request is for a quarter of the nodes.
func TestListOfLargeNodesHasSmallPages(t *testing.T) {
	for largest, want := range map[int][]string{62: {"250", "62", "62"}, 3: {"250", "62", "15", "3", "3"}, 1: {"250", "62", "15", "3", "1", "1"}} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t)
			s.list = func(w http.ResponseWriter, r *http.Request) {
				limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
				switch {
				case limit > largest:
					w.Header().Set("Content-Type", protobuf)
					_, _ = w.Write(make([]byte, pageBytes+1))
				case r.URL.Query().Get("continue") == "":
					s.sendsPage(w, "more", "a")
				default:
					s.sendsPage(w, "", "b")
				}
			}
			c, end := s.connects()
			defer end()
			after(time.Second)
			s.wantKnown(c, "a", "b")
			var limits []string
			for _, request := range s.requests("list") {
				at, _ := url.Parse(request)
				limits = append(limits, at.Query().Get("limit"))
			}
			if diff := cmp.Diff(want, limits); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI15ListsAreBounded in what one page has, and in what all pages have.
func TestI15ListsAreBounded(t *testing.T) {
	page := func(s *server, next string, names ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { s.sendsPage(w, next, names...) }
	}
	heavy := nodeNamed("a")
	for i := range 100 {
		heavy.Status.Conditions = append(heavy.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprint(strings.Repeat("x", 100), i))})
	}
	cases := map[string]struct {
		bounds       Bounds
		list         func(s *server) http.HandlerFunc
		bound, words string
		requests     int
	}{
		"a page without nodes that is not the last": {Bounds{}, func(s *server) http.HandlerFunc { return page(s, "more") }, "pages", "does not go on as it must", 1},
		"a token that is too long":                  {Bounds{}, func(s *server) http.HandlerFunc { return page(s, strings.Repeat("t", tokenBytes+1), "a") }, "pages", "does not go on as it must", 1},
		"the same token again":                      {Bounds{}, func(s *server) http.HandlerFunc { return page(s, "more", "a") }, "pages", "does not go on as it must", 2},
		"too many nodes in all pages": {Bounds{Nodes: 2}, func(s *server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { s.sendsPage(w, fmt.Sprint(len(s.times("list"))), "a") }
		}, "nodes", "more than 2 nodes", 3},
		"nodes that take too much": {Bounds{Nodes: 2}, func(s *server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				s.sendsObject(w, &corev1.NodeList{Items: []corev1.Node{*heavy}})
			}
		}, "memory", "labels and conditions", 1},
		"more than all clusters may": {Bounds{Memory: nodeWeight}, func(s *server) http.HandlerFunc { return page(s, "", "a", "b") }, "memory-of-all",
			"those of all clusters take more than", 1},
		"a node that is too large on a page of its own": {Bounds{}, func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", protobuf)
				_, _ = w.Write(make([]byte, pageBytes+1))
			}
		}, "bytes", "more than 4096 KiB", 5},
		"something else than protobuf": {Bounds{}, func(*server) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1"}`))
			}
		}, "encoding", "did not request", 1},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serves(t)
				s.bounds, s.list = tc.bounds, tc.list(s)
				c, end := s.connects()
				defer end()
				after(100 * time.Millisecond)
				s.wantBound(c, tc.bound, tc.words)
				if n := len(s.times("list")); n != tc.requests {
					t.Errorf("%d pages were requested, want %d", n, tc.requests)
				}
			})
		})
	}
}

// TestAsManyNodesAsAreAllowedAreKept: the bounds themselves are within bounds.
func TestAsManyNodesAsAreAllowedAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.bounds = Bounds{Nodes: 2, Memory: 2 * (nodeWeight + 2)}
		s.list = func(w http.ResponseWriter, _ *http.Request) { s.sendsPage(w, "", "a", "b") }
		c, end := s.connects()
		defer end()
		after(time.Second)
		s.wantKnown(c, "a", "b")
	})
	for weight, exceeds := range map[int]bool{2 * keptBytes: false, 2*keptBytes + 1: true} {
		if err := (Bounds{Nodes: 2}).check(2, weight); (err != nil) != exceeds {
			t.Errorf("nodes of %d bytes are met with %v", weight, err)
		}
	}
}

// TestListThatFailsSaysWhy, and keeps nothing.
func TestListThatFailsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.list = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("continue") == "" {
				s.sendsPage(w, "more", "a")
				return
			}
			http.Error(w, "no", http.StatusForbidden)
		}
		c, end := s.connects()
		defer end()
		after(100 * time.Millisecond)
		if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "may not read the nodes") || c.budget.held() != 0 {
			t.Errorf("it answers %s (%s), and %d bytes are accounted for", answers, why, c.budget.held())
		}
	})
}

// TestSlowListGoesOnWhereItWas: no node counts until the list is done, and no page is read twice.
func TestSlowListGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.list = func(w http.ResponseWriter, r *http.Request) {
			n := len(s.times("list"))
			select {
			case <-time.After(4 * time.Second):
			case <-r.Context().Done():
				lingers(r)
				return
			}
			next := map[string]string{"": "t1", "t1": "t2", "t2": ""}[r.URL.Query().Get("continue")]
			s.sendsPage(w, next, string(rune('a'+n)))
		}
		c, end := s.connects()
		defer end()
		after(5*time.Second + 500*time.Millisecond)
		if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "more slowly than others") || !c.listsSlowly.Load() {
			t.Errorf("after a turn it answers %s (%s), and its lists begin among the slow: %t", answers, why, c.listsSlowly.Load())
		}
		after(10 * time.Second)
		s.wantKnown(c, "b", "d", "e")
		var tokens []string
		for _, request := range s.requests("list") {
			at, _ := url.Parse(request)
			tokens = append(tokens, at.Query().Get("continue"))
		}
		if diff := cmp.Diff([]string{"", "t1", "t1", "t2"}, tokens); diff != "" {
			t.Errorf("pages (-want +got):\n%s", diff)
		}
	})
}

// slowly answers with headers at once, and with the rest after a while.
func (s *server) slowly(takes time.Duration, page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", protobuf)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(takes):
			page(w, r)
		case <-r.Context().Done():
			lingers(r)
		}
	}
}

// TestListMustGetOnInEachSlowTurn: a list that does has more turns, and a list that does not has failed.
func TestListMustGetOnInEachSlowTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.list = s.slowly(20*time.Second, func(w http.ResponseWriter, r *http.Request) {
			pages := map[string][]string{"": {"t1", "a"}, "t1": {"t2", "b"}, "t2": {"", "c"}}
			page := pages[r.URL.Query().Get("continue")]
			s.sendsPage(w, page[0], page[1])
		})
		c, end := s.connects()
		defer end()
		after(promptTurn + 2*slowTurn + 21*time.Second)
		s.wantKnown(c, "a", "b", "c")
	})
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.list = s.slowly(time.Hour, s.honestList)
		c, end := s.connects()
		defer end()
		after(promptTurn + slowTurn + 100*time.Millisecond)
		s.wantBound(c, "time", "in the time that a cluster may take")
	})
}

// TestConnectionThatHasLastedIsMadeAgainSoon, and its lists are among the prompt again.
func TestConnectionThatHasLastedIsMadeAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		var broken atomic.Bool
		s.ready = func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			honestReady(w, r)
		}
		broken.Store(true)
		c, end := s.connects()
		defer end()
		after(10 * time.Minute) // the pauses have grown to half a minute
		broken.Store(false)
		after(time.Minute)
		c.listsSlowly.Store(true)
		s.wantKnown(c, "a")
		after(4 * time.Minute)
		broken.Store(true)
		for answers, _ := c.Answers(); answers == core.Yes; answers, _ = c.Answers() {
			after(100 * time.Millisecond)
		}
		broken.Store(false)
		tried := len(s.times("secret"))
		after(2 * time.Second)
		s.wantKnown(c, "a")
		if more := len(s.times("secret")) - tried; more != 1 || c.listsSlowly.Load() {
			t.Errorf("it took %d attempts; its lists begin among the slow: %t", more, c.listsSlowly.Load())
		}
	})
}

// TestListReplacesWhatWasKnown and its account.
func TestListReplacesWhatWasKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.list = func(w http.ResponseWriter, _ *http.Request) {
			if len(s.times("list")) == 1 {
				s.sendsPage(w, "", "a", "b")
				return
			}
			s.sendsPage(w, "", "b", "c", "d")
		}
		c, end := s.connects()
		defer end()
		after(time.Second)
		s.wantKnown(c, "a", "b")
		after(3 * time.Minute) // the watch has brought nothing
		s.wantKnown(c, "b", "c", "d")
		if known := c.knows("a"); len(known) > 0 {
			t.Errorf("%v is known still", known)
		}
	})
}

func TestWeight(t *testing.T) {
	empty := node.Facts{}
	full := node.Facts{Revision: "12345"}
	full.Node.Name, full.Node.UID = "abc", "uid4"
	full.Node.Conditions = []core.Condition{{Type: "Ready", Status: "True", Reason: "KubeletReady"}, {Type: "Disk", Status: "No"}}
	full.Labels = slim.LabelsOf(map[string]string{"zone": "abcde"})
	if got, want := weigh(empty), 512; got != want {
		t.Errorf("an empty node weighs %d, want %d", got, want)
	}
	if got, want := weigh(full), 512+3+4+5+2*80+5+4+12+4+2+48+4+5; got != want {
		t.Errorf("a full node weighs %d, want %d", got, want)
	}
}
