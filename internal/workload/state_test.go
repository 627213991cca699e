package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestAnswersOnlyWhileInStep goes through the states of a connection.
func TestAnswersOnlyWhileInStep(t *testing.T) {
	var s state
	wants := func(sentence string, at time.Duration, want core.Tri, words string) {
		t.Helper()
		got, why := s.answers(noon.Add(at))
		if got != want || (words == "") != (why == "") || !strings.Contains(why, words) {
			t.Errorf("%s: %s, %q; want %s, %q", sentence, got, why, want, words)
		}
	}
	wants("it has just begun, and there is nothing to tell", 0, core.Unknown, "")
	s = s.heardFrom(noon)
	wants("it is reached, and its nodes are not known yet", 0, core.Unknown, "")
	s = s.listed(noon)
	wants("its nodes are known", 0, core.Yes, "")
	wants("it is silent for as long as it may be", 20*time.Second, core.Yes, "")
	wants("this process was halted, and probed nothing", 21*time.Second, core.Unknown, "has sent nothing for more than 20s")
	s = s.heardFrom(noon.Add(time.Minute))
	wants("it still answers", time.Minute, core.Yes, "")
	s = s.lost("it is down")
	wants("it is lost", time.Minute, core.Unknown, "it is down")
	s = s.heardFrom(noon.Add(2 * time.Minute))
	wants("it is reached again, and what is known is from before", 2*time.Minute, core.Unknown, "it is down")
	s = s.listed(noon.Add(2 * time.Minute))
	wants("all is taken in anew", 2*time.Minute, core.Yes, "")
}

// TestWhoDecidesIsWoken: a pass is due when a cluster begins or ceases to answer, when the problem changes, and
// when a node does. Attempts are counted, and each is logged.
func TestWhoDecidesIsWoken(t *testing.T) {
	now, woken := noon, 0
	var logged []string
	c := &Connection{Connections: &Connections{Config: Config{
		Now: func() time.Time { return now }, Wake: func(types.NamespacedName) { woken++ },
		Log: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}),
	}}}
	failed := func(problem string) func() { return func() { c.recordLoss(errors.New("it failed"), problem) } }
	updated := func(change func(state, time.Time) state) func() { return func() { c.update(change) } }
	for _, step := range []struct {
		sentence string
		after    time.Duration
		do       func()
		wakes    bool
		logs     string
	}{
		{"it is reached", 0, updated(state.heardFrom), false, ""},
		{"its nodes are known", 0, updated(state.listed), true, "connected to"},
		{"it speaks", time.Second, updated(state.heardFrom), false, ""},
		{"a node changes", time.Second, func() { c.updateAndWake(state.heardFrom, true) }, true, ""},
		{"its nodes are listed anew", time.Second, updated(state.listed), false, ""},
		{"it is heard after a silence that is too long", time.Minute, updated(state.heardFrom), true, ""},
		{"it is lost", time.Second, failed("it is down"), true, "it is down"},
		{"it is still lost", time.Second, failed("it is down"), false, ""},
		{"it is lost for another reason", time.Second, failed("it is gone"), true, "it is gone"},
		{"it is reached again", time.Second, updated(state.heardFrom), false, ""},
		{"its nodes are known again", time.Second, updated(state.listed), true, "connected to"},
		{"it is lost again", time.Second, failed("it is gone"), true, "it is gone"},
	} {
		now, woken, logged = now.Add(step.after), 0, nil
		step.do()
		if (woken > 0) != step.wakes {
			t.Errorf("%s: it is woken %d times", step.sentence, woken)
		}
		if lines := strings.Join(logged, "\n"); (step.logs == "") != (lines == "") || !strings.Contains(lines, step.logs) {
			t.Errorf("%s: the log has %q, want %q", step.sentence, lines, step.logs)
		}
	}
	if c.connected != 2 || c.failed != 4 {
		t.Errorf("%d attempts connected and %d failed, want 2 and 4", c.connected, c.failed)
	}
}

