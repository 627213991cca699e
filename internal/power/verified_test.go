package power

import (
	"bytes"
	"net"
	"testing"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// sink is a connection that takes what is written.
type sink struct{ net.Conn }

func (sink) Write(datagram []byte) (int, error) { return len(datagram), nil }

// numbered returns a datagram of a type whose other bytes are their own indices.
func numbered(kind types.PayloadType, size int) []byte {
	datagram := make([]byte, size)
	for i := range datagram {
		datagram[i] = byte(i)
	}
	datagram[typeAt] = byte(kind)
	return datagram
}

// TestVerifiedLogin: the keys of an earlier session are forgotten when a login begins, and what is too short is no login.
func TestVerifiedLogin(t *testing.T) {
	v := newVerified(sink{}, types.CipherSuiteID17, testUser, testPassword)
	write := func(datagram []byte) {
		t.Helper()
		if n, err := v.Write(datagram); n != len(datagram) || err != nil {
			t.Errorf("of %d bytes %d were written, %v", len(datagram), n, err)
		}
	}
	write(numbered(types.PayloadTypeRAKPMessage1, 40))
	if v.awaited != 0 || v.console != nil {
		t.Errorf("after a datagram that is too short the type %#x is awaited", v.awaited)
	}
	v.signing, v.encryption = []byte{1}, []byte{2}
	login := numbered(types.PayloadTypeRAKPMessage1, 41)
	write(login)
	if v.awaited != byte(types.PayloadTypeRAKPMessage2) || !bytes.Equal(v.console, login[24:40]) || v.role != login[40] || v.signing != nil || v.encryption != nil {
		t.Errorf("after a login the connection is %+v", v)
	}
	write(numbered(types.PayloadTypeIPMI, 10))
	if v.awaited != byte(types.PayloadTypeRAKPMessage2) || !bytes.Equal(v.console, login[24:40]) {
		t.Errorf("after a short datagram the connection is %+v", v)
	}
}

func TestVerifiedHeaders(t *testing.T) {
	answer := func(change func([]byte)) []byte {
		datagram := []byte{6, 0, 0xff, 7, 6, byte(types.PayloadTypeRmcpOpenSessionResponse), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'x'}
		datagram[lengthAt] = 1
		change(datagram)
		return datagram
	}
	none := func([]byte) {}
	for name, tc := range map[string]struct {
		datagram []byte
		is       bool
	}{
		"an answer":               {answer(none), true},
		"an answer with more":     {append(answer(none), 'y'), true},
		"without payload":         {answer(func(d []byte) { d[lengthAt] = 0 })[:payloadAt], true},
		"shorter than its header": {answer(func(d []byte) { d[lengthAt] = 0 })[:payloadAt-1], false},
		"shorter than its length": {answer(func(d []byte) { d[lengthAt] = 2 }), false},
		"of another class":        {answer(func(d []byte) { d[3] = 6 }), false},
		"of IPMI 1.5":             {answer(func(d []byte) { d[headerAt] = 0 }), false},
		"of another type":         {answer(func(d []byte) { d[typeAt] = byte(types.PayloadTypeRAKPMessage4) }), false},
	} {
		v := newVerified(nil, types.CipherSuiteID17, testUser, testPassword)
		v.awaited = byte(types.PayloadTypeRmcpOpenSessionResponse)
		if v.accepts(tc.datagram) != tc.is {
			t.Errorf("a datagram %s is accepted: %t", name, !tc.is)
		}
	}
}

// TestVerifiedKeys: a message without the random number of the BMC says that the login has failed, and makes no keys.
func TestVerifiedKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		console []byte
		size    int
		suite   types.CipherSuiteID
		accepts bool
		keys    bool
	}{
		"a login":                    {make([]byte, 16), 24, types.CipherSuiteID17, true, true},
		"a login that has failed":    {make([]byte, 16), 23, types.CipherSuiteID17, true, false},
		"before a login":             {nil, 24, types.CipherSuiteID17, true, false},
		"a suite without algorithms": {make([]byte, 16), 24, types.CipherSuiteIDReserved, true, false},
	} {
		v := newVerified(nil, tc.suite, testUser, testPassword)
		v.console = tc.console
		if got := v.derive(make([]byte, tc.size)); got != tc.accepts || (v.signing != nil) != tc.keys || (v.encryption != nil) != tc.keys {
			t.Errorf("%s: it is accepted: %t, with keys %x and %x", name, got, v.signing, v.encryption)
		}
	}
}

// inSession returns a connection within a session.
func inSession(suite types.CipherSuiteID) *verified {
	v := newVerified(nil, suite, testUser, testPassword)
	v.awaited = encryptedAndSigned | byte(types.PayloadTypeIPMI)
	v.signing, v.encryption = bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	return v
}

