package machinedeletion

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// TestRemediationThatPanics: a panic over one remediation ends its reconcile, which is repeated after a pause, and not the
// process.
func TestRemediationThatPanics(t *testing.T) {
	c := NewClient(Config{Log: logr.Discard()}) // a client without a cache panics
	key := types.NamespacedName{Namespace: "machines", Name: "a"}
	c.queue.Add(key)
	if more := c.worker().Next(t.Context()); !more || c.queue.NumRequeues(key) != 1 {
		t.Errorf("there is more to do: %t, and it was put back %d times", more, c.queue.NumRequeues(key))
	}
}
