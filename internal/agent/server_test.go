package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// reply is what a stand-in for the API server answers.
type reply struct {
	code int
	body any
}

// request is a request that it got.
type request struct{ line, accept, content, body string }

// standIn is a stand-in for the API server.
type standIn struct {
	*agent.Server

	mu       sync.Mutex
	replies  []reply
	requests []request
	opened   int
}

// serve returns a stand-in that gives these answers, one after the other.
func serve(t *testing.T, replies ...reply) *standIn {
	t.Helper()
	s := &standIn{replies: replies}
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.opened++
			s.mu.Unlock()
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	var err error
	if s.Server, err = agent.NewServer(&rest.Config{Host: server.URL + "/base", UserAgent: "test"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request{r.Method + " " + r.URL.String(), r.Header.Get("Accept"), r.Header.Get("Content-Type"), string(body)})
	if len(s.replies) == 0 {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	next := s.replies[0]
	s.replies = s.replies[1:]
	w.Header().Set("Content-Type", "application/json")
	switch next.code {
	case 0:
		panic(http.ErrAbortHandler)
	case http.StatusFound:
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(next.code)
	if text, is := next.body.(string); is {
		_, _ = io.WriteString(w, text)
		return
	}
	_ = json.NewEncoder(w).Encode(next.body) //nolint:errchkjson // the client notices
}

// lines returns the requests, a line each.
func (s *standIn) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, r := range s.requests {
		lines = append(lines, r.line)
	}
	return lines
}

// status is a refusal of the API server.
func status(code int, reason metav1.StatusReason) reply {
	return reply{code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "refused",
	}}
}

// stores is the answer with a Lease.
func stores(t *testing.T, revision uint64, change func(*promiselease.Record, *coordinationv1.Lease)) reply {
	t.Helper()
	r := promiselease.Record{Lease: selffence.Lease{Revision: revision, State: selffence.Promised, Promise: promised()}, Device: identity}
	if change != nil {
		change(&r, &coordinationv1.Lease{})
	}
	l, err := promiselease.Encode("n", r, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	l.UID = "u"
	if change != nil {
		change(&r, l)
	}
	return reply{http.StatusOK, l}
}

func at() time.Time { return time.Date(2026, time.August, 3, 12, 0, 0, 7000, time.UTC) }

const theLease = "/base/apis/coordination.k8s.io/v1/namespaces/fettle-agents/leases"

func TestLeases(t *testing.T) {
	t.Parallel()
	wanted := selffence.Lease{State: selffence.Promised, Promise: promised()}
	s := serve(t, status(404, metav1.StatusReasonNotFound), stores(t, 7, nil), stores(t, 8, nil), status(409, metav1.StatusReasonConflict), stores(t, 9, nil))
	l := agent.NewLeases(s.Server, "n", at)
	if got, err := l.Read(t.Context()); err != nil || got != (selffence.Lease{}) {
		t.Errorf("a missing Lease is read as %+v (%v)", got, err)
	}
	for _, want := range []uint64{7, 8, 0} {
		got, err := l.Write(t.Context(), promiselease.Record{Lease: wanted, Device: identity})
		if err != nil || got != want {
			t.Errorf("writing revision %d: %d (%v), want %d", wanted.Revision, got, err, want)
		}
		wanted.Revision = got
	}
	if got, err := l.Read(t.Context()); err != nil || got.Revision != 9 || got.State != selffence.Promised || got.Promise != promised() {
		t.Errorf("the Lease is read as %+v (%v)", got, err)
	}
	want := []string{"GET " + theLease + "/n", "POST " + theLease, "PUT " + theLease + "/n", "PUT " + theLease + "/n", "GET " + theLease + "/n"}
	if d := cmp.Diff(want, s.lines()); d != "" {
		t.Error(d)
	}
	var created, updated coordinationv1.Lease
	for text, into := range map[string]*coordinationv1.Lease{s.requests[1].body: &created, s.requests[2].body: &updated} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
		if into.Name != "n" || into.Namespace != "fettle-agents" || !into.Spec.RenewTime.Equal(new(metav1.NewMicroTime(at()))) {
			t.Errorf("the agent writes %+v", into)
		}
	}
	if created.UID != "" || created.ResourceVersion != "" || updated.UID != "u" || updated.ResourceVersion != "7" {
		t.Errorf("the agent creates %+v, and updates %+v", created, updated)
	}
	if a := s.requests[1]; a.accept != "application/json" || a.content != "application/json" || s.requests[0].content != "" || s.opened != 1 {
		t.Errorf("the request is %+v, over %d connections", a, s.opened)
	}
}

// TestLeasesUnread: a Lease whose revision was not read is not written.
func TestLeasesUnread(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l := agent.NewLeases(s.Server, "n", at)
	if got, err := l.Write(t.Context(), promiselease.Record{Lease: selffence.Lease{Revision: 7, State: selffence.Promised, Promise: promised()}}); err != nil || got != 0 {
		t.Errorf("writing it: %d (%v)", got, err)
	}
	if len(s.lines()) > 0 {
		t.Errorf("the agent requests %q", s.lines())
	}
}

// TestLeaseIsGone: after a Lease was deleted, its UID is forgotten.
func TestLeaseIsGone(t *testing.T) {
	t.Parallel()
	s := serve(t, stores(t, 7, nil), status(404, metav1.StatusReasonNotFound))
	l := agent.NewLeases(s.Server, "n", at)
	for range 2 {
		if _, err := l.Read(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got, err := l.Write(t.Context(), promiselease.Record{Lease: selffence.Lease{Revision: 7, State: selffence.Promised, Promise: promised()}}); err != nil || got != 0 || len(s.lines()) != 2 {
		t.Errorf("writing it: %d (%v), after %q", got, err, s.lines())
	}
}

// TestLeaseAnswers: an answer that says anything else than that the Lease was stored, or has another revision, is an error.
func TestLeaseAnswers(t *testing.T) {
	t.Parallel()
	change := func(change func(*promiselease.Record, *coordinationv1.Lease)) reply { return stores(t, 8, change) }
	for name, c := range map[string]struct {
		answer                reply
		creates, updates, get bool // an error
	}{
		"stored":            {stores(t, 8, nil), false, false, false},
		"no connection":     {reply{}, true, true, true},
		"conflict":          {status(409, metav1.StatusReasonConflict), false, false, true},
		"exists":            {status(409, metav1.StatusReasonAlreadyExists), false, false, true},
		"missing":           {status(404, metav1.StatusReasonNotFound), true, false, false},
		"forbidden":         {status(403, metav1.StatusReasonForbidden), true, true, true},
		"busy":              {status(429, metav1.StatusReasonTooManyRequests), true, true, true},
		"broken":            {status(500, metav1.StatusReasonInternalError), true, true, true},
		"a page":            {reply{404, "<html>"}, true, true, true},
		"other JSON":        {reply{404, map[string]string{"status": "Failure", "reason": "NotFound"}}, true, true, true},
		"a status of good":  {reply{404, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: "Success", Reason: "NotFound"}}, true, true, true},
		"elsewhere":         {reply{302, "{}"}, true, true, true},
		"no JSON":           {reply{200, "{"}, true, true, true},
		"nothing":           {reply{200, "{}"}, true, true, true},
		"too long":          {reply{200, strings.Repeat(" ", 2<<20) + " "}, true, true, true},
		"another state":     {change(func(r *promiselease.Record, _ *coordinationv1.Lease) { r.State = selffence.Withdrawn }), true, true, false},
		"another promise":   {change(func(r *promiselease.Record, _ *coordinationv1.Lease) { r.Promise.Times.Watchdog = time.Hour }), true, true, false},
		"another name":      {change(func(_ *promiselease.Record, l *coordinationv1.Lease) { l.Name = "m" }), true, true, true},
		"another namespace": {change(func(_ *promiselease.Record, l *coordinationv1.Lease) { l.Namespace = "default" }), true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wanted := selffence.Lease{State: selffence.Promised, Promise: promised()}
			s := serve(t, c.answer, stores(t, 7, nil), c.answer, c.answer)
			l := agent.NewLeases(s.Server, "n", at)
			if got, err := l.Write(t.Context(), promiselease.Record{Lease: wanted, Device: identity}); (err != nil) != c.creates || err != nil && got != 0 {
				t.Errorf("creating it: %d (%v)", got, err)
			}
			if _, err := l.Read(t.Context()); err != nil {
				t.Error(err)
			}
			wanted.Revision = 7
			if got, err := l.Write(t.Context(), promiselease.Record{Lease: wanted, Device: identity}); (err != nil) != c.updates || err != nil && got != 0 {
				t.Errorf("updating it: %d (%v)", got, err)
			}
			if got, err := l.Read(t.Context()); (err != nil) != c.get || err != nil && got != (selffence.Lease{}) {
				t.Errorf("reading it: %+v (%v)", got, err)
			}
			if len(s.lines()) != 4 {
				t.Errorf("the agent requests %q", s.lines())
			}
		})
	}
}

// TestUnstatable: a promise that no Lease can state is not sent.
func TestUnstatable(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if got, err := agent.NewLeases(s.Server, "n", at).Write(t.Context(), promiselease.Record{Lease: selffence.Lease{State: selffence.Promised}}); err == nil || got != 0 || len(s.lines()) > 0 {
		t.Errorf("writing it: %d (%v), requested %q", got, err, s.lines())
	}
}

// TestConnectionIsReplaced: a request that got no answer is not followed by another one over the same connection.
func TestConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	s := serve(t, stores(t, 7, nil), reply{200, strings.Repeat(" ", 2<<20) + " "}, stores(t, 7, nil))
	l := agent.NewLeases(s.Server, "n", at)
	for range 3 {
		_, _ = l.Read(t.Context())
	}
	if s.opened != 2 {
		t.Errorf("the agent has opened %d connections, want 2", s.opened)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Read(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was cancelled: %v", err)
	}
}

// TestAllConnectionsAreReplaced: a request that got no answer is followed by none over any connection of before. All of them may lead nowhere.
func TestAllConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	for what, request := range map[string]func(context.Context, *agent.AllLeases) error{
		"a read": func(ctx context.Context, l *agent.AllLeases) error {
			_, err := l.Place(ctx, "c")
			return err
		},
		"a watch": func(ctx context.Context, l *agent.AllLeases) error {
			return l.Follow(ctx, 7, func(string, promiselease.Record, uint64) {})
		},
	} {
		var opened, requests atomic.Int32
		both := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch requests.Add(1) {
			case 1:
				<-both
			case 2:
				close(both)
			case 3:
				cancel()
				<-r.Context().Done()
			}
			_, _ = io.WriteString(w, "{}")
		}))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		server.Start()
		s, err := agent.NewServer(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		l := agent.NewAllLeases(s)
		var group sync.WaitGroup
		for _, node := range []string{"a", "b"} {
			group.Go(func() {
				if _, err := l.Place(t.Context(), node); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if err := request(ctx, l); err == nil {
			t.Errorf("%s has an answer", what)
		}
		if _, err := l.Place(t.Context(), "d"); err != nil || opened.Load() != 3 {
			t.Errorf("after %s without an answer, the agent has opened %d connections, want 3 (%v)", what, opened.Load(), err)
		}
		server.Close()
	}
}

func TestServerConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*rest.Config{
		"no such file": {Host: "https://host", TLSClientConfig: rest.TLSClientConfig{CAFile: "/missing"}},
		"no address":   {Host: "%"},
	} {
		if _, err := agent.NewServer(c); err == nil {
			t.Errorf("%s: there is a client", name)
		}
	}
}

// fencePolicy returns a policy as the API server does.
func fencePolicy(name, created, selector string, change ...string) string {
	text := fmt.Sprintf(`{"metadata":{"name":%q,"creationTimestamp":%q},"spec":{"nodeSelector":%s,"renewal":"5s","validity":"20s","onIsolation":"Hold",`+
		`"witnesses":0,"watchdog":{"device":"/dev/watchdog","timeout":"10s","kind":"Hardware","allowVirtualMachines":false}}}`, name, created, selector)
	return strings.NewReplacer(change...).Replace(text)
}

func TestFencePolicies(t *testing.T) {
	t.Parallel()
	const early, late, all = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "{}"
	node := reply{200, `{"metadata":{"labels":{"rack":"7"}}}`}
	rack := func(value string) string { return `{"matchLabels":{"rack":"` + value + `"}}` }
	list := func(items ...string) reply { return reply{200, `{"items":[` + strings.Join(items, ",") + `]}`} }
	any1 := settings()
	any1.Watchdog.Any, any1.Watchdog.Virtual, any1.Reset, any1.Witnesses = true, true, true, 3
	slow := settings()
	slow.Renewal = 6 * time.Second
	for name, c := range map[string]struct {
		policies, node reply
		want           agent.Settings
		fails          bool
	}{
		"none":                    {list(), reply{}, agent.Settings{}, false},
		"one":                     {list(fencePolicy("a", early, all)), node, settings(), false},
		"all fields":              {list(fencePolicy("a", early, all, `"Hardware"`, `"Any"`, "false", "true", "Hold", "Reset", ":0", ":3")), node, any1, false},
		"another rack":            {list(fencePolicy("a", early, rack("8"))), node, agent.Settings{}, false},
		"this rack":               {list(fencePolicy("a", early, rack("8"), `"5s"`, `"6s"`), fencePolicy("b", late, rack("7"))), node, settings(), false},
		"the oldest leads":        {list(fencePolicy("a", late, all), fencePolicy("b", early, all, `"5s"`, `"6s"`)), node, slow, false},
		"then the name":           {list(fencePolicy("b", early, all), fencePolicy("a", early, all, `"5s"`, `"6s"`)), node, slow, false},
		"unknown selector":        {list(fencePolicy("a", early, `{"matchExpressions":[{"key":"a","operator":"Like"}]}`), fencePolicy("b", late, all)), node, agent.Settings{}, true},
		"unknown kind":            {list(fencePolicy("a", early, all, "Hardware", "Software")), node, agent.Settings{}, true},
		"unknown on isolation":    {list(fencePolicy("a", early, all, "Hold", "Pray")), node, agent.Settings{}, true},
		"out of bounds":           {list(fencePolicy("a", early, all, `"5s"`, `"5h"`)), node, agent.Settings{}, true},
		"no renewal":              {list(fencePolicy("a", early, all, `"renewal"`, `"x"`)), node, agent.Settings{}, true},
		"no validity":             {list(fencePolicy("a", early, all, `"validity"`, `"x"`)), node, agent.Settings{}, true},
		"no timeout":              {list(fencePolicy("a", early, all, `"timeout"`, `"x"`)), node, agent.Settings{}, true},
		"no witnesses":            {list(fencePolicy("a", early, all, `"witnesses"`, `"x"`)), node, agent.Settings{}, true},
		"policies can't be read":  {status(403, metav1.StatusReasonForbidden), node, agent.Settings{}, true},
		"the node can't be read":  {list(fencePolicy("a", early, all)), status(404, metav1.StatusReasonNotFound), agent.Settings{}, true},
		"the API isn't installed": {status(404, metav1.StatusReasonNotFound), node, agent.Settings{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.policies, c.node)
			got, selected, err := agent.NewFencePolicies(s.Server, "n").Find(t.Context())
			if got != c.want || selected != (c.want != agent.Settings{}) || (err != nil) != c.fails {
				t.Errorf("found %+v, %t (%v)", got, selected, err)
			}
			want := []string{"GET /base/apis/fettle.io/v1alpha1/fencepolicies?resourceVersion=0", "GET /base/api/v1/nodes/n?resourceVersion=0"}
			if lines := s.lines(); cmp.Diff(want[:len(lines)], lines) != "" || len(lines) < 2 && c.policies.code == 200 && name != "none" {
				t.Errorf("the agent requests %q", lines)
			}
			if len(s.requests) == 2 && !strings.Contains(s.requests[1].accept, "as=PartialObjectMetadata") {
				t.Errorf("the agent requests %q", s.requests[1].accept)
			}
		})
	}
}

