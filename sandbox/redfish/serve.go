package redfish

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

const (
	maxBody = 64 << 10
	// sessionHeader has the token of a session.
	sessionHeader = "X-Auth-Token"
)

func (b *BMC) serve(w http.ResponseWriter, r *http.Request) {
	// The server notices that a client has gone only when the body is read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	entry := b.log(r)
	recorder := &recorder{ResponseWriter: w, note: func(status int) {
		b.amend(entry, func(q *Request) { q.Status = status })
		b.tell(entry, w.Header().Get(sessionHeader))
	}}
	switch {
	case err != nil:
		send(recorder, refusal(http.StatusRequestEntityTooLarge, "Base.1.8.GeneralError", "The body can't be read."), r)
	case !b.hang(r):
		b.tell(entry, "")
		panic(http.ErrAbortHandler) // the connection ends without an answer
	case misanswer(recorder, r, b.ordered()):
	default:
		send(recorder, b.answer(r, body, entry), r)
	}
}

// log notes a request and returns its place.
func (b *BMC) log(r *http.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, Request{At: b.config.Now(), Method: r.Method, Path: r.URL.Path})
	return len(b.requests) - 1
}

func (b *BMC) amend(entry int, change func(*Request)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.requests[entry])
}

// tell logs a request that is about to be answered, or to end without an answer.
func (b *BMC) tell(entry int, token string) {
	if b.config.Log == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config.Log(Entry{Request: b.requests[entry], Token: token, Open: len(b.sessions), Logins: b.logins})
}

func (b *BMC) answer(r *http.Request, body []byte, entry int) answer {
	path := strings.TrimRight(r.URL.Path, "/")
	faults := b.ordered()
	if r.Method == http.MethodPost && path == sessionList {
		user, opened := b.openSession(body)
		b.amend(entry, func(q *Request) { q.User = user })
		return opened
	}
	if reads(r) && !faults.Unauthorized {
		switch path { // what a client may read before it logs in
		case "/redfish":
			return answer{status: http.StatusOK, body: object{"v1": root + "/"}}
		case root:
			return answer{status: http.StatusOK, body: b.get(root)}
		}
	}
	if _, _, given := r.BasicAuth(); given && faults.NoBasic {
		return noSessionLeft()
	}
	user, allowed := b.authenticate(r)
	b.amend(entry, func(q *Request) { q.User = user })
	if !allowed {
		return unauthorized()
	}
	if id, found := strings.CutPrefix(path, sessionList+"/"); found {
		return b.answerSession(r.Method, id)
	}
	switch {
	case r.Method == http.MethodPost && path == b.SystemPath()+resetAction:
		return b.answerReset(r, body, faults, entry)
	case reads(r):
		if found := b.get(path); found != nil {
			return answer{status: http.StatusOK, body: found}
		}
		return notFound()
	}
	return refusal(http.StatusMethodNotAllowed, "Base.1.8.OperationNotAllowed", "The method isn't allowed here.")
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func (b *BMC) answerSession(method, id string) answer {
	switch method {
	case http.MethodGet, http.MethodHead:
		if s := b.sessionByID(id); s != nil {
			return answer{status: http.StatusOK, body: sessionResource(s)}
		}
	case http.MethodDelete:
		if b.closeSession(id) {
			return answer{status: http.StatusNoContent}
		}
	}
	return notFound()
}

func (b *BMC) answerReset(r *http.Request, body []byte, faults Faults, entry int) answer {
	var command struct {
		ResetType ResetType `json:"ResetType"`
	}
	if err := json.Unmarshal(body, &command); err != nil {
		return refusal(http.StatusBadRequest, "Base.1.8.MalformedJSON", "The body isn't JSON.")
	}
	b.amend(entry, func(q *Request) { q.Reset = command.ResetType })
	if match := r.Header.Get("If-Match"); faults.RequiresIfMatch && match != "*" && match != etag(b.systemResource()) {
		return refusal(http.StatusPreconditionFailed, "Base.1.8.PreconditionFailed", "The ETag is missing or out of date.")
	}
	return b.reset(command.ResetType, faults)
}

// etag returns the ETag of a resource: it changes with the content.
func etag(body object) string {
	raw, err := json.Marshal(body)
	if err != nil {
		return "" // a resource has only strings, numbers and lists
	}
	sum := sha256.Sum256(raw)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

func send(w http.ResponseWriter, a answer, r *http.Request) {
	w.Header().Set("OData-Version", "4.0")
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if a.status == http.StatusOK {
		w.Header().Set("ETag", etag(a.body))
	}
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(a.body) //nolint:errchkjson // only a client that has gone makes it fail
	}
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	note func(status int)
	done bool
}

// WriteHeader notes the status and sends it.
func (r *recorder) WriteHeader(status int) {
	r.done = true
	r.note(status)
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body, and the status before it.
func (r *recorder) Write(p []byte) (int, error) {
	if !r.done {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(p)
}
