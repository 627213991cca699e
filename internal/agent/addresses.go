package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"sync"

	"github.com/fettle-io/fettle/internal/promiselease"
)

// Addresses has where the agents of some other nodes listen. It keeps that in a directory, so that an agent that restarts while the API server is
// away reaches its witnesses. A false address leads to a handshake that fails. It is safe for concurrent use.
type Addresses struct {
	dir   Directory
	mu    sync.Mutex
	known map[string]netip.AddrPort
}

// Names and bounds of the stored addresses.
const (
	addressFile   = "addresses.json"
	mostAddresses = 64
	maxAddresses  = 32 << 10
)

// NewAddresses returns the addresses that are kept in a directory. Unreadable addresses are read from the Leases again.
func NewAddresses(dir Directory) *Addresses {
	a := &Addresses{dir: dir, known: map[string]netip.AddrPort{}}
	text, err := dir.read(addressFile, maxAddresses)
	if err != nil {
		return a
	}
	var known map[string]netip.AddrPort
	if err := json.Unmarshal(text, &known); err == nil && len(known) <= mostAddresses {
		maps.Copy(a.known, known)
	}
	return a
}

// Of returns where the agent of a node listens.
func (a *Addresses) Of(node string) (netip.AddrPort, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, is := a.known[node]
	return at, is
}

// note notes the addresses of some nodes in place of the known ones. A node whose Lease states none keeps what was known of it.
func (a *Addresses) note(nodes []string, all map[string]promiselease.Record) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := map[string]netip.AddrPort{}
	for _, node := range nodes {
		at := all[node].Address
		if !at.IsValid() {
			at = a.known[node]
		}
		if at.IsValid() && len(next) < mostAddresses {
			next[node] = at
		}
	}
	if maps.Equal(next, a.known) {
		return nil
	}
	a.known = next
	return a.save()
}

// save replaces the file of the addresses.
func (a *Addresses) save() error {
	text, err := json.Marshal(a.known)
	if err != nil {
		return fmt.Errorf("encoding addresses: %w", err)
	}
	return a.dir.replace(addressFile, text)
}
