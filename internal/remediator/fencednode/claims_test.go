package fencednode

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestClaims: a node has one holder at a time, of whatever kind, until it is released.
func TestClaims(t *testing.T) {
	key := types.NamespacedName{Namespace: "checks", Name: "node-a"}
	power, self := Holder{"PowerRemediation", key}, Holder{"SelfFenceRemediation", key}
	c := NewClaims()
	for _, by := range []Holder{power, power, self} {
		if c.Claim("node-a", by) != power {
			t.Errorf("the first to claim a node does not hold it against %s", by)
		}
	}
	if c.Claim("node-b", self) != self || c.Claim("node-c", self) != self || c.Len() != 3 {
		t.Errorf("%d nodes are claimed", c.Len())
	}
	if by, held := c.Holder("node-c"); !held || by != self {
		t.Errorf("node-c is held by %v (%t)", by, held)
	}
	if by, held := c.Holder("node-d"); held {
		t.Errorf("node-d is held by %v", by)
	}
	c.ReleaseOthers(self, "node-b")
	if !c.Holds("node-b", self) || c.Holds("node-b", power) || c.Holds("node-c", self) || !c.Holds("node-a", power) {
		t.Error("other claims than those of the other nodes were released")
	}
	c.Release(power)
	if c.Holds("node-a", power) || c.Claim("node-a", self) != self || c.Len() != 2 {
		t.Error("a node that was released is still held")
	}
	if got := power.String(); got != "PowerRemediation checks/node-a" {
		t.Errorf("a message names it %q", got)
	}
	waits := Problem{Reason: AnotherRemediation, Message: "PowerRemediation checks/node-a fences node node-b, and this one waits until it has ended"}
	if got := power.WaitProblem("node-b"); got != waits {
		t.Errorf("another remediation waits for %+v", got)
	}
}
