package powercycle

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

const (
	// maxOperations is how many BMCs are spoken to at the same time. A slow BMC counts for slowAfter only, so that it delays
	// no other. An operation through a BareMetalHost does not count: it reads or patches one object at the API server, which limits
	// its requests itself. The operator of Metal3 speaks to the BMC later, at its own pace.
	maxOperations = 32
	slowAfter     = time.Second
	// credentialsAge is how long credentials are used before the Secret is read again.
	credentialsAge = 30 * time.Second
	// maxHold bounds how far in the future the recorded end of a hold may be.
	maxHold = 15 * time.Minute
	// closing is how long all sessions may take to end.
	closing = 5 * time.Second
)

// problem is why something could not be done. Its zero value is no problem.
type problem struct {
	// reason is a word of a condition, and message says what happened and what to do next.
	reason, message string
	// interrupted is set if the operation was ended so that something else can be done first.
	interrupted bool
}

func (p problem) found() bool { return p.reason != "" }

// problemOf returns the problem of a node or of its machine.
func problemOf(p fencednode.Problem) problem { return problem{reason: p.Reason, message: p.Message} }

// Reasons besides those of package power.
const (
	addressInvalid     = "AddressInvalid"
	trustInvalid       = "TrustInvalid"
	secretNotFound     = "SecretNotFound"
	secretNotRead      = "SecretNotRead"
	credentialsInvalid = "CredentialsInvalid"
	reachable          = "Reachable"
)

// observation is what was seen of a host last.
type observation struct {
	at      time.Time
	power   v1alpha1.HostPower
	problem problem
}

// host is the host behind one BMC.
type host struct {
	uid        types.UID
	generation int64
	// power is set for a BMC with an address, and metal for a BMC that names a BareMetalHost.
	power *power.Host
	metal *baremetalhost.Host
	// before is the host of an earlier spec of the BMC that this process has logged in to, or nil.
	before *host

	// mu guards what follows.
	mu       sync.Mutex
	secret   string // resourceVersion
	secretAt time.Time
	seen     observation
	// expected is the UUID of the system on which the node runs, as it was read last. It is empty if that is not known or not compared.
	expected string
}

// hosts has the hosts by the keys of their BMCs.
type hosts struct {
	now   func() time.Time
	slots chan struct{}
	// metal returns the host behind the BareMetalHost that a BMC names.
	metal func(*v1alpha1.BMC) *baremetalhost.Host
	// current returns the BMC of a key, or nil if it is gone.
	current func(types.NamespacedName) *v1alpha1.BMC

	mu    sync.Mutex
	byKey map[types.NamespacedName]*host
	// unusable has what was seen of BMCs that can't be used at all.
	unusable map[types.NamespacedName]observation
}

func newHosts(now func() time.Time, current func(types.NamespacedName) *v1alpha1.BMC) *hosts {
	return &hosts{now: now, current: current, slots: make(chan struct{}, maxOperations), byKey: map[types.NamespacedName]*host{}, unusable: map[types.NamespacedName]observation{}}
}

// of returns the host of a BMC, or nil if this process has none for its spec.
func (h *hosts) of(bmc *v1alpha1.BMC) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.byKey[client.ObjectKeyFromObject(bmc)]
	if known == nil || known.uid != bmc.UID || known.generation != bmc.Generation {
		return nil
	}
	return known
}

// open returns the host of a BMC. It replaces the one of an earlier spec. Reconciles that open a host at the same time get the same one.
func (h *hosts) open(ctx context.Context, bmc *v1alpha1.BMC) (*host, problem) {
	if known := h.of(bmc); known != nil {
		return known, problem{}
	}
	made, found := h.newHost(bmc)
	if found.found() {
		return nil, found
	}
	kept := h.keep(ctx, client.ObjectKeyFromObject(bmc), made)
	if kept == nil {
		return nil, problem{reason: string(power.Busy), message: "BMC " + bmc.Name + " is gone or has changed meanwhile, so it is read again"}
	}
	return kept, problem{}
}

