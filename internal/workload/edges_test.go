package workload

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/slim"
)

// readerFunc is a Reader of no object.
type readerFunc func(context.Context) error

func (f readerFunc) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return f(ctx)
}

// over returns a session whose requests are answered by a transport.
func over(t *testing.T, next http.RoundTripper) *session {
	t.Helper()
	c := New(Config{Now: clock, Wake: func(types.NamespacedName) {}}).Keep(types.NamespacedName{Name: "east"})
	api, err := c.open(&rest.Config{Host: "https://h", WrapTransport: func(http.RoundTripper) http.RoundTripper { return next }})
	if err != nil {
		t.Fatal(err)
	}
	return &session{Connection: c, apiClient: api}
}

// TestCallsEndTheirContexts, so that no timer is left, and close the bodies of answers.
func TestCallsEndTheirContexts(t *testing.T) {
	for name, call := range map[string]func(context.Context, *session) error{
		"a node": func(ctx context.Context, s *session) error {
			_, err := s.readNode(ctx, "a")
			return err
		},
		"nodes": func(ctx context.Context, s *session) error {
			return s.readNodes(ctx, func(*rest.Request) {}, &slim.NodeList{}, 1)
		},
		"a pod": func(ctx context.Context, s *session) error {
			pod := metadataOf("", "v1", "Pod")
			return s.readJSON(ctx, pod.GroupVersionKind(), func(*rest.Request) {}, pod)
		},
		"a probe": func(ctx context.Context, s *session) error { return s.probe(ctx) },
		"a watch": func(ctx context.Context, s *session) error {
			_, err := s.watchOnce(ctx, "7")
			return err
		},
	} {
		next := &fakeTransport{code: http.StatusOK, contentType: protobuf}
		err := call(t.Context(), over(t, next))
		if next.request == nil {
			t.Fatalf("%s is not requested: %v", name, err)
		}
		if !errors.Is(next.request.Context().Err(), context.Canceled) || !next.closed {
			t.Errorf("after the request of %s its context has %v, and the body is closed: %t", name, next.request.Context().Err(), next.closed)
		}
	}
	last := make(chan context.Context, 1)
	c := Config{Secrets: readerFunc(func(ctx context.Context) error {
		last <- ctx
		return errNoValue
	})}
	if _, err := c.kubeconfig(t.Context(), types.NamespacedName{Name: "east"}); err == nil || !errors.Is((<-last).Err(), context.Canceled) {
		t.Errorf("after a Secret was read (%v) its context goes on", err)
	}
	err := brief().run(t.Context(), false, func(ctx context.Context) (bool, error) {
		last <- ctx
		return true, nil
	}, noWaits)
	if err != nil || !errors.Is((<-last).Err(), context.Canceled) {
		t.Errorf("after a turn (%v) its context goes on", err)
	}
}

// TestStartWaitsForConnections that are about to end.
func TestStartWaitsForConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.onSecret = func(context.Context) { <-time.After(time.Minute) }
		_, end := s.connects()
		after(time.Second)
		end()
		if lasted := clock().Sub(s.start); lasted != time.Minute {
			t.Errorf("the connections have ended after %s", lasted)
		}
	})
}

func TestTimesOfWatches(t *testing.T) {
	for chance, want := range map[float64]int{0: 300, 0.5: 450, 0.999999: 599} {
		if got := watchSeconds(chance); got != want {
			t.Errorf("by a chance of %v a watch is to last %d seconds, want %d", chance, got, want)
		}
	}
}

func TestMetricsAreDescribed(t *testing.T) {
	out := make(chan *prometheus.Desc, 4)
	(*Connections)(nil).Describe(out)
	close(out)
	var got []*prometheus.Desc
	for desc := range out {
		got = append(got, desc)
	}
	if len(got) != 3 || got[0] != up || got[1] != connects || got[2] != exceeded {
		t.Errorf("described are %v", got)
	}
}
