package power

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/fettle-io/fettle/internal/fencing"
)

func TestAddressesAtTheirBounds(t *testing.T) {
	const redfish = "redfish://h" + systemsPath
	for text, fits := range map[string]bool{
		"ipmi://" + strings.Repeat("a", maxName):                 true,
		"ipmi://" + strings.Repeat("a", maxName+1):               false,
		redfish + strings.Repeat("a", maxAddress-len(redfish)):   true,
		redfish + strings.Repeat("a", maxAddress-len(redfish)+1): false,
		"redfish://h#": true, // an empty fragment is none
	} {
		if _, err := ParseAddress(text); (err == nil) != fits {
			t.Errorf("an address of %d bytes is met with %v", len(text), err)
		}
	}
	for id, is := range map[string]bool{
		systemsPath + strings.Repeat("a", maxAddress-len(systemsPath)):   true,
		systemsPath + strings.Repeat("a", maxAddress-len(systemsPath)+1): false,
		systemsPath:        false,
		systemsPath + ".":  false,
		systemsPath + "..": false,
		"1":                false,
	} {
		if isSystem(id) != is {
			t.Errorf("%.60s of %d bytes is the path of a system: %t", id, len(id), !is)
		}
	}
	for _, port := range []string{"h:", "h:0", "h:65536"} {
		if got, err := parsePort(&url.URL{Host: port}, 7); got != 0 || err == nil {
			t.Errorf("the port of %s is %d, %v", port, got, err)
		}
	}
}

func TestCharactersOfAddresses(t *testing.T) {
	const digits, lower = "0123456789", "abcdefghijklmnopqrstuvwxyz"
	names := digits + lower + strings.ToUpper(lower) + ".-_"
	for char := range rune(0x200) {
		if isNameChar(char) != strings.ContainsRune(names, char) {
			t.Errorf("%q belongs to names: %t", char, isNameChar(char))
		}
		plain := char > ' ' && char < 0x7f && !strings.ContainsRune(`/?#\"<>@`, char)
		if is := isSystem(systemsPath + "1" + string(char)); is != plain {
			t.Errorf("%q belongs to the identifiers of systems: %t", char, is)
		}
	}
}

func TestCredentialsAtTheirBounds(t *testing.T) {
	long := strings.Repeat("x", maxCredential)
	if _, err := NewCredentials(long, long); err != nil {
		t.Errorf("credentials of %d bytes are met with %v", len(long), err)
	}
	if shown := fmt.Sprintf("%+v", mustCredentials(t, "a", "b")); shown != redacted {
		t.Errorf("credentials are shown as %q", shown)
	}
}

func TestTextsOfFailures(t *testing.T) {
	for want, f := range map[string]Failure{
		"another operation of the BMC is running":                                                {Reason: Busy},
		"another operation of the BMC is running, status 1":                                      {Reason: Busy, HTTPStatus: 1},
		"the UUID of the system is not that of the node, so the BMC is probably of another host": {Reason: OtherSystem},
	} {
		if f.String() != want {
			t.Errorf("the text is %q, want %q", f, want)
		}
	}
}

// plain is an error of the network without a time limit.
type plain struct{ error }

func (plain) Timeout() bool   { return false }
func (plain) Temporary() bool { return false }
func (p plain) Unwrap() error { return p.error }

func TestReasons(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want Reason
	}{
		"a place elsewhere":              {errElsewhere, UnexpectedAnswer},
		"an answer that is too large":    {errOversized, UnexpectedAnswer},
		"a caller that gave up":          {context.Canceled, Interrupted},
		"a limit of a context":           {plain{fmt.Errorf("reading: %w", context.DeadlineExceeded)}, TimedOut},
		"a limit of a connection":        {os.ErrDeadlineExceeded, TimedOut},
		"an error of the network":        {plain{errors.New("?")}, UnexpectedAnswer},
		"a broken connection":            {&net.OpError{Op: "read", Err: errors.New("?")}, Unreachable},
		"a name that can't be resolved":  {&net.DNSError{Err: "?"}, Unreachable},
		"an end":                         {io.EOF, Unreachable},
		"an early end":                   {io.ErrUnexpectedEOF, Unreachable},
		"something else":                 {errors.New("?"), UnexpectedAnswer},
		"an error without a status":      {errors.Join(&schemas.Error{}, io.EOF), Unreachable},
		"an error with a status":         {errors.Join(&schemas.Error{HTTPReturnedStatusCode: 1}, io.EOF), UnexpectedAnswer},
		"no session left, by its code":   {&schemas.Error{HTTPReturnedStatusCode: 503, Code: "Base.1.8.SessionLimitExceeded"}, NoSessionLeft},
		"no session left, by its detail": {&schemas.Error{HTTPReturnedStatusCode: 400, ExtendedInfos: []schemas.ErrExtendedInfo{{MessageID: "x"}, {MessageID: "IDRAC.2.8.RAC0218"}}}, NoSessionLeft},
	} {
		if f := redfishFailure(tc.err); f.Reason != tc.want {
			t.Errorf("%s is %q, want %q", name, f.Reason, tc.want)
		}
	}
	if withoutSession(io.EOF) {
		t.Error("a broken connection lets the credentials be sent with each request")
	}
}

// TestTurnOfAnotherIsKept: a caller that gives up does not end the turn of the operation that runs.
func TestTurnOfAnotherIsKept(t *testing.T) {
	h, _, closed := play(t, newClock(), "")
	wantState(t, h, fencing.IsOff)
	h.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.Close(ctx)
	if len(h.turn) != 1 || *closed != 0 {
		t.Errorf("%d turns are held, and %d connections were closed", len(h.turn), *closed)
	}
}