// newHost returns a host for the spec of a BMC.
func (h *hosts) newHost(bmc *v1alpha1.BMC) (*host, problem) {
	made := &host{uid: bmc.UID, generation: bmc.Generation}
	if bmc.Spec.BareMetalHost != nil {
		made.metal = h.metal(bmc)
		return made, problem{}
	}
	address, err := addressOf(bmc)
	if err != nil {
		return nil, problem{reason: addressInvalid, message: fmt.Sprintf("spec.address of BMC %s can't be used: %v", bmc.Name, err)}
	}
	trust, err := trustOf(bmc)
	if err != nil {
		return nil, problem{reason: trustInvalid, message: fmt.Sprintf("spec.tls of BMC %s can't be used: %v", bmc.Name, err)}
	}
	made.power = power.NewHost(power.Config{Address: address, Trust: trust, Now: h.now}, power.Credentials{})
	return made, problem{}
}

// used returns the last host of a BMC whose credentials were loaded: this one or one before it. There may be none.
func (h *host) used() *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.secret != "" {
		return h
	}
	return h.before
}

// keep stores a host that was made, ends the session of the one before, and returns the stored host. That is the host of another reconcile if
// that was faster. It returns nil if a later host is stored, or the BMC is gone. The host of such a BMC has been dropped, or will be.
func (h *hosts) keep(ctx context.Context, key types.NamespacedName, made *host) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.byKey[key]
	switch bmc := h.current(key); {
	case bmc == nil, bmc.UID != made.uid:
		return nil
	case old == nil:
	case old.uid != made.uid: // of an earlier BMC
	case old.generation > made.generation:
		return nil
	case old.generation == made.generation:
		return old
	default:
		made.before = old.used()
	}
	h.byKey[key] = made
	if old != nil {
		go old.close(ctx)
	}
	return made
}

// drop forgets the host of a BMC that is gone, and ends its session.
func (h *hosts) drop(ctx context.Context, key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.byKey[key]; old != nil {
		go old.close(ctx)
	}
	delete(h.byKey, key)
	delete(h.unusable, key)
}

// close ends the sessions of all hosts.
func (h *hosts) close(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var group sync.WaitGroup
	for _, known := range h.byKey {
		group.Go(func() { known.close(ctx) })
	}
	group.Wait()
}

