package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// ask asks all witnesses whether this boot goes on. It does not wait for their answers, each of which takes less than the time between two
// grants. So no more questions are under way than a promise has witnesses.
func (n *node) ask(ctx context.Context, now time.Duration) {
	var members selffence.Members
	n.learn(func(a selffence.Agent) selffence.Agent {
		members = a.Stated.Witnesses
		a, _ = a.Sends(selffence.AskWitnesses, now)
		return a
	})
	body, err := json.Marshal(question{n.Boot})
	if err != nil || !n.asks() {
		return
	}
	limit := n.limits()
	for _, name := range members {
		if name == "" {
			continue
		}
		n.running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if n.agrees(ctx, name, body) {
				n.learn(func(a selffence.Agent) selffence.Agent { return a.Agrees(name, now) })
				signal(n.woken)
			}
		})
	}
}

// agrees reports whether a witness agrees to a question. A failure is no agreement.
func (n *node) agrees(ctx context.Context, name string, body []byte) bool {
	text, err := n.Peers.Ask(ctx, name, WitnessPath, body)
	if err != nil {
		return false
	}
	var a answerTo
	return decodeOnly(text, &a) == nil && a.Agrees
}
