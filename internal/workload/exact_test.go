package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/slim"
)

// TestContentOf: an object is of the kind, or the error names what it is instead.
func TestContentOf(t *testing.T) {
	field := func(number protowire.Number, content ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	object := func(about []byte) []byte {
		return append(append([]byte("k8s\x00"), field(objectType, about...)...), field(objectContent, 'x')...)
	}
	about := func(version, kind string) []byte {
		return append(field(typeVersion, []byte(version)...), field(typeKind, []byte(kind)...)...)
	}
	for sentence, tc := range map[string]struct {
		object []byte
		want   error
	}{
		"a node":                           {object(about("v1", "Node")), nil},
		"nothing":                          {nil, errNotProtobuf},
		"an object in JSON":                {[]byte(`{"kind":"Node"}`), errNotProtobuf},
		"an envelope of bytes":             {[]byte("k8s\x00\xff"), errNotProtobuf},
		"an envelope that ends early":      {[]byte("k8s\x00\x0a\x05"), errNotProtobuf},
		"an envelope with one byte more":   {append(object(about("v1", "Node")), 0x08), errNotProtobuf},
		"a type of bytes":                  {object([]byte("\xff")), errNotProtobuf},
		"another version":                  {object(about("v2", "Node")), errNotNodes},
		"another kind":                     {object(about("v1", "Pod")), errNotNodes},
		"an object that is of no type":     {object(nil), errNotNodes},
		"a type, after which bytes follow": {object(append(about("v1", "Node"), 0xff)), errNotProtobuf},
	} {
		content, err := contentOf(tc.object, "Node")
		if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) || (err == nil && string(content) != "x") {
			t.Errorf("%s: it gives %q, %v; want %v", sentence, content, err, tc.want)
		}
	}
}

// fakeTransport answers with a code and a type, and records the request and whether the body was closed.
type fakeTransport struct {
	code        int
	contentType string
	request     *http.Request
	closed      bool
}

func (f *fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	f.request = r
	header := http.Header{}
	header.Set("Content-Type", f.contentType)
	return &http.Response{StatusCode: f.code, Header: header, Body: f, Request: r}, nil
}

func (*fakeTransport) Read([]byte) (int, error) { return 0, io.EOF }

func (f *fakeTransport) Close() error {
	f.closed = true
	return nil
}

// TestAnswersAreRefusedByTheirCode, and the body of a refused answer is closed.
func TestAnswersAreRefusedByTheirCode(t *testing.T) {
	for sentence, tc := range map[string]struct {
		code               int
		query, contentType string
		want               error
	}{
		"an answer with the last code before a redirection": {299, "", "text/html", nil},
		"a redirection with the first code":                 {300, "", "", errRedirect},
		"a redirection with the last code":                  {399, "", "", errRedirect},
		"an error":                                          {400, "", "text/html", nil},
		"a watch in JSON":                                   {299, "?watch=true", "application/json", errEncoding},
		"a watch in a type that is none":                    {200, "?watch=true", protobuf + "; =", errEncoding},
		"a watch in protobuf":                               {200, "?watch=true", protobuf + ";stream=watch", nil},
		"a watch that fails":                                {400, "?watch=true", "application/json", nil},
	} {
		next := &fakeTransport{code: tc.code, contentType: tc.contentType}
		r := httptest.NewRequest(http.MethodGet, "https://h/"+tc.query, http.NoBody)
		resp, err := limitedTransport{next: next, most: 1}.RoundTrip(r)
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || next.closed != (tc.want != nil) {
			t.Errorf("%s: it fails with %v, want %v; the body was closed: %t", sentence, err, tc.want, next.closed)
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s: the request of the caller has changed", sentence)
		}
	}
}

// TestBoundsOfAnswers: errors have a bound of their own, watches have none, and an answer of one byte may be bounded too.
func TestBoundsOfAnswers(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://h/", http.NoBody)
	l := limitedTransport{most: 7}
	for code, want := range map[int]int64{200: 7, 299: 7, 300: errorBytes, 500: errorBytes} {
		if got := l.limitOf(&http.Response{StatusCode: code, Request: r}, false); got != want {
			t.Errorf("an answer with code %d is bounded by %d, want %d", code, got, want)
		}
	}
	if got := l.limitOf(&http.Response{StatusCode: http.StatusOK, Request: r}, true); got != 0 {
		t.Errorf("a watch is bounded by %d", got)
	}
	c, at := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "xx") })
	request, err := http.NewRequestWithContext(withLimit(t.Context(), 1), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := response.Body.Read(make([]byte, 10)); n != 0 || !errors.Is(err, errBound) {
		t.Errorf("of two bytes where one is allowed it reads %d, %v", n, err)
	}
}

