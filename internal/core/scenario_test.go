package core_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// scenario is an engine with the world around it, for stories. Its passes are those of internal/pass.
type scenario struct {
	now      time.Time
	policies []core.Policy
	selects  map[string]string
	machines []scenarioMachine
	ledger   []core.Repair
	state    *pass.State
	refusing bool
	out      strings.Builder
}

// fingerprint is that of all policies. They are not edited during a pass.
const fingerprint = "unchanged"

// scenarioMachine is a machine with what a live read would say of its node.
type scenarioMachine struct {
	target core.Target
	live   core.Node
}

func newScenario() *scenario {
	return &scenario{now: noon, selects: map[string]string{}, state: &pass.State{}}
}

func (s *scenario) do(words []string) error {
	rest := words[1:]
	switch words[0] {
	case "policy": // policy NAME [gone] [members=a,b,c*] [max-unhealthy=40%] [in-flight=2] [paused] [dry-run] ...
		return s.policy(rest[0], rest[1:])
	case "machine": // machine NAME [gone] [failed] [booting] [deleting] [orphan] [control-plane] ...
		return s.machine(rest[0], rest[1:])
	case "node": // node NAME Ready=False | gone | unseen | back
		return s.node(rest[0], rest[1])
	case "wait": // wait DURATION
		d, err := time.ParseDuration(rest[0])
		s.now = s.now.Add(d)
		return err
	case "restart": // the engine forgets all but the ledger
		s.state = &pass.State{}
	case "remedy": // remedy refuses | works
		s.refusing = rest[0] == "refuses"
	case "erase": // erase NAME of an entry in the ledger
		s.ledger = slices.DeleteFunc(s.ledger, func(r core.Repair) bool { return r.Name == rest[0] })
	case "ledger": // prints it
		s.printLedger()
	case "pass": // pass [crash]
		s.pass(len(rest) > 0 && rest[0] == "crash")
	default:
		return errors.New("no such command")
	}
	return nil
}

func (s *scenario) policy(name string, words []string) error {
	i := slices.IndexFunc(s.policies, func(p core.Policy) bool { return p.ID.Name == name })
	if len(words) > 0 && words[0] == "gone" {
		s.policies = slices.Delete(s.policies, i, i+1)
		return nil
	}
	if i < 0 {
		s.policies = append(s.policies, policy(name, nil, func(p *core.Policy) { p.Fingerprint = fingerprint }))
		i = len(s.policies) - 1
	}
	return setFields(words, func(key, value string) error { return s.setPolicyField(&s.policies[i], key, value) })
}

func (s *scenario) setPolicyField(p *core.Policy, key, value string) error {
	var err error
	switch key {
	case "members":
		s.selects[p.ID.Name] = value
	case "max-unhealthy":
		p.ShortCircuit.MaxUnhealthy, err = amount(value)
	case "in-flight":
		p.MaxInFlight, err = amount(value)
	case "paused":
		p.Paused = value != "no"
	case "dry-run":
		p.DryRun = value != "no"
	case "age":
		age, bad := time.ParseDuration(value)
		p.Created, err = s.now.Add(-age), bad
	case "storm-cooldown":
		p.StormCooldown, err = time.ParseDuration(value)
	case "startup":
		p.Criteria.NodeStartup, err = time.ParseDuration(value)
	case "gone-delay":
		p.Criteria.NodeGoneDelay, err = time.ParseDuration(value)
	case "without":
		missing := core.ConditionGroup{Tests: []core.ConditionTest{{Type: value, Missing: true}}, For: patience}
		p.Criteria.Groups = append(p.Criteria.Groups, missing)
	default:
		return errors.New("no such setting")
	}
	return err
}

func amount(s string) (core.Amount, error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	return core.Amount{Number: n, Percent: percent}, err
}

func (s *scenario) machineNamed(name string) *scenarioMachine {
	for i := range s.machines {
		if s.machines[i].target.ID.Name == name {
			return &s.machines[i]
		}
	}
	return nil
}

func (s *scenario) machine(name string, words []string) error {
	if len(words) > 0 && words[0] == "gone" {
		s.machines = slices.DeleteFunc(s.machines, func(a scenarioMachine) bool { return a.target.ID.Name == name })
		return nil
	}
	a := s.machineNamed(name)
	if a == nil {
		s.machines = append(s.machines, scenarioMachine{target: machine(name, created(s.now), ready("True", s.now), readAt(time.Time{}))})
		a = &s.machines[len(s.machines)-1]
	}
	err := setFields(words, func(key, _ string) error { return s.setMachineField(&a.target, key) })
	a.live = a.target.Node
	return err
}

func (s *scenario) setMachineField(t *core.Target, key string) error {
	switch key {
	case "failed":
		failed(s.now)(t)
	case "booting":
		awaited(s.now)(t)
	case "joined":
		t.Node = core.Node{State: core.NodePresent, Name: t.ID.Name + "-node"}
		ready("True", s.now)(t)
	case "deleting":
		t.Deleting = true
	case "orphan":
		t.Owner = core.ID{}
	case "control-plane":
		t.ControlPlane = true
	default:
		return errors.New("no such setting")
	}
	return nil
}

// node changes the node of a machine: in truth and in the cache, but for "unseen", which the cache
// alone lacks.
func (s *scenario) node(name, change string) error {
	a := s.machineNamed(name)
	if a == nil {
		return errors.New("no such machine")
	}
	switch kind, status, isCondition := strings.Cut(change, "="); {
	case isCondition:
		a.target.Node.Conditions = []core.Condition{{Type: kind, Status: status, Since: s.now}}
		a.live = a.target.Node
	case change == "gone":
		a.live = core.Node{State: core.NodeGone, Name: a.target.Node.Name}
		a.target.Node = core.Node{State: core.NodeUnseen, Name: a.target.Node.Name}
	case change == "unseen":
		a.target.Node = core.Node{State: core.NodeUnseen, Name: a.target.Node.Name}
	case change == "back":
		ready("True", s.now)(&a.target)
		a.target.Node.State = core.NodePresent
		a.live = a.target.Node
	default:
		return errors.New("no such change")
	}
	return nil
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *scenario) printLedger() {
	for i := range s.ledger {
		r := &s.ledger[i]
		s.printf("%s %s since %s, retry %d, attempts %d", r.Name, r.Outcome, clock(r.Started), r.Retry, r.Attempts)
	}
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.TimeOnly)
}

// observe returns the snapshot of a pass: the facts that the caches show.
func (s *scenario) observe() pass.Snapshot {
	o := core.Observation{Kind: "Machine", Observed: core.Yes, Policies: slices.Clone(s.policies)}
	for _, a := range s.machines {
		o.Targets = append(o.Targets, a.target)
	}
	for i := range o.Policies {
		o.Policies[i].Members = nil
		for j := range o.Targets {
			if selected(s.selects[o.Policies[i].ID.Name], o.Targets[j].ID.Name) {
				o.Policies[i].Members = append(o.Policies[i].Members, j)
			}
		}
	}
	return pass.NewSnapshot(s.clock(), []core.Observation{o}, slices.Clone(s.ledger), core.Yes)
}

// selected matches a name with a list such as "a-1,b-*".
func selected(list, name string) bool {
	for pattern := range strings.SplitSeq(list, ",") {
		prefix, wild := strings.CutSuffix(pattern, "*")
		if name == pattern || (wild && strings.HasPrefix(name, prefix)) {
			return true
		}
	}
	return false
}
