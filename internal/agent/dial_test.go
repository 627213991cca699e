package agent_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/agent"
)

// way is a way to the API server: it takes a time, and then fails or connects.
type way struct {
	takes time.Duration
	err   error
}

// TestDial: the direct way is tried first, and the next one once a way fails or takes long. The first connection counts.
func TestDial(t *testing.T) {
	t.Parallel()
	cut := way{time.Hour, nil}
	refused := way{0, errAway}
	for name, c := range map[string]struct {
		direct way
		relays []way
		want   string
		took   time.Duration
		tried  int
	}{
		"the direct way":               {way{10 * time.Millisecond, nil}, []way{{}}, "direct", 10 * time.Millisecond, 0},
		"a slow direct way":            {way{2 * time.Second, nil}, nil, "direct", 2 * time.Second, 0},
		"a direct way that is cut":     {cut, []way{{}}, "a", 600 * time.Millisecond, 1},
		"a direct way that is refused": {refused, []way{{}}, "a", 0, 1},
		"a slow one beside a cut one":  {way{time.Second, nil}, []way{cut, cut}, "direct", time.Second, 1},
		"the second relay":             {cut, []way{cut, {}}, "b", 1200 * time.Millisecond, 2},
		"the third relay":              {cut, []way{refused, refused, {}}, "c", 600 * time.Millisecond, 3},
		"no fourth relay":              {refused, []way{refused, refused, refused, {}}, "", 0, 3},
		"all are cut":                  {cut, []way{cut, cut, cut}, "", 5 * time.Second, 3},
		"all are refused":              {refused, nil, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				open, tried := 0, []string{}
				count := func(by int) {
					mu.Lock()
					defer mu.Unlock()
					open += by
				}
				connect := func(ctx context.Context, name string, w way) (net.Conn, error) {
					select {
					case <-time.After(w.takes):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if w.err != nil {
						return nil, w.err
					}
					count(1)
					return named{name: name, closed: func() { count(-1) }}, nil
				}
				d := agent.Dialer{
					Direct: func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx, "direct", c.direct) },
					Relay: func(ctx context.Context, node string) (net.Conn, error) {
						mu.Lock()
						tried = append(tried, node)
						mu.Unlock()
						return connect(ctx, node, c.relays[slices.Index(all, node)])
					},
					Neighbours: func() []string { return all[:len(c.relays)] },
				}
				began := clock()
				conn, err := d.DialContext(t.Context(), "tcp", "api:443")
				if took := clock().Sub(began); took != c.took {
					t.Errorf("it takes %s, want %s", took, c.took)
				}
				<-time.After(5 * time.Second) // no way goes on for longer
				synctest.Wait()
				got := ""
				if err == nil {
					got = conn.(named).name
				} else if c.direct == refused && !errors.Is(err, errAway) {
					t.Errorf("the error is %v", err)
				}
				if got != c.want || len(tried) != c.tried || err == nil && open != 1 || err != nil && open != 0 {
					t.Errorf("connected by %q after trying %v, with %d open connections, want %q after %d: %v", got, tried, open, c.want, c.tried, err)
				}
			})
		})
	}
}

// TestDialInTurn: a node that connects at once, and then carries nothing, keeps no other from being tried.
func TestDialInTurn(t *testing.T) {
	t.Parallel()
	var tried []string
	d := agent.Dialer{
		Direct: func(context.Context, string, string) (net.Conn, error) { return nil, errAway },
		Relay: func(_ context.Context, node string) (net.Conn, error) {
			tried = append(tried, node)
			return named{name: node}, nil
		},
		Neighbours: func() []string { return all },
	}
	for range len(all) + 1 {
		if _, err := d.DialContext(t.Context(), "tcp", "api:443"); err != nil {
			t.Fatal(err)
		}
	}
	if want := append(slices.Clone(all), all[0]); !slices.Equal(tried, want) {
		t.Errorf("the nodes that are tried are %v, want %v", tried, want)
	}
}