// TestKubeconfigsAtTheirBounds are read.
func TestKubeconfigsAtTheirBounds(t *testing.T) {
	const server = "server: https://127.0.0.1:1"
	padded := func(size int) string {
		raw := kubeconfigOf(server, "token: t") + "# "
		return raw + strings.Repeat("x", size-len(raw))
	}
	users := func(n int) string {
		more := ""
		for i := range n - 1 {
			more += fmt.Sprintf("}}, {name: u%d, user: {token: t", i)
		}
		return kubeconfigOf(server, "token: t"+more)
	}
	// Three bytes take four characters.
	key := func(size int) string {
		return kubeconfigOf(server, "token: t, client-key-data: "+strings.Repeat("AAAA", size/3)+[]string{"", "AA==", "AAA="}[size%3])
	}
	for sentence, tc := range map[string]struct {
		raw  string
		want error
	}{
		"as many bytes as it may have": {padded(kubeconfigBytes), nil},
		"one byte more":                {padded(kubeconfigBytes + 1), errLarge},
		"as many users as it may have": {users(kubeconfigParts), nil},
		"one user more":                {users(kubeconfigParts + 1), errLarge},
		"as large a key as there is":   {key(keyBytes), nil},
		"a key of one byte more":       {key(keyBytes + 1), errLargeKey},
		"no server":                    {kubeconfigOf("insecure-skip-tls-verify: true", "token: t"), errUnusable},
	} {
		if _, err := readKubeconfig([]byte(tc.raw)); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: it is read with %v, want %v", sentence, err, tc.want)
		}
	}
	for want, err := range map[string]error{
		"it has more than 128 KiB, or more than 32 contexts":        errLarge,
		"has more than 8 KiB;":                                      errLargeKey,
		`user "` + strings.Repeat("x", maxName-len("…")) + `…" has`: refusal("user", strings.Repeat("x", maxName+1), "exec", "a token"),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	config, err := readKubeconfig([]byte(kubeconfigOf(server, "token: t")))
	if err != nil || config.QPS != -1 || config.WarningHandler != (rest.NoWarnings{}) {
		t.Errorf("it is read as %+v, %v", config, err)
	}
}

// TestTextsAreBounded: no text of a host, or of a Secret, fills a status.
func TestTextsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 2*sanitize.MaxMessage)
	slow := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	for _, tc := range []struct{ want, text string }{
		{"its name can't be resolved: " + sanitize.Line(sanitize.MaxPart, long), causeOf(&net.DNSError{Err: long})},
		{"it refuses the connection: " + sanitize.Line(sanitize.MaxPart, long), causeOf(&net.OpError{Op: remoteAlert, Err: errors.New(long)})},
		{sanitize.Line(sanitize.MaxPart, long), causeOf(apierrors.NewBadRequest(long))},
		{sanitize.Line(sanitize.MaxMessage, long), userErrorf("%s", long).Error()},
		{"it takes too long", causeOf(slow)},
		{"it takes too long", causeOf(&url.Error{Op: "Get", URL: "https://h", Err: os.ErrDeadlineExceeded})},
	} {
		if tc.text != tc.want {
			t.Errorf("the text is %.200q of %d bytes, want %.200q of %d", tc.text, len(tc.text), tc.want, len(tc.want))
		}
	}
}