// TestReporter: people are told in the log, and by an event for each reason in some minutes.
func TestReporter(t *testing.T) {
	t.Parallel()
	created := reply{201, "{}"}
	s := serve(t, created, created, status(403, metav1.StatusReasonForbidden), created)
	var log []string
	now := at()
	logger := funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{})
	r := agent.NewReporter(s.Server, "n", func() time.Time { return now }, logger)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	tell := func(n agent.Note, events int) {
		t.Helper()
		r.Tell(n)
		for patience := 60_000; len(s.lines()) < events && patience > 0; patience-- {
			<-time.After(time.Millisecond)
		}
	}
	go func() { defer close(done); r.Run(ctx) }()
	tell(agent.Note{Reason: agent.Promising}, 1)
	tell(agent.Note{Reason: agent.NoWatchdog, Err: errors.New("opening\nit")}, 2)
	tell(agent.Note{Reason: agent.Promising}, 2)
	tell(agent.Note{Reason: agent.NoAnswer}, 3)
	cancel()
	<-done
	r.Tell(agent.Note{Reason: agent.Disarmed})
	r.Run(ctx)
	if len(log) != 5 || !strings.Contains(log[0], "stands") || !strings.Contains(log[1], "opening") || !strings.Contains(log[4], "disarmed") {
		t.Errorf("the log is %q", log)
	}
	if got := len(s.lines()); got != 3 {
		t.Errorf("there are %d events", got)
	}
	var e, second corev1.Event
	for text, into := range map[string]*corev1.Event{s.requests[0].body: &e, s.requests[1].body: &second} {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields() // the API server drops these
		if err := decoder.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	if e.Source != (corev1.EventSource{Component: "fettle-agent", Host: "n"}) || e.FirstTimestamp.IsZero() || e.LastTimestamp != e.FirstTimestamp || e.InvolvedObject.APIVersion != "v1" {
		t.Errorf("the event is %+v", e)
	}
	if e.Type != corev1.EventTypeNormal || e.Reason != "Promising" || e.InvolvedObject.Name != "n" || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.UID != "n" || e.Namespace != "default" || e.Count != 1 {
		t.Errorf("the event is %+v", e)
	}
	if second.Type != corev1.EventTypeWarning || !strings.HasSuffix(second.Message, `: opening it`) {
		t.Errorf("the event is %+v", second)
	}
	if s.requests[0].line != "POST /base/api/v1/namespaces/default/events" {
		t.Errorf("the agent requests %q", s.requests[0].line)
	}
}

