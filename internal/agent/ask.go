package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// ask asks all witnesses whether this boot goes on. It does not wait for their answers, each of which takes less than the time between two
// grants. So no more questions are under way than two promises have witnesses.
func (n *node) ask(ctx context.Context, now time.Duration) {
	var names []string
	n.learn(func(a selffence.Agent) selffence.Agent {
		names = a.Witnesses()
		a, _ = a.Sends(selffence.AskWitnesses, now)
		return a
	})
	if !n.asks() {
		return
	}
	limit := n.limits()
	for _, name := range names {
		n.running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if agrees, _ := n.asksWitness(ctx, name); agrees {
				n.learn(func(a selffence.Agent) selffence.Agent { return a.Agrees(name, now) })
				signal(n.woken)
			}
		})
	}
}

// asksWitness asks an agent whether this boot goes on. It reports whether the agent agrees, and whether it has answered.
func (n *node) asksWitness(ctx context.Context, name string) (agrees, answers bool) {
	body, err := json.Marshal(question{n.Boot})
	if err != nil {
		return false, false
	}
	text, err := n.Peers.Ask(ctx, name, WitnessPath, body)
	if err != nil {
		return false, false
	}
	var a answerTo
	err = decodeOnly(text, &a)
	return err == nil && a.Agrees, err == nil
}
