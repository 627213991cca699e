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
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
)

// through passes requests on to a handler within the process, so that time passes at once between them. A handler that writes nothing gives no answer
// before the request ends.
type through struct {
	http.Handler

	began time.Time

	mu sync.Mutex
	// at is when each request came, since the beginning, and took how long it was before requests without an answer ended.
	at   []time.Duration
	took []time.Duration
}

func (h *through) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	w := httptest.NewRecorder()
	w.Code = 0
	h.set(func() {
		h.at = append(h.at, clock().Sub(h.began))
		h.ServeHTTP(w, r)
	})
	if w.Code == 0 {
		begun := clock()
		<-r.Context().Done()
		h.set(func() { h.took = append(h.took, clock().Sub(begun)) })
		return nil, r.Context().Err()
	}
	return w.Result(), nil
}

// since returns when requests came after an instant, and forgets all.
func (h *through) since() (at []time.Duration) {
	synctest.Wait()
	h.set(func() { at, h.at = h.at, nil })
	return at
}

// set changes what requests use.
func (h *through) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// within returns an API server within the process.
func within(t *testing.T, h http.Handler) (*agent.Server, *through) {
	t.Helper()
	by := &through{Handler: h, began: clock()}
	s, err := agent.NewServer(&rest.Config{Host: "http://api", Transport: by})
	if err != nil {
		t.Fatal(err)
	}
	return s, by
}

// silent answers nothing.
func silent(http.ResponseWriter, *http.Request) {}

// runs has something run beside the test until end is called.
func runs(t *testing.T, run func(context.Context)) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

// seconds are durations.
func seconds(all ...int) []time.Duration {
	var durations []time.Duration
	for _, s := range all {
		durations = append(durations, time.Duration(s)*time.Second)
	}
	return durations
}

// TestCertificatesAreRenewed: the authorities are read every five minutes, and soon again after a failure. People are told of the first failure of
// several.
func TestCertificatesAreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &signer{t: t, authorities: []signingKey{newSigningKey(t, "one")}, requests: map[string]*certificatesv1.CertificateSigningRequest{}, down: true}
		s.answer = func(r *certificatesv1.CertificateSigningRequest) { s.issue(r, "n") }
		server, by := within(t, s)
		var notes []agent.Reason
		c := agent.NewCertificates(server, "n", agent.Directory(t.TempDir()), func() time.Duration { return clock().Sub(by.began) }, func(n agent.Note) { by.set(func() { notes = append(notes, n.Reason) }) })
		end := runs(t, c.Run)
		for _, step := range []struct {
			what   string
			down   bool
			length time.Duration
			want   []time.Duration
			notes  int
		}{
			{"it fails at first", true, 61 * time.Second, seconds(0, 30, 60), 1},
			{"it succeeds", false, 10 * time.Minute, seconds(90, 90, 92, 92, 392), 1}, // a request follows the authorities, and then its answer
			{"it fails again", true, 2 * time.Minute, seconds(692, 722, 752), 2},
		} {
			by.set(func() { s.down = step.down })
			<-time.After(step.length)
			got, told := by.since(), 0
			by.set(func() { told = len(notes) })
			if !slices.Equal(got, step.want) || told != step.notes {
				t.Errorf("%s: the requests came at %v, want %v, and people were told %d times", step.what, got, step.want, told)
			}
		}
		end()
	})
}

// TestRequestsAreCutShort: each request for something that the agent looks at now and then ends in time. A request that the end of the agent cuts short has
// not failed.
func TestRequestsAreCutShort(t *testing.T) {
	t.Parallel()
	for what, run := range map[string]func(dir string, s *agent.Server, tell func(agent.Note)) func(context.Context){
		"certificates": func(dir string, s *agent.Server, tell func(agent.Note)) func(context.Context) {
			return agent.NewCertificates(s, "n", agent.Directory(dir), func() time.Duration { return time.Minute }, tell).Run
		},
		"neighbours": func(dir string, s *agent.Server, _ func(agent.Note)) func(context.Context) {
			return agent.NewNeighbours(s, "n", agent.Directory(dir)).Run
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			told := 0
			s, by := within(t, http.HandlerFunc(silent))
			end := runs(t, run(t.TempDir(), s, func(agent.Note) { told++ }))
			<-time.After(9 * time.Second)
			end()
			if told > 0 {
				t.Errorf("%s: people were told of the end", what)
			}
			end = runs(t, run(t.TempDir(), s, func(agent.Note) { told++ }))
			<-time.After(11 * time.Second)
			synctest.Wait()
			if want := seconds(9, 10); !slices.Equal(by.took, want) {
				t.Errorf("%s: requests were given up after %v, want %v", what, by.took, want)
			}
			end()
		})
	}
}

// TestNeighboursAreChosenAgain: a minute after a failure, and where there are too few.
func TestNeighboursAreChosenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := true
		s, by := within(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_ = json.NewEncoder(w).Encode(coordinationv1.LeaseList{})
		}))
		end := runs(t, agent.NewNeighbours(s, "n", agent.Directory(t.TempDir())).Run)
		<-time.After(61 * time.Second)
		if got, want := by.since(), seconds(0, 60); !slices.Equal(got, want) {
			t.Errorf("after failures the requests came at %v, want %v", got, want)
		}
		by.set(func() { down = false })
		<-time.After(5 * time.Minute)
		if got, want := by.since(), seconds(120, 120, 180, 180, 300, 300); !slices.Equal(got, want) { // the Leases, and the zone
			t.Errorf("with too few, the requests came at %v, want %v", got, want)
		}
		end()
	})
}