// TestUnusableConfigs are refused before anything is sent, with the text that says why.
func TestUnusableConfigs(t *testing.T) {
	c := New(Config{Now: clock})
	for want, config := range map[string]*rest.Config{
		"its certificates can't be used": {Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x"), KeyData: []byte("x")}},
		"its credentials can't be used":  {Host: "https://h", Username: "u", Password: "p", BearerToken: "t"},
		errNoURL.Error():                 {Host: "https://a b"},
	} {
		if api, err := c.open(config); err == nil || api != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a client is opened with %v, want %q", err, want)
		}
	}
	if _, err := NewClient(&rest.Config{Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("SECRET")}}, client.Options{}); !errors.Is(err, errUnusable) {
		t.Errorf("a client of an unusable configuration is made with %v", err)
	}
	if err := refuseLinkLocal("tcp", "nonsense", nil); err == nil || errors.Is(err, errAddress) {
		t.Errorf("an address that is none is met with %v", err)
	}
}

// TestTransportIsBounded in time, headers and memory.
func TestTransportIsBounded(t *testing.T) {
	proxy := func(*http.Request) (*url.URL, error) { return nil, errUnusable }
	c, err := httpClient(&rest.Config{Proxy: proxy}, dialer().DialContext, 7)
	if err != nil {
		t.Fatal(err)
	}
	limited := c.Transport.(limitedTransport)
	transport := limited.next.(*http.Transport)
	if limited.most != 7 || transport.TLSHandshakeTimeout != 10*time.Second || transport.ResponseHeaderTimeout != 15*time.Second ||
		transport.MaxResponseHeaderBytes != 64<<10 || transport.HTTP2.MaxReceiveBufferPerStream != 1<<20 ||
		transport.MaxIdleConnsPerHost != 2 || transport.IdleConnTimeout != time.Minute {
		t.Errorf("the transport is %+v", transport)
	}
	if _, err := transport.Proxy(nil); !errors.Is(err, errUnusable) {
		t.Errorf("the proxy of the kubeconfig is not used: %v", err)
	}
	if c, err := httpClient(&rest.Config{}, dialer().DialContext, 7); err != nil || c.Transport.(limitedTransport).next.(*http.Transport).Proxy == nil {
		t.Errorf("without a proxy in the kubeconfig, that of the process is not used: %v", err)
	}
	if d := dialer(); d.Timeout != 10*time.Second || d.KeepAlive != 15*time.Second {
		t.Errorf("the dialer is %+v", d)
	}
}

// TestDefaults of what a caller may leave out.
func TestDefaults(t *testing.T) {
	all := New(Config{Now: clock})
	all.Panicked(types.NamespacedName{}) // must not panic
	if _, err := all.dial(t.Context(), "tcp", "169.254.169.254:80"); !errors.Is(err, errAddress) {
		t.Errorf("a link-local address is dialed with %v", err)
	}
	if all.Bounds.Nodes != 10_000 || all.Bounds.Memory != 256<<20 || !all.NeedLeaderElection() {
		t.Errorf("the bounds are %+v; a leader is needed: %t", all.Bounds, all.NeedLeaderElection())
	}
	c := all.Keep(types.NamespacedName{Name: "east"})
	if c.events.Limit() != 2000 || c.events.Burst() != 40_000 {
		t.Errorf("events are limited to %v, with a burst of %d", c.events.Limit(), c.events.Burst())
	}
	if turns := newListTurns(); turns.promptTurn != 5*time.Second || turns.slowTurn != 30*time.Second || turns.most != 2*time.Minute ||
		cap(turns.prompt) != 8 || cap(turns.slow) != 4 {
		t.Errorf("the turns are %+v", turns)
	}
	pending := all.takePending()
	all.Drop(c.cluster)
	if ctx, begun := pending[0].start(t.Context()); begun || ctx.Err() == nil {
		t.Errorf("a dropped connection has begun: %t; its context: %v", begun, ctx.Err())
	}
}

