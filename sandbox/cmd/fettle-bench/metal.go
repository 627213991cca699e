package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// fettleAPI is the version of Fettle's own kinds.
var fettleAPI = [...]string{"fettle.io", "v1alpha1"}

const (
	// metalNamespace is the namespace of BMCs and of their Secrets, which is Fettle's default, and of the remediations.
	metalNamespace = "fettle-system"
	// hostsOfDomain is how many hosts of a rack are on one power strip. Fettle powers them on one after the other.
	hostsOfDomain = 4
	// commandedWithin is the longest that one rack may take until it is powered on again.
	commandedWithin = 3 * time.Minute
)

// metal judges nodes on hosts with BMCs by a NodeHealthCheck. Fettle powers the hosts of broken nodes off and on itself.
func metal() dialect {
	d := nodeHealthCheck()
	d.metal = true
	d.remedyCall = remedyCall{
		verb: "create", resource: schema.GroupVersionResource{Group: fettleAPI[0], Version: fettleAPI[1], Resource: "powerremediations"},
		namespace: metalNamespace, noun: "node", participle: "handed to the remediator", many: "PowerRemediations",
		shows: func(event watch.EventType, o *unstructured.Unstructured) bool {
			_, proven, _ := unstructured.NestedMap(o.Object, "status", "proof")
			return event == watch.Modified && proven
		},
	}
	d.check = nodeCheck("fettle.io/v1alpha1", "PowerRemediationTemplate", metalNamespace, "reboot")
	d.install = func(ctx context.Context, s *stage.Stage) error { return s.InstallPart(ctx, "power") }
	d.populate = func(ctx context.Context, s *stage.Stage, _ cluster) (int, error) {
		objects, err := stage.Decode([]byte(metalTemplate))
		if err != nil {
			return 0, err
		}
		return 0, s.Apply(ctx, objects...)
	}
	return d
}

const metalTemplate = `
apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: reboot, namespace: ` + metalNamespace + `}
spec: {template: {spec: {strategy: Reboot}}}
`

// metalRun is one round on bare metal. Two racks of the same size die, one after the other. BMCs of the second hang.
type metalRun struct {
	run

	hosts  []*bmcHost
	result metalRound
}

// benchMetal plays all rounds on bare metal and prints the results.
func (r *report) benchMetal(ctx context.Context) error {
	for i := range r.Parameters.Rounds {
		say("round %d of %d", i+1, r.Parameters.Rounds)
		m := &metalRun{run: run{parameters: r.Parameters}}
		err := m.through(ctx, []func(context.Context) error{
			m.raise, m.populate, m.startUp, m.awaitNoWrites,
			func(ctx context.Context) error { return m.blackout(ctx, 0, 0) },
			func(ctx context.Context) error { return m.blackout(ctx, 1, m.Hanging) },
			m.floorOfCommands, m.floorOfRecords,
		})
		closeHosts(m.hosts)
		if err != nil {
			return err
		}
		r.Metal = append(r.Metal, m.result)
	}
	return nil
}

// populate makes the nodes, their hosts with BMCs, and the health check.
func (m *metalRun) populate(ctx context.Context) error {
	m.kubelets.bare = true
	if err := m.run.populate(ctx); err != nil {
		return err
	}
	m.result.NodeBytes = m.run.result.NodeBytes
	m.hosts = make([]*bmcHost, m.Nodes)
	return inParallel(ctx, m.Nodes, func(ctx context.Context, i int) error {
		var err error
		if m.hosts[i], err = startHost(); err != nil {
			return err
		}
		for _, o := range bmcObjects(i, m.rackOf(i), m.hosts[i]) {
			if err := m.stage.Client.Create(ctx, o); err != nil {
				return fmt.Errorf("creating the BMC of node %s: %w", nodeName(i), err)
			}
		}
		return nil
	})
}

