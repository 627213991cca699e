package machinedeletion

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
)

type decideCase struct {
	reason string
	facts  facts
	want   step
	// says is the reason of Succeeded in what is recorded.
	says string
}

func TestDecide(t *testing.T) {
	for _, cases := range []map[string]decideCase{beginnings(), refusals(), middles(), ends()} {
		for sentence, tc := range cases {
			t.Run(sentence, func(t *testing.T) {
				tc.facts.now = noon
				got := decide(&tc.facts)
				if got.step == readAgain && tc.want != readAgain {
					tc.facts.fresh = true
					got = decide(&tc.facts)
				}
				if got.step != tc.want {
					t.Errorf("the next step is %d, want %d: %s", got.step, tc.want, tc.reason)
				}
				if reason := reasonOf(got.status, v1alpha1.SucceededCondition); reason != tc.says {
					t.Errorf("it says %q, want %q: %s", reason, tc.says, tc.reason)
				}
			})
		}
	}
}

func reasonOf(s v1alpha1.MachineDeletionRemediationStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

func beginnings() map[string]decideCase {
	names := &nodeFacts{found: true, machine: "machines/worker-a"}
	owned := ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid")
	return map[string]decideCase{
		"a new one": {
			reason: "the finalizer comes before everything else", facts: facts{remediation: remediation()}, want: addFinalizer,
		},
		"with the finalizers of others alone": {
			reason: "they are not ours", want: addFinalizer,
			facts: facts{remediation: remediation(func(r *v1alpha1.MachineDeletionRemediation) { r.Finalizers = []string{"another/one"} })},
		},
		"which machine": {
			reason: "the node says", facts: facts{remediation: remediation(finalized)}, want: readNode,
		},
		"which machine, for a remediation that a machine owns": {
			reason: "the node is compared", facts: facts{remediation: remediation(finalized, owned)}, want: readNode,
		},
		"which machine, for a remediation that a machine owns and whose node is known": {
			reason: "its owner is the machine", facts: facts{remediation: remediation(finalized, owned), node: &nodeFacts{found: true}}, want: readMachine,
		},
		"about a machine": {
			reason: "no node is named", facts: facts{remediation: remediation(finalized, owned, called("worker-a"))}, want: readMachine,
		},
		"about a machine that never had a node": {
			reason: "no node is named that could be compared", want: record, says: "RemediationStarted",
			facts: facts{remediation: remediation(finalized, owned, called("worker-a")), machine: machineA(func(m *machineFacts) { m.node = "" }), pool: &pool{}},
		},
		"owned by something else": {
			reason: "only a machine tells which machine", want: readNode,
			facts: facts{remediation: remediation(finalized, ownedBy("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "workers", "u"), ownedBy("cluster.x-k8s.io/v1beta1", "Machine", "m", "u"))},
		},
		"the node names its machine": {
			reason: "the machine is read live", facts: facts{remediation: remediation(finalized), node: names}, want: readMachine,
		},
		"the machine is there": {
			reason: "how many siblings it has is needed to know when it is replaced", facts: facts{remediation: remediation(finalized), node: names, machine: machineA()}, want: countPool,
		},
		"all is known": {
			reason: "it is recorded before it is deleted", want: record, says: "RemediationStarted",
			facts: facts{remediation: remediation(finalized), node: names, machine: machineA(), pool: &pool{joined: 2}},
		},
		"its node is gone, and the machine owns the remediation": {
			reason: "a machine without node is to be replaced as well", want: record, says: "RemediationStarted",
			facts: facts{remediation: remediation(finalized, owned), node: &nodeFacts{}, machine: machineA(), pool: &pool{}},
		},
		"a machine that is on its way out": {
			reason: "it is as good as deleted, and waited for", want: record, says: "RemediationStarted",
			facts: facts{remediation: remediation(finalized), node: names, machine: machineA(func(m *machineFacts) { m.deleting = true }), pool: &pool{}},
		},
	}
}

func refusals() map[string]decideCase {
	names := &nodeFacts{found: true, machine: "machines/worker-a"}
	cant := func(reason string, says string, node *nodeFacts, machine *machineFacts, changes ...change) decideCase {
		return decideCase{reason: reason, want: record, says: says, facts: facts{remediation: remediation(append([]change{finalized}, changes...)...), node: node, machine: machine}}
	}
	const noMachine = "RemediationCannotStartMachineNotFound"
	return map[string]decideCase{
		"no node":                   cant("nothing tells which machine", "RemediationCannotStartNodeNotFound", &nodeFacts{}, nil),
		"a node without machine":    cant("nothing tells which machine", noMachine, &nodeFacts{found: true}, nil),
		"half of a machine's name":  cant("nothing tells which machine", noMachine, &nodeFacts{found: true, machine: "worker-a"}, nil),
		"no namespace":              cant("nothing tells which machine", noMachine, &nodeFacts{found: true, machine: "/worker-a"}, nil),
		"too much of a name":        cant("no machine is called that", noMachine, &nodeFacts{found: true, machine: "a/b/c"}, nil),
		"a machine that is gone":    cant("there is nothing to delete", noMachine, names, &machineFacts{key: workerA}),
		"a machine without owner":   cant("nothing would replace it", "RemediationCannotStartNoControllerOwner", names, machineA(func(m *machineFacts) { m.owner = nil })),
		"a machine of another node": cant("the node's word is out of date, or false", noMachine, names, machineA(func(m *machineFacts) { m.node = "node-b" })),
		"a machine without a node":  cant("the node alone says that it is its machine", noMachine, names, machineA(func(m *machineFacts) { m.node = "" })),
		"a machine of an earlier node": cant("another node has had the name", noMachine, &nodeFacts{found: true, uid: "new", machine: "machines/worker-a"},
			machineA(func(m *machineFacts) { m.nodeUID = "old" })),
		"a machine of another namespace": cant("who may create in one namespace may not delete in another", noMachine, &nodeFacts{found: true, machine: "others/worker-a"}, nil),
		"an owner of another node": cant("its node is compared", noMachine, &nodeFacts{}, machineA(func(m *machineFacts) { m.node = "node-b" }),
			ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid")),
		"an owner without a node": cant("its node is compared", noMachine, &nodeFacts{}, machineA(func(m *machineFacts) { m.node = "" }),
			ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid")),
		"an owner of the remediation's name, of another node": cant("an annotation names the node", noMachine, &nodeFacts{}, machineA(func(m *machineFacts) { m.node = "node-b" }),
			ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid"), called("worker-a"), annotated(v1alpha1.NodeNameAnnotation, "node-a")),
		"an owner of the remediation's name, beside a node": cant("it is for the node", noMachine, &nodeFacts{}, machineA(func(m *machineFacts) { m.node = "node-b" }),
			ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid"), ownedBy("v1", "Node", "worker-a", "n"), called("worker-a")),
		"two machines of one node": {
			reason: "one of them belongs to another node in truth", want: record, says: noMachine,
			facts: facts{remediation: remediation(finalized), node: names, machine: machineA(), pool: &pool{joined: 2, sameNode: "worker-b"}},
		},
		"two machines of one node, and about a machine": {
			reason: "whose node it is decides nothing", want: record, says: "RemediationStarted",
			facts: facts{remediation: remediation(finalized, ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid"), called("worker-a")), machine: machineA(), pool: &pool{joined: 2, sameNode: "worker-b"}},
		},
		"a machine that is younger than the remediation": cant("it is the replacement, whose node may have the old one's name", noMachine, names,
			machineA(func(m *machineFacts) { m.created = noon.Add(-59 * time.Second) })),
		"a machine of the same second": cant("it can't have been found unhealthy by then", noMachine, names,
			machineA(func(m *machineFacts) { m.created = noon.Add(-time.Minute) })),
		"a namesake of the owner": cant("only the machine that owns the remediation is meant", noMachine, &nodeFacts{}, machineA(func(m *machineFacts) { m.uid = "other" }),
			ownedBy("machine.openshift.io/v1beta1", "Machine", "worker-a", "a-uid")),
		"stopped before it began": {
			reason: "nothing is begun any more, and no finalizer is needed", want: record, says: "RemediationStoppedByNHC",
			facts: facts{remediation: remediation(annotated(v1alpha1.TimedOutAnnotation, "2026-08-03T12:00:00Z"))},
		},
		"refused before": {
			reason: "that was the last word", facts: facts{remediation: remediation(finalized, ended(metav1.ConditionFalse))}, want: waitForEvent,
		},
		"refused before, and stopped": {
			reason: "it had ended by then", want: waitForEvent,
			facts: facts{remediation: remediation(finalized, ended(metav1.ConditionFalse), annotated(v1alpha1.TimedOutAnnotation, ""))},
		},
	}
}

func middles() map[string]decideCase {
	there := &cachedMachine{exists: true}
	return map[string]decideCase{
		"recorded": {
			reason: "is it there still?", facts: facts{remediation: remediation(begun)}, want: readCachedMachine,
		},
		"there, as a cache has it": {
			reason: "the health checker may have changed its mind", facts: facts{remediation: remediation(begun), cached: there}, want: readAgain,
		},
		"still requested": {
			reason: "the machine is read live", facts: facts{remediation: remediation(begun), cached: there, fresh: true}, want: readMachine,
		},
		"to be deleted": {
			reason: "all is as it was decided", facts: facts{remediation: remediation(begun), cached: there, fresh: true, machine: machineA()}, want: deleteMachine,
		},
		"recorded, in another namespace": {
			reason: "a status may be forged", want: record, says: "RemediationCannotStartMachineNotFound",
			facts: facts{remediation: remediation(begun, func(r *v1alpha1.MachineDeletionRemediation) { r.Status.Machine.Namespace = "others" }), cached: there, fresh: true, machine: machineA()},
		},
		"recorded, and of another node": {
			reason: "a status may be forged", want: record, says: "RemediationCannotStartMachineNotFound",
			facts: facts{remediation: remediation(begun), cached: there, fresh: true, machine: machineA(func(m *machineFacts) { m.node = "node-b" })},
		},
		"deleted already": {
			reason: "one deletion is enough", want: waitForEvent,
			facts: facts{remediation: remediation(begun), cached: there, fresh: true, machine: machineA(func(m *machineFacts) { m.deleting = true })},
		},
		"gone already": {
			reason: "the cache will show it", want: waitForEvent, facts: facts{remediation: remediation(begun), cached: there, fresh: true, machine: &machineFacts{}},
		},
		"replaced by a namesake": {
			reason: "that one is well", want: waitForEvent,
			facts: facts{remediation: remediation(begun), cached: there, fresh: true, machine: machineA(func(m *machineFacts) { m.uid = "new" })},
		},
		"being deleted": {
			reason: "that takes its time", facts: facts{remediation: remediation(begun), cached: &cachedMachine{exists: true, deleting: true}}, want: waitForEvent,
		},
		"stopped": {
			reason: "the contract wants it said", want: record, says: "RemediationStoppedByNHC",
			facts: facts{remediation: remediation(begun, annotated(v1alpha1.TimedOutAnnotation, "2026-08-03T12:00:00Z"))},
		},
		"stopped, and not deleted yet": {
			reason: "nothing is done any more", want: waitForEvent,
			facts: facts{remediation: remediation(begun, annotated(v1alpha1.TimedOutAnnotation, ""), ended(metav1.ConditionFalse)), cached: there},
		},
		"told to go before it began": {
			reason: "there is nothing of ours on it", facts: facts{remediation: remediation(deleted)}, want: waitForEvent,
		},
		"told to go": {
			reason: "nothing is to be undone", facts: facts{remediation: remediation(begun, deleted)}, want: dropFinalizer,
		},
		"told to go while stopped": {
			reason: "nothing is to be undone", facts: facts{remediation: remediation(begun, deleted, ended(metav1.ConditionFalse))}, want: dropFinalizer,
		},
		"a status of another author": {
			reason: "without an owner it is not known when it is replaced", want: waitForEvent,
			facts: facts{remediation: remediation(begun, func(r *v1alpha1.MachineDeletionRemediation) { r.Status.Owner = nil }), cached: &cachedMachine{}},
		},
	}
}

func ends() map[string]decideCase {
	gone := func(f facts, changes ...change) facts {
		f.remediation, f.cached = remediation(append([]change{begun}, changes...)...), &cachedMachine{}
		return f
	}
	absent := &machineFacts{key: workerA}
	return map[string]decideCase{
		"gone": {
			reason: "is it replaced?", facts: gone(facts{}), want: countPool,
		},
		"the replacement boots": {
			reason: "it has not joined", facts: gone(facts{pool: &pool{joined: 2, coming: 1}}), want: waitForEvent,
		},
		"none comes": {
			reason: "perhaps none is to come", facts: gone(facts{pool: &pool{joined: 2}}), want: readOwner,
		},
		"none comes, and one should": {
			reason: "its owner has not made it yet", facts: gone(facts{pool: &pool{joined: 2}, owner: ownerWanting(3)}), want: waitForEvent,
		},
		"none comes, and the owner does not say whether one should": {
			reason: "what is not known is waited for", facts: gone(facts{pool: &pool{joined: 2}, owner: &ownerFacts{found: true}}), want: waitForEvent,
		},
		"fewer are wanted": {
			reason: "the owner has what it wants, if the machine is really gone", facts: gone(facts{pool: &pool{joined: 2}, owner: ownerWanting(2)}), want: readMachine,
		},
		"the owner is gone": {
			reason: "there is no owner to wait for", facts: gone(facts{pool: &pool{}, owner: &ownerFacts{}}), want: readMachine,
		},
		"as many as before": {
			reason: "if the machine is really gone", facts: gone(facts{pool: &pool{joined: 3, coming: 1}}), want: readMachine,
		},
		"as many as before, and it is there": {
			reason: "the cache has not had it yet", facts: gone(facts{pool: &pool{joined: 3}, machine: machineA()}), want: waitForEvent,
		},
		"replaced": {
			reason: "that is all", want: record, says: "MachineDeleted", facts: gone(facts{pool: &pool{joined: 3}, machine: absent}),
		},
		"replaced by a namesake that has joined": {
			reason: "hosts keep their names", want: record, says: "MachineDeleted",
			facts: gone(facts{pool: &pool{joined: 3}, machine: machineA(func(m *machineFacts) { m.uid = "new" })}),
		},
		"replaced after it was stopped": {
			reason: "while it had not succeeded, the health checker would wait for a node that never comes back", want: record, says: "MachineDeleted",
			facts: gone(facts{pool: &pool{joined: 3}, machine: absent}, ended(metav1.ConditionFalse), annotated(v1alpha1.TimedOutAnnotation, "")),
		},
		"over": {
			reason: "nothing is left to do", facts: facts{remediation: remediation(begun, ended(metav1.ConditionTrue))}, want: waitForEvent,
		},
		"over, and stopped": {
			reason: "it had succeeded", facts: facts{remediation: remediation(begun, ended(metav1.ConditionTrue), annotated(v1alpha1.TimedOutAnnotation, ""))}, want: waitForEvent,
		},
	}
}

// TestOwnerThatWantsMoreIsReconciledAgain, since owners are not watched.
func TestOwnerThatWantsMoreIsReconciledAgain(t *testing.T) {
	for wanted, again := range map[int]bool{3: true, 2: false} {
		f := facts{now: noon, remediation: remediation(begun), cached: &cachedMachine{}, pool: &pool{joined: 2}, owner: ownerWanting(wanted)}
		if got := decide(&f); got.poll != again {
			t.Errorf("2 of %d have joined: the next step is %d, again %t", wanted, got.step, got.poll)
		}
	}
}

// TestNothingIsWrittenByACachedRemediation: it may lag behind what was written a moment ago. Whatever else is known,
// it is read again before a write, and once is enough.
func TestNothingIsWrittenByACachedRemediation(t *testing.T) {
	for _, cases := range []map[string]decideCase{beginnings(), refusals(), middles(), ends()} {
		for sentence, tc := range cases {
			t.Run(sentence, func(t *testing.T) {
				tc.facts.now, tc.facts.fresh = noon, true
				fresh := decide(&tc.facts)
				tc.facts.fresh = false
				cached := decide(&tc.facts)
				if fresh.step == readAgain {
					t.Error("what is fresh is read again")
				}
				if cached.step != fresh.step && cached.step != readAgain {
					t.Errorf("the next step is %d, and %d when it is fresh", cached.step, fresh.step)
				}
				switch cached.step {
				case addFinalizer, dropFinalizer, record, deleteMachine:
					t.Errorf("step %d is taken by what a cache has", cached.step)
				case waitForEvent, readAgain, readNode, readMachine, readCachedMachine, countPool, readOwner:
				}
			})
		}
	}
}

// TestI11OnlyTheRecordedMachineIsDeleted: whatever else is known, nothing is deleted that was not recorded by its
// UID, read live, for a remediation that was read live.
func TestI11OnlyTheRecordedMachineIsDeleted(t *testing.T) {
	deletions := 0
	for _, r := range []*v1alpha1.MachineDeletionRemediation{
		remediation(), remediation(finalized), remediation(begun), remediation(begun, deleted), remediation(begun, ended(metav1.ConditionFalse)),
		remediation(begun, ended(metav1.ConditionTrue)), remediation(begun, annotated(v1alpha1.TimedOutAnnotation, "")),
	} {
		for _, m := range []*machineFacts{nil, {}, machineA(), machineA(func(m *machineFacts) { m.uid = "new" }), machineA(func(m *machineFacts) { m.deleting = true })} {
			for _, seen := range []*cachedMachine{nil, {}, {exists: true}, {exists: true, deleting: true}} {
				for _, fresh := range []bool{true, false} {
					f := facts{
						remediation: r, fresh: fresh, machine: m, cached: seen, node: &nodeFacts{found: true, machine: "machines/worker-a"},
						pool: &pool{joined: 3}, owner: ownerWanting(3), now: noon,
					}
					if decide(&f).step != deleteMachine {
						continue
					}
					deletions++
					recorded := r.Status.Machine != nil && m != nil && m.found && string(m.uid) == r.Status.Machine.UID
					if !recorded || !fresh || !r.DeletionTimestamp.IsZero() || contract.Stopped(r) || contract.Succeeded(r.Status.Conditions) != metav1.ConditionUnknown {
						t.Errorf("it is deleted from %+v", f)
					}
				}
			}
		}
	}
	if deletions != 1 {
		t.Errorf("%d of these are deleted, want one", deletions)
	}
}

func TestNodeOf(t *testing.T) {
	if got := contract.NodeOf(remediation()); got != "node-a" {
		t.Errorf("without annotation the node is %q, want the remediation's name", got)
	}
	if got := contract.NodeOf(remediation(annotated(v1alpha1.NodeNameAnnotation, "other"))); got != "other" {
		t.Errorf("with one the node is %q", got)
	}
}
