package power

import (
	"encoding/binary"
	"net"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// The layout of a datagram of RMCP+, as IPMI 2.0 has it in section 13.6.
const (
	headerAt, payloadAt = 4, 16
	typeAt              = 5
	lengthAt            = 14
	encryptedAndSigned  = 0xc0
	nextHeader          = 0x07
	minMessage          = 8
	// fixedAnswer is how long the answers of a login are without what a refusal leaves out, and statusAt is where they have their status.
	fixedAnswer, statusAt = 8, 1
)

// verified is a connection that passes on only the datagrams that a BMC has signed and encrypted within the session, and those of
// the login. The client of go-ipmi checks neither. Anyone could tell it that the host is off, and a malformed one would end the
// process.
type verified struct {
	net.Conn
	suite              types.CipherSuiteID
	username, password string
	// awaited is the type of the answer to what was sent last.
	awaited byte
	// console is the random number of RAKP message 1, and role its role.
	console []byte
	role    byte
	// signing and encryption are the keys of the session, or nil before RAKP message 2.
	signing, encryption []byte
}

// newVerified returns a connection that verifies what it receives.
func newVerified(conn net.Conn, suite types.CipherSuiteID, username, password string) *verified {
	return &verified{Conn: conn, suite: suite, username: username, password: password}
}

// dialed is a dialer that returns one connection.
type dialed struct{ conn net.Conn }

// Dial returns the connection.
func (d dialed) Dial(string, string) (net.Conn, error) { return d.conn, nil }

// Write sends a datagram, and keeps what the keys of the session are derived from.
func (v *verified) Write(datagram []byte) (int, error) {
	const randomAt, roleAt = payloadAt + 8, payloadAt + 24
	if len(datagram) > roleAt {
		v.awaited = answerTo(datagram[typeAt])
		if v.awaited == byte(types.PayloadTypeRAKPMessage2) {
			v.console, v.role = append([]byte(nil), datagram[randomAt:roleAt]...), datagram[roleAt]
			v.signing, v.encryption = nil, nil
		}
	}
	return v.Conn.Write(datagram) //nolint:wrapcheck // it stands in for the connection
}

// answerTo returns the type of the answer to a type of payload. Answers in a session are encrypted and signed.
func answerTo(sent byte) byte {
	switch request := types.PayloadType(sent); request { //nolint:exhaustive // the others are sent in a session
	case types.PayloadTypeRmcpOpenSessionRequest, types.PayloadTypeRAKPMessage1, types.PayloadTypeRAKPMessage3:
		return byte(request + 1)
	}
	return encryptedAndSigned | byte(types.PayloadTypeIPMI)
}

// Read returns the next datagram that is to be believed. The others are dropped.
func (v *verified) Read(buffer []byte) (int, error) {
	for {
		n, err := v.Conn.Read(buffer)
		if err != nil {
			return n, err //nolint:wrapcheck // the same
		}
		if v.accepts(buffer[:n]) {
			return padded(buffer, n), nil
		}
	}
}

// padded extends a refused login that is too short for the client, and returns the length of the datagram. OpenIPMI's BMC sends the
// status and no session.
func padded(buffer []byte, n int) int {
	length := int(binary.LittleEndian.Uint16(buffer[lengthAt:]))
	short := length > statusAt && length < fixedAnswer && len(buffer) >= payloadAt+fixedAnswer
	if !short || buffer[typeAt]&encryptedAndSigned != 0 || buffer[payloadAt+statusAt] == 0 {
		return n
	}
	clear(buffer[payloadAt+length : payloadAt+fixedAnswer])
	buffer[lengthAt] = fixedAnswer
	return payloadAt + fixedAnswer
}

// accepts reports whether a datagram is to be believed.
func (v *verified) accepts(datagram []byte) bool {
	if len(datagram) < payloadAt || datagram[3] != byte(types.MessageClassIPMI) || datagram[headerAt] != byte(types.AuthTypeRMCPPlus) {
		return false
	}
	end := payloadAt + int(binary.LittleEndian.Uint16(datagram[lengthAt:]))
	if end > len(datagram) || datagram[typeAt] != v.awaited {
		return false
	}
	payload := datagram[payloadAt:end]
	if v.awaited == byte(types.PayloadTypeRAKPMessage2) {
		return v.derive(payload)
	}
	return v.awaited&encryptedAndSigned == 0 || v.signed(datagram, end) && v.readable(payload)
}

// derive derives the keys of the session from RAKP message 2. The client checks that message itself.
func (v *verified) derive(payload []byte) bool {
	const randomAt, guidAt = 8, 24
	if len(payload) < guidAt || v.console == nil {
		return true // it says that the login failed
	}
	auth, _, _, _ := types.GetCipherSuiteAlgorithms(v.suite)
	key := crypto.PadPassword20([]byte(v.password))
	var err error
	_, v.signing, v.encryption, err = crypto.DeriveSessionKeys(auth, v.console, payload[randomAt:guidAt], v.role, v.username, key)
	return err == nil
}

// signed reports whether a datagram has the signature of the session. Its payload ends at an offset.
func (v *verified) signed(datagram []byte, end int) bool {
	_, integrity, _, _ := types.GetCipherSuiteAlgorithms(v.suite)
	signatureAt := end + types.IntegrityPadLen(payloadAt-headerAt, end-payloadAt) + 2
	if v.signing == nil || len(datagram) < signatureAt || datagram[signatureAt-1] != nextHeader {
		return false
	}
	signature, err := crypto.SessionIntegrityAuthCode(integrity, datagram[headerAt:signatureAt], v.signing, "")
	return err == nil && crypto.Equal(signature, datagram[signatureAt:])
}

// readable reports whether a payload can be decrypted. The client would panic at another.
func (v *verified) readable(payload []byte) bool {
	const block = 16
	if len(payload)%block != 0 {
		return false
	}
	message, _ := crypto.DecryptAESPayload(payload, v.encryption) // a message that can't be decrypted is empty
	return len(message) >= minMessage
}
