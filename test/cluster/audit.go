package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// Request is a request that the API server answered.
type Request struct {
	User, Verb, Resource, Subresource, Namespace, Name string
	Code                                               int
	// At is when the request came. Ended is when it was answered, or when its watch ended.
	At, Ended time.Time
	// UID and Revision are the preconditions of a deletion.
	UID, Revision string
	// Unread is set if the API server failed without a body. A client that was killed has sent a part of the request, and nothing was done.
	Unread bool
	// Patch is the body of a patch of the status of one of Cluster API's machines.
	Patch []byte
}

// Requests returns the answered requests of Fettle's service account in order, without watches.
func (c *Cluster) Requests(t testing.TB) []Request {
	t.Helper()
	return slices.DeleteFunc(c.RequestsOf(t, accountUser), func(r Request) bool { return r.Verb == watch })
}

// EndedWatches returns the ended watches of Fettle's service account in order. A watch that restarts again and again is
// a hot loop, which no count of other requests shows.
func (c *Cluster) EndedWatches(t testing.TB) []Request {
	t.Helper()
	return slices.DeleteFunc(c.RequestsOf(t, accountUser), func(r Request) bool { return r.Verb != watch })
}

// RequestsSince returns the requests that came at an instant or later. The API server logs a request only when it has
// answered it. A caller that must be sure that there is none waits a moment.
func (c *Cluster) RequestsSince(t testing.TB, at time.Time) []Request {
	t.Helper()
	return slices.DeleteFunc(c.Requests(t), func(r Request) bool { return r.At.Before(at) })
}

const watch = "watch"

// RequestsOf returns the answered requests of a user, in the order in which they were answered, including ended
// watches.
func (c *Cluster) RequestsOf(t testing.TB, user string) []Request {
	t.Helper()
	c.audit.Lock()
	defer c.audit.Unlock()
	read := c.audit.users[user]
	if read == nil {
		read = &userRequests{}
		if c.audit.users == nil {
			c.audit.users = map[string]*userRequests{}
		}
		c.audit.users[user] = read
	}
	if err := read.continueFrom(c.auditLog(), user); err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	return slices.Clone(read.requests)
}

// audit is what was read of the audit log, which only grows. Tests read it many times.
type audit struct {
	sync.Mutex

	users map[string]*userRequests
}

// userRequests are the requests of a user in the first bytes of the log.
type userRequests struct {
	bytes    int64
	requests []Request
}

// continueFrom reads the complete lines that were added to the log.
func (u *userRequests) continueFrom(log, user string) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(u.bytes, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the API server may be writing the rest of the line
			return nil
		}
		if err != nil {
			return err
		}
		u.bytes += int64(len(line))
		if !bytes.Contains(line, []byte(user)) { // most lines are other users', and decoding takes long
			continue
		}
		if r, answered := readRequest(line); answered && r.User == user {
			u.requests = append(u.requests, r)
		}
	}
}

func readRequest(line []byte) (Request, bool) {
	var e struct {
		Stage, Verb                              string
		RequestReceivedTimestamp, StageTimestamp time.Time
		User                                     struct{ Username string }
		ObjectRef                                struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus                           struct{ Code int }
		RequestObject                            json.RawMessage
	}
	if json.Unmarshal(line, &e) != nil || e.Stage != "ResponseComplete" {
		return Request{}, false
	}
	r := Request{
		User: e.User.Username, Verb: e.Verb, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code,
		At: e.RequestReceivedTimestamp, Ended: e.StageTimestamp,
	}
	r.Unread = r.Code == http.StatusInternalServerError && len(e.RequestObject) == 0
	if e.Verb == "patch" {
		r.Patch = e.RequestObject
		return r, true
	}
	var deletion struct {
		Preconditions struct{ UID, ResourceVersion string }
	}
	if len(e.RequestObject) > 0 && json.Unmarshal(e.RequestObject, &deletion) != nil {
		return Request{}, false
	}
	r.UID, r.Revision = deletion.Preconditions.UID, deletion.Preconditions.ResourceVersion
	return r, true
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
