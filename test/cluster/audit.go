package cluster

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
)

// Request is one request that the API server answered.
type Request struct {
	User, Verb, Resource, Subresource, Namespace, Name string
	Code                                               int
	At                                                 time.Time
	// UID and Revision are what a deletion insists on.
	UID, Revision string
}

// Requests gives the answered requests of Fettle's service account, in order, watches aside.
func (c *Cluster) Requests(t testing.TB) []Request {
	t.Helper()
	return slices.DeleteFunc(c.answered(t), func(r Request) bool { return r.Verb == watch })
}

// EndedWatches gives the watches of Fettle's service account that have ended, in order. One that
// begins anew again and again is a hot loop that no count of other requests shows.
func (c *Cluster) EndedWatches(t testing.TB) []Request {
	t.Helper()
	return slices.DeleteFunc(c.answered(t), func(r Request) bool { return r.Verb != watch })
}

// RequestsSince gives those that came at an instant or later. An API server logs a request only when it has
// answered it, so whoever wants to be sure that there is none waits a moment.
func (c *Cluster) RequestsSince(t testing.TB, at time.Time) []Request {
	t.Helper()
	return slices.DeleteFunc(c.Requests(t), func(r Request) bool { return r.At.Before(at) })
}

const watch = "watch"

func (c *Cluster) answered(t testing.TB) []Request {
	t.Helper()
	file, err := os.Open(c.auditLog())
	if err != nil {
		t.Fatalf("opening the audit log: %v", err)
	}
	defer func() { _ = file.Close() }()
	var requests []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		if r, answered := readRequest(lines.Bytes()); answered && r.User == "system:serviceaccount:fettle-system:fettle" {
			requests = append(requests, r)
		}
	}
	return requests
}

func readRequest(line []byte) (Request, bool) {
	var e struct {
		Stage, Verb              string
		RequestReceivedTimestamp time.Time
		User                     struct{ Username string }
		ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
		RequestObject            struct {
			Preconditions struct{ UID, ResourceVersion string }
		}
	}
	if json.Unmarshal(line, &e) != nil || e.Stage != "ResponseComplete" {
		return Request{}, false
	}
	return Request{
		User: e.User.Username, Verb: e.Verb, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code, At: e.RequestReceivedTimestamp,
		UID: e.RequestObject.Preconditions.UID, Revision: e.RequestObject.Preconditions.ResourceVersion,
	}, true
}

// Count counts requests by verb, resource and namespace.
func Count(requests []Request, verb, resource, namespace string) int {
	n := 0
	for _, r := range requests {
		if r.Verb == verb && r.Resource == resource && r.Namespace == namespace {
			n++
		}
	}
	return n
}
