package metal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// powerOnPause is how long the hosts of a domain are powered on apart. A slow machine notices one host late, and the next one on time.
const powerOnPause, late = 5 * time.Second, 3 * time.Second

// domainIsStaggered: three hosts of a rack are powered on one after the other, while the dead BMC of a fourth waits for its limit.
func domainIsStaggered(p *pool) {
	inRack := func(b *v1alpha1.BMC) { b.Spec.Domain = "rack" }
	dead := p.first()
	p.host(dead, inRack)
	p.set()
	p.runsOn(dead)
	others := []string{p.name + "-b", p.name + "-c", p.name + "-d"}
	for _, name := range others {
		p.host(name, inRack)
	}
	p.refusesOn(v1alpha1.PowerRemediationSpec{PowerOnTimeout: seconds(600)})
	p.inPhase(dead, "PoweringOn")
	p.faults(dead, `{"drops":true}`)
	for _, name := range others {
		p.hangs(name)
		p.remediates(name, v1alpha1.PowerRemediationSpec{})
	}
	turns := p.powerOns(others)
	for i := range turns[1:] {
		if apart := turns[i+1].Sub(turns[i]); apart < powerOnPause-late {
			p.Errorf("hosts of one rack were powered on %s apart: %v", apart, turns)
		}
	}
	if all := turns[len(turns)-1].Sub(turns[0]); all < time.Duration(len(others)-1)*powerOnPause-late {
		p.Errorf("all hosts of a rack were powered on within %s", all)
	}
	p.waitsFor(dead, "PowerNotRead")
	p.inPhase(dead, "PoweringOn")
	p.faults(dead, "")
	for _, name := range append(others, dead) {
		p.inPhase(name, "Succeeded")
		p.ends(name)
		p.isRestored(name)
	}
	p.ranAlone()
}

// powerOns waits until hosts have been powered off and on, and returns when each was on, in order. One of them has to wait for its turn.
func (p *pool) powerOns(hosts []string) []time.Time {
	p.Helper()
	off, on := map[string]bool{}, map[string]time.Time{}
	waited := false
	p.After(p.T, time.Duration(len(hosts))*powerOnPause, "power of the rack", func(ctx context.Context) error {
		for _, name := range hosts {
			power := p.node(ctx, name).Annotations[sandboxes+"host-power"]
			off[name] = off[name] || power == "off"
			if _, known := on[name]; off[name] && power == "on" && !known {
				on[name] = time.Now()
			}
			if r, err := p.remediation(ctx, name); err == nil {
				waited = waited || reasonOf(r) == "PowerOnNotDue"
			}
		}
		if len(on) < len(hosts) {
			return fmt.Errorf("%d of %d hosts are on again", len(on), len(hosts))
		}
		return nil
	})
	if !waited {
		p.Error("no host has waited for its turn")
	}
	var turns []time.Time
	for _, at := range on {
		turns = append(turns, at)
	}
	slices.SortFunc(turns, time.Time.Compare)
	return turns
}

// reasonOf returns what a remediation waits for.
func reasonOf(r *v1alpha1.PowerRemediation) string {
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.ProcessingCondition {
			return c.Reason
		}
	}
	return ""
}

// deadBMCs is how many BMCs the test of a restart has that can't be reached.
const deadBMCs = 16

// TestBMCsAreReadAfterARestart: a new process reads at once what has changed, spreads its reads of the others, and keeps what is known.
func TestBMCsAreReadAfterARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	kubeconfig := s.FettleKubeconfig(t)
	f := s.StartFettleWith(t, kubeconfig)
	p := &pool{T: t, site: s, name: "restart"}
	p.host(p.first(), nil)
	for i := range deadBMCs {
		p.deadBMC(i)
	}
	var before v1alpha1.BMCList
	p.Eventually(t, "first reads", func(ctx context.Context) error {
		err := p.List(ctx, &before)
		for i := range before.Items {
			if b := &before.Items[i]; err == nil && !isCurrent(b) {
				err = fmt.Errorf("the status of BMC %s is %+v", b.Name, b.Status)
			}
		}
		return err
	})
	f.Stop(t)

	ctx := cluster.Context(t)
	changed := before.Items[slices.IndexFunc(before.Items, func(b v1alpha1.BMC) bool { return b.Name == "dead-0" })].DeepCopy()
	changed.Spec.Address = "redfish+http://127.0.1.1:1"
	if err := p.Update(ctx, changed); err != nil {
		t.Fatalf("changing a BMC: %v", err)
	}
	p.deadBMC(deadBMCs)
	restarted := time.Now()
	s.StartFettleWith(t, kubeconfig)
	p.Eventually(t, "reads of what has changed", func(ctx context.Context) error {
		var errs []error
		for _, name := range []string{changed.Name, fmt.Sprintf("dead-%d", deadBMCs)} {
			var b v1alpha1.BMC
			if err := p.Get(ctx, keyOf(name), &b); err != nil || !isCurrent(&b) {
				errs = append(errs, fmt.Errorf("the status of BMC %s is %+v (%w)", name, b.Status, err))
			}
		}
		return errors.Join(errs...)
	})
	read := map[string]bool{}
	for _, r := range s.RequestsSince(t, restarted) {
		if r.Verb == "get" && r.Resource == "secrets" {
			read[r.Name] = true
		}
	}
	if len(read) < 2 || len(read) > 2+deadBMCs/2 {
		t.Errorf("a moment after the restart the Secrets of %d BMCs were read, want two of them and few others: %v", len(read), read)
	}
	for i := range before.Items {
		old := &before.Items[i]
		var now v1alpha1.BMC
		if err := p.Get(ctx, keyOf(old.Name), &now); err != nil || old.Name != changed.Name && now.ResourceVersion != old.ResourceVersion {
			t.Errorf("the status of BMC %s was %+v and is %+v (%v)", old.Name, old.Status, now.Status, err)
		}
	}
}

// deadBMC creates a BMC of a node without a host. Nothing answers at its address.
func (p *pool) deadBMC(i int) {
	p.Helper()
	name := fmt.Sprintf("dead-%d", i)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	secret := &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"username": username, "password": password}}
	bmc := &v1alpha1.BMC{ObjectMeta: meta, Spec: v1alpha1.BMCSpec{NodeName: name, Address: fmt.Sprintf("redfish+http://127.0.0.%d:1", i+2), CredentialsName: name}}
	if err := errors.Join(p.Create(cluster.Context(p.T), secret), p.Create(cluster.Context(p.T), bmc)); err != nil {
		p.Fatalf("creating a BMC: %v", err)
	}
}

func keyOf(bmc string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: bmc} }

// isCurrent reports whether the status of a BMC is about its spec, and is right: that of a host is on, and the others can't be reached.
func isCurrent(b *v1alpha1.BMC) bool {
	c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ReachableCondition)
	if c == nil || c.ObservedGeneration != b.Generation {
		return false
	}
	if strings.HasPrefix(b.Name, "dead-") {
		return c.Reason == "Unreachable" && b.Status.Power == v1alpha1.HostPowerUnknown
	}
	return c.Status == metav1.ConditionTrue && b.Status.Power == v1alpha1.HostOn
}
