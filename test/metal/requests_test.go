package metal

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// request is a request that has reached the BMC of a node by Redfish, and what that BMC had counted until then.
type request struct {
	Node, Method, Path, User, Reset, Token string
	Status                                 int // of the answer; 0: there was none
	Open, Refused, Locked                  int // sessions, logins and accounts
}

// requestsOf returns the requests that have reached the BMC of a node.
func (s *site) requestsOf(t *testing.T, node string) []request {
	t.Helper()
	return slices.DeleteFunc(s.requestsOfAll(t), func(r request) bool { return r.Node != node })
}

// requestsOfAll returns the requests that have reached the BMCs of this cluster.
func (s *site) requestsOfAll(t *testing.T) []request {
	t.Helper()
	file, err := os.Open(s.requests)
	if err != nil {
		t.Errorf("opening the log of requests: %v", err)
		return nil
	}
	defer file.Close()
	var all []request
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // a last line may be under way
			return all
		}
		var r request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("reading the log of requests: %v", err)
		}
		all = append(all, r)
	}
}

// resets returns which commands have reached the BMC of a node.
func (s *site) resets(t *testing.T, node string) []string {
	t.Helper()
	var all []string
	for _, r := range s.requestsOf(t, node) {
		if r.Reset != "" || strings.Contains(r.Path, "/Actions/") {
			all = append(all, r.Reset)
		}
	}
	return all
}

// leavesNoSession checks, once Fettle has ended, that it has given each session back. A process that was killed may leave one on each BMC. So may a BMC
// that did not answer when a session was to end.
func (s *site) leavesNoSession(t *testing.T) {
	t.Helper()
	for _, of := range s.both() {
		open, may := map[string]int{}, map[string]int{}
		for _, r := range of.requestsOfAll(t) {
			open[r.Node] = r.Open
			if r.Method == http.MethodDelete && r.Status == 0 {
				may[r.Node]++
			}
		}
		for node, sessions := range open {
			if sessions > s.shown.kills()+may[node] {
				t.Errorf("%d sessions are open on the BMC of %s; %d processes were killed, and %d ends were not answered", sessions, node, s.shown.kills(), may[node])
			}
		}
	}
}

// both returns the clusters whose nodes Fettle fences.
func (s *site) both() []*site {
	if s.workload == nil {
		return []*site{s}
	}
	return []*site{s, s.workload}
}
