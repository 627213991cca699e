package cluster

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Write is a request that changes an object. It is a patch, an update, a creation or a deletion.
type Write struct {
	Verb string
	// Resource has the subresource too, as in nodes/status. Name is empty for a creation.
	Resource, Namespace, Name string
	Body                      []byte
}

// Outcome is what happens to a write.
type Outcome int

// The outcomes of a write. After the last two, the process that sent it gets no answer, and no later write passes until Judge.Resume.
const (
	// Passes: the write is passed on, and so is its answer.
	Passes Outcome = iota
	// Lost: the API server never gets the write.
	Lost
	// Unanswered: the API server carries the write out, and its answer is withheld.
	Unanswered
)

// Judge decides the outcomes of the writes that come to a proxy, one at a time.
type Judge struct {
	decide func(Write) Outcome
	// turn has one token, which the write takes that is judged now.
	turn chan struct{}
	// held gets each write that was lost or is unanswered.
	held chan Held

	mu    sync.Mutex
	epoch int
	stuck bool
}

// Held is a write that got no answer.
type Held struct {
	Write

	Outcome Outcome
}

// Judge has a function decide the outcome of each write from now on. The function is not called again before Resume once it has held a write.
// A write that the API server refuses is answered in any case, since it changes nothing.
func (p *Proxy) Judge(t testing.TB, decide func(Write) Outcome) *Judge {
	t.Helper()
	j := &Judge{decide: decide, turn: make(chan struct{}, 1), held: make(chan Held, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = j
	return j
}

// Held returns the channel of the writes that got no answer.
func (j *Judge) Held() <-chan Held { return j.held }

// Resume lets writes pass again. The caller has ended the process whose write was held, and what else that process has sent is dropped.
func (j *Judge) Resume() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.epoch++
	j.stuck = false
}

// state returns how often the judge was resumed, and whether a write is held.
func (j *Judge) state() (int, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.epoch, j.stuck
}

func (j *Judge) hold(w Held) {
	j.mu.Lock()
	j.stuck = true
	j.mu.Unlock()
	j.held <- w
}

// serve has a request judged if it is a write, and reports whether it has dealt with it.
func (j *Judge) serve(out http.ResponseWriter, r *http.Request, forward http.Handler) bool {
	write, is := readWrite(r)
	if !is {
		return false
	}
	arrived, _ := j.state()
	select {
	case j.turn <- struct{}{}:
	case <-r.Context().Done():
		return true
	}
	defer func() { <-j.turn }()
	if epoch, stuck := j.state(); stuck || epoch != arrived {
		<-r.Context().Done() // its process is about to end, or has ended
		return true
	}
	switch outcome := j.decide(write); outcome {
	case Passes:
		forward.ServeHTTP(out, r)
	case Lost:
		j.hold(Held{write, outcome})
		<-r.Context().Done()
	case Unanswered:
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		if answer.Code >= http.StatusMultipleChoices {
			passOn(out, answer)
			return true
		}
		j.hold(Held{write, outcome})
		<-r.Context().Done()
	}
	return true
}

func passOn(out http.ResponseWriter, answer *httptest.ResponseRecorder) {
	maps.Copy(out.Header(), answer.Header())
	out.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(out)
}

// readWrite reads a request that changes an object. Reviews of tokens and rights are created, and change nothing. Dry runs
// change nothing either.
func readWrite(r *http.Request) (Write, bool) {
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case verb == "", r.URL.Query().Has("dryRun"):
		return Write{}, false
	case parts[0] == "api" && len(parts) > 2: // api/v1/…
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3 && parts[1] != "authentication.k8s.io" && parts[1] != "authorization.k8s.io":
		parts = parts[3:]
	default:
		return Write{}, false
	}
	w := Write{Verb: verb}
	if parts[0] == "namespaces" && len(parts) > 2 {
		w.Namespace, parts = parts[1], parts[2:]
	}
	w.Resource = parts[0]
	if len(parts) > 1 {
		w.Name = parts[1]
	}
	if len(parts) > 2 {
		w.Resource += "/" + parts[2]
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return Write{}, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.Body = body
	return w, true
}
