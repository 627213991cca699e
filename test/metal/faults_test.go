package metal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// fault is a fault that a BMC has before Fettle knows it.
type fault struct {
	order string
	// reachable is the reason of the condition Reachable of the BMC, and status what it is.
	reachable string
	status    metav1.ConditionStatus
	// waits is the reason for which a remediation of the node waits, and says what its message has. They are empty if the fault stops none.
	waits, says string
	spec        v1alpha1.PowerRemediationSpec
	// lives: the kubelet of the node goes on, so that the node is Ready until its host is off.
	lives bool
	// ipmi: the BMC is spoken to by IPMI.
	ipmi bool
	// password is that of the Secret. Default: the right one.
	password string
	// ordered returns the order where it is not known before.
	ordered func(*faulty) string
	// waiting is called while the remediation waits, or after it has succeeded in spite of the fault.
	waiting func(*faulty)
	// mends has the remediation go on once the fault is gone, if that alone does not.
	mends func(*faulty)
}

// faulty is a pool whose first node has a BMC with a fault.
type faulty struct {
	*pool

	elsewhere *elsewhere
}

// unhurried is a remediation whose power-off has more time than any of these tests takes.
var unhurried = v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(900)}

// faultsOfBMCs are the faults of docs/remedies/power.md that a BMC with Redfish may have. Other tests have BMCs that hang, drop connections, lag, or
// refuse commands.
func faultsOfBMCs() map[string]fault {
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	notRead := func(order, reachable, says string) fault {
		return fault{order: order, reachable: reachable, status: no, waits: "PowerNotRead", says: says, spec: unhurried}
	}
	works := func(order string) fault { return fault{order: order, reachable: "Reachable", status: yes} }
	all := map[string]fault{
		"session-none":  works(`{"noSessionLeft":true}`),
		"session-basic": notRead(`{"noSessionLeft":true,"noBasic":true}`, "NoSessionLeft", "(NoSessionLeft): BMC session-basic-a: the BMC has no session left, status 503"),
		"certificate":   notRead(`{"certificate":true}`, "CertificateNotTrusted", "(CertificateNotTrusted): BMC certificate-a: the certificate of the BMC is not trusted, SHA-256 fingerprint "),
		"unauthorized":  notRead(`{"unauthorized":true,"lockoutAfter":3}`, "AuthenticationRefused", "(AuthenticationHeld): "),
		"refused":       notRead(`{"lockoutAfter":3}`, "AuthenticationRefused", "(AuthenticationHeld): "),
		"redirect":      notRead("", "UnexpectedAnswer", "(UnexpectedAnswer): BMC redirect-a: the BMC gave an unexpected answer, status 307"),
		"oversized":     notRead(`{"oversized":5242880,"path":"/redfish/v1/Systems"}`, "UnexpectedAnswer", "(UnexpectedAnswer): "),
		"not-json":      notRead(`{"notJSON":true,"path":"/redfish/v1/Systems"}`, "UnexpectedAnswer", "(UnexpectedAnswer): "),
		"if-match":      works(`{"requiresIfMatch":true}`),
		"info":          works(`{"actionInfo":true}`),
		"resets":        notRead(`{"resets":["On","GracefulShutdown"]}`, "ResetNotAllowed", "(ResetNotAllowed): "),
		"info-resets":   notRead(`{"actionInfo":true,"resets":["On","GracefulShutdown"]}`, "ResetNotAllowed", "(CommandRefused): BMC info-resets-a: the BMC refused the command, status 400"),
		"ignores":       {order: `{"ignoresCommands":true}`, reachable: "Reachable", status: yes, waits: "PowerNotOff", spec: unhurried},
		"lies":          {order: `{"saysOff":true}`, reachable: "Reachable", status: yes, spec: v1alpha1.PowerRemediationSpec{PowerOnTimeout: seconds(15)}},
		"ipmi-hangs":    {ipmi: true, order: `{"hangs":true}`, reachable: "TimedOut", status: no, waits: "PowerNotRead", says: "(TimedOut): "},
		"ipmi-refused":  {ipmi: true, password: refusedPassword, reachable: "AuthenticationRefused", status: no, waits: "PowerNotRead", says: "(AuthenticationHeld): "},
		"ipmi-ignores":  {ipmi: true, order: `{"ignoresCommands":true}`, reachable: "Reachable", status: yes, waits: "PowerNotOff", spec: unhurried},
		"ipmi-lies":     {ipmi: true, order: `{"saysOff":true,"ignoresCommands":true}`, reachable: "Reachable", status: yes, waits: "NodeReady", lives: true},
		"lies-ready":    {order: `{"saysOff":true,"ignoresCommands":true}`, reachable: "Reachable", status: yes, waits: "NodeReady", lives: true},
	}
	for name, change := range map[string]func(*fault){
		"session-none": func(f *fault) { f.waiting = (*faulty).poweredWithoutSession },
		"certificate":  func(f *fault) { f.waiting = (*faulty).gotNothing },
		"unauthorized": func(f *fault) { f.waiting, f.mends = (*faulty).isHeld, (*faulty).createsItsBMCAnew },
		"refused": func(f *fault) {
			f.password, f.waiting, f.mends = refusedPassword, (*faulty).isHeld, (*faulty).correctsItsSecret
		},
		"redirect":     func(f *fault) { f.ordered, f.waiting = (*faulty).redirects, (*faulty).wentNowhereElse },
		"ipmi-refused": func(f *fault) { f.waiting, f.mends = (*faulty).hasHeldLogins, (*faulty).hasItsPassword },
		"resets":       func(f *fault) { f.waiting = (*faulty).gotNoCommand },
		"lies":         func(f *fault) { f.waiting = (*faulty).wasOffAndOn },
	} {
		f := all[name]
		change(&f)
		all[name] = f
	}
	return all
}

