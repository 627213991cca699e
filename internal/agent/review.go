package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Others reads the Leases of other nodes.
type Others interface {
	LeaseLister
	LeaseReader
	// Place returns where a node is.
	Place(ctx context.Context, node string) (Place, error)
}

// LeaseReader reads a few Leases.
type LeaseReader interface {
	// First returns what the first Leases say, in the order of their names, and how many Leases there are: zero where that is unknown.
	First(ctx context.Context, most int) (some map[string]promiselease.Record, count int, err error)
	// Of returns what the Leases of some nodes say, or have said a moment ago. A node without a Lease is not among them.
	Of(ctx context.Context, nodes []string) (map[string]promiselease.Record, error)
}

// LeaseLister lists and follows the Leases of all nodes.
type LeaseLister interface {
	// List returns what all Leases say now, by their nodes, and the revision of that. A Lease that can't be read says nothing.
	List(ctx context.Context) (map[string]promiselease.Record, uint64, error)
	// Follow passes each change since a revision to changed, until the context ends or the changes stop. A Lease that is gone says nothing. Without a
	// node, nothing else has changed up to the revision.
	Follow(ctx context.Context, since uint64, changed func(node string, r promiselease.Record, revision uint64)) error
}

// Bounds of reviews.
const (
	// reviewEvery is how often an agent reads the Leases of its witnesses, and followFor how long it follows Leases before it lists them anew.
	reviewEvery = 10 * time.Minute
	followFor   = 5 * time.Minute
	// reviewTime is how long a review may take.
	reviewTime = 30 * time.Second
	// reviewSoon is how soon an agent looks again that has a majority of its witnesses with none to spare, or less. It waits twice as long each time.
	reviewSoon = time.Minute
	// firstReviews is how many times the time between two grants an agent waits that has too few witnesses. It waits twice as long each time.
	firstReviews  = 3
	mostDoublings = 12
	// maxPlaces bounds the nodes whose places are read in a review. It doubles after each review that finds too few agents that answer, mostWidened times
	// at most: the Leases of nodes that were lost still promise, and such nodes may be the first ones.
	maxPlaces   = 16
	mostWidened = 2
	// surveyEvery is how often an agent lists all Leases that needs a few of them.
	surveyEvery = 6 * time.Hour
	// mostCandidates is of how many nodes of a large fleet the agents may become witnesses: of those whose names have the lowest hashes.
	mostCandidates = 64
)

// review is what an agent knows of its witnesses between two looks at them. One goroutine uses it.
type review struct {
	// missed are the witnesses that were not fit last, and gone the witnesses that were not fit twice in succession.
	missed, gone map[string]bool
	places       map[string]readPlace
	// short counts the reviews in succession that have failed, or found too few witnesses.
	short int
	// wide counts the reviews in succession that have found fewer agents that answer as witnesses than one more than a promise names.
	wide int
	// bare counts the reviews in succession that have found no witness to spare beside a majority.
	bare int
	// serves is set if this agent is a witness of others, and survey is when it lists all Leases in any case. Scarce counts the reviews in succession
	// that have found too few witnesses for all nodes. Lacks is how many less than needed a few Leases showed when all of them showed enough.
	serves bool
	survey time.Duration
	scarce int
	lacks  int
}

// widened returns a bound, which is larger the more reviews in succession have found too few agents that answer.
func (r *review) widened(bound int) int { return bound << min(r.wide, mostWidened) }

// noteAnswering notes whether enough agents answer as witnesses for all nodes, with this one if it serves.
func (r *review) noteAnswering(others, demanded int, serves bool) {
	if serves {
		others++
	}
	r.wide++
	if others > demanded {
		r.wide = 0
	}
}

// newReview returns what an agent knows of its witnesses that has not looked yet.
func (n *node) newReview() *review {
	return &review{
		missed: map[string]bool{}, gone: map[string]bool{}, places: map[string]readPlace{}, survey: n.Boottime() + jittered(n.Node, surveyEvery),
	}
}