// sealed returns a datagram of a session with a payload and a signature.
func sealed(t *testing.T, v *verified, payload []byte, change func([]byte)) []byte {
	t.Helper()
	datagram := append([]byte{6, 0, 0xff, 7, 6, v.awaited, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(payload)), 0}, payload...)
	pad := types.IntegrityPadLen(payloadAt-headerAt, len(payload))
	datagram = append(append(datagram, make([]byte, pad)...), byte(pad), nextHeader)
	change(datagram)
	_, integrity, _, _ := types.GetCipherSuiteAlgorithms(v.suite)
	signature, err := crypto.SessionIntegrityAuthCode(integrity, datagram[headerAt:], v.signing, "")
	if err != nil {
		t.Fatal(err)
	}
	return append(datagram, signature...)
}

// encrypted returns a payload for a message of some bytes.
func encrypted(t *testing.T, v *verified, size int) []byte {
	t.Helper()
	payload, err := crypto.EncryptAESPayload(make([]byte, size), v.encryption, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// TestVerifiedSession: a datagram of a session counts if it is both signed and readable.
func TestVerifiedSession(t *testing.T) {
	none := func([]byte) {}
	for _, suite := range suites {
		v := inSession(suite)
		good := sealed(t, v, encrypted(t, v, minMessage), none)
		if !v.accepts(good) {
			t.Errorf("suite %v: a datagram of the session is dropped", suite)
		}
		for name, datagram := range map[string][]byte{
			"with a wrong signature":  append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1),
			"with half a signature":   good[:len(good)-1],
			"without a signature":     good[:len(good)-16],
			"without its padding":     good[:payloadAt+32],
			"with too short messages": sealed(t, v, encrypted(t, v, minMessage-1), none),
			"with another header":     sealed(t, v, encrypted(t, v, minMessage), func(d []byte) { d[len(d)-1]++ }),
			"with one block":          sealed(t, v, make([]byte, 16), none),
			"with part of a block":    sealed(t, v, make([]byte, 40), none),
			"with a wrong padding":    sealed(t, v, make([]byte, 48), none),
		} {
			if v.accepts(datagram) {
				t.Errorf("suite %v: a datagram %s is accepted", suite, name)
			}
		}
		v.signing = nil
		if v.accepts(sealed(t, v, encrypted(t, v, minMessage), none)) {
			t.Errorf("suite %v: a datagram is accepted before there is a session", suite)
		}
	}
}

// TestVerifiedRefusals: a refusal of a login has at least eight bytes once it is passed on, and nothing else is changed.
func TestVerifiedRefusals(t *testing.T) {
	answer := func(kind byte, payload ...byte) []byte {
		datagram := append(make([]byte, payloadAt), payload...)
		datagram[typeAt], datagram[lengthAt] = kind, byte(len(payload))
		return datagram
	}
	const opened, inSession = byte(types.PayloadTypeRmcpOpenSessionResponse), byte(encryptedAndSigned)
	for name, tc := range map[string]struct {
		datagram, want []byte
		room           int
	}{
		"two bytes":           {answer(opened, 7, 1), answer(opened, 7, 1, 0, 0, 0, 0, 0, 0), 100},
		"two, and a rest":     {append(answer(opened, 7, 1), 9, 9, 9), answer(opened, 7, 1, 0, 0, 0, 0, 0, 0), 100},
		"seven bytes":         {answer(opened, 7, 1, 2, 3, 4, 5, 6), answer(opened, 7, 1, 2, 3, 4, 5, 6, 0), 100},
		"eight bytes":         {answer(opened, 7, 1, 2, 3, 4, 5, 6, 7), answer(opened, 7, 1, 2, 3, 4, 5, 6, 7), 100},
		"eight, and a rest":   {append(answer(opened, 7, 1, 2, 3, 4, 5, 6, 7), 9), append(answer(opened, 7, 1, 2, 3, 4, 5, 6, 7), 9), 100},
		"a buffer just large": {answer(opened, 7, 1), answer(opened, 7, 1, 0, 0, 0, 0, 0, 0), payloadAt + 8},
		"a buffer too small":  {answer(opened, 7, 1), answer(opened, 7, 1), payloadAt + 7},
		"one byte":            {answer(opened, 7), answer(opened, 7), 100},
		"no refusal":          {answer(opened, 7, 0), answer(opened, 7, 0), 100},
		"in a session":        {answer(inSession, 7, 1), answer(inSession, 7, 1), 100},
	} {
		buffer := bytes.Repeat([]byte{0xee}, tc.room)
		n := copy(buffer, tc.datagram)
		if got := buffer[:padded(buffer, n)]; !bytes.Equal(got, tc.want) {
			t.Errorf("%s: passed on are %x, want %x", name, got, tc.want)
		}
	}
}
