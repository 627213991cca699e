package cluster

import (
	"context"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"
)

// Fault describes what goes wrong with the requests that it matches, from Inject until End.
type Fault struct {
	// Method matches one method. If it is empty, the fault matches all methods.
	Method string
	// Path is a regular expression that must match the whole path.
	Path string
	// Watch makes the fault match watches alone. Without it, watches are left alone.
	Watch bool

	// Delay is how much later requests are passed on.
	Delay time.Duration
	// Status is the answer in place of the API server's, with these headers.
	Status int
	Header http.Header
	// Stall holds requests until the fault ends. For watches it holds what the API server sends, and the connection
	// stays open.
	Stall bool
	// Lag is how much later the pieces of a watch are passed on, in order.
	Lag time.Duration
	// Ends ends watches in good order: at once, or with Brings that long after the first piece of the API server.
	Ends   bool
	Brings time.Duration
	// Skew is how far the API server's clock looks ahead, by the Date header of its answers. For watches, it shifts
	// that header too.
	Skew time.Duration
	// Times is after how many hits the fault ends. Zero means that it stays.
	Times int
}

// Injected is an active fault.
type Injected struct {
	Fault

	path  *regexp.Regexp
	ended chan struct{}

	mu   sync.Mutex
	over bool
	hits []time.Time
	held int
}

// Inject activates a fault. It ends with the test at the latest.
func (p *Proxy) Inject(t testing.TB, f Fault) *Injected {
	t.Helper()
	path, err := regexp.Compile("^(?:" + f.Path + ")$")
	if err != nil {
		t.Fatalf("reading the path of a fault: %v", err)
	}
	i := &Injected{Fault: f, path: path, ended: make(chan struct{})}
	p.mu.Lock()
	p.faults = append(p.faults, i)
	p.mu.Unlock()
	t.Cleanup(i.End)
	return i
}

// End deactivates the fault, and first lets held requests pass.
func (i *Injected) End() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.over {
		i.over = true
		close(i.ended)
	}
}

// Hits returns when the fault hit a request, or a piece of a watch.
func (i *Injected) Hits() []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.hits)
}

// hit counts a hit, and reports whether the fault is active.
func (i *Injected) hit() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over || (i.Times > 0 && len(i.hits) >= i.Times) {
		return false
	}
	i.hits = append(i.hits, time.Now())
	return true
}

func (i *Injected) addHeld(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held += n
}

// wait returns after a while, or when the fault or the request is over.
func (i *Injected) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.ended:
	case <-ctx.Done():
	}
}

// Held returns how many requests and pieces of watches the fault holds now. A request that its client gives up is not
// held any more.
func (i *Injected) Held() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.held
}

// keepBack blocks until the fault or the request is over.
func (i *Injected) keepBack(ctx context.Context) {
	i.addHeld(1)
	defer i.addHeld(-1)
	select {
	case <-i.ended:
	case <-ctx.Done():
	}
}

// faultsFor returns the faults that match a request now.
func (p *Proxy) faultsFor(r *http.Request) []*Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*Injected
	for _, i := range p.faults {
		if i.Watch == isWatch(r) && (i.Method == "" || i.Method == r.Method) && i.path.MatchString(r.URL.Path) {
			found = append(found, i)
		}
	}
	return found
}

// skewed shifts the Date header of an answer.
func (p *Proxy) skewed(answer *http.Response) {
	p.mu.Lock()
	faults := slices.Clone(p.faults)
	p.mu.Unlock()
	for _, i := range faults {
		date, err := http.ParseTime(answer.Header.Get("Date"))
		if err == nil && i.Skew != 0 && i.path.MatchString(answer.Request.URL.Path) && i.hit() {
			answer.Header.Set("Date", date.Add(i.Skew).UTC().Format(http.TimeFormat))
		}
	}
}

func isWatch(r *http.Request) bool {
	w := r.URL.Query().Get("watch")
	return w == "true" || w == "1"
}

// meet applies the matching faults to a request, and reports whether one of them has answered it.
func (p *Proxy) meet(w http.ResponseWriter, r *http.Request) bool {
	for _, i := range p.faultsFor(r) {
		if (i.Watch && i.Status == 0) || i.Skew != 0 || !i.hit() {
			continue
		}
		if i.Delay > 0 {
			i.wait(r.Context(), i.Delay)
		}
		if i.Stall && !i.Watch {
			i.keepBack(r.Context())
		}
		if i.Status != 0 {
			i.answer(w)
			return true
		}
	}
	return false
}

// answer writes a Status object as the API server would.
func (i *Injected) answer(w http.ResponseWriter) {
	maps.Copy(w.Header(), i.Header)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(i.Status)
	_, _ = io.WriteString(w, "a test lets this go wrong\n")
}

// watched is the body of a watch. Its pieces meet faults on their way.
type watched struct {
	io.ReadCloser

	proxy   *Proxy
	request *http.Request
	pieces  chan piece
	rest    []byte
	err     error
	// ends is the fault that ends the watch, or nil. over is when it does so, or nil before the first piece.
	ends *Injected
	over <-chan time.Time
}

type piece struct {
	data []byte
	at   time.Time
	err  error
}

func (p *Proxy) watchBody(r *http.Request, body io.ReadCloser) io.ReadCloser {
	w := &watched{ReadCloser: body, proxy: p, request: r, pieces: make(chan piece, 1<<12)}
	for _, i := range p.faultsFor(r) {
		if i.Ends && i.hit() {
			w.ends = i
		}
	}
	go w.fetch()
	return w
}

// fetch reads from the API server as data comes, so that only the client waits.
func (w *watched) fetch() {
	for {
		data := make([]byte, 32<<10)
		n, err := w.ReadCloser.Read(data)
		select {
		case w.pieces <- piece{data[:n], time.Now(), err}:
		case <-w.request.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (w *watched) Read(into []byte) (int, error) {
	ctx := w.request.Context()
	if len(w.rest) == 0 && w.err == nil {
		if w.ends != nil && w.ends.Brings == 0 {
			return 0, io.EOF
		}
		select {
		case <-w.over:
			return 0, io.EOF
		case next := <-w.pieces:
			w.pass(ctx, next)
			if w.ends != nil && w.over == nil {
				w.over = time.After(w.ends.Brings)
			}
			w.rest, w.err = next.data, next.err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	n := copy(into, w.rest)
	w.rest = w.rest[n:]
	if len(w.rest) > 0 {
		return n, nil
	}
	return n, w.err
}

// pass blocks until a piece may be passed on.
func (w *watched) pass(ctx context.Context, next piece) {
	for _, i := range w.proxy.faultsFor(w.request) {
		if (i.Lag == 0 && !i.Stall) || !i.hit() {
			continue
		}
		if i.Lag > 0 {
			i.wait(ctx, time.Until(next.at.Add(i.Lag)))
		}
		if i.Stall {
			i.keepBack(ctx)
		}
	}
}