// watchOthers chooses witnesses, and is a witness of others, until the context ends.
func (n *node) watchOthers(ctx context.Context) {
	r := n.newReview()
	for {
		pause, serves, since := n.reviewOnce(ctx, r)
		r.serves = serves
		if serves {
			n.follow(ctx, since, min(pause, followFor))
			if n.Witness.read() == 0 {
				continue // it has forgotten what was listed
			}
			pause = n.pauseAfter()
		} else {
			n.Witness.forgets()
		}
		if !n.waitForDemand(ctx, pause) {
			return
		}
	}
}

// waitForDemand waits for a time, or until witnesses are demanded that were not before. It reports false if the context ends before.
func (n *node) waitForDemand(ctx context.Context, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.demanding:
	case <-ctx.Done():
		return false
	}
	return true
}

// pauseAfter is the pause after following the Leases, which may have failed at once.
func (n *node) pauseAfter() time.Duration { return max(n.limits(), minRenewal) }

// limits returns how long a question or a request may take.
func (n *node) limits() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.limit
}

// reviewOnce reads Leases, and chooses witnesses. It returns after which time to do so again, and whether this agent is a witness of others,
// and since which revision.
func (n *node) reviewOnce(ctx context.Context, r *review) (pause time.Duration, serves bool, since uint64) {
	n.mu.Lock()
	demanded, current, renewal := n.demanded, namesOf(n.members), n.agent.Renewal
	n.mu.Unlock()
	if len(demanded) == 0 {
		r.missed, r.gone, r.short = map[string]bool{}, map[string]bool{}, 0
		return max(renewal, minRenewal), false, 0
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	begun := n.Witness.begins()
	all, since, err := n.readLeases(ctx, r, current, demanded[0])
	if err != nil {
		r.short++
		if n.Witness.read() > 0 { // what it has read still counts
			return n.pauseAfter(), true, 0
		}
		return n.again(r, renewal), false, 0
	}
	serves = since > 0 && n.serves(ctx, r, all, demanded[0])
	if serves && !n.Witness.listed(all, since, begun) {
		r.survey = 0 // all Leases are listed again
		return n.pauseAfter(), false, 0
	}
	fit, places := n.fit(ctx, r, all, current)
	r.noteAnswering(len(fit), demanded[0], serves)
	if since == 0 || n.enough(ctx, r, all, demanded[0]) { // since zero the fleet is large
		demanded = demanded[:1]
	}
	members := chooseOf(demanded, current, fit, places, r.gone)
	n.mu.Lock()
	if len(n.demanded) > 0 { // else it was changed meanwhile
		n.members = membersOf(members)
	}
	n.urgent = n.urgent || serves
	n.mu.Unlock()
	signal(n.woken)
	if len(members) < demanded[0] {
		r.short++
		return n.again(r, renewal), serves, since
	}
	r.short = 0
	return jittered(n.Node, r.pause(members)), serves, since
}

// pause is the pause after a review that has found enough witnesses. It is short while one more loss would leave no majority of them: the node would
// reset itself if the API server went away then.
func (r *review) pause(members []string) time.Duration {
	missing := 0
	for _, name := range members {
		if r.missed[name] {
			missing++
		}
	}
	if missing == 0 || len(members)-missing > majority(len(members)) {
		r.bare = 0
		return reviewEvery
	}
	r.bare++
	return min(reviewSoon<<min(r.bare-1, mostDoublings), reviewEvery)
}

// again is the pause after a review that has failed, or found too few witnesses.
func (n *node) again(r *review, renewal time.Duration) time.Duration {
	return jittered(n.Node, min(firstReviews*max(renewal, minRenewal)<<min(r.short-1, mostDoublings), reviewEvery))
}

// jittered returns from half to one and a half of a time, by the name of the node: agents must not all list at once.
func jittered(node string, d time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(node))
	return d/2 + d/256*time.Duration(binary.BigEndian.Uint16(sum[:])>>8)
}

