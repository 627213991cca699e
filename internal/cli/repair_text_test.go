package cli

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRequestStates: explain says of a request when it lapses, or why it does not count.
func TestRequestStates(t *testing.T) {
	at := noon.Add(-time.Minute)
	for want, c := range map[string]core.RepairRequestStatus{
		"Requested      by a person at 11:59:00Z, lapses at 12:59:00Z (in 59m)\n":                                                                                                   {State: core.RequestPending, RepairRequest: core.RepairRequest{At: at}, Lapses: noon.Add(59 * time.Minute)},
		"Requested      by a person at 11:59:00Z: it counts until its repair has done its work\n":                                                                                   {State: core.RequestPending, RepairRequest: core.RepairRequest{At: at}},
		"Requested      by a person at 11:59:00Z: a repair has served it, so it does not count; ask again for another repair\n":                                                     {State: core.RequestServed, RepairRequest: core.RepairRequest{At: at}},
		"Requested      by a person at 11:59:00Z: no repair began within 1h0m0s, so it does not count; ask again once the gates are open\n":                                         {State: core.RequestLapsed, RepairRequest: core.RepairRequest{At: at}},
		"Requested      by a person at 11:59:00Z: its time is in the future, so it does not count; set your clock and ask again\n":                                                  {State: core.RequestAhead, RepairRequest: core.RepairRequest{At: at}},
		"Requested      by a person at 11:59:00Z: it was made before the object was, which has the annotation from a template or a backup, so it does not count; remove it there\n": {State: core.RequestInherited, RepairRequest: core.RepairRequest{At: at}},
		"Requested      unreadable: the annotation fettle.io/repair-requested-at holds no time such as 2026-11-23T09:12:59Z, so it does not count; ask again\n":                     {State: core.RequestUnreadable},
		"": {Target: 2, State: core.RequestServed},
	} {
		if c.Target == 0 {
			c.Target = 1
		}
		w := &assessment{decision: core.Decision{RepairRequests: []core.RepairRequestStatus{{State: core.RequestLapsed, RepairRequest: core.RepairRequest{At: noon}}, c}}}
		if got := printed(false, func(p *page) { p.requestedRepair(w.requestedRepair(1)) }); got != want {
			t.Errorf("it prints\n%swant\n%s", got, want)
		}
	}
	pending := core.RepairRequestStatus{State: core.RequestPending, Lapses: noon}
	if state, text := requestWords(&pending); state != requestPending || text != "it counts until it lapses, or a repair begins" {
		t.Errorf("programs read that it is %s: %s", state, text)
	}
}