// TestDialAroundACutLink: once the direct way has not connected in time, the next relay is tried soon, until the direct way connects.
func TestDialAroundACutLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cut, refused, relays, direct, within := false, false, true, time.Millisecond, time.Minute
		connect := func(ctx context.Context, name string, works bool, takes time.Duration) (net.Conn, error) {
			if !works {
				takes = time.Hour
			}
			select {
			case <-time.After(takes):
				return named{name: name, closed: func() {}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		d := agent.Dialer{
			Direct: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if refused {
					return nil, errAway
				}
				return connect(ctx, "direct", !cut, direct)
			},
			Relay: func(ctx context.Context, node string) (net.Conn, error) {
				return connect(ctx, "relay", relays, 10*time.Millisecond)
			},
			Neighbours: func() []string { return all },
		}
		for _, step := range []struct {
			what string
			do   func()
			want string
			took time.Duration
		}{
			{"nothing is cut", func() {}, "direct", time.Millisecond},
			{"the link is cut", func() { cut = true }, "relay", 610 * time.Millisecond},
			{"it is still cut", func() {}, "relay", 110 * time.Millisecond},
			{"so are the relays", func() { relays = false }, "", 5 * time.Second},
			{"the relays work again", func() { relays = true }, "relay", 110 * time.Millisecond},
			{"the link works, and is slow", func() { cut, direct = false, 200*time.Millisecond }, "relay", 110 * time.Millisecond},
			{"that was seen meanwhile", func() {}, "direct", 200 * time.Millisecond},
			{"it is cut once more", func() { cut = true }, "relay", 610 * time.Millisecond},
			{"the link works, and is fast", func() { cut, direct = false, time.Millisecond }, "direct", time.Millisecond},
			{"the API server refuses", func() { refused = true }, "relay", 10 * time.Millisecond},
			{"it hangs", func() { refused, cut = false, true }, "relay", 110 * time.Millisecond},
			{"it works", func() { cut = false }, "direct", time.Millisecond},
			{"the caller gives up early", func() { direct, within = time.Second, 5*time.Millisecond }, "", 5 * time.Millisecond},
			{"that says nothing", func() { cut, within = true, time.Minute }, "relay", 610 * time.Millisecond},
			{"the caller gives up late", func() { relays, within = false, 700*time.Millisecond }, "", 700 * time.Millisecond},
			{"that says enough", func() { relays, within = true, time.Minute }, "relay", 110 * time.Millisecond},
		} {
			step.do()
			began, got := clock(), ""
			ctx, cancel := context.WithTimeout(t.Context(), within)
			if conn, err := d.DialContext(ctx, "tcp", "api:443"); err == nil {
				got = conn.(named).name
			}
			cancel()
			if took := clock().Sub(began); got != step.want || took != step.took {
				t.Errorf("%s: connected by %q after %s, want %q after %s", step.what, got, took, step.want, step.took)
			}
			<-time.After(5 * time.Second) // no way goes on for longer
			synctest.Wait()
		}
	})
}

// TestDialSoonAgain: a call learns from the one before it, also while ways of that go on.
func TestDialSoonAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var closed, ended atomic.Int64 // ended is the time of the last end, in nanoseconds since the begin
		var ways sync.Map
		began := clock()
		connect := func(ctx context.Context, name string) (net.Conn, error) {
			w, _ := ways.LoadOrStore(name, way{})
			select {
			case <-time.After(w.(way).takes):
				return named{name: name, closed: func() { closed.Add(1) }}, nil
			case <-ctx.Done():
				ended.Store(int64(clock().Sub(began)))
				return nil, ctx.Err()
			}
		}
		d := agent.Dialer{
			Direct:     func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx, "direct") },
			Relay:      connect,
			Neighbours: func() []string { return []string{"a", "b"} },
		}
		dial := func(what string, within time.Duration, want string, took time.Duration) {
			t.Helper()
			at, got := clock(), ""
			ctx, cancel := context.WithTimeout(t.Context(), within)
			t.Cleanup(cancel) // the end of the call ends its ways, and not its caller
			if conn, err := d.DialContext(ctx, "tcp", "api:443"); err == nil {
				got = conn.(named).name
			}
			if got != want || clock().Sub(at) != took {
				t.Errorf("%s: connected by %q after %s, want %q after %s", what, got, clock().Sub(at), want, took)
			}
		}
		ways.Store("direct", way{takes: time.Hour})
		dial("the direct way was just given up", 5*time.Millisecond, "", 5*time.Millisecond)
		dial("that says nothing", time.Minute, "a", 600*time.Millisecond)
		ways.Store("a", way{takes: time.Hour})
		dial("the first relay is cut too", time.Minute, "b", 100*time.Millisecond) // it is the turn of b
		dial("and first in turn", time.Minute, "b", 700*time.Millisecond)
		synctest.Wait()
		if last := time.Duration(ended.Load()); last != clock().Sub(began) {
			t.Errorf("a way through another node goes on until %s, and the call has ended after %s", last, clock().Sub(began))
		}
		ways.Store("direct", way{takes: time.Millisecond})
		dial("the direct way connects", time.Minute, "direct", time.Millisecond)
		ways.Store("direct", way{takes: 4 * time.Second})
		ways.Store("a", way{})
		dial("it is slow", 650*time.Millisecond, "a", 600*time.Millisecond)
		ways.Store("direct", way{takes: time.Second})
		dial("it is cut once more", 50*time.Millisecond, "", 50*time.Millisecond)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if n := closed.Load(); n != 2 {
			t.Errorf("%d connections that came too late were closed, want 2", n)
		}
	})
}

var all = []string{"a", "b", "c", "d"}

// named is a connection with a name.
type named struct {
	net.Conn

	name   string
	closed func()
}

func (n named) Close() error {
	n.closed()
	return nil
}