// TestStreamReadsEventByEvent: one event has nothing of another, and an event that was read in time does not stall the stream.
func TestStreamReadsEventByEvent(t *testing.T) {
	two, _ := io.ReadAll(io.MultiReader(framed(3, "abc"), framed(2, "de")))
	stalled := make(chan struct{}, 1)
	s := &stream{body: io.NopCloser(bytes.NewReader(two)), stalls: func() { stalled <- struct{}{} }, patience: 20 * time.Millisecond}
	for _, want := range []string{"abc", "de"} {
		if frame, err := s.next(); string(frame) != want || err != nil {
			t.Errorf("it reads %q, %v; want %q", frame, err, want)
		}
	}
	select {
	case <-stalled:
		t.Error("an event that was read in time has stalled")
	case <-time.After(100 * time.Millisecond):
	}
	s.patience = time.Hour
	for size, fits := range map[uint32]bool{nodeBytes: true, nodeBytes + 1: false} {
		s.body = framed(size, strings.Repeat("x", int(size)))
		frame, err := s.next()
		if (err == nil) != fits || (fits && len(frame) != int(size)) || (!fits && !strings.Contains(err.Error(), "an event of a watch of more than 2048 KiB")) {
			t.Errorf("an event of %d bytes is read with %v", size, err)
		}
	}
	for capacity, kept := range map[int]bool{maxIdleBuffer: true, maxIdleBuffer + 1: false} {
		s.frame, s.body = *bytes.NewBuffer(make([]byte, 0, capacity)), framed(1, "a")
		if _, err := s.next(); err != nil || (s.frame.Cap() == capacity) != kept {
			t.Errorf("of a buffer of %d bytes %d are kept, %v", capacity, s.frame.Cap(), err)
		}
	}
}

// TestCauses: a context that has ended explains an error, unless the cluster exceeded a bound.
func TestCauses(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	failed, bound := errors.New("failed"), fmt.Errorf("reading: %w", errEndless)
	if got := causeIn(ctx, failed); !errors.Is(got, failed) {
		t.Errorf("in a context that goes on, the cause is %v", got)
	}
	end(errStalled)
	if got := causeIn(ctx, failed); !errors.Is(got, errStalled) {
		t.Errorf("in a context that has ended, the cause is %v", got)
	}
	if got := causeIn(ctx, bound); !errors.Is(got, errEndless) {
		t.Errorf("of an exceeded bound, the cause is %v", got)
	}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded} {
		if !isEnd(err) {
			t.Errorf("%v is not the end of a watch", err)
		}
	}
	for err, want := range map[error]error{
		&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonGone}}: errOutdated, apierrors.NewResourceExpired("x"): errOutdated, errStalled: errStalled,
	} {
		if got := outdated(err); !errors.Is(got, want) {
			t.Errorf("%v counts as %v", err, got)
		}
	}
}

// TestCommandReadsNodes by a client of its own, which looks nothing up, and with a bound on the answer.
func TestCommandReadsNodes(t *testing.T) {
	size := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes" {
			http.NotFound(w, r)
			return
		}
		const list = `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}`
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, list+strings.Repeat(" ", max(0, size-len(list))))
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	if err := slim.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		size int
		fits bool
	}{{0, true}, {oneShotBytes, true}, {oneShotBytes + 1, false}} {
		nodes := &slim.NodeList{}
		size = tc.size
		if err := c.List(t.Context(), nodes); (err == nil) != tc.fits || errors.Is(err, errBound) == tc.fits || (tc.fits && len(nodes.Items) != 1) {
			t.Errorf("an answer of %d bytes gives %d nodes, %v", tc.size, len(nodes.Items), err)
		}
	}
	if _, err := Kubeconfig(&unstructured.Unstructured{Object: map[string]any{}}); err == nil || !strings.Contains(err.Error(), errNoValue.Error()) {
		t.Errorf("a Secret without a value is read with %v", err)
	}
}

// TestRequestsAreMadeOnce: a server that requests a retry gets it with the next attempt, after Fettle's own pause.
func TestRequestsAreMadeOnce(t *testing.T) {
	later := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	for what, plant := range map[string]func(*server){
		"ready": func(s *server) { s.ready = later },
		"list":  func(s *server) { s.list = later },
		"watch": func(s *server) { s.feed = later },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t)
			plant(s)
			_, end := s.connects()
			defer end()
			after(time.Minute)
			if made, attempts := len(s.times(what)), len(s.times("secret")); made != attempts || attempts < 4 {
				t.Errorf("%s is requested %d times in %d attempts", what, made, attempts)
			}
			if s.requests("list") != nil && what == "ready" {
				t.Error("nodes are listed of an API server that is not ready")
			}
		})
	}
	for sentence, read := range map[string]func(context.Context, *Connection) error{
		"a node": func(ctx context.Context, c *Connection) error {
			_, err := c.ReadNode(ctx, "a")
			return err
		},
		"pods": func(ctx context.Context, c *Connection) error {
			return c.Live().List(ctx, unstructuredList("v1", "PodList"))
		},
	} {
		reading(t, later, func(t *testing.T, s *server, c *Connection) {
			t.Helper()
			if err := read(t.Context(), c); err == nil || len(s.times("other")) != 1 {
				t.Errorf("%s: after %d requests: %v", sentence, len(s.times("other")), err)
			}
		})
	}
}

