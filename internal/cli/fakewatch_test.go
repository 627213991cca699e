package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RoundTrip answers without a network, so that a bubble of synctest has all that takes part.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		answer := httptest.NewRecorder()
		f.ServeHTTP(answer, r)
		return answer.Result(), r.Context().Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watched = append(f.watched, r.URL.RequestURI())
	if code, refused := f.refused["WATCH "+r.URL.Path]; refused {
		answer := httptest.NewRecorder()
		f.fail(answer, r, code)
		return answer.Result(), nil
	}
	body, in := io.Pipe()
	f.watches[r.URL.Path] = in
	context.AfterFunc(r.Context(), func() { _ = in.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

// tell sends an event to the watch of a collection, if there is one.
func (f *fleet) tell(collection, kind string, o map[string]any) {
	f.t.Helper()
	f.mu.Lock()
	w := f.watches[collection]
	f.mu.Unlock()
	if w == nil {
		return
	}
	line, err := json.Marshal(map[string]any{"type": kind, "object": o})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := w.Write(line); err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, context.Canceled) {
		f.t.Fatal(err)
	}
}

// endWatch ends the watch of a collection, as the API server does every few minutes.
func (f *fleet) endWatch(collection string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.watches[collection].Close()
	delete(f.watches, collection)
}

// client returns a client of the API server.
func (f *fleet) client() client.WithWatch {
	f.t.Helper()
	config := &rest.Config{Host: "http://fleet", Transport: f, QPS: -1}
	mapper, err := newMapper(config, &http.Client{Transport: f})
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: newScheme(), Mapper: mapper})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// lockedText is a text that is written and taken at any time.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// follower is a command with --watch.
type follower struct {
	*session

	printed lockedText
	// failure is the error of the command, once it has ended.
	failure error
	ended   bool
	stop    context.CancelFunc
}

// newFollower returns a session that follows an answer by the clock of its bubble.
func (f *fleet) newFollower(dialects ...Dialect) *follower {
	w := &follower{session: newSession(Options{Name: "fettle", UserAgent: "test", Dialects: dialects, Now: clock})}
	w.cluster, w.namespace, w.watch = f.client(), "machines", true
	w.connection.controller, w.connection.bmcs = "fettle-system", "fettle-system"
	w.out, w.err = &w.printed, &w.printed
	w.concerns = w.aboutHealthChecks
	return w
}

// start has the command follow an answer until the test ends.
func (w *follower) start(t *testing.T, ask answerFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	go func() {
		w.failure = w.run(ctx, ask)
		w.ended = true
	}()
	synctest.Wait()
}

// pass lets time pass, and returns what was printed since the last call.
func (w *follower) pass(d time.Duration) string {
	<-time.After(d)
	synctest.Wait()
	return w.printed.take()
}

// clock returns the time of a bubble.
func clock() time.Time { return time.Now() } //nolint:forbidigo // the clock of the bubble
