package pass_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// arrange obeys the commands of a transcript that do leaves out. They change the world before a pass.
func (w *world) arrange(command string, rest []string) error {
	switch command {
	case "dialect": // dialect [conditions]: the policies and machines from now on belong to another dialect, which may write conditions
		w.config.Dialects = append(w.config.Dialects, pass.Dialect{WritesConditions: len(rest) > 0})
		w.dialect++
	case "without": // without leases|quorum|conditions|confirmations
		w.lacks(rest[0])
	case "uninstall": // uninstall REMEDY
		delete(w.config.Remedies, rest[0])
	case "samples": // durations are measured
		w.config.Samples = true
	case "siblings": // siblings known|unknown: whether a cache shows them
		w.config.Siblings, w.siblings = true, rest[0] == "known"
	case "observed": // observed yes|no
		w.observed = map[string]core.Tri{"yes": core.Yes, "no": core.No}[rest[0]]
	case "unwritten", "written": // unwritten POLICY: its status can't be written
		w.unwritten[rest[0]] = command == "unwritten"
	case "unjudged": // unjudged POLICY: it is not judged, and selects the number of its members
		p := w.policy(rest[0])
		p.Unjudged, p.Unparsable, p.Problem, p.Selected, p.Members = true, true, "it is not judged", len(p.Members), nil
	case "restore": // restore POLICY: it is as it was, and stays so
		w.changed[rest[0]], w.changes = false, map[string]string{}
	case "panic": // panic CALL: from now on it panics
		w.fates[strings.Join(rest, " ")] = ending{granted: true, panicked: true}
	case "was-stopped": // was-stopped POLICY: its status says that repairs were stopped
		w.policy(rest[0]).WasStopped = true
	case "no-fingerprint": // no-fingerprint POLICY: its version can't be told
		w.policy(rest[0]).Fingerprint = ""
	case "pending": // pending POLICY: it is not known yet whether its first step can be taken
		w.policy(rest[0]).Steps[0].Pending = true
	case "delete-policy": // delete-policy POLICY: the caches show that
		w.policies = slices.DeleteFunc(w.policies, func(p core.Policy) bool { return p.ID.Name == rest[0] })
	case "other-machine": // other-machine NAME [SETTING...]: a member of the last policy alone
		return w.addMember(rest[0], rest[1:])
	case "confirm": // confirm NAME: a user confirms that it is healthy
		w.target(rest[0]).ConfirmedHealthy = true
	case "hand-over": // hand-over NAME: an outside remediator is at work on it, or no longer
		t := w.target(rest[0])
		t.ExternallyRemediated = !t.ExternallyRemediated
	case "requests-lag": // requests are shown once the caches catch up
		w.requestsLag = true
	case "unseen": // unseen NAME: the cache lacks its node
		w.target(rest[0]).Node = core.Node{State: core.NodeUnseen, Name: rest[0] + "-node"}
	case "agent": // agent NAME: a live read shows the agent's condition of its node, and no cache does
		n := w.target(rest[0]).Node
		n.Conditions = append(slices.Clone(n.Conditions), core.Condition{Type: "Agent", Status: "True", Since: w.now})
		w.live[rest[0]] = n
	case "turn": // turn NAME well|sick: its node turns, as the caches show
		n := node(rest[0], map[string]string{"well": "True", "sick": "False"}[rest[1]], w.now)
		w.live[rest[0]], w.target(rest[0]).Node = n, n
	case "erase": // erase NAME: its repair is deleted, and the process restarts
		w.stored = slices.DeleteFunc(w.stored, func(r core.Repair) bool { return r.Target.Name == rest[0] })
		w.cached, w.state = slices.Clone(w.stored), &pass.State{}
	case "node": // node NAME: the node of a machine is a target too, of the last policy, which no longer selects the machine
		w.addNode(rest[0])
	case "keep": // keep DURATION: how long finished repairs are kept
		d, err := time.ParseDuration(rest[0])
		w.config.Retention.For = d
		return err
	case "finish": // finish NUMBER NAME: so many finished repairs of it are stored
		n, err := strconv.Atoi(rest[0])
		w.finished(n, rest[1])
		return err
	case "succeed": // succeed NAME yes|no: how the remediator of its request has ended
		w.succeed(rest[0], map[string]core.Tri{"yes": core.Yes, "no": core.No}[rest[1]])
	case "replace": // replace NAME: its remediator expects that the node is gone for good, and no cache shows that yet
		w.replacing[rest[0]] = true
	case "prove": // prove NAME: the remediator of its request has proven that the node has stopped
		w.prove(rest[0])
	case "lose-target": // lose-target NAME: it is gone, as the caches show
		return w.remove(rest[0])
	default:
		return fmt.Errorf("no such command: %s", command)
	}
	return nil
}

