package metal

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// readEvery is how often Ironic looks whether a record is due.
const readEvery = 100 * time.Millisecond

// ironic stands in for Ironic. It records the power of each host when it has read it, from time to time and apart from the rounds of the
// operator, and when it has changed it. If others change the power, it changes the record: it does not put the power back.
type ironic struct {
	fleet *fleet

	mu      sync.Mutex
	records map[*host]record
}

// record is the power of a host as it was read.
type record struct {
	at time.Time
	on bool
}

func newIronic(f *fleet) *ironic { return &ironic{fleet: f, records: map[*host]record{}} }

// Start reads the power of hosts until the context ends.
func (i *ironic) Start(ctx context.Context) error {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			i.readAll()
		}
	}
}

// readAll reads the power of each host whose record is due, and forgets the hosts that are gone.
func (i *ironic) readAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	hosts := slices.DeleteFunc(i.fleet.all(), func(h *host) bool { return h.label != LabelBareMetalHost })
	maps.DeleteFunc(i.records, func(h *host, _ record) bool { return !slices.Contains(hosts, h) })
	for _, h := range hosts {
		if last, known := i.records[h]; !known || !i.fleet.now().Before(last.at.Add(h.recordAge())) {
			i.read(h)
		}
	}
}

// read reads the power of a host. The caller holds the lock.
func (i *ironic) read(h *host) {
	on := h.State() == redfish.On
	i.records[h] = record{at: i.fleet.now(), on: on}
	h.setRecord(on)
}

// record returns the power of a host as it is recorded. The first time it is read.
func (i *ironic) record(h *host) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.records[h]; !known {
		i.read(h)
	}
	return i.records[h].on
}

// turn turns the power of a host on or off, and records what it is then.
func (i *ironic) turn(h *host, on bool) {
	turn := h.PowerOff
	if on {
		turn = h.PowerOn
	}
	_ = turn() // it never fails
	i.mu.Lock()
	defer i.mu.Unlock()
	i.read(h)
}
