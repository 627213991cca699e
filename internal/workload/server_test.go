package workload

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clock returns the time of the test's bubble.
func clock() time.Time { return time.Now() } //nolint:forbidigo // time in a bubble is injected

// after waits until a time has passed, and until its effects are over.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// pipes is a network without sockets, so that a test may inject the time. It is a listener too.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
}

func newPipes() *pipes {
	p := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accepted <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close()
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

// server is the API server of a workload cluster. It records the times of requests. It serves one node unless a
// handler replaces an answer.
type server struct {
	*httptest.Server

	*testing.T

	network           *pipes
	ready, list, feed http.HandlerFunc
	// other answers all other requests.
	other http.HandlerFunc

	mu        sync.Mutex
	start     time.Time
	requested map[string][]time.Duration
	urls      map[string][]string
	// bounds are those of connections.
	bounds Bounds
	// secret is the content of the cluster's Secret, and secretErr the error of reading it. lines has the log.
	secret    []byte
	secretErr error
	lines     []string
	// onWake and onSecret are called first.
	onWake   func()
	onSecret func(context.Context)
}

// serves begins a server. It is called in a bubble of time, and ends with the test.
func serves(t *testing.T) *server {
	t.Helper()
	s := &server{
		T: t, network: newPipes(), start: clock(), requested: map[string][]time.Duration{}, urls: map[string][]string{}, onWake: func() {}, onSecret: func(context.Context) {},
	}
	s.Server = httptest.NewUnstartedServer(s)
	_ = s.Listener.Close()
	s.Listener = s.network
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	s.secret = []byte(fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: t}}]\n", s.URL))
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, own, honest := "list", s.list, s.honestList
	switch {
	case r.URL.Path == "/readyz":
		what, own, honest = "ready", s.ready, honestReady
	case r.URL.Path != "/api/v1/nodes" || r.URL.Query().Has("labelSelector"):
		what, own, honest = "other", s.other, http.NotFound
	case isWatch(r):
		what, own, honest = "watch", s.feed, honestFeed
	}
	s.note(what)
	s.mu.Lock()
	s.urls[what] = append(s.urls[what], r.URL.RequestURI())
	s.mu.Unlock()
	if own == nil {
		own = honest
	}
	own(w, r)
}

func (s *server) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested[what] = append(s.requested[what], clock().Sub(s.start))
}

// logged returns the lines of the log.
func (s *server) logged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

func honestReady(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

func (s *server) honestList(w http.ResponseWriter, _ *http.Request) { s.sendsPage(w, "", "a") }

// sendsPage answers with a page of nodes, and with the token of the page that comes next.
func (s *server) sendsPage(w http.ResponseWriter, next string, names ...string) {
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: next}}
	for _, name := range names {
		list.Items = append(list.Items, *nodeNamed(name))
	}
	s.sendsObject(w, list)
}

func (s *server) sendsObject(w http.ResponseWriter, o runtime.Object) {
	w.Header().Set("Content-Type", protobuf)
	_, _ = w.Write(travelling(s.T, o))
}

// requests returns the addresses of requests for something.
func (s *server) requests(what string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.urls[what])
}

func honestFeed(w http.ResponseWriter, r *http.Request) {
	begins(w)
	lingers(r)
}

// lingers returns a second after the client has gone. A handler that returns sooner may complete its answer while the client
// is closing the connection.
func lingers(r *http.Request) {
	<-r.Context().Done()
	<-time.After(time.Second)
}

// begins answers a watch that has brought nothing yet.
func begins(w http.ResponseWriter) {
	w.Header().Set("Content-Type", protobuf+";stream=watch")
	_ = http.NewResponseController(w).Flush()
}

// sends an event of a watch.
func sends(w http.ResponseWriter, frame []byte) {
	_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(frame))))
	_, _ = w.Write(frame)
	_ = http.NewResponseController(w).Flush()
}

// briefly is a watch that brings one event and ends after a while.
func briefly(lasts time.Duration, event []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begins(w)
		select {
		case <-time.After(lasts):
			sends(w, event)
		case <-r.Context().Done():
			lingers(r)
		}
	}
}

// expired is an event that says that the revision of a watch is too old.
func expired(t testing.TB) []byte {
	t.Helper()
	return eventOf(t, watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
}

// times returns when the server got a request.
func (s *server) times(what string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.requested[what]...)
}

// gaps returns the times between requests for something.
func (s *server) gaps(what string) []time.Duration {
	at := s.times(what)
	var gaps []time.Duration
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i]-at[i-1])
	}
	return gaps
}

// Get implements Reader: it is the Secret of every cluster.
func (s *server) Get(ctx context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.note("secret")
	s.onSecret(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secretErr != nil {
		return s.secretErr
	}
	u := obj.(*unstructured.Unstructured)
	return unstructured.SetNestedField(u.Object, base64.StdEncoding.EncodeToString(s.secret), "data", secretKey)
}

// connects keeps a connection to the server until the returned function is called.
func (s *server) connects() (*Connection, func()) {
	s.Helper()
	all := New(Config{
		Secrets: s, Now: clock, Wake: func(types.NamespacedName) { s.onWake() }, dial: s.network.dial, Bounds: s.bounds, UserAgent: "fettle/test",
		Panicked: func(types.NamespacedName) { s.note("panic") },
		Log: funcr.New(func(_, args string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lines = append(s.lines, args)
		}, funcr.Options{}),
	})
	c := all.Keep(types.NamespacedName{Namespace: "fleet", Name: "east"})
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error)
	go func() { ended <- all.Start(ctx) }()
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the connections ended with %v", err)
		}
		s.CloseClientConnections()
		s.Close()
	}
}
