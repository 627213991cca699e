package faults

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/fettle-io/fettle/test/cluster"
)

// moment is an instant during remediations at which something goes wrong.
type moment struct {
	// reach prepares a pool, and returns at that instant.
	reach func(*pool)
	// another waits until another leader has continued.
	another func(*pool)
	// end lets the remediations finish.
	end   func(*pool)
	limit int
}

// inTheMiddle: of thirty nodes some are healthy again, some have remediation objects, and others wait.
func inTheMiddle() moment {
	return moment{
		reach:   func(p *pool) { p.thirty(10) },
		another: func(p *pool) { p.wantRequested("reboot", 20) },
		end:     func(*pool) {},
		limit:   10,
	}
}

// asItEscalates: the first of three steps has failed for all nodes, and the second begins, one by one.
func asItEscalates() moment {
	ill := names("ill", 10)
	return moment{
		reach: func(p *pool) {
			p.addNodes(append(names("well", 2), ill...))
			p.inThreeSteps()
			p.wantStatus(12, 12)
			p.set(func() { p.failing = append(p.failing, "second") })
			p.longBroken(ill)
			p.wantRequested("second", 1)
			p.holdWork()
		},
		another: func(p *pool) { p.wantRequested("second", len(ill)) },
		end: func(p *pool) {
			p.letWork()
			p.wantRequested("third", len(ill))
		},
		limit: unlimited,
	}
}

// asItWithdraws: all nodes are healthy again, and their objects are deleted, one by one. Remediators have much to undo.
func asItWithdraws() moment {
	ill := names("ill", 20)
	return moment{
		reach: func(p *pool) {
			p.holdWork()
			p.holdUndo()
			p.addNodes(append(names("well", 2), ill...))
			p.rebooted(unlimited)
			p.wantStatus(22, 22)
			p.longBroken(ill)
			p.wantRequested("reboot", len(ill))
			p.letWork()
			p.wantLeaving("reboot", 1)
		},
		another: func(p *pool) { p.wantLeaving("reboot", len(ill)) },
		end:     func(p *pool) { p.letUndo() },
		limit:   unlimited,
	}
}

// remediationsWithoutServer: Fettle continues without help.
func remediationsWithoutServer(p *pool) {
	p.StartFettle(p.t)
	p.thirty(10)
	p.Restart(p.t, syscall.SIGKILL)
	p.wantMended(10)
}

// remediationsLeftBy: the leader is lost, and another finishes its remediations.
func remediationsLeftBy(lose func(*pool, *cluster.Fettle, string, moment), at moment) func(*pool) {
	return func(p *pool) {
		leads, _, _, holder := p.twoReplicas()
		at.reach(p)
		lose(p, leads, holder, at)
		at.end(p)
		p.wantMended(at.limit)
	}
}

func kill(p *pool, leads *cluster.Fettle, holder string, at moment) {
	leads.Kill(p.t)
	p.leaderIs(holder)
	at.another(p)
}

func stop(p *pool, leads *cluster.Fettle, holder string, at moment) {
	leads.Stop(p.t)
	p.leaderIs(holder)
	at.another(p)
}

// halt: the first leader continues when another works.
func halt(p *pool, leads *cluster.Fettle, holder string, at moment) {
	leads.Halt(p.t)
	p.leaderIs(holder)
	at.another(p)
	leads.Resume(p.t)
	leads.WantEnd(p.t)
}

// remediationsOfTwoLeaders: two leaders create objects at the same time, for nodes that fail six by six, each wave
// older than the last.
func remediationsOfTwoLeaders(limit int) func(*pool) {
	return func(p *pool) {
		well, ill, plane := names("well", 4), names("ill", 24), p.addControlPlane()
		p.addNodes(slices.Concat(well, ill))
		p.foreignRequest("well-00")
		p.rebooted(limit)
		p.StartFettle(p.t)
		p.StartFettle(p.t)
		p.wantStatus(33, 33)
		p.longBroken(plane[:2])
		const wave = 6
		for i := 0; i < len(ill); i += wave {
			p.brokenFor(ill[i:i+wave], time.Duration(i+2)*time.Hour)
			p.wantRequested("reboot", i/2+1)
		}
		p.wantMended(limit)
	}
}

// escalationOfTwoLeaders: both escalate, and no step is taken twice.
func escalationOfTwoLeaders(p *pool) {
	ill := names("ill", 12)
	p.addNodes(append(names("well", 2), ill...))
	p.inThreeSteps()
	p.failsAt("second")
	p.StartFettle(p.t)
	p.StartFettle(p.t)
	p.wantStatus(14, 14)
	p.longBroken(ill)
	p.wantMended(unlimited)
	if made, _ := p.requested("third"); made != len(ill) {
		p.t.Errorf("%d nodes have come to the third step, want %d", made, len(ill))
	}
}

// machinesOfRemediators: OpenShift's health checks use the same remediators, for machines.
func machinesOfRemediators(p *pool) {
	ill := names("ill", 12)
	p.addTemplate(rebooting, "reboot")
	p.addNodes(append(names("well", 3), ill...))
	p.foreignRequest("well-00")
	p.each(append(names("well", 3), ill...), p.addMachine)
	p.Apply(p.t, fmt.Sprintf(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: example, namespace: %s, annotations: {fettle.io/max-in-flight: "4"}}
spec:
  selector: {matchLabels: {pool: %s}}
  maxUnhealthy: 100%%
  remediationTemplate: %s
  unhealthyConditions:
  - {type: Ready, status: "False", timeout: %s}
`, p.name, p.name, p.reference(rebooting, "reboot"), short))
	leads, _, _, holder := p.twoReplicas()
	p.longBroken(ill)
	p.wantRequested("reboot", 5)
	kill(p, leads, holder, moment{another: func(p *pool) { p.wantRequested("reboot", 8) }})
	p.wantMended(4)
	if made, _ := p.requested("reboot"); made != len(ill) {
		p.t.Errorf("%d machines have remediation objects, want %d", made, len(ill))
	}
}

// addMachine makes a machine with its node's name.
func (p *pool) addMachine(ctx context.Context, name string) error {
	m := object("machine.openshift.io/v1beta1", "Machine", p.name, p.node(name))
	m.SetLabels(map[string]string{"pool": p.name})
	if err := p.Create(ctx, m); err != nil {
		return err
	}
	return p.Status().Patch(ctx, m, merge(map[string]any{"status": map[string]any{
		"phase": "Running", "nodeRef": map[string]any{"kind": "Node", "name": p.node(name)},
	}}))
}