// TestEventsAreBounded: an event with the same reason follows after ten minutes, and is given up after five seconds.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, by := within(t, http.HandlerFunc(silent))
		r := agent.NewReporter(s, "n", clock, funcr.New(func(string, string) {}, funcr.Options{}))
		end := runs(t, r.Run)
		for range 3 {
			r.Tell(agent.Note{Reason: agent.Promising})
			<-time.After(5 * time.Minute)
		}
		if got := by.since(); !slices.Equal(got, seconds(0, 600)) || !slices.Equal(by.took, seconds(5, 5)) {
			t.Errorf("events were sent at %v, and given up after %v", got, by.took)
		}
		end()
	})
}

// body is the body of an answer that has some text now and then, until its request ends.
type body struct {
	ctx  context.Context
	text <-chan string
}

func (b body) Read(into []byte) (int, error) {
	select {
	case text := <-b.text:
		return copy(into, text), nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (body) Close() error { return nil }

// streams answers each request with a body.
type streams chan string

func (s streams) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: body{r.Context(), s}, Request: r}, nil
}

// TestAWatchThatIsSilent for a minute ends: the Lease of the node itself changes more often.
func TestAWatchThatIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := make(streams)
		s, err := agent.NewServer(&rest.Config{Host: "http://api", Transport: text})
		if err != nil {
			t.Fatal(err)
		}
		began, ended := clock(), make(chan error, 1)
		go func() {
			ended <- agent.NewAllLeases(s).Follow(t.Context(), 10, func(string, promiselease.Record, uint64) {})
		}()
		<-time.After(50 * time.Second)
		text <- `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"15"}}}` + "\n"
		if err := <-ended; !errors.Is(err, context.Canceled) || clock().Sub(began) != 110*time.Second {
			t.Errorf("it ends after %s: %v", clock().Sub(began), err)
		}
	})
}

// TestAWatchThatSaysNothing ends after a minute, too.
func TestAWatchThatSaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := agent.NewServer(&rest.Config{Host: "http://api", Transport: make(streams)})
		if err != nil {
			t.Fatal(err)
		}
		began := clock()
		err = agent.NewAllLeases(s).Follow(t.Context(), 10, func(string, promiselease.Record, uint64) {})
		if !errors.Is(err, context.Canceled) || clock().Sub(began) != time.Minute {
			t.Errorf("it ends after %s: %v", clock().Sub(began), err)
		}
	})
}

// TestListensAgain: an agent that can't listen tells people once, and tries again after half a minute.
func TestListensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		at, is := taken.Addr().(*net.TCPAddr)
		if !is {
			t.Fatalf("it listens at %v", taken.Addr())
		}
		var notes []agent.Reason
		s := peer.NewServer(func() (peer.Identity, error) { return peer.Identity{}, errAway }, func(peer.Refusal) {})
		end := runs(t, func(ctx context.Context) {
			agent.Listen(ctx, s, uint16(at.Port), func(n agent.Note) { notes = append(notes, n.Reason) })
		})
		<-time.After(61 * time.Second) // it has tried three times
		if !slices.Equal(notes, []agent.Reason{agent.NotListening}) {
			t.Errorf("people were told %v", notes)
		}
		end()
		end = runs(t, func(ctx context.Context) { agent.Listen(ctx, s, uint16(at.Port), func(agent.Note) {}) })
		_ = taken.Close()
		<-time.After(30 * time.Second)
		connected := false
		for range 1000 {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", at.Port))
			if connected = err == nil; connected {
				_ = conn.Close()
				break
			}
		}
		if !connected {
			t.Error("half a minute later it does not listen")
		}
		end()
	})
}

// TestTheEndOfListening is no failure to listen.
func TestTheEndOfListening(t *testing.T) {
	t.Parallel()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(free.Addr().String())
	_ = free.Close()
	s := peer.NewServer(func() (peer.Identity, error) { return peer.Identity{}, errAway }, func(peer.Refusal) {})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		agent.Listen(ctx, s, at.Port(), func(n agent.Note) { t.Errorf("people were told %v", n) })
	}()
	connected := false
	for range 100_000 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", at.Port()))
		if connected = err == nil; connected {
			_ = conn.Close()
			break
		}
	}
	if !connected {
		t.Error("it does not listen")
	}
	end()
	<-ended
}

// TestALongAnswer: an answer may be as long as an object with a little around it, and no longer.
func TestALongAnswer(t *testing.T) {
	t.Parallel()
	for more, fits := range map[int]bool{0: true, 1: false} {
		text := `{"items":[]}`
		s, err := agent.NewServer(&rest.Config{Host: "http://api", Transport: answering(text + strings.Repeat(" ", 2<<20-len(text)+more))})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := agent.NewFencePolicies(s, "n").Find(t.Context()); (err == nil) != fits {
			t.Errorf("with %d bytes more: %v", more, err)
		}
	}
}

// TestTooManyLeases: as many Leases are read as the largest fleet has.
func TestTooManyLeases(t *testing.T) {
	t.Parallel()
	for count, fits := range map[int]bool{20000: true, 20001: false} {
		var text strings.Builder
		for i := range count {
			_, _ = fmt.Fprintf(&text, `,{"metadata":{"name":"n%d"}}`, i)
		}
		s, err := agent.NewServer(&rest.Config{Host: "http://api", Transport: answering(`{"metadata":{"resourceVersion":"9"},"items":[` + text.String()[1:] + `]}`)})
		if err != nil {
			t.Fatal(err)
		}
		if all, _, err := agent.NewAllLeases(s).List(t.Context()); (err == nil) != fits || fits && len(all) != count {
			t.Errorf("of %d, %d are read: %v", count, len(all), err)
		}
	}
}

// answering answers each request with a text.
type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}