// startUp starts Fettle, and waits until it finds every node healthy and every BMC reachable.
func (m *metalRun) startUp(ctx context.Context) error {
	say("starting Fettle")
	fettle, err := m.stage.LaunchFettle(ctx, "--metrics-bind-address", m.metrics.address)
	if err != nil {
		return err
	}
	m.fettle = observed{fettle, m.servers.fs}
	if err := m.awaitHealthy(ctx); err != nil {
		return err
	}
	reachable := 0
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, startsWithin, true, func(ctx context.Context) (bool, error) {
		list, err := m.list(ctx, "BMCList")
		if err != nil {
			return false, err
		}
		reachable = 0
		for i := range list.Items {
			if isReachable(&list.Items[i]) {
				reachable++
			}
		}
		return reachable == m.Nodes, m.fettle.Died()
	})
	if err != nil {
		return fmt.Errorf("waiting until Fettle reaches %d BMCs, which it does of %d: %w", m.Nodes, reachable, err)
	}
	return nil
}

func (m *metalRun) list(ctx context.Context, kind string) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(fettleAPI[0] + "/" + fettleAPI[1])
	list.SetKind(kind)
	if err := m.stage.Client.List(ctx, list, client.InNamespace(metalNamespace)); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	return list, nil
}

// isReachable reports whether Fettle has read the power through a BMC.
func isReachable(bmc *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(bmc.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, _ := c.(map[string]any); fields["type"] == "Reachable" {
			return fields["status"] == "True"
		}
	}
	return false
}

// rackOf returns the rack of a node. A rack has as many nodes as break, and the last one the rest.
func (p *parameters) rackOf(node int) int { return node / p.Broken }

