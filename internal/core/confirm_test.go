package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestReadsOfManyMembers: targets that may belong to a control plane share a place among the reads,
// up to a bound. Each further target needs a place of its own, as every other target does.
func TestReadsOfManyMembers(t *testing.T) {
	var nodes []core.Target
	var all []int
	for i := range 40 {
		nodes = append(nodes, aNode(fmt.Sprint("n-", i), dead, controlPlane, func(n *core.Target) {
			n.NodeReadAt, n.QuorumReadAt = time.Time{}, time.Time{}
		}))
		all = append(all, i)
	}
	for limit, want := range map[int]int{0: 40, 1: 9, 3: 11} {
		p := check("p", all, classic, func(p *core.Policy) {
			if limit > 0 {
				p.MaxInFlight = core.Count(limit)
			}
		})
		if d := core.Decide([]core.Policy{p}, clusterOf(nodes), noon); len(d.Confirm) != want {
			t.Errorf("with places for %d (0 for any number) %d nodes are to be read, want %d", limit, len(d.Confirm), want)
		}
	}
}
