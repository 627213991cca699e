package ipmi

import (
	"net"
	"sync"
	"testing"
)

// The layout of a datagram of RMCP+, and the types of payload that it may have (IPMI 2.0, section 13).
const (
	typeAt             = 5
	openSessionRequest = 0x10
	rakpMessage1       = 0x12
	rakpMessage3       = 0x14
	// authenticationAt is where a request for a session has the algorithm that it requests.
	authenticationAt = 16 + 12
	hmacSHA1         = 1
	hmacSHA256       = 3
)

// relay passes datagrams on to a BMC and back, and counts those of logins.
type relay struct {
	net.PacketConn

	upstream string
	// answering counts the goroutines that pass answers on.
	answering sync.WaitGroup

	mu sync.Mutex
	// logins counts the attempts to log in, and proofs the hashes of passwords that were sent.
	logins, proofs int
	// requested has the algorithms of authentication that were requested for, in their order.
	requested []byte
	clients   map[string]net.Conn
}

// startRelay starts a relay to a port of the loopback.
func startRelay(t *testing.T, upstream string) *relay {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{PacketConn: conn, upstream: upstream, clients: map[string]net.Conn{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		r.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-served // there are no more clients
		for _, c := range r.clients {
			_ = c.Close()
		}
		r.answering.Wait()
	})
	return r
}

func (r *relay) serve() {
	buffer := make([]byte, 4096)
	for {
		n, from, err := r.ReadFrom(buffer)
		if err != nil {
			return
		}
		if bmc := r.pass(buffer[:n], from); bmc != nil {
			_, _ = bmc.Write(buffer[:n]) // a datagram may be lost
		}
	}
}

// pass counts a datagram and returns the connection to the BMC for its sender.
func (r *relay) pass(datagram []byte, from net.Addr) net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(datagram) > authenticationAt {
		switch datagram[typeAt] {
		case openSessionRequest:
			r.requested = append(r.requested, datagram[authenticationAt])
		case rakpMessage1:
			r.logins++
		case rakpMessage3:
			r.proofs++
		}
	}
	bmc := r.clients[from.String()]
	if bmc == nil {
		var err error
		if bmc, err = net.Dial("udp", r.upstream); err != nil {
			return nil
		}
		r.clients[from.String()] = bmc
		r.answering.Go(func() { r.back(bmc, from) })
	}
	return bmc
}

// back passes on what the BMC answers to a client.
func (r *relay) back(bmc net.Conn, to net.Addr) {
	buffer := make([]byte, 4096)
	for {
		n, err := bmc.Read(buffer)
		if err != nil {
			return
		}
		_, _ = r.WriteTo(buffer[:n], to) // a datagram may be lost
	}
}

// counts returns the counts since the last call.
func (r *relay) counts() (requested []byte, logins, proofs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	requested, logins, proofs = r.requested, r.logins, r.proofs
	r.requested, r.logins, r.proofs = nil, 0, 0
	return requested, logins, proofs
}
