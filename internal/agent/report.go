package agent

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// Reporter reports the notes of an agent to people: in its log, and by events of its node.
type Reporter struct {
	server *Server
	node   string
	now    func() time.Time
	log    logr.Logger
	notes  chan Note
	sent   map[Reason]time.Time
}

// maxNotes is how many notes may wait. More are dropped.
const maxNotes = 64

// NewReporter returns a reporter for a node.
func NewReporter(s *Server, node string, now func() time.Time, log logr.Logger) *Reporter {
	return &Reporter{server: s, node: node, now: now, log: log, notes: make(chan Note, maxNotes), sent: map[Reason]time.Time{}}
}

// Tell passes a note on. It waits for nothing.
func (r *Reporter) Tell(n Note) {
	select {
	case r.notes <- n:
	default:
	}
}

// Run writes notes to the log and creates events until the context ends. Then it writes the notes that are left to the log alone.
func (r *Reporter) Run(ctx context.Context) {
	for {
		select {
		case n := <-r.notes:
			r.write(n)
			r.send(ctx, n)
		case <-ctx.Done():
			r.drain()
			return
		}
	}
}

func (r *Reporter) drain() {
	for {
		select {
		case n := <-r.notes:
			r.write(n)
		default:
			return
		}
	}
}

// write writes a note to the log.
func (r *Reporter) write(n Note) {
	if n.Err != nil {
		r.log.Error(n.Err, n.Reason.text(), "reason", n.Reason)
		return
	}
	r.log.Info(n.Reason.text(), "reason", n.Reason)
}

// Bounds of events.
const (
	// eventAgain is how long an event with the same reason is not repeated.
	eventAgain = 10 * time.Minute
	eventTime  = 5 * time.Second
)

// send creates an event of the node. Events are for people, so a failure is only logged.
func (r *Reporter) send(ctx context.Context, n Note) {
	now := r.now()
	if last, is := r.sent[n.Reason]; is && now.Before(last.Add(eventAgain)) {
		return
	}
	r.sent[n.Reason] = now
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	c := call{method: http.MethodPost, path: events, body: eventOf(r.node, n, now)}
	if err := r.server.do(ctx, c, nil); err != nil {
		r.log.V(1).Info("an event was not created", "reason", n.Reason, "error", err)
	}
}

// Events of nodes are in the namespace default.
const events = "/api/v1/namespaces/" + metav1.NamespaceDefault + "/events"

// eventOf returns the event of a node that says a note.
func eventOf(node string, n Note, now time.Time) *event {
	at := metav1.NewTime(now)
	e := &event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		Metadata:       objectName{Namespace: metav1.NamespaceDefault, Name: node + "." + strconv.FormatInt(now.UnixNano(), 16)},
		InvolvedObject: objectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: node},
		Reason:         string(n.Reason),
		Message:        n.Reason.text(),
		Source:         eventSource{Component: "fettle-agent", Host: node},
		Type:           eventWarning,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
	if n.Reason == Promising || n.Reason == NotSelected || n.Reason == Disarmed {
		e.Type = eventNormal
	}
	if n.Err != nil {
		e.Message = sanitize.Line(sanitize.MaxMessage, fmt.Sprintf("%s: %s", e.Message, sanitize.Failure(sanitize.MaxMessage, n.Err)))
	}
	return e
}
