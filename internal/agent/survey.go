package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/fettle-io/fettle/internal/promiselease"
)

// readLeases returns the Leases that a review needs, and the revision of that. A witness needs all. Where nodes are many, another agent needs the Leases of
// the witnesses alone, and gets no revision with them. If all agents listed all Leases, the bytes would grow with the square of the number of nodes.
func (n *node) readLeases(ctx context.Context, r *review, current []string, demanded int) (map[string]promiselease.Record, uint64, error) {
	now, lacks := n.Boottime(), 0
	if !r.serves && now < r.survey {
		few, count, err := n.few(ctx, current)
		if err != nil {
			return nil, 0, err
		}
		if count > pageSize && !n.mayServe(ctx, r, few, count, demanded) {
			return few, 0, nil
		}
		lacks = n.lacking(ctx, r, few, demanded)
	}
	all, since, err := n.Others.List(ctx)
	if err == nil {
		r.survey = now + jittered(n.Node, surveyEvery)
		r.noteEnough(n.lacking(ctx, r, all, demanded) == 0, lacks)
	}
	return all, since, err
}

// noteEnough notes whether all Leases have shown enough witnesses, of which a few Leases have shown some less than needed.
func (r *review) noteEnough(enough bool, lacks int) {
	if r.lacks = 0; enough {
		r.scarce, r.lacks = 0, lacks
	}
}

// servingOthers returns the other nodes whose agents read all Leases now.
func (n *node) servingOthers(all map[string]promiselease.Record) []string {
	return slices.DeleteFunc(serving(all), func(node string) bool { return node == n.Node })
}

// lacking returns how many witnesses are lacking in some Leases, of all or beside the control plane. One more than an agent chooses can replace another.
func (n *node) lacking(ctx context.Context, r *review, some map[string]promiselease.Record, demanded int) int {
	others := n.servingOthers(some)
	others = others[:min(len(others), maxPlaces)]
	beside := outside(others, n.placesOf(ctx, r, others))
	return max(demanded+1-len(others), majority(demanded)+1-beside, 0)
}

// few returns the first Leases and those of witnesses, and how many Leases there are. Agents choose the same witnesses, so a few promises name
// all of them. A witness does not name itself, and so what witnesses promise counts too.
func (n *node) few(ctx context.Context, current []string) (map[string]promiselease.Record, int, error) {
	few, count, err := n.Others.First(ctx, maxPlaces)
	if err != nil || count <= pageSize {
		return few, count, err
	}
	read := map[string]bool{}
	for wanted := slices.Concat(current, named(few)); ; wanted = named(few) {
		wanted = slices.DeleteFunc(wanted, func(node string) bool { return read[node] })
		wanted = wanted[:min(len(wanted), mostWitnesses, maxPlaces-len(read))] // what these promise may precede the rest
		if len(wanted) == 0 {
			return few, count, nil
		}
		more, err := n.Others.Of(ctx, wanted)
		if err != nil {
			return nil, 0, err
		}
		maps.Copy(few, more)
		for _, node := range wanted {
			read[node] = true
		}
	}
}

// named returns the witnesses that some promises name. Names of most promises come first, since an attacker may have a few Leases name others.
func named(all map[string]promiselease.Record) []string {
	by := map[string]int{}
	for _, r := range all {
		for _, node := range namesOf(r.Promise.Witnesses) {
			by[node]++
		}
	}
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), byHash(a, b)) })
}

// mayServe reports whether this agent may have to be a witness of others, by a few Leases. That is so if one of them names it, as after a restart,
// or if it is of the control plane. It is also so while witnesses are lacking and it may be among the best. Where all Leases have shown enough, a few may show less.
func (n *node) mayServe(ctx context.Context, r *review, few map[string]promiselease.Record, count, demanded int) bool {
	if isNamed(n.Node, few) || n.placesOf(ctx, r, []string{n.Node})[n.Node].Control {
		return true
	}
	if n.lacking(ctx, r, few, demanded) <= r.lacks {
		r.scarce = 0
		return false
	}
	r.scarce++
	return candidate(n.Node, count, r.scarce-1)
}

// candidate reports whether the hash of a node is among the lowest of a number of nodes, as byHash orders them. The more reviews in succession have
// found too few witnesses, the more nodes are.
func candidate(node string, count, reviews int) bool {
	sum := sha256.Sum256([]byte(node))
	return uint64(binary.BigEndian.Uint32(sum[:]))*uint64(max(count, 0)) < mostCandidates<<(32+min(reviews, mostDoublings))
}