// TestReadingsEndAfterTheCall, and a closed connection is opened again.
func TestReadingsEndAfterTheCall(t *testing.T) {
	c := newClock()
	h, opened, closed := play(t, c)
	var contexts []context.Context
	h.open = func(Config, Credentials) connection {
		*opened++
		return &played{
			call: func(ctx context.Context) (fencing.PowerState, Failure) {
				contexts = append(contexts, ctx)
				c.forward(time.Second)
				return fencing.IsOff, Failure{}
			},
			closed: func(ctx context.Context) {
				contexts = append(contexts, ctx)
				*closed++
			},
		}
	}
	for range 2 {
		if reading, f := h.Read(t.Context()); f.Failed() || reading.Ended.Sub(reading.Begun) < time.Second {
			t.Errorf("a reading lasts from %v to %v, %v", reading.Begun, reading.Ended, f)
		}
		h.Close(t.Context())
		h.Close(t.Context())
	}
	if *opened != 2 || *closed != 2 || len(contexts) != 4 {
		t.Errorf("%d connections were opened and %d closed, in %d calls", *opened, *closed, len(contexts))
	}
	for _, ctx := range contexts {
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("after a call its context has %v", ctx.Err())
		}
	}
}

func TestTimeToClose(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := NewHost(Config{Timeout: limit, Now: time.Now}, mustCredentials(t, testUser, testPassword)) //nolint:forbidigo // time in a bubble is injected
			var until time.Time
			h.opened = &played{closed: func(ctx context.Context) { until, _ = ctx.Deadline() }}
			began := h.config.Now()
			h.Close(t.Context())
			if until.Sub(began) != want {
				t.Errorf("giving a session back may take %s, want %s", until.Sub(began), want)
			}
		})
	}
}

func TestTrustAtItsBounds(t *testing.T) {
	b := startRedfish(t, httptest.NewTLSServer)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.server.Certificate().Raw})
	padded := func(size int) []byte { return append(own, strings.Repeat("\n", size-len(own))...) }
	for name, tc := range map[string]struct {
		authorities []byte
		fingerprint string
		says        string
	}{
		"both":                       {[]byte("x"), "y", "both"},
		"as large as may be":         {padded(maxBundle), "", ""},
		"one byte more":              {padded(maxBundle + 1), "", "larger than 1 MiB"},
		"half a digit more":          {nil, strings.Repeat("ab", 32) + "a", "not one of SHA-256"},
		"digits, and something else": {nil, strings.Repeat("ab", 32) + "xx", "not one of SHA-256"},
	} {
		if _, err := NewTrust(tc.authorities, tc.fingerprint); (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s is met with %v, want %q", name, err, tc.says)
		}
	}
	if c := (Trust{}).config("h"); c.MinVersion != tls.VersionTLS12 || c.ServerName != "h" {
		t.Errorf("connections are made with %+v", c)
	}
	if text := fingerprint(nil); text != "" {
		t.Errorf("the fingerprint of no certificate is %q", text)
	}
}

func TestTransportIsBounded(t *testing.T) {
	transport := newClient(Address{Host: "h"}, Trust{}).Transport.(confined).transport
	if transport.MaxResponseHeaderBytes != 64<<10 || transport.MaxConnsPerHost != 1 || transport.IdleConnTimeout != time.Minute || !transport.DisableCompression {
		t.Errorf("the transport is %+v", transport)
	}
	for _, to := range []*url.URL{
		{Scheme: "http", Host: "h:443"}, {Scheme: "https", Host: "h:444"}, {Scheme: "https", Host: "h:443", User: url.User("x")},
	} {
		c := confined{transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }}, scheme: "https", host: "h:443"}
		if _, err := c.RoundTrip(&http.Request{URL: to}); !errors.Is(err, errElsewhere) {
			t.Errorf("%s is met with %v", to, err)
		}
	}
}

// get reads an answer within a time.
func get(t *testing.T, c *http.Client, from string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel) // a context that ends closes the connection too
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

// TestAnswersAtTheirBound: after an answer that is too large, the one connection is free again.
func TestAnswersAtTheirBound(t *testing.T) {
	const state = `{"PowerState":"Off"}`
	for size, want := range map[int]Reason{maxAnswer: "", maxAnswer + 1: UnexpectedAnswer, 2 * maxAnswer: UnexpectedAnswer} {
		b := plainRedfish(t)
		b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, state+strings.Repeat(" ", size-len(state)))
		})
		h := b.host(t, newClock(), testPassword)
		if _, f := h.Read(t.Context()); f.Reason != want {
			t.Errorf("an answer of %d bytes is met with %v", size, f)
		}
		b.set(func() { b.fault = nil })
		wantState(t, h, fencing.IsOn)
	}
	b := plainRedfish(t)
	b.fault = onPath("/large", func(w http.ResponseWriter) {
		_, _ = io.Copy(w, io.LimitReader(endless{}, 2*maxAnswer))
	})
	c := newClient(b.address, Trust{})
	if err := get(t, c, b.server.URL+"/large"); !errors.Is(err, errOversized) {
		t.Errorf("a large answer is met with %v", err)
	}
	if err := get(t, c, b.server.URL+rootPath); err != nil {
		t.Errorf("after a large answer another is met with %v", err)
	}
	b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, state)
	})
	wantFailure(t, b.host(t, newClock(), testPassword), Unreachable)
}
