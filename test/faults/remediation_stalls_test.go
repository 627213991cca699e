package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// remediationsStall: remediation objects change, and Fettle's watch does not show it. Fettle knows its own writes, so
// it creates none twice and leaves none that it no longer needs. It creates an object again that another client
// deleted, once the watch shows that.
func remediationsStall(p *pool) {
	proxy, kubeconfig := p.throughProxy()
	p.holdWork()
	p.addNodes(append(names("well", 2), names("ill", 6)...))
	p.rebooted(unlimited)
	p.StartFettleWith(p.t, kubeconfig)
	p.wantStatus(8, 8)
	p.longBroken(names("ill", 4))
	p.wantRequested("reboot", 4)
	p.wantStatus(4, 8)
	p.wantStopped(4)
	stall := proxy.Inject(p.t, cluster.Fault{Path: pathOf(rebooting), Watch: true, Stall: true})
	p.recover([]string{"ill-00"})
	p.wantLeaving("reboot", 1)
	p.takeAway("ill-01")
	p.longBroken([]string{"ill-04"})
	p.wantRequested("reboot", 5)
	p.keepsRequested("reboot", 5, 2)
	// Seen or not: a node that recovers and fails again gets a new object, once Fettle knows that the old one is gone.
	p.longBroken([]string{"ill-00"})
	p.keepsRequested("reboot", 5, 2)
	stall.End()
	p.wantRequested("reboot", 7)
	p.letWork()
	p.wantMended(unlimited)
}

// takeAway deletes the objects of these nodes, as another client would.
func (p *pool) takeAway(nodes ...string) {
	p.t.Helper()
	there := p.objectsOf(nodes)
	p.set(func() { p.taking = true })
	p.each(nodes, func(ctx context.Context, name string) error {
		return p.Delete(ctx, object(remediators, rebooting, p.name, p.node(name)))
	})
	p.Eventually(p.t, "the objects are gone", func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, o := range there {
			if o.to == 0 {
				return fmt.Errorf("%s is there", o.name)
			}
		}
		return nil
	})
	p.set(func() { p.taking = false })
}

// objectsOf returns the remediation objects of these nodes.
func (p *pool) objectsOf(nodes []string) []*objectSeen {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*objectSeen
	for _, o := range p.objects {
		if o.to == 0 && !o.foreign && slices.Contains(nodes, strings.TrimPrefix(o.node, p.name+"-")) {
			found = append(found, o)
		}
	}
	return found
}

// templatesStall: the last known version of a template stays in force. A newer one counts as soon as the watch goes on.
func templatesStall(p *pool) {
	proxy, kubeconfig := p.throughProxy()
	p.addNodes(append(names("well", 2), names("ill", 6)...))
	p.rebooted(unlimited)
	p.StartFettleWith(p.t, kubeconfig)
	p.wantStatus(8, 8)
	stall := proxy.Inject(p.t, cluster.Fault{Path: pathOf(rebooting + "Template"), Watch: true, Stall: true})
	p.must("deleting the template", p.Delete(cluster.Context(p.t), p.template(rebooting, "reboot")))
	p.longBroken(names("ill", 2))
	p.wantRequested("reboot", 2)
	p.wantStatus(8, 8)
	stall.End()
	p.wantDisabled()
	p.longBroken(names("ill", 6)[2:])
	p.keepsRequested("reboot", 2, 2)
	p.addTemplate(rebooting, "reboot")
	p.wantRequested("reboot", 6)
	p.wantMended(unlimited)
}

// wantDisabled waits until the health check says that Fettle can't follow it.
func (p *pool) wantDisabled() {
	p.t.Helper()
	p.Eventually(p.t, "the health check is disabled", func(ctx context.Context) error {
		u := p.check() // the test's version of it need not fit the type
		if err := p.Get(ctx, keyOf(u), u); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			if fields := c.(map[string]any); fields["type"] == medik8s.DisabledCondition && fields["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v (%w)", conditions, err)
	})
}