// TestFaultsOfBMCs: the reports that users see of BMCs with faults, before a node fails and while it is fenced. Nothing is released without a proof (I13), and the
// remediation goes on once the fault is gone.
func TestFaultsOfBMCs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.StartFettle(t, "--log-level=debug") // so that the search for secrets reads those lines too
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, f := range faultsOfBMCs() {
		beside.Run(name, func(t *testing.T) {
			p := &faulty{pool: &pool{T: t, site: s, name: name}}
			p.begins(f)
			p.isFenced(f)
		})
	}
	beside.Run("planted", func(t *testing.T) {
		secretsAreFoundEverywhere(s.newPool(t, "planted"))
	})
	beside.Run("check", func(t *testing.T) {
		checksWithTheRightsOfItsDocs(&pool{T: t, site: s, name: "check"})
	})
}

// begins creates the pool, and checks what the BMC of its first node says at the first probe.
func (p *faulty) begins(f fault) {
	p.Helper()
	node := p.newNode(p.first(), "redfish")
	if f.ordered != nil {
		f.order = f.ordered(p)
	}
	p.faults(p.first(), f.order)
	p.bmc(p.Cluster, node, p.first(), func(b *v1alpha1.BMC) {
		if f.ipmi {
			b.Spec.Address, b.Spec.TLS = node.Annotations[sandboxes+"ipmi-address"], nil
		}
	}, f.password)
	p.set()
	p.runsOn(p.first())
	p.newNode(p.second(), "redfish")
	p.saysOfBMC(f.status, f.reachable)
}

// saysOfBMC waits until the condition Reachable of the first node's BMC has a status and a reason, and returns the BMC.
func (p *faulty) saysOfBMC(status metav1.ConditionStatus, reason string) *v1alpha1.BMC {
	p.Helper()
	var bmc v1alpha1.BMC
	p.Eventually(p.T, "status of the BMC", func(ctx context.Context) error {
		if err := p.Get(ctx, keyOf(p.first()), &bmc); err != nil {
			return err
		}
		c := meta.FindStatusCondition(bmc.Status.Conditions, v1alpha1.ReachableCondition)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("the status is %+v", bmc.Status)
		}
		return nil
	})
	return &bmc
}

// isFenced has the first node fenced.
func (p *faulty) isFenced(f fault) {
	p.Helper()
	boot := p.node(cluster.Context(p.T), p.first()).Status.NodeInfo.BootID
	if !f.lives {
		p.hangs(p.first())
	}
	p.remediates(p.first(), f.spec)
	if f.waits != "" {
		p.waitsInVain(f)
		p.faults(p.first(), "")
		if f.mends != nil {
			f.mends(p)
		}
	}
	r := p.inPhase(p.first(), "Succeeded")
	if proof := r.Status.Proof; proof == nil || proof.Kind != "PowerOff" || r.Status.Node.BootID != boot {
		p.Errorf("the evidence is %+v of node %+v, want a host that was off after boot %s", proof, r.Status.Node, boot)
	}
	if f.waits == "" && f.waiting != nil {
		f.waiting(p)
	}
	p.isBack(p.first(), boot)
	p.isRestored(p.first())
	p.runs()
	p.ranTimes(2)
}

// waitsInVain waits until the remediation waits because of the fault, and checks that nothing is released.
func (p *faulty) waitsInVain(f fault) {
	p.Helper()
	p.Eventually(p.T, "reason "+f.waits, func(ctx context.Context) error {
		r, err := p.remediation(ctx, p.first())
		if err != nil {
			return err
		}
		if said := conditionsOf(r); !strings.Contains(said, "Processing=True "+f.waits) || !strings.Contains(said, f.says) {
			return errors.New(r.Status.Phase + ": " + said)
		}
		if phase := r.Status.Phase; phase != "PoweringOff" && !f.lives || r.Status.Proof != nil && !f.lives || r.Status.WorkloadReleased {
			p.Fatalf("it is in phase %s with proof %+v, released %t: %s", phase, r.Status.Proof, r.Status.WorkloadReleased, conditionsOf(r))
		}
		return nil
	})
	p.isNotReleased(p.first())
	if f.waiting != nil {
		f.waiting(p)
	}
}