// lacks takes away something that the caller of passes has.
func (w *world) lacks(what string) {
	switch what {
	case "leases":
		w.config.Leases = false
	case "quorum":
		w.config.Quorum = false
	case "conditions":
		w.config.Dialects[0].WritesConditions = false
	case "confirmations":
		w.config.Dialects[0].WithdrawsConfirmations = false
	}
}

// addMember adds a machine that the last policy alone selects.
func (w *world) addMember(name string, settings []string) error {
	err := w.addMachine(name, settings)
	for i := range w.policies[:len(w.policies)-1] {
		p := &w.policies[i]
		p.Members = p.Members[:len(p.Members)-1]
	}
	return err
}

func (w *world) policy(name string) *core.Policy {
	i := slices.IndexFunc(w.policies, func(p core.Policy) bool { return p.ID.Name == name })
	return &w.policies[i]
}

// finished stores finished repairs, which the caches show.
func (w *world) finished(n int, name string) {
	for range n {
		ended := w.now.Add(-48 * time.Hour)
		r, _ := w.create(&core.NewRepair{
			Name: core.RepairName(id("Machine", name), len(w.stored)+100), Target: machine(name), Policy: w.policies[0], Steps: w.policies[0].Steps,
			Started: ended.Add(-time.Minute),
		})
		r.Ended, r.Outcome, r.Owner = ended, core.Recovered, core.ID{}
		w.stored[len(w.stored)-1] = r
	}
	w.cached = slices.Clone(w.stored)
}

func (w *world) succeed(name string, how core.Tri) {
	for i := range w.requests {
		if w.requests[i].Target.Name == name {
			w.requests[i].Succeeded, w.requests[i].SucceededSince = how, w.now
		}
	}
}

func (w *world) prove(name string) {
	for i := range w.requests {
		if q := &w.requests[i]; q.Target.Name == name {
			q.Evidence = core.Evidence{Request: q.ID, Cycle: 1, Method: "PowerOff", Commanded: w.now.Add(-10 * time.Second), Proven: w.now}
		}
	}
}

// remove removes a target, and its place among the members of policies.
func (w *world) remove(name string) error {
	at := slices.IndexFunc(w.targets, func(t core.Target) bool { return t.ID.Name == name })
	if at < 0 {
		return fmt.Errorf("no target is called %q", name)
	}
	w.targets, w.targetDialects = slices.Delete(w.targets, at, at+1), slices.Delete(w.targetDialects, at, at+1)
	for i := range w.policies {
		p := &w.policies[i]
		p.Members = slices.DeleteFunc(p.Members, func(m int) bool { return m == at })
		for j := range p.Members {
			if p.Members[j] > at {
				p.Members[j]--
			}
		}
	}
	return nil
}

// addNode has the last policy select the node of a machine instead of the machine.
func (w *world) addNode(name string) {
	m := w.target(name)
	n := core.Target{ID: core.ID{Kind: "Node", Name: m.Node.Name, UID: m.Node.UID}, Created: m.Created, Node: m.Node, Parts: core.NoParts()}
	w.policies[len(w.policies)-1].Members = []int{len(w.targets)}
	w.targets, w.targetDialects = append(w.targets, n), append(w.targetDialects, w.dialect)
}
