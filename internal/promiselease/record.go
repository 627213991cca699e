package promiselease

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/internal/selffence"
)

// Namespace has the Leases of all nodes whose agents promise something. A Lease has the name of its node.
const Namespace = "fettle-agents"

// Record is what a Lease says.
type Record struct {
	selffence.Lease

	// Device is the identity of the watchdog, as the device states it. It may be empty.
	Device string
	// Why is why the agent promises nothing. Only a Lease that is withdrawn says so, and not each of them.
	Why NoPromise
	// Witnessed is the revision up to which the agent of this node, as a witness, has read all Leases. Zero is none.
	Witnessed uint64
	// Address is where the agent listens for other agents. There may be none.
	Address netip.AddrPort
}

// Bounds of texts, in bytes.
const (
	maxDevice = 64
	maxUID    = 64
)

// check returns an error for a record that no Lease may have.
func (r Record) check() error {
	switch {
	case r.State != selffence.Promised && r.State != selffence.Withdrawn && r.State != selffence.Condemned:
		return Error{State}
	case !isBootID(r.Promise.Boot):
		return Error{Boot}
	case !validTimes(r.Promise):
		return Error{Times}
	case !isPrintable(r.Device, ' ', maxDevice):
		return Error{Device}
	case !validMembers(r.Promise.Witnesses):
		return Error{Witnesses}
	case (r.By != "") != (r.State == selffence.Condemned), !isPrintable(r.By, '!', maxUID):
		return Error{Condemner}
	case !validAddress(r.Address):
		return Error{Address}
	case r.Why != "" && (r.State != selffence.Withdrawn || !slices.Contains(AllNoPromises(), r.Why)):
		return Error{Why}
	}
	return nil
}

// isBootID reports whether a text is a UUID in lower case, as the kernel writes boot IDs.
func isBootID(s string) bool {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		allowed := "0123456789abcdef"
		if form[i] == '-' {
			allowed = "-"
		}
		if strings.IndexByte(allowed, s[i]) < 0 {
			return false
		}
	}
	return true
}

// validTimes reports whether the times of a promise can be stated. A promise that is not timed may leave out each of them.
func validTimes(p selffence.Promise) bool {
	valid := func(d time.Duration) bool {
		return d == 0 && !p.Timed || selffence.Times{Validity: d, Watchdog: d}.Valid()
	}
	return valid(p.Times.Validity) && valid(p.Times.Watchdog)
}

// validAddress reports whether an address can be stated: it has a port, and no zone, and is in its shortest form.
func validAddress(a netip.AddrPort) bool {
	return a == netip.AddrPort{} || a.Addr() == a.Addr().Unmap() && a.Addr().Zone() == "" && a.Port() != 0
}

// isPrintable reports whether a text has at most so many bytes, and only characters of ASCII from the lowest to '~'.
func isPrintable(s string, lowest rune, most int) bool {
	return len(s) <= most && !strings.ContainsFunc(s, func(c rune) bool { return c < lowest || c > '~' })
}

// validMembers reports whether the members are names of nodes in order, each once, and the empty ones behind them.
func validMembers(m selffence.Members) bool {
	names := namesOf(m)
	for i, name := range names {
		if i > 0 && name <= names[i-1] || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return false
		}
	}
	return true
}

// namesOf returns the names of members without the empty ones at the end.
func namesOf(m selffence.Members) []string {
	names := m[:]
	for len(names) > 0 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	return names
}

// HasRead returns up to which revision the agent of this node has read all Leases, or zero. A revision that is not older than the Lease itself can't
// have been read before that was written. It is of another history of the cluster, from before it was restored.
func (r Record) HasRead() uint64 {
	if r.Witnessed >= r.Revision {
		return 0
	}
	return r.Witnessed
}
