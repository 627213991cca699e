package cli

import (
	"cmp"
	"maps"
	"slices"
)

// withPromise prints how soon nodes are proven to be reset. Nodes of a policy with the same promise share a row.
func (p *statusPage) withPromise(all []NodePromise) {
	nodes := map[[2]string][]string{}
	for i := range all {
		key := [2]string{all[i].Policy, all[i].ProvenAfter}
		nodes[key] = append(nodes[key], all[i].Node)
	}
	var rows [][]cell
	for _, key := range slices.SortedFunc(maps.Keys(nodes), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		proof := cmp.Or(key[1], "a new boot alone")
		rows = append(rows, []cell{text(key[0]), text(count(len(nodes[key]), "node")), text(proof), text(firstOf(nodes[key], len(nodes[key])))})
	}
	rows, left := limited(rows, p.limit)
	p.table([]string{"FENCEPOLICY", "PROMISING", "PROVEN RESET AFTER", "NODES"}, rows)
	p.more(left, "row")
}

// withoutPromise prints the nodes that promise nothing.
func (p *statusPage) withoutPromise(all []NodePromise) {
	rows := make([][]cell, 0, len(all))
	for i := range all {
		n := &all[i]
		rows = append(rows, []cell{text(n.Node), text(n.Policy), {n.Missing, red}, text(n.Message)})
	}
	rows, left := limited(rows, p.limit)
	p.table([]string{"NODE WITHOUT A PROMISE", "FENCEPOLICY", "REASON", "MESSAGE"}, rows)
	p.more(left, "node")
}
