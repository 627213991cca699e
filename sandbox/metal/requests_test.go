package metal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// TestRequestLog: a line has what the BMC of a node was asked, and what it has counted.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "requests.log")
	log, err := openRequests(path)
	if err != nil {
		t.Fatal(err)
	}
	entry := redfish.Entry{
		Request: redfish.Request{At: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), Method: "POST", Path: "/p", User: "u", Reset: redfish.ResetOn, Status: 204},
		Token:   "secret", Open: 2, Logins: redfish.Logins{Accepted: 5, Refused: 3, Lockouts: 1},
	}
	log.of("a")(entry)
	got, err := os.ReadFile(path)
	want := `{"time":"2026-05-04T03:02:01Z","node":"a","method":"POST","path":"/p","user":"u","reset":"On","status":204,"token":"secret","open":2,"refused":3,"locked":1}`
	if err != nil || string(bytes.TrimSpace(got)) != want {
		t.Errorf("the log is %s (%v), want %s", got, err, want)
	}
	if none, err := openRequests(""); none != nil || err != nil || none.of("a") != nil {
		t.Errorf("without a path there is the log %v (%v)", none, err)
	}
}