// rack returns the nodes of a rack, or all others.
func (p *parameters) rack(number int, inside bool) []int {
	var nodes []int
	for i := range p.Nodes {
		if (p.rackOf(i) == number) == inside {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// hangs reports whether the BMC of the nth node of a rack hangs, where a number of them do. They are spread evenly.
func (p *parameters) hangs(n, hanging int) bool {
	return (n+1)*hanging/p.Broken > n*hanging/p.Broken
}

// blackout has all nodes of a rack break at once, where some of its BMCs hang. It measures until all hosts are powered on
// again, those with BMCs that hang once these answer again. Then the nodes become Ready.
func (m *metalRun) blackout(ctx context.Context, rack, hanging int) error {
	say("outage: the %d nodes of a rack turn Ready=False, %d of their BMCs hang", m.Broken, hanging)
	proofs, err := m.watchRemedyCalls(ctx)
	if err != nil {
		return err
	}
	defer proofs.stop()
	if err := m.servers.collectGarbage(ctx); err != nil {
		return err
	}
	pulse := m.kubelets.startHeartbeats(ctx, m.rack(rack, false), m.Rate)
	b := &blackout{nodes: m.rack(rack, true)}
	for n, i := range b.nodes {
		if m.hangs(n, hanging) {
			b.silent = append(b.silent, i)
		} else {
			b.answering = append(b.answering, i)
		}
	}
	err = m.powerCycle(ctx, b, proofs)
	if err == nil {
		err = m.recover(ctx, b.nodes)
	}
	if err := errors.Join(err, pulse.stop()); err != nil {
		return err
	}
	if err := onlyThese(b.victims, m.commandsSince(b.began)); err != nil {
		return err
	}
	m.result.Outages = append(m.result.Outages, b.measure(m.hosts, m.servers.audit.between(b.began, time.Now()), proofs.seen()))
	return nil
}

// powerCycle breaks the nodes of a rack, and waits until their hosts were powered off and on.
func (m *metalRun) powerCycle(ctx context.Context, b *blackout, proofs *remedyCalls) error {
	m.orderHangs(b.silent, true)
	b.began = time.Now()
	lost := m.stolen()
	var err error
	if b.victims, err = m.breakRack(ctx, b.nodes); err != nil {
		return err
	}
	before, err := m.spent()
	if err != nil {
		return err
	}
	if err := m.awaitCommands(ctx, b.answering, (*bmcHost).offSince, b.began, proofs); err != nil {
		return fmt.Errorf("waiting until the hosts are powered off: %w", err)
	}
	if b.spent, err = m.spent(); err != nil {
		return err
	}
	b.spent, b.ended, b.stolen = b.spent.minus(before), time.Now(), m.stolenSince(b.began, lost)
	if err := m.awaitCommands(ctx, b.answering, (*bmcHost).onSince, b.began, proofs); err != nil {
		return fmt.Errorf("waiting until the hosts are powered on: %w", err)
	}
	m.orderHangs(b.silent, false)
	if err := m.awaitCommands(ctx, b.silent, (*bmcHost).onSince, b.began, proofs); err != nil {
		return fmt.Errorf("waiting until the hosts are powered on whose BMCs had hung: %w", err)
	}
	return nil
}

func (m *metalRun) orderHangs(nodes []int, hang bool) {
	for _, i := range nodes {
		m.hosts[i].hang(hang)
	}
}

// breakRack makes nodes not Ready, and returns when each may be repaired.
func (m *metalRun) breakRack(ctx context.Context, nodes []int) ([]victim, error) {
	victims := make([]victim, len(nodes))
	err := inParallel(ctx, len(nodes), func(ctx context.Context, n int) error {
		return patiently(func() error {
			since, err := m.kubelets.fail(ctx, nodes[n])
			name := nodeName(nodes[n])
			victims[n] = victim{target: name, node: name, deadline: since.Add(timeout)}
			return err
		})
	})
	return victims, err
}

// awaitCommands waits until each of these hosts has received a command.
func (m *metalRun) awaitCommands(ctx context.Context, nodes []int, received func(*bmcHost, time.Time) []time.Time, since time.Time, proofs *remedyCalls) error {
	waiting := nodes
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, commandedWithin, true, func(context.Context) (bool, error) {
		var left []int
		for _, i := range waiting {
			if len(received(m.hosts[i], since)) == 0 {
				left = append(left, i)
			}
		}
		waiting = left
		return len(left) == 0, errors.Join(m.fettle.Died(), proofs.failed())
	})
	if err != nil {
		return fmt.Errorf("%d of %d are not, such as that of node %s: %w", len(waiting), len(nodes), nodeName(waiting[0]), err)
	}
	return nil
}

// recover makes nodes Ready under another boot ID, and waits until all remediations have ended.
func (m *metalRun) recover(ctx context.Context, nodes []int) error {
	say("recovery: the nodes are Ready in another boot")
	err := inParallel(ctx, len(nodes), func(ctx context.Context, n int) error {
		return patiently(func() error { return m.kubelets.reboot(ctx, nodes[n]) })
	})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, repairedWithin, true, func(ctx context.Context) (bool, error) {
		left, failed := m.list(ctx, "PowerRemediationList")
		running, err := m.runningRepairs(ctx)
		if err := errors.Join(failed, err, m.servers.audit.catchUp(), m.fettle.Died()); err != nil {
			return false, err
		}
		return len(left.Items) == 0 && running == 0 && m.servers.audit.quietSince(time.Now().Add(-quietFor)), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until all remediations have ended: %w", err)
	}
	return nil
}

// commandsSince returns the power commands that each host has received since then.
func (m *metalRun) commandsSince(then time.Time) map[string]commands {
	received := map[string]commands{}
	for i, h := range m.hosts {
		received[nodeName(i)] = commands{off: h.offSince(then), on: h.onSince(then)}
	}
	return received
}

// spent reads how much of the processor each process has used until now.
func (m *metalRun) spent() (metalCPU, error) {
	fettle, err := m.fettle.usage()
	sandbox, failed := m.servers.usage()
	own, unread := usageOf(m.servers.fs, os.Getpid())
	return metalCPU{Fettle: seconds(fettle.cpu), Sandbox: seconds(sandbox.cpu), BMCs: seconds(own.cpu)}, errors.Join(err, failed, unread)
}