func TestPause(t *testing.T) {
	p := Timing{}.orDefault()
	cases := map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 1000: 30 * time.Second}
	for failures, want := range cases {
		least, most := p.pause(failures, p.MaxPause, 0), p.pause(failures, p.MaxPause, 1)
		if least != want*3/4 || most != want*5/4 {
			t.Errorf("after %d failures it waits %s to %s; want 3/4 to 5/4 of %s", failures, least, most, want)
		}
	}
	if longer := p.pause(1000, 10*p.MaxPause, 0); longer != 10*p.MaxPause*3/4 {
		t.Errorf("a cluster that exceeds bounds waits %s", longer)
	}
	if own := (Timing{MinPause: time.Millisecond}).orDefault(); own.MinPause != time.Millisecond || own.ProbeAfter != 0 {
		t.Errorf("a chosen timing is changed to %+v", own)
	}
}

func TestReadiness(t *testing.T) {
	failed := apierrors.NewInternalError(errors.New("readyz check failed"))
	cases := map[string]struct {
		body string
		err  error
		says string
	}{
		"it is ready":                {"ok", nil, ""},
		"the user may not":           {"", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")), ""},
		"the user is not known":      {"", apierrors.NewUnauthorized("no"), "no"},
		"its etcd is gone":           {"[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/x failed: y\nreadyz check failed", failed, "not ready: etcd, 1 of its other checks"},
		"it is no API server":        {"[-]\x1b[2JSECRET failed\n[-]etcd failed", failed, "not ready: etcd, 1 of its other checks"},
		"it doesn't say what fails":  {"", failed, "not ready (500)"},
		"there is no host":           {"", syscall.ECONNREFUSED, "refused"},
		"a proxy has something else": {"<html>", apierrors.NewGenericServerResponse(502, "get", schema.GroupResource{}, "", "", 0, false), "not ready (502)"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			err := readiness([]byte(tc.body), tc.err)
			if (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("it gives %v, want %q", err, tc.says)
			}
		})
	}
}

// TestExplain: people are told what to do, in words that don't differ from one attempt to the next.
func TestExplain(t *testing.T) {
	dialing := func(port int, err error) error {
		return &url.Error{Op: "Get", URL: "https://h/readyz", Err: &net.OpError{
			Op: "dial", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Err: err,
		}}
	}
	cases := map[string]struct {
		err  error
		says string
	}{
		"unauthorized":     {apierrors.NewUnauthorized("Unauthorized"), "does not accept the credentials in Secret fleet/east-kubeconfig"},
		"forbidden":        {apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no")), "may not read the nodes"},
		"not ready":        {fmt.Errorf("%w: etcd", errUnready), "not ready: etcd"},
		"refused":          {dialing(40001, syscall.ECONNREFUSED), "does not answer: dial: connection refused;"},
		"too slow":         {fmt.Errorf("listing nodes: %w", context.DeadlineExceeded), "it takes too long"},
		"no name":          {dialing(1, &net.DNSError{Err: "no such host", Name: "h"}), "can't be resolved: no such host"},
		"not its server":   {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{Cert: &x509.Certificate{}}}, "is not trusted: an authority that is not known here"},
		"not its name":     {x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"SECRET"}}, Host: "h"}, "its certificate is for other names"},
		"expired":          {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "its certificate has expired"},
		"not for servers":  {x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}, "its certificate is not valid"},
		"a bad signature":  {&tls.CertificateVerificationError{Err: errors.New("x509: SECRET")}, "its certificate is not valid"},
		"bad credentials":  {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, "it refuses the connection: tls: bad certificate"},
		"something else":   {errors.New("SECRET"), "does not answer: what it sends is not the answer of an API server;"},
		"a proxy says no":  {&url.Error{Op: "Get", URL: "https://h", Err: errors.New("SECRET")}, "what it sends is not the answer of an API server"},
		"a bound":          {&url.Error{Op: "Get", URL: "https://h", Err: tooLarge("an answer", 1<<20)}, "sent an answer of more than 1024 KiB; see what answers"},
		"link-local":       {dialing(1, errAddress), "its address is link-local"},
		"ends all watches": {errEnded, "ends watches as soon as they have begun"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := explain(tc.err, "https://me:SECRET@h/?token=SECRET", "fleet/east-kubeconfig")
			if !strings.Contains(got, tc.says) || strings.Contains(got, "SECRET") {
				t.Errorf("it says %q, want %q", got, tc.says)
			}
		})
	}
	a, b := explain(dialing(40001, syscall.ECONNREFUSED), "h", "s"), explain(dialing(40002, syscall.ECONNREFUSED), "h", "s")
	if a != b {
		t.Errorf("the same is told as %q and as %q", a, b)
	}
}
