package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Peers asks the agents of other nodes.
type Peers interface {
	// Ask sends a question to the agent of a node, and returns its answer. Both are bounded.
	Ask(ctx context.Context, node, path string, body []byte) ([]byte, error)
}

// WitnessPath is the path of questions to witnesses.
const WitnessPath = "/witness"

// question asks whether a witness agrees that a boot of the node which asks goes on.
type question struct {
	Boot string `json:"boot"`
}

// answerTo answers a question.
type answerTo struct {
	Agrees bool `json:"agrees"`
}

// maxQuestion bounds questions and their answers.
const maxQuestion = 256

var errQuestion = errors.New("this is no question to a witness, or no answer to one")

// decodeOnly decodes a text that has nothing but a value.
func decodeOnly(text []byte, into any) error {
	if len(text) > maxQuestion {
		return errQuestion
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil || d.More() {
		return errQuestion
	}
	return nil
}

// Witness is this agent as a witness of others. It begins without having read anything. It is safe for concurrent use.
type Witness struct {
	mu     sync.Mutex
	knows  selffence.Witness
	leases map[string]selffence.Lease
	// forgotten counts how often the witness has forgotten what it had read.
	forgotten int
}

// NewWitness returns a witness that has read nothing, and so agrees to nothing.
func NewWitness() *Witness { return &Witness{} }

// Answer answers a question of the agent of a node. The transport knows the name of the node, so that an agent asks about its own node alone.
func (w *Witness) Answer(_ context.Context, node string, body []byte) ([]byte, error) {
	var q question
	if err := decodeOnly(body, &q); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return json.Marshal(answerTo{w.knows.Agrees(w.leases[node], q.Boot)}) //nolint:wrapcheck // it can't fail
}

// begins returns what to pass to listed with the answer to a list that begins now.
func (w *Witness) begins() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forgotten
}

// listed notes all Leases as they were read together, by a list that began when the witness had forgotten what it knew so many times. It reports false
// if it has forgotten again since: the list may be of before.
func (w *Witness) listed(all map[string]promiselease.Record, revision uint64, forgotten int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forgotten != forgotten {
		return false
	}
	w.leases = map[string]selffence.Lease{}
	for node, r := range all {
		w.leases[node] = r.Lease
	}
	w.knows.Read = revision // also if it is lower: a cluster that was restored counts anew
	return true
}

// changed notes a Lease that has changed. Without a node it notes that none has, up to a revision.
func (w *Witness) changed(node string, r promiselease.Record, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.knows.Read == 0 {
		return // what was listed is forgotten
	}
	switch {
	case r.State != "":
		w.leases[node] = r.Lease
	case node != "":
		delete(w.leases, node)
	}
	w.knows.Read = revision
}

// forgets has the witness agree to nothing before it has listed the Leases anew.
func (w *Witness) forgets() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.knows.Read, w.leases = 0, nil
	w.forgotten++
}

// isAway notes whether the API server does not answer this agent, or did not lately.
func (w *Witness) isAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.knows.Away = away
}

// read returns the revision up to which the witness has read all Leases, or zero.
func (w *Witness) read() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.knows.Read
}

// names reports whether a promise names a witness.
func names(p selffence.Promise, node string) bool { return slices.Contains(p.Witnesses[:], node) }