// TestTellWaitsForNothing: notes are dropped while none is taken.
func TestTellWaitsForNothing(t *testing.T) {
	t.Parallel()
	r := agent.NewReporter(serve(t).Server, "n", at, funcr.New(func(string, string) {}, funcr.Options{}))
	for range 1000 {
		r.Tell(agent.Note{})
	}
}

// TestLeaseStatesTheAddress: a Lease says where its agent listens, and is written again for that.
func TestLeaseStatesTheAddress(t *testing.T) {
	t.Parallel()
	withdrawn := stores(t, 1, func(r *promiselease.Record, _ *coordinationv1.Lease) {
		r.State, r.Why, r.Device = selffence.Withdrawn, promiselease.VirtualMachine, ""
		r.Promise = selffence.Promise{Boot: boot}
	})
	s := serve(t, stores(t, 1, nil), stores(t, 2, nil), withdrawn, reply{http.StatusOK, "{}"})
	l := agent.NewLeases(s.Server, "n", at)
	l.Address = netip.MustParseAddrPort("192.0.2.1:9643")
	if _, err := l.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	wanted := selffence.Lease{Revision: 1, State: selffence.Promised, Promise: promised()}
	if got, err := l.Write(t.Context(), promiselease.Record{Lease: wanted, Device: identity}); err != nil || got != 2 {
		t.Errorf("writing it: %d (%v)", got, err)
	}
	if err := l.Explain(t.Context(), boot, promiselease.VirtualMachine); err != nil {
		t.Error(err)
	}
	put := "PUT " + theLease + "/n"
	if d := cmp.Diff([]string{"GET " + theLease + "/n", put, "GET " + theLease + "/n", put}, s.lines()); d != "" {
		t.Fatal(d)
	}
	for _, i := range []int{1, 3} {
		var written coordinationv1.Lease
		if err := json.Unmarshal([]byte(s.requests[i].body), &written); err != nil {
			t.Fatal(err)
		}
		written.ResourceVersion = "1"
		if r, err := promiselease.Decode(&written); err != nil || r.Address != l.Address {
			t.Errorf("the Lease states the address %s: %v", r.Address, err)
		}
	}
}

