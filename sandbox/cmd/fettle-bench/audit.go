package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// request is a request that the API server has answered, or for a watch, begun to answer.
type request struct {
	// resource has the subresource after a slash. If the request is about no resource, it is the path.
	verb, resource, name string
	code                 int
	received             time.Time
}

// isWrite reports whether the request writes, or tried to. The API server stores nothing of a review of the caller's own
// rights, although it is created.
func (r request) isWrite() bool {
	if r.resource == "selfsubjectaccessreviews" {
		return false
	}
	switch r.verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// isRoutine reports whether Fettle makes the request in any case: to renew the lease of leader election, or to check a
// silent workload cluster and its kubeconfig. The leases of nodes belong to their repairs.
func (r request) isRoutine() bool {
	switch r.resource {
	case "leases":
		return !strings.HasPrefix(r.name, leaseOfNode)
	case "/readyz", "secrets":
		return !r.isWrite()
	}
	return false
}

// leaseOfNode is the prefix of the name of the lease that keeps other controllers from a node under repair.
const leaseOfNode = "node-"

// auditLog reads the requests of one user from the API server's log as it grows.
type auditLog struct {
	path, user string
	offset     int64
	requests   []request
}

// catchUp reads the lines that have been completed since the last call.
func (a *auditLog) catchUp() error {
	file, err := os.Open(a.path)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		a.offset += int64(len(line))
		r, ok, err := readRequest(line, a.user)
		if err != nil {
			return err
		}
		if ok {
			a.requests = append(a.requests, r)
		}
	}
}

// readRequest reads a line of the log. It returns false for lines of other users, and for lines without news.
func readRequest(line []byte, user string) (request, bool, error) {
	// Most lines are not the user's, and decoding them would take long.
	if !bytes.Contains(line, []byte(user)) {
		return request{}, false, nil
	}
	var e struct {
		Stage    string    `json:"stage"`
		URI      string    `json:"requestURI"`
		Verb     string    `json:"verb"`
		Received time.Time `json:"requestReceivedTimestamp"`
		User     struct {
			Username string `json:"username"`
		} `json:"user"`
		Object struct {
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			Name        string `json:"name"`
		} `json:"objectRef"`
		Response struct {
			Code int `json:"code"`
		} `json:"responseStatus"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return request{}, false, fmt.Errorf("reading a line of the audit log: %w", err)
	}
	// A watch is logged when it begins and when it ends.
	if e.User.Username != user || (e.Verb == "watch") != (e.Stage == "ResponseStarted") {
		return request{}, false, nil
	}
	r := request{verb: e.Verb, resource: e.Object.Resource, name: e.Object.Name, code: e.Response.Code, received: e.Received}
	switch {
	case e.Object.Resource == "":
		r.resource, _, _ = strings.Cut(e.URI, "?")
	case e.Object.Subresource != "":
		r.resource += "/" + e.Object.Subresource
	}
	return r, true, nil
}

// between returns the requests from one instant until before the other.
func (a *auditLog) between(from, to time.Time) []request {
	var found []request
	for _, r := range a.requests {
		if !r.received.Before(from) && r.received.Before(to) {
			found = append(found, r)
		}
	}
	return found
}

// calls counts requests by verb and resource, and refused ones apart.
type calls map[string]int

// traffic is the use of the API in a while, with routine requests apart.
type traffic struct {
	Calls   calls `json:"calls"`
	Writes  int   `json:"writes"`
	Routine calls `json:"routine"`
}

func trafficOf(requests []request) traffic {
	t := traffic{Calls: calls{}, Routine: calls{}}
	for _, r := range requests {
		what := r.verb + " " + r.resource
		if r.code >= http.StatusBadRequest {
			what += fmt.Sprintf(" (%d)", r.code)
		}
		if r.isRoutine() {
			t.Routine[what]++
			continue
		}
		t.Calls[what]++
		if r.isWrite() {
			t.Writes++
		}
	}
	return t
}
