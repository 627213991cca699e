package agent

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Place is where a node is.
type Place struct {
	Zone string
	// Control is set for a node of the control plane.
	Control bool
}

// promising returns the nodes whose agents promise something now, in an order that is the same for all agents. It says nothing of places.
func promising(all map[string]promiselease.Record) []string {
	var nodes []string
	for node, r := range all {
		if r.State == selffence.Promised {
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, byHash)
	return nodes
}

// serving returns the nodes whose agents read all Leases now, in the same order.
func serving(all map[string]promiselease.Record) []string {
	return slices.DeleteFunc(promising(all), func(node string) bool { return all[node].Witnessed == 0 })
}

// byHash orders nodes by a hash of their names, so that names that look alike are not neighbours.
func byHash(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return cmp.Or(slices.Compare(x[:], y[:]), cmp.Compare(a, b))
}

// ranked orders nodes: those of the control plane first, and both kinds such that zones take turns. A zone in which nodes of the control plane are has
// had a turn for each of these. It may be lost together with them and the API server.
func ranked(nodes []string, places map[string]Place) []string {
	turn := func(all []string) map[string]int {
		turns, count := map[string]int{}, map[Place]int{}
		for _, node := range all {
			if p := places[node]; p.Control && p.Zone != "" {
				count[Place{Zone: p.Zone}]++
			}
		}
		for _, node := range all {
			turns[node] = count[places[node]]
			count[places[node]]++
		}
		return turns
	}
	all := slices.Clone(nodes)
	slices.SortFunc(all, byHash)
	turns := turn(all)
	slices.SortStableFunc(all, func(a, b string) int {
		if x, y := places[a].Control, places[b].Control; x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Compare(turns[a], turns[b])
	})
	return all
}

// best returns nodes that are ranked in the order in which they become witnesses. Where there are enough others, only a minority of the first ones is of
// the control plane. The witnesses there may be lost together with the API server.
func best(ranked []string, places map[string]Place, most int) []string {
	var first, rest []string
	left := most - majority(most)
	for _, node := range ranked {
		if places[node].Control && left <= 0 {
			rest = append(rest, node)
			continue
		}
		if places[node].Control {
			left--
		}
		first = append(first, node)
	}
	return append(first, rest...)
}

// majority returns how many are more than half.
func majority(of int) int { return of/2 + 1 }

// outlast reports whether a majority of some witnesses is not of the control plane.
func outlast(members []string, places map[string]Place) bool {
	return outside(members, places) >= majority(len(members))
}

// outside counts the nodes that are not of the control plane.
func outside(nodes []string, places map[string]Place) int {
	count := 0
	for _, node := range nodes {
		if !places[node].Control {
			count++
		}
	}
	return count
}

// enough reports whether a number of witnesses can be demanded of nodes that promise something. Their Leases and places count, and not their answers. An
// attacker who silences two agents must not have others choose fewer witnesses, of which none may lie. Where a majority would be of the control plane,
// fewer witnesses can be better.
func enough(nodes []string, places map[string]Place, demanded int) bool {
	return len(nodes) >= demanded && outside(nodes, places) >= majority(demanded)
}

// chooseOf returns the witnesses of the first number of them for which there are enough. Witnesses that outlast the control plane precede more witnesses
// that don't.
func chooseOf(demanded []int, current, ranked []string, places map[string]Place, gone map[string]bool) []string {
	var lost []string
	for _, most := range demanded {
		fit := best(ranked, places, most)
		members := choose(current, fit, gone, most)
		if len(members) != most {
			continue
		}
		if outlast(members, places) || len(fit) >= most && outlast(fit[:most], places) {
			return members
		}
		if lost == nil {
			lost = members
		}
	}
	return lost
}

// choose returns the witnesses to state in place of current ones, or none if there are too few. Fit are the nodes that can be witnesses, the
// best first, and gone the current witnesses that were not fit in two reviews in succession. At most one witness is replaced, so that a majority stays.
func choose(current, fit []string, gone map[string]bool, most int) []string {
	anew := func() []string {
		if len(fit) < most {
			return nil
		}
		return slices.Clone(fit[:most])
	}
	left := slices.DeleteFunc(slices.Clone(current), func(name string) bool { return gone[name] })
	if len(current) != most || len(left) <= most/2 {
		return anew()
	}
	best := fit[:min(most, len(fit))]
	for _, better := range fit {
		if slices.Contains(current, better) {
			continue
		}
		for i, name := range current {
			if gone[name] || len(left) == most && slices.Contains(best, better) && slices.Contains(fit, name) && !slices.Contains(best, name) {
				next := slices.Clone(current)
				next[i] = better
				return next
			}
		}
	}
	return current
}

// membersOf returns names as the members of a promise, in order.
func membersOf(names []string) selffence.Members {
	var m selffence.Members
	copy(m[:], slices.Sorted(slices.Values(names)))
	return m
}

// namesOf returns the names of members.
func namesOf(m selffence.Members) []string {
	return slices.DeleteFunc(slices.Clone(m[:]), func(name string) bool { return name == "" })
}
