package agent

import (
	"context"
	"time"
)

// placesFor is how long the place of a node counts that was read. Controllers may label a node once its agent runs.
const placesFor = 30 * time.Minute

// readPlace is a place, and when it was read by the clock of Boottime.
type readPlace struct {
	Place

	read time.Duration
}

// placesOf returns the places of nodes, as far as they can be read.
func (n *node) placesOf(ctx context.Context, r *review, nodes []string) map[string]Place {
	if len(r.places) > 4*r.widened(maxPlaces) {
		clear(r.places)
	}
	places := map[string]Place{}
	for _, node := range nodes {
		known, is := r.places[node]
		if !is || n.Boottime()-known.read >= placesFor {
			p, err := n.Others.Place(ctx, node)
			if err != nil && !is {
				continue
			}
			if err == nil {
				known = readPlace{p, n.Boottime()}
				r.places[node] = known
			}
		}
		places[node] = known.Place
	}
	return places
}
