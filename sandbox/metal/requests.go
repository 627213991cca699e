package metal

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// requestLine says that a request has reached the BMC of a node by Redfish, and what that BMC has counted until then.
type requestLine struct {
	Time    time.Time         `json:"time"`
	Node    string            `json:"node"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	User    string            `json:"user,omitempty"`
	Reset   redfish.ResetType `json:"reset,omitempty"`
	Status  int               `json:"status"`          // of the answer; 0: there was none
	Token   string            `json:"token,omitempty"` // of the session that it has opened
	Open    int               `json:"open"`            // sessions
	Refused int               `json:"refused"`         // logins
	Locked  int               `json:"locked"`          // how often an account was locked
}

// requestLog adds lines to a file. A nil requestLog adds none.
type requestLog struct {
	mu sync.Mutex
	to io.Writer
}

// openRequests opens a log of requests, which ends with the process. It returns nil for an empty path.
func openRequests(path string) (*requestLog, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of requests: %w", err)
	}
	return &requestLog{to: file}, nil
}

// of returns what logs the requests that reach the BMC of a node, or nil.
func (l *requestLog) of(node string) func(redfish.Entry) {
	if l == nil {
		return nil
	}
	return func(e redfish.Entry) {
		l.mu.Lock()
		defer l.mu.Unlock()
		err := json.NewEncoder(l.to).Encode(requestLine{
			Time: e.At, Node: node, Method: e.Method, Path: e.Path, User: e.User, Reset: e.Reset, Status: e.Status,
			Token: e.Token, Open: e.Open, Refused: e.Logins.Refused, Locked: e.Logins.Lockouts,
		})
		if err != nil {
			klog.ErrorS(err, "could not log a request", "node", node)
		}
	}
}
