package metal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

// statesWhy: an agent without a watchdog says why in its Lease, and the status of its policy says it too. A policy that is younger says that
// another one applies.
func statesWhy(s *selfFenced) {
	s.opens = &agent.UnavailableError{Reason: "WatchdogBusy", Err: errors.New("another process has it")}
	s.policy(s.name, "{matchLabels: {pool: "+s.name+"}}")
	s.boots()
	s.leaseSays(selffence.Withdrawn)
	s.statusSays(s.name, fmt.Sprintf("2 nodes, 0 promise, %s WatchdogBusy, %s NoAgent, True Applies, False NodesWithoutPromise", s.first(), s.second()))

	younger, created := s.name+"-younger", &v1alpha1.FencePolicy{}
	if err := s.Get(cluster.Context(s.T), client.ObjectKey{Name: s.name}, created); err != nil {
		s.Fatal(err)
	}
	s.Eventually(s.T, "a second that is later", func(context.Context) error {
		if time.Since(created.CreationTimestamp.Time) < 2*time.Second {
			return errors.New("it is the same second")
		}
		return nil
	})
	s.policy(younger, "{matchLabels: {pool: "+s.name+"}}")
	s.statusSays(younger, "0 nodes, 0 promise, False Overridden, False NoNodes")

	s.mu.Lock()
	s.opens = nil
	s.mu.Unlock()
	s.leaseSays(selffence.Promised)
	s.statusSays(s.name, fmt.Sprintf("2 nodes, 1 promise, %s NoAgent, True Applies, False NodesWithoutPromise", s.second()))
	if err := s.Delete(cluster.Context(s.T), created); err != nil {
		s.Fatal(err)
	}
	s.statusSays(younger, fmt.Sprintf("2 nodes, 1 promise, %s NoAgent, True Applies, False NodesWithoutPromise", s.second()))
}

// policy creates a policy with a selector.
func (s *selfFenced) policy(name, selector string) {
	s.Helper()
	s.Apply(s.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: FencePolicy
metadata: {name: %s}
spec: {nodeSelector: %s, onIsolation: Hold, renewal: 1s, validity: 3s}
`, name, selector))
}

// statusSays waits until the status of a policy says something.
func (s *selfFenced) statusSays(policy, want string) {
	s.Helper()
	s.Eventually(s.T, "status of FencePolicy "+policy, func(ctx context.Context) error {
		var p v1alpha1.FencePolicy
		if err := s.Get(ctx, types.NamespacedName{Name: policy}, &p); err != nil {
			return err
		}
		if got := statusText(p.Status); got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
}

func statusText(s v1alpha1.FencePolicyStatus) string {
	if s.Nodes == nil || s.Promising == nil {
		return "none"
	}
	text := fmt.Sprintf("%d nodes, %d promise", *s.Nodes, *s.Promising)
	for _, n := range s.WithoutPromise {
		text += ", " + n.Name + " " + n.Reason
	}
	for _, c := range s.Conditions {
		text += fmt.Sprintf(", %s %s", c.Status, c.Reason)
	}
	return text
}
