package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fettle-io/fettle/test/cluster"
)

// strangersOfTheControlPlane: a leader records the repair of a member of the control plane. Another leader repairs a
// member that the first has never seen, and the first sees that repair alone. It holds its own repair back, since an
// unknown node may be of the control plane. It continues when the other repair has ended.
func strangersOfTheControlPlane(p *pool) {
	plane := p.addControlPlane()
	first := plane[0]
	p.rebooted(unlimited)
	proxy, kubeconfig := p.throughProxy()
	blind := p.StartFettleWith(p.t, kubeconfig)
	p.wantStatus(5, 5)
	records := proxy.Inject(p.t, cluster.Fault{Method: "POST", Path: "/apis/fettle.io/v1alpha1/namespaces/fettle-system/repairs", Stall: true})
	p.longBroken([]string{first})
	p.wantHits("recording a repair", records, 1)
	var stalls []*cluster.Injected
	for _, path := range []string{nodesPath, repairsPath, pathOf(rebooting)} {
		stalls = append(stalls, proxy.Inject(p.t, cluster.Fault{Path: path, Watch: true, Stall: true}))
	}

	p.holdWork()
	p.addNodes([]string{"late"}, "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd")
	p.brokenFor([]string{"late"}, 2*time.Hour)
	sees := p.StartFettle(p.t)
	p.wantRequested("reboot", 1)
	records.End()
	p.Eventually(p.t, "the leader that lacks the node has recorded its repair, and waits", func(context.Context) error {
		if log := blind.Log(p.t); !strings.Contains(log, "repair waits, since repairs recorded meanwhile use up a limit") {
			return errors.New("it does not say so")
		}
		return nil
	})
	var answer any
	p.explain("", "node/"+p.node(first), &answer)
	if text := fmt.Sprint(answer); !strings.Contains(text, "ControlPlaneBusy") {
		p.t.Errorf("explain does not name the gate: %s", text)
	}
	sees.Kill(p.t)
	p.Never(p.t, "another member is remediated", quiet, func(context.Context) error {
		if made, _ := p.requested("reboot"); made != 1 {
			return fmt.Errorf("%d nodes have remediation objects", made)
		}
		return nil
	})
	// A second leader that sees the repair before the node takes the node for gone: a limit of I3 in docs/invariants.md.
	stalls[0].End()
	p.wantStatus(4, 6)
	for _, s := range stalls[1:] {
		s.End()
	}
	p.letWork()
	p.wantRequested("reboot", 2)
	p.wantMended(1)
}