// close ends the session of a host, also where the context is over.
func (h *host) close(ctx context.Context) {
	if h.power == nil {
		return // there is no session
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	h.power.Close(ctx)
}

// slot waits until a BMC may be spoken to, and returns a function that ends that.
func (h *hosts) slot(ctx context.Context) (func(), bool) {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	release := sync.OnceFunc(func() { <-h.slots })
	slow := time.AfterFunc(slowAfter, release)
	return func() { slow.Stop(); release() }, true
}

// readPower reads the power of a host.
func (c *Client) readPower(ctx context.Context, bmc *v1alpha1.BMC) (fencing.Reading, problem) {
	var reading fencing.Reading
	found := c.operate(ctx, bmc, func(ctx context.Context, h *power.Host) (failure power.Failure) {
		reading, failure = h.Read(ctx)
		return failure
	}, func(seen *observation) { seen.power = hostPower(reading.State) })
	return reading, found
}

// commandPower commands the power of a host, and returns when the BMC has acknowledged that.
func (c *Client) commandPower(ctx context.Context, bmc *v1alpha1.BMC, command power.Command, uuid string) (time.Time, problem) {
	var at time.Time
	found := c.operate(ctx, bmc, func(ctx context.Context, h *power.Host) (failure power.Failure) {
		at, failure = h.Command(ctx, command, uuid)
		return failure
	}, func(*observation) {})
	return at, found
}

// operate makes one operation of a BMC, and has its status written if that has changed.
func (c *Client) operate(ctx context.Context, bmc *v1alpha1.BMC, do func(context.Context, *power.Host) power.Failure, note func(*observation)) problem {
	h, found := c.hosts.open(ctx, bmc)
	if found.found() {
		return found
	}
	done, ok := c.hosts.slot(ctx)
	if !ok {
		return problem{reason: string(power.Busy), message: "other BMCs are spoken to first", interrupted: true}
	}
	defer done()
	if found = c.loadCredentials(ctx, bmc, h); !found.found() {
		found = ofFailure(bmc, do(ctx, h.power))
	}
	c.noteOperation(bmc, h, found, note)
	return found
}

// noteOperation stores what an operation has shown of a BMC, and has its status written if that has changed.
func (c *Client) noteOperation(bmc *v1alpha1.BMC, h *host, found problem, note func(*observation)) {
	if found.interrupted {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !found.found() {
		note(&h.seen)
		found = cmp.Or(h.mismatch(bmc), h.lacking(bmc))
	}
	h.seen.at, h.seen.problem = c.Now(), found
	if found.reason == string(power.AuthenticationRefused) || found.reason == string(power.AuthenticationHeld) {
		h.secretAt = time.Time{} // with another Secret a login is tried at once
	}
	c.probes.Add(client.ObjectKeyFromObject(bmc))
}

// ofFailure returns the problem of a failed operation.
func ofFailure(bmc *v1alpha1.BMC, f power.Failure) problem {
	if !f.Failed() {
		return problem{}
	}
	return problem{
		reason: string(f.Reason), message: fmt.Sprintf("BMC %s: %s; %s", bmc.Name, f, advice(bmc, f.Reason)),
		interrupted: f.Reason == power.Interrupted,
	}
}

// advice returns what a user can do about a failure.
func advice(bmc *v1alpha1.BMC, reason power.Reason) string {
	switch reason {
	case power.AuthenticationRefused, power.AuthenticationHeld, power.CredentialsUnusable:
		return "correct Secret " + bmc.Namespace + "/" + bmc.Spec.CredentialsName + ", which is read again before the next login"
	case power.PermissionDenied:
		return "give the account the right to power the system"
	case power.CertificateNotTrusted:
		return "compare the fingerprint at the BMC, and set spec.tls"
	case power.CipherSuitesRefused:
		return "enable cipher suite 17 at the BMC"
	case power.NoSessionLeft:
		return "end sessions of other clients at the BMC"
	case power.ResetNotAllowed:
		return resetAdvice
	case power.UnsupportedSystem:
		return "correct spec.address or spec.system"
	case power.OtherSystem:
		return otherSystemAdvice
	case power.Unreachable, power.TimedOut:
		return "check the address and the network from the controller to the BMC"
	case power.Busy, power.Interrupted, power.CommandRefused, power.UnexpectedAnswer:
	}
	return "run fettle bmc check " + nodeOf(bmc)
}

// loadCredentials sets the credentials of a host from its Secret, unless it has done so a short while ago.
func (c *Client) loadCredentials(ctx context.Context, bmc *v1alpha1.BMC, h *host) problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := c.Now()
	if now.Before(h.secretAt.Add(credentialsAge)) {
		return problem{}
	}
	where := bmc.Namespace + "/" + bmc.Spec.CredentialsName
	var secret corev1.Secret
	err := c.Core.Get(ctx, types.NamespacedName{Namespace: bmc.Namespace, Name: bmc.Spec.CredentialsName}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return problem{reason: secretNotFound, message: "there is no Secret " + where + "; create it with the keys username and password"}
	case ctx.Err() != nil:
		return problem{reason: secretNotRead, message: "reading Secret " + where + " was interrupted", interrupted: true}
	case err != nil: // the text of the error is left out, since that of a refused request names what it was
		return problem{reason: secretNotRead, message: "Secret " + where + " could not be read (" + string(apierrors.ReasonForError(err)) + "); grant Fettle the right by kubectl apply -k config/power, or for another namespace by a RoleBinding there"}
	}
	credentials, err := power.NewCredentials(string(secret.Data[v1alpha1.UsernameKey]), string(secret.Data[v1alpha1.PasswordKey]))
	if err != nil {
		return problem{reason: credentialsInvalid, message: fmt.Sprintf("Secret %s can't be used: %v", where, err)}
	}
	h.power.SetCredentials(credentials)
	if h.secret == "" {
		h.resume(bmc, now)
	}
	h.secret, h.secretAt = secret.ResourceVersion, now
	return problem{}
}

// resume continues the count of refused logins: that of an earlier spec, unless the credentials differ, or that which an earlier process
// has recorded. The credentials of that process are not known, so that its count stands for any.
func (h *host) resume(bmc *v1alpha1.BMC, now time.Time) {
	if h.before != nil {
		h.power.ResumeFrom(h.before.power)
		h.before = nil
		return
	}
	var until time.Time
	if held := bmc.Status.AuthenticationHeldUntil; held != nil {
		until = now.Add(min(held.Sub(now), maxHold)) // the clock of the earlier process may have been ahead
	}
	h.power.Resume(int(bmc.Status.RefusedLogins), until)
}
