package power

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/fettle-io/fettle/internal/fencing"
)

// served answers each request with one body.
type served []byte

func (s served) RoundTrip(*http.Request) (*http.Response, error) {
	header := http.Header{"X-Auth-Token": {"token"}, "Location": {sessionsPath + "/1"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(s))}, nil
}

// Whatever a BMC answers, a host is read as off only if the answer says so.
func FuzzRedfishAnswer(f *testing.F) {
	f.Add([]byte(`{"PowerState":"Off","Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`))
	f.Add([]byte(`{"PowerState":"On","Actions":{"#ComputerSystem.Reset":{"target":"/x"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		h := NewHost(Config{Address: Address{Protocol: Redfish, Host: "h", Port: 1}, Now: newClock().now}, mustCredentials(t, "a", "b"))
		h.open = func(c Config, credentials Credentials) connection {
			driver := openRedfish(c, credentials).(*redfish)
			driver.http = &http.Client{Transport: served(body)}
			return driver
		}
		reading, failure := h.Read(t.Context())
		if !failure.Failed() && reading.State == fencing.IsOff && !bytes.Contains(body, []byte(`O`)) && !bytes.Contains(body, []byte(`\u`)) {
			t.Errorf("%q was read as off", body)
		}
		h.Command(t.Context(), TurnOff, "")
	})
}

// A datagram without the signature of the session is never accepted in it, whatever it contains.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte{6, 0, 0xff, 7, 6, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, byte(0xc0))
	f.Add([]byte{6, 0, 0xff, 7, 6, 0x13, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0}, byte(0x13))
	f.Add([]byte{6, 0, 0xff, 7, 6, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 9, 1, 0, 0, 0, 0, 0, 0}, byte(0x11))
	f.Fuzz(func(t *testing.T, datagram []byte, awaited byte) {
		v := newVerified(nil, types.CipherSuiteID17, testUser, testPassword)
		v.awaited, v.console = awaited, make([]byte, 16)
		if v.accepts(datagram) {
			if awaited&encryptedAndSigned != 0 {
				t.Error("a datagram without the signature of a session was accepted")
			}
			buffer := append(bytes.Clone(datagram), 0)
			if n := padded(buffer, len(datagram)); n > len(buffer) || v.accepts(buffer[:n]) != v.accepts(datagram) {
				t.Errorf("a datagram of %d bytes became one of %d, which is not accepted", len(datagram), n)
			}
		}
		v.signing, v.encryption = make([]byte, 32), make([]byte, 32)
		v.accepts(datagram)
	})
}
