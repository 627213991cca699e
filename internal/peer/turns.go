package peer

import "sync"

// turns bounds how many things of one node, and of all, are under way at a time.
type turns struct {
	mu  sync.Mutex
	of  map[string]int
	all int
}

// bound is one of turns.
type bound struct{ ofNode, all int }

// askingBound returns how many questions are answered at a time.
func askingBound() bound { return bound{ofNode: askingOfNode, all: 64} }

// askingOfNode is how many questions of a node are answered at a time.
const askingOfNode = 2

// take begins a turn of a node, if there is room.
func (t *turns) take(node string, most bound) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= most.all || t.of[node] >= most.ofNode {
		return false
	}
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[node]++
	t.all++
	return true
}

// leave ends a turn.
func (t *turns) leave(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	t.of[node]--
	if t.of[node] == 0 {
		delete(t.of, node)
	}
}