// poweredWithoutSession: where the BMC makes no session, each request has the credentials.
func (p *faulty) poweredWithoutSession() {
	for _, r := range p.requestsOf(p.T, p.first()) {
		if r.Token != "" || r.Reset != "" && (r.User != username || r.Status != 204) {
			p.Errorf("the BMC got %+v", r)
		}
	}
	p.wasOffAndOn()
}

// wasOffAndOn: the host was commanded off and on.
func (p *faulty) wasOffAndOn() {
	if got := p.resets(p.T, p.first()); !slices.Equal(slices.Compact(got), []string{"ForceOff", "On"}) {
		p.Errorf("the BMC got the commands %v", got)
	}
}

// gotNothing: nothing is sent to a BMC whose certificate is not trusted.
func (p *faulty) gotNothing() {
	if got := p.requestsOf(p.T, p.first()); len(got) > 0 {
		p.Errorf("the BMC got %+v", got)
	}
}

// gotNoCommand: a command that the system doesn't list is not sent.
func (p *faulty) gotNoCommand() {
	if got := p.resets(p.T, p.first()); len(got) > 0 {
		p.Errorf("the BMC got the commands %v", got)
	}
}

// isHeld: after two refused logins there are none for fifteen minutes, so that the BMC doesn't lock the account.
func (p *faulty) isHeld() {
	p.hasHeldLogins()
	p.isNotLocked(2)
}

// hasHeldLogins: the status of the BMC says for how long there are no logins.
func (p *faulty) hasHeldLogins() {
	bmc := p.saysOfBMC(metav1.ConditionFalse, "AuthenticationHeld")
	since, until := bmc.Status.AuthenticationHeldSince, bmc.Status.AuthenticationHeldUntil
	if since == nil || until == nil || bmc.Status.RefusedLogins != 2 {
		p.Fatalf("the status is %+v", bmc.Status)
	}
	if held := until.Sub(since.Time); held < 14*time.Minute || held > 15*time.Minute+time.Second {
		p.Errorf("it is held for %s", held)
	}
}

// isNotLocked checks that the BMC has refused no more logins than so many, and has locked no account.
func (p *faulty) isNotLocked(most int) {
	p.Helper()
	all := p.requestsOf(p.T, p.first())
	if last := all[len(all)-1]; last.Refused > most || last.Locked > 0 {
		p.Errorf("the BMC has refused %d logins, and locked %d accounts", last.Refused, last.Locked)
	}
}

// createsItsBMCAnew ends the hold before its time, as docs/remedies/power.md has it.
func (p *faulty) createsItsBMCAnew() {
	p.Never(p.T, "login", quiet, func(context.Context) error {
		if r, err := p.remediation(cluster.Context(p.T), p.first()); err != nil || r.Status.Proof != nil {
			return fmt.Errorf("the proof is %+v (%w)", r.Status.Proof, err)
		}
		return nil
	})
	ctx := cluster.Context(p.T)
	var bmc v1alpha1.BMC
	if err := p.Get(ctx, keyOf(p.first()), &bmc); err != nil {
		p.Fatalf("reading a BMC: %v", err)
	}
	anew := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: bmc.Namespace, Name: bmc.Name}, Spec: bmc.Spec}
	if err := errors.Join(p.Delete(ctx, &bmc), p.Create(ctx, anew)); err != nil {
		p.Fatalf("creating a BMC anew: %v", err)
	}
}

// correctsItsSecret: the right password ends the hold, and the account was not locked.
func (p *faulty) correctsItsSecret() {
	p.hasItsPassword()
	p.isNotLocked(2)
}

// hasItsPassword: the Secret gets the right password, and the remediation succeeds.
func (p *faulty) hasItsPassword() {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.first()}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"stringData":{"password":%q}}`, password))
	if err := p.Patch(cluster.Context(p.T), secret, patch); err != nil {
		p.Fatalf("changing the Secret: %v", err)
	}
	p.inPhase(p.first(), "Succeeded")
}

// elsewhere is a server to which a BMC redirects.
type elsewhere struct{ connections atomic.Int32 }

// redirects returns the order to redirect logins, with their credentials, to another server.
func (p *faulty) redirects() string {
	p.elsewhere = &elsewhere{}
	listener, err := (&net.ListenConfig{}).Listen(p.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatalf("listening: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			p.elsewhere.connections.Add(1)
			_ = connection.Close()
		}
	}()
	p.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return fmt.Sprintf(`{"redirect":"http://%s","path":"/redfish/v1/SessionService"}`, listener.Addr())
}

// wentNowhereElse: no redirect is followed.
func (p *faulty) wentNowhereElse() {
	if n := p.elsewhere.connections.Load(); n > 0 {
		p.Errorf("%d connections were made to where the BMC redirects", n)
	}
}