// TestLiveErrors have the text of the API server's Status, and of the objects that came in place of others.
func TestLiveErrors(t *testing.T) {
	status := says(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"a webhook says no","code":403}`)
	reading(t, status, func(t *testing.T, _ *server, c *Connection) {
		t.Helper()
		err := c.Live().Get(t.Context(), client.ObjectKey{Name: "x"}, metadataOf("", "v1", "Namespace"))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "a webhook says no") {
			t.Errorf("the error is %v", err)
		}
	})
	reading(t, says(200, `{"kind":"Other","apiVersion":"v1","metadata":{"continue":"more"},"items":[]}`), func(t *testing.T, _ *server, c *Connection) {
		t.Helper()
		if err := c.Live().List(t.Context(), unstructuredList("v1", "PodList")); !errors.Is(err, errNotObjects) {
			t.Errorf("the error is %v", err)
		}
	})
	reading(t, says(200, `{"kind":"PodList","apiVersion":"v1","items":[]}`), func(t *testing.T, s *server, c *Connection) {
		t.Helper()
		if err := c.Live().List(t.Context(), unstructuredList("v1", "PodList"), client.Limit(500)); err != nil || s.requests("other")[0] != "/api/v1/pods?limit=500" {
			t.Errorf("it requests %v, %v", s.requests("other"), err)
		}
	})
	kinds := map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "Node"}: "nodes", {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}: "leases",
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}: "poddisruptionbudgets", {Version: "v1", Kind: "Pod"}: "pods",
	}
	for kind, resource := range kinds {
		mapping, err := mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || mapping.Resource.Resource != resource || (mapping.Scope.Name() == "root") != (resource == "nodes") {
			t.Errorf("%s is mapped to %+v, %v", kind, mapping, err)
		}
	}
}

// TestRequestsEndWithTheirSession: a read that is under way fails as soon as its connection is dropped.
func TestRequestsEndWithTheirSession(t *testing.T) {
	reading(t, func(_ http.ResponseWriter, r *http.Request) { lingers(r) }, func(t *testing.T, _ *server, c *Connection) {
		t.Helper()
		read := make(chan error, 1)
		go func() {
			_, err := c.ReadNode(t.Context(), "a")
			read <- err
		}()
		after(time.Second)
		c.Drop(c.cluster)
		synctest.Wait()
		select {
		case err := <-read:
			if err == nil {
				t.Error("a node was read that was not sent")
			}
		default:
			t.Error("the read goes on")
			<-read
		}
	})
}

// TestNamesTheClient: requests have the user agent of the configuration.
func TestNamesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		agent := make(chan string, 1)
		s.ready = func(w http.ResponseWriter, r *http.Request) {
			agent <- r.UserAgent()
			honestReady(w, r)
		}
		_, end := s.connects()
		defer end()
		if got := <-agent; got != "fettle/test" {
			t.Errorf("the user agent is %q", got)
		}
		after(time.Second)
	})
}

// TestKubeconfigsThatCannotBeUsed make the cluster unknown, with the Secret's name.
func TestKubeconfigsThatCannotBeUsed(t *testing.T) {
	for sentence, raw := range map[string]string{
		"no kubeconfig":                    "nonsense",
		"a certificate that can't be used": kubeconfigOf("server: https://127.0.0.1:1", "client-certificate-data: eA==, client-key-data: eA=="),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t)
			s.secret = []byte(raw)
			c, end := s.connects()
			defer end()
			after(10 * time.Minute)
			if _, why := c.Answers(); !strings.Contains(why, "the kubeconfig in Secret fleet/east-kubeconfig can't be used") {
				t.Errorf("%s: it answers %q", sentence, why)
			}
			s.wantGaps("secret", 0, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second)
		})
	}
}