// fit returns the nodes that can be witnesses of this one, as ranked does, and the places of these and of the current ones. It notes which of the current
// ones can't. An agent that does not answer questions is no witness: it has no certificate, or there is a firewall between the nodes.
func (n *node) fit(
	ctx context.Context, r *review, all map[string]promiselease.Record, current []string,
) ([]string, map[string]Place) {
	fit := n.servingOthers(all)
	queried := slices.Clone(fit[:min(len(fit), r.widened(maxPlaces))])
	for _, name := range current {
		if slices.Contains(fit, name) && !slices.Contains(queried, name) {
			queried = append(queried, name)
		}
	}
	if n.Addresses != nil {
		n.noteAddresses(slices.Concat(n.mayAsk(), current, queried), all)
	}
	answer := n.answering(ctx, queried)
	missed, gone := map[string]bool{}, map[string]bool{}
	for _, name := range current {
		if !answer[name] {
			missed[name], gone[name] = true, r.missed[name]
		}
	}
	r.missed, r.gone = missed, gone
	fit = slices.DeleteFunc(fit[:min(len(fit), r.widened(maxPlaces))], func(name string) bool { return !answer[name] })
	places := n.placesOf(ctx, r, slices.Concat(fit, current))
	return ranked(fit, places), places
}

// enough reports whether the other nodes that promise something are enough for a number of witnesses.
func (n *node) enough(ctx context.Context, r *review, all map[string]promiselease.Record, demanded int) bool {
	others := slices.DeleteFunc(promising(all), func(other string) bool { return other == n.Node })
	others = others[:min(len(others), maxPlaces)]
	return enough(others, n.placesOf(ctx, r, others), demanded)
}

// mayAsk returns the witnesses of the promises that may stand. A promise that was replaced may name others than the present one.
func (n *node) mayAsk() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agent.Witnesses()
}

// noteAddresses notes where some agents listen. Addresses that can't be stored are known as long as this process runs.
func (n *node) noteAddresses(of []string, all map[string]promiselease.Record) {
	if err := n.Addresses.note(of, all); err != nil {
		n.Tell(Note{Reason: StateNotStored, Err: err})
	}
}

// answering returns which of some agents answer a question, whatever they say.
func (n *node) answering(ctx context.Context, names []string) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, n.limits())
	defer cancel()
	var mu sync.Mutex
	answering := map[string]bool{}
	var asking sync.WaitGroup
	for _, name := range names {
		asking.Go(func() {
			_, answers := n.asksWitness(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			answering[name] = answers
		})
	}
	asking.Wait()
	return answering
}

// serves reports whether this agent is to be a witness of others. That is so if a promise names it. It is also so if it is among the best, one more than a promise
// names.
func (n *node) serves(ctx context.Context, r *review, all map[string]promiselease.Record, demanded int) bool {
	if isNamed(n.Node, all) {
		return true
	}
	first := promising(all)
	if !slices.Contains(first, n.Node) {
		return false
	}
	if n.placesOf(ctx, r, []string{n.Node})[n.Node].Control {
		return true
	}
	first = first[:min(len(first), r.widened(maxPlaces))]
	if !slices.Contains(first, n.Node) {
		return false
	}
	others := serving(all)
	for _, node := range others[:min(len(others), r.widened(maxPlaces))] {
		if !slices.Contains(first, node) {
			first = append(first, node)
		}
	}
	places := n.placesOf(ctx, r, first)
	return slices.Index(best(ranked(first, places), places, demanded), n.Node) < r.widened(demanded+1)
}

// isNamed reports whether one of some promises names a node.
func isNamed(node string, all map[string]promiselease.Record) bool {
	for _, r := range all {
		if r.State != selffence.Withdrawn && names(r.Promise, node) {
			return true
		}
	}
	return false
}

// follow reads all changes of Leases for a time. This agent acknowledges them with its renewals, and a condemnation at once. Since zero it only
// waits: the Leases that were read before still count.
func (n *node) follow(ctx context.Context, since uint64, most time.Duration) {
	if since == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	n.mu.Lock()
	n.relist = cancel
	n.mu.Unlock()
	if n.Witness.read() == 0 { // it has forgotten what was listed, so that following it is of no use
		return
	}
	_ = n.Others.Follow(ctx, since, func(node string, r promiselease.Record, revision uint64) {
		n.Witness.changed(node, r, revision)
		if r.State == selffence.Condemned && names(r.Promise, n.Node) {
			n.mu.Lock()
			n.urgent = true
			n.mu.Unlock()
			signal(n.woken)
		}
	})
}

// forgets has this agent, as a witness, list the Leases anew before it agrees to anything. Its own Lease is not as it has written it, so the cluster may
// have been restored.
func (n *node) forgets() {
	if n.Witness == nil {
		return
	}
	n.Witness.forgets()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.relist != nil {
		n.relist()
	}
}