// TestErrorsOfLeases: people are told what the API server has said, or why its answer can't be read.
func TestErrorsOfLeases(t *testing.T) {
	t.Parallel()
	again := func(version string) reply {
		return stores(t, 12, func(_ *promiselease.Record, l *coordinationv1.Lease) { l.ResourceVersion = version })
	}
	const other = "has stored another Lease"
	for name, c := range map[string]struct {
		answer reply
		want   string
	}{
		"refused":                  {status(403, metav1.StatusReasonForbidden), "refused"},
		"not a Lease":              {reply{200, "{}"}, "!" + other},
		"a revision of two digits": {again("12"), ""},
		"a revision that is written in another way": {again("012"), "is no number"},
	} {
		s := serve(t, c.answer, stores(t, 12, nil), c.answer)
		l := agent.NewLeases(s.Server, "n", at)
		_, read := l.Read(t.Context())
		_, _ = l.Read(t.Context())
		_, written := l.Write(t.Context(), promiselease.Record{Lease: selffence.Lease{Revision: 12, State: selffence.Promised, Promise: promised()}, Device: identity})
		for _, err := range []error{read, written} {
			says, without := strings.CutPrefix(c.want, "!")
			if (err != nil) != (c.want != "") || err != nil && strings.Contains(err.Error(), says) == without {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
	}
}

// TestAMissingLeaseHasNoRevision: nothing but its creation is sent after that was read.
func TestAMissingLeaseHasNoRevision(t *testing.T) {
	t.Parallel()
	s := serve(t, status(404, metav1.StatusReasonNotFound))
	l := agent.NewLeases(s.Server, "n", at)
	if _, err := l.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	wanted := promiselease.Record{Lease: selffence.Lease{Revision: 1, State: selffence.Promised, Promise: promised()}}
	if got, err := l.Write(t.Context(), wanted); err != nil || got != 0 || len(s.lines()) != 1 {
		t.Errorf("writing it: %d (%v), requested %q", got, err, s.lines())
	}
}

// TestALeaseOfTheFirstRevision that is deleted meanwhile is a conflict, as any other.
func TestALeaseOfTheFirstRevision(t *testing.T) {
	t.Parallel()
	s := serve(t, stores(t, 1, nil), status(404, metav1.StatusReasonNotFound))
	l := agent.NewLeases(s.Server, "n", at)
	_, _ = l.Read(t.Context())
	wanted := promiselease.Record{Lease: selffence.Lease{Revision: 1, State: selffence.Promised, Promise: promised()}}
	if got, err := l.Write(t.Context(), wanted); err != nil || got != 0 || len(s.lines()) != 2 {
		t.Errorf("writing it: %d (%v), requested %q", got, err, s.lines())
	}
}

// coded answers each request with a code and a text.
type coded struct {
	closing

	code int
}

func (c *coded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.closing.RoundTrip(r)
	response.StatusCode = c.code
	return response, err
}

// TestCodesOfAnswers: an answer counts if its code is from 200 to 299 and its text can be read. Each is closed.
func TestCodesOfAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code int
		text string
		good bool
	}{{200, `{"items":[]}`, true}, {299, `{"items":[]}`, true}, {300, `{"items":[]}`, false}, {199, `{"items":[]}`, false}, {200, `nonsense`, false}} {
		answers := &coded{closing{text: c.text}, c.code}
		config := &rest.Config{Host: "http://api", Transport: answers}
		s, err := agent.NewServer(config)
		if err != nil || config.Dial != nil {
			t.Fatalf("the configuration is changed: %v", err)
		}
		if _, _, err := agent.NewFencePolicies(s, "n").Find(t.Context()); (err == nil) != c.good || answers.closed != 1 {
			t.Errorf("%d with %s, closed %d times: %v", c.code, c.text, answers.closed, err)
		}
	}
}

// TestAddressOfTheServer: its port may follow from the scheme.
func TestAddressOfTheServer(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"https://api": "api:https", "https://api:6443/base": "api:6443", "https://[2001:db8::1]:7": "[2001:db8::1]:7"} {
		if s, err := agent.NewServer(&rest.Config{Host: host}); err != nil || s.Address() != want {
			t.Errorf("the address of %s is %s, want %s: %v", host, s.Address(), want, err)
		}
	}
}

// TestAStatusThatIsNone: a Lease counts as missing only by a status that can be read.
func TestAStatusThatIsNone(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{404, `{"kind":"Status","status":"Failure","reason":"NotFound","code":"x"}`})
	if got, err := agent.NewLeases(s.Server, "n", at).Read(t.Context()); err == nil {
		t.Errorf("the Lease is %+v", got)
	}
}
