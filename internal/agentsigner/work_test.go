package agentsigner

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
)

var errDown = errors.New("down")

// failing returns a fault of the calls with a verb for objects of a type.
func failing[T runtime.Object](verb string, err error) func(string, runtime.Object) error {
	return func(v string, o runtime.Object) error {
		if _, is := o.(T); is && v == verb {
			return err
		}
		return nil
	}
}

// byHand has an administrator have approved a request.
func byHand(r *csr) { add(r, certificatesv1.CertificateApproved, "ByHand", "") }

// TestAnAgentGetsACertificate for its node, by the authority that agents trust. An administrator may have approved the request before.
func TestAnAgentGetsACertificate(t *testing.T) {
	for reason, changes := range map[string][]func(*csr){"NodeOfToken": nil, "ByHand": {byHand}} {
		signs(t, func() *signer { return newSigner(t, named(t, "a", changes...)) }, func(w *signer) {
			w.sees(t, "a")
			r := get(t, w, "", "a", &csr{})
			if got := conditions(r); len(got) != 1 || got[certificatesv1.CertificateApproved] != reason {
				t.Errorf("the conditions are %v", got)
			}
			cert := bundled(t, r.Status.Certificate)[0]
			node, err := peer.NodeOf(cert)
			if trusted := bundled(t, []byte(w.bundle(t))); err != nil || node != "a" || len(trusted) != 1 || cert.CheckSignatureFrom(trusted[0]) != nil {
				t.Errorf("it is of node %q (%v), and trusted are %d authorities", node, err, len(trusted))
			}
			if created := w.stored(t).created; !created.Equal(day(0)) {
				t.Errorf("the authority was created at %v", created)
			}
		})
	}
}

// TestARequestThatIsDenied says why, and gets no certificate. If an administrator has approved it, it fails.
func TestARequestThatIsDenied(t *testing.T) {
	foreign := func(r *csr) { r.Spec.Username = "system:node:a" }
	for want, changes := range map[certificatesv1.RequestConditionType][]func(*csr){
		certificatesv1.CertificateDenied: {foreign}, certificatesv1.CertificateFailed: {foreign, byHand},
	} {
		signs(t, func() *signer { return newSigner(t, named(t, "a", changes...)) }, func(w *signer) {
			w.sees(t, "a")
			r := get(t, w, "", "a", &csr{})
			last := r.Status.Conditions[len(r.Status.Conditions)-1]
			if last.Type != want || last.Status != corev1.ConditionTrue || last.Reason != string(NotAnAgent) || last.Message != NotAnAgent.message() || len(r.Status.Certificate) != 0 || len(conditions(r)) != len(changes) {
				t.Errorf("it is %+v", r.Status)
			}
		})
	}
}

// TestRequestsThatNeedNothing: requests of other signers, and requests with an answer. Nothing is written for them.
func TestRequestsThatNeedNothing(t *testing.T) {
	for sentence, change := range map[string]func(*csr){
		"another signer": func(r *csr) { r.Spec.SignerName = certificatesv1.KubeletServingSignerName },
		"issued":         func(r *csr) { r.Status.Certificate = []byte("x") },
		"denied":         func(r *csr) { add(r, certificatesv1.CertificateDenied, "ByHand", "") },
		"failed":         func(r *csr) { add(r, certificatesv1.CertificateFailed, "ByHand", "") },
	} {
		signs(t, func() *signer { return newSigner(t, named(t, "a", change)) }, func(w *signer) {
			before := get(t, w, "", "a", &csr{}).ResourceVersion
			w.sees(t, "a")
			if after := get(t, w, "", "a", &csr{}); after.ResourceVersion != before {
				t.Errorf("%s: it is written: %+v", sentence, after.Status)
			}
		})
	}
}

// TestNoCallIsLeftOut: where a call fails, the request has no certificate, and is tried again until it has.
func TestNoCallIsLeftOut(t *testing.T) {
	for sentence, tc := range map[string]struct {
		fault    func(string, runtime.Object) error
		approved bool
	}{
		"the request can't be read":          {failing[*csr]("get", errDown), false},
		"the authorities can't be read":      {failing[*corev1.Secret]("get", errDown), false},
		"the authorities can't be stored":    {failing[*corev1.Secret]("update", errDown), false},
		"agents can't be told of them":       {failing[*corev1.ConfigMap]("update", errDown), false},
		"what agents know can't be read":     {failing[*corev1.ConfigMap]("get", errDown), false},
		"it can't be approved":               {failing[*csr]("update approval", errDown), false},
		"the certificate can't be stored":    {failing[*csr]("update status", errDown), true},
		"another leader has stored them too": {failing[*corev1.Secret]("update", apierrors.NewConflict(schema.GroupResource{}, SecretName, errDown)), false},
	} {
		signs(t, func() *signer {
			w := newSigner(t, named(t, "a"))
			w.informers.Of("CertificateSigningRequest")
			w.refuses(tc.fault)
			return w
		}, func(w *signer) {
			w.informers.Of("CertificateSigningRequest").Show(named(t, "a"))
			synctest.Wait()
			w.refuses(nil)
			r := get(t, w, "", "a", &csr{})
			if len(r.Status.Certificate) != 0 || has(r, certificatesv1.CertificateApproved) != tc.approved {
				t.Errorf("%s: it is %+v", sentence, r.Status)
			}
			<-time.After(retryMost)
			synctest.Wait()
			if r := get(t, w, "", "a", &csr{}); len(r.Status.Certificate) == 0 || len(conditions(r)) != 1 {
				t.Errorf("%s: in the end it is %+v", sentence, r.Status)
			}
		})
	}
}

// TestADenialThatCanNotBeStored is tried again.
func TestADenialThatCanNotBeStored(t *testing.T) {
	wrong := func(r *csr) { r.Spec.Usages = nil }
	for want, changes := range map[certificatesv1.RequestConditionType][]func(*csr){
		certificatesv1.CertificateDenied: {wrong}, certificatesv1.CertificateFailed: {wrong, byHand},
	} {
		signs(t, func() *signer { return newSigner(t, named(t, "a", changes...)) }, func(w *signer) {
			w.refuses(func(verb string, _ runtime.Object) error {
				if verb == "update approval" || verb == "update status" {
					return errDown
				}
				return nil
			})
			w.sees(t, "a")
			w.refuses(nil)
			<-time.After(retryMost)
			synctest.Wait()
			if got := conditions(get(t, w, "", "a", &csr{})); got[want] != string(WrongUsages) {
				t.Errorf("the conditions are %v", got)
			}
		})
	}
}

// TestAuthoritiesAreReplaced every week. Agents are told of each change, and of none where nothing has changed.
func TestAuthoritiesAreReplaced(t *testing.T) {
	w := newSigner(t)
	written := 0
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "create" || verb == "update" {
			written++
		}
		return nil
	})
	for _, step := range []struct {
		sentence string
		now      time.Time
		trusted  int
		written  int
	}{
		{"at first", day(0), 1, 2}, {"a minute later", day(0).Add(time.Minute), 1, 0}, {"a week later", day(7), 2, 2},
		{"once the new one issues", day(7).Add(time.Hour), 2, 1}, {"a day later", day(8), 2, 0},
	} {
		w.set(step.now)
		written = 0
		a, err := w.authorities(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(bundled(t, []byte(w.bundle(t)))); got != step.trusted || written != step.written || string(a.bundle(step.now)) != w.bundle(t) {
			t.Errorf("%s: %d authorities are trusted, after %d writes", step.sentence, got, written)
		}
		if stored := w.stored(t); !stored.newest.cert.Equal(a.newest.cert) || !stored.created.Equal(a.created) {
			t.Errorf("%s: stored is %v of %v", step.sentence, stored.newest.cert.Subject, stored.created)
		}
	}
}

// TestAuthoritiesThatCanNotBeUsed are not replaced: agents would trust no certificate of the others.
func TestAuthoritiesThatCanNotBeUsed(t *testing.T) {
	w := newSigner(t, &corev1.Secret{ObjectMeta: objectMeta("fettle-system", SecretName), Data: map[string][]byte{createdKey: []byte("x")}})
	if _, err := w.authorities(t.Context()); !errors.Is(err, errSecret) {
		t.Errorf("it returns %v", err)
	}
	w = newSigner(t)
	if _, err := w.authorities(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.set(day(7))
	for _, fault := range []func(string, runtime.Object) error{failing[*corev1.Secret]("update", errDown), failing[*corev1.ConfigMap]("update", errDown)} {
		w.refuses(fault)
		if _, err := w.authorities(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("where the change can't be stored, or agents can't be told: %v", err)
		}
	}
}

// TestAuthoritiesAreNotCreated: Fettle fills the objects that were installed, keeps what others have noted on them, and creates neither.
func TestAuthoritiesAreNotCreated(t *testing.T) {
	for missing := range installed() {
		objects := installed()
		w := bareSigner(t, slices.Delete(objects, missing, missing+1)...)
		w.refuses(failing[client.Object]("create", errDown))
		if _, err := w.authorities(t.Context()); !errors.Is(err, errNotInstalled) || !apierrors.IsNotFound(err) {
			t.Errorf("where %T is missing: %v", installed()[missing], err)
		}
	}
	objects := installed()
	for _, o := range objects {
		o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	}
	w := bareSigner(t, objects...)
	w.refuses(failing[client.Object]("create", errDown))
	if _, err := w.authorities(t.Context()); err != nil {
		t.Fatal(err)
	}
	secret, m := get(t, w, "fettle-system", SecretName, &corev1.Secret{}), get(t, w, promiselease.Namespace, ConfigMapName, &corev1.ConfigMap{})
	if len(secret.Annotations) != 1 || len(m.Annotations) != 1 || w.stored(t).newest.cert == nil || len(bundled(t, []byte(w.bundle(t)))) != 1 {
		t.Errorf("the objects are %+v and %+v", secret.ObjectMeta, m)
	}
}

// TestEmptiedAuthorities are replaced by a new authority, so that no certificate counts any more.
func TestEmptiedAuthorities(t *testing.T) {
	w := newSigner(t)
	before, err := w.authorities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secret := get(t, w, "fettle-system", SecretName, &corev1.Secret{})
	secret.Data = nil
	if err := w.api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	after, err := w.authorities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	trusted := bundled(t, []byte(w.bundle(t)))
	if len(trusted) != 1 || !trusted[0].Equal(after.newest.cert) || trusted[0].Equal(before.newest.cert) {
		t.Errorf("%d authorities are trusted", len(trusted))
	}
}

// TestTheBundleReplacesAllThatAgentsTrust: a certificate that others have added is no authority.
func TestTheBundleReplacesAllThatAgentsTrust(t *testing.T) {
	w := newSigner(t, &corev1.ConfigMap{ObjectMeta: objectMeta(promiselease.Namespace, ConfigMapName), Data: map[string]string{BundleKey: "x", "other": "y"}})
	a, err := w.authorities(t.Context())
	if got := get(t, w, promiselease.Namespace, ConfigMapName, &corev1.ConfigMap{}).Data; err != nil || len(got) != 1 || got[BundleKey] != string(a.bundle(day(0))) {
		t.Errorf("agents are told %v (%v)", got, err)
	}
}

// TestRightsAreAwaited: Fettle reviews every minute whether it may watch requests, and watches them once it may.
func TestRightsAreAwaited(t *testing.T) {
	w := newSigner(t)
	synctest.Test(t, func(t *testing.T) {
		var logged atomic.Int32
		w.Log = funcr.New(func(_, _ string) { logged.Add(1) }, funcr.Options{})
		w.forbidden = true
		followed := make(chan bool, 1)
		go func() { followed <- w.follow(t.Context()) }()
		wants := func(sentence string, reviews int, lines int32, watches int) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.accessReviews) != reviews || logged.Load() != lines || w.informers.Of("CertificateSigningRequest").Gets != watches {
				t.Errorf("%s: it has reviewed its right %d times, %d lines were logged, and it watches %d times", sentence, len(w.accessReviews), logged.Load(), w.informers.Of("CertificateSigningRequest").Gets)
			}
		}
		wants("at first", 1, 0, 0)
		<-time.After(lookAgain - 1)
		wants("before a minute is over", 1, 0, 0)
		<-time.After(1)
		wants("after it", 2, 0, 0)
		w.refuses(failing[*authorizationv1.SelfSubjectAccessReview]("create", errDown))
		<-time.After(lookAgain)
		wants("it can't ask", 2, 1, 0)
		w.refuses(nil)
		w.mu.Lock()
		w.forbidden, w.informers.Refuse["CertificateSigningRequest"] = false, &meta.NoKindMatchError{}
		w.mu.Unlock()
		<-time.After(lookAgain)
		wants("the watch fails", 3, 2, 1)
		w.mu.Lock()
		w.informers.Refuse = map[string]error{}
		w.mu.Unlock()
		<-time.After(lookAgain)
		wants("it may", 4, 2, 2)
		if want := (authorizationv1.ResourceAttributes{Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Verb: "watch"}); !<-followed || w.accessReviews[0] != want {
			t.Errorf("it reviews %+v", w.accessReviews[0])
		}
	})
}

// TestStart keeps the authorities known, and answers requests until the context ends.
func TestStart(t *testing.T) {
	signs(t, func() *signer { return newSigner(t, named(t, "a")) }, func(w *signer) {
		if !w.NeedLeaderElection() || !w.HasSynced() {
			t.Error("replicas that don't lead work too, or others wait for requests")
		}
		w.sees(t, "a")
		w.set(day(7))
		<-time.After(lookAgain)
		synctest.Wait()
		if got := len(bundled(t, []byte(w.bundle(t)))); got != 2 || len(get(t, w, "", "a", &csr{}).Status.Certificate) == 0 {
			t.Errorf("after a week %d authorities are trusted", got)
		}
	})
}

// TestStartEndsEarly, before it is to watch and before it may.
func TestStartEndsEarly(t *testing.T) {
	for _, watches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newSigner(t)
			w.forbidden = true
			if watches {
				if err := w.Watch(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.Start(ctx) }()
			synctest.Wait()
			cancel()
			err := <-done
			if (len(w.accessReviews) == 1) != watches || err != nil || len(get(t, w, "fettle-system", SecretName, &corev1.Secret{}).Data) != 0 {
				t.Errorf("watches %t: Start returns %v after %d questions", watches, err, len(w.accessReviews))
			}
		})
	}
}

// TestARequestThatFailsIsTriedAgain after a pause, which doubles up to a minute. A panic is a failure too.
func TestARequestThatFailsIsTriedAgain(t *testing.T) {
	var reads []time.Duration
	logged := 0
	signs(t, func() *signer {
		w := newSigner(t, named(t, "a"))
		w.Log = funcr.New(func(_, _ string) { logged++ }, funcr.Options{})
		begun := time.Now() //nolint:forbidigo // the clock of the bubble
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*csr); !is || verb != "get" {
				return nil
			}
			reads = append(reads, time.Since(begun)) //nolint:forbidigo // the same
			if len(reads) == 2 {
				panic("a fault of the program")
			}
			return errDown
		})
		return w
	}, func(w *signer) {
		w.informers.Of("CertificateSigningRequest").Show(named(t, "a"))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		for i := 1; i < len(reads); i++ {
			if want := min(retryFirst<<(i-1), retryMost); reads[i]-reads[i-1] != want {
				t.Errorf("the pause after failure %d is %v, want %v", i, reads[i]-reads[i-1], want)
			}
		}
		if len(reads) < 15 || logged != len(reads) {
			t.Errorf("it was tried %d times, and %d lines were logged", len(reads), logged)
		}
		w.refuses(nil)
		<-time.After(retryMost)
		synctest.Wait()
		if len(get(t, w, "", "a", &csr{}).Status.Certificate) == 0 {
			t.Error("in the end it has no certificate")
		}
	})
}

// TestWorkersShareTheRequests: a few are answered at a time, of each node one, and the end waits for them.
func TestWorkersShareTheRequests(t *testing.T) {
	for node, want := range map[string]int{"node-": workers, "": 1} { // each request is of a node of its own, or all are of one
		synctest.Test(t, func(t *testing.T) {
			w := newSigner(t)
			hangs, under := make(chan struct{}), 0
			w.refuses(func(_ string, o runtime.Object) error {
				if _, is := o.(*csr); is {
					w.mu.Lock()
					under++
					w.mu.Unlock()
					<-hangs
				}
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			if err := w.Watch(ctx); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- w.Start(ctx) }()
			synctest.Wait()
			for i := range workers + 3 {
				of := "a"
				if node != "" {
					of = node + strconv.Itoa(i)
				}
				w.informers.Of("CertificateSigningRequest").Show(named(t, of, func(r *csr) { r.Name = "request-" + strconv.Itoa(i) }))
				synctest.Wait()
			}
			if under != want {
				t.Errorf("of nodes %q, %d are answered at a time, want %d", node, under, want)
			}
			cancel()
			synctest.Wait()
			select {
			case <-done:
				t.Error("it ends before its work")
			default:
			}
			close(hangs)
			if err := <-done; err != nil {
				t.Errorf("Start returns %v", err)
			}
		})
	}
}

// TestTheEndIsNoFailure: a call that the end cuts short is not logged, and no watch follows.
func TestTheEndIsNoFailure(t *testing.T) {
	for sentence, do := range map[string]func(*signer, context.Context){
		"a question": func(w *signer, ctx context.Context) {
			if w.follow(ctx) {
				t.Error("it watches")
			}
		},
		"the authorities": func(w *signer, ctx context.Context) { w.keepAuthorities(ctx) },
	} {
		w, logged := newSigner(t), 0
		w.Log = funcr.New(func(_, _ string) { logged++ }, funcr.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		w.refuses(func(string, runtime.Object) error {
			cancel()
			return ctx.Err()
		})
		do(w, ctx)
		if logged != 0 {
			t.Errorf("%s: %d lines are logged", sentence, logged)
		}
	}
}

// turns is a queue that calls added before a node is in it.
type turns struct {
	workqueue.TypedRateLimitingInterface[string]

	added func(node string)
}

func (q turns) Add(node string) {
	q.added(node)
	q.TypedRateLimitingInterface.Add(node)
}

// TestARequestWaitsBeforeItsTurn: a worker may take the turn of a node at once, and would find nothing to answer.
func TestARequestWaitsBeforeItsTurn(t *testing.T) {
	w, waits := newSigner(t), ""
	w.turns = turns{w.turns, func(node string) { waits, _ = w.nodes.first(node, day(0)) }}
	w.take(named(t, "a"))
	if waits != "a" {
		t.Errorf("when the node gets its turn, request %q waits", waits)
	}
}

// TestAuthoritiesThatCanNotBeLookedAfter are looked at again a minute later. A panic is no end.
func TestAuthoritiesThatCanNotBeLookedAfter(t *testing.T) {
	w := newSigner(t)
	synctest.Test(t, func(t *testing.T) {
		var logged, reads atomic.Int32
		w.Log = funcr.New(func(_, _ string) { logged.Add(1) }, funcr.Options{})
		w.refuses(func(string, runtime.Object) error {
			if reads.Add(1) == 2 {
				panic("a fault of the program")
			}
			return errDown
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.keepAuthorities(ctx); close(done) }()
		for i := range int32(3) {
			synctest.Wait()
			if reads.Load() != i+1 || logged.Load() != i+1 {
				t.Errorf("after %d minutes they were read %d times, and %d lines were logged", i, reads.Load(), logged.Load())
			}
			<-time.After(lookAgain)
		}
		synctest.Wait()
		cancel()
		<-done
		if logged.Load() != 4 {
			t.Errorf("%d lines were logged in the end", logged.Load())
		}
	})
}

// TestCallsAreBounded: Fettle gives an API server up that does not answer for half a minute.
func TestCallsAreBounded(t *testing.T) {
	for sentence, do := range map[string]func(*signer, context.Context) error{
		"the authorities": func(w *signer, ctx context.Context) error { _, err := w.authorities(ctx); return err },
		"a question":      func(w *signer, ctx context.Context) error { _, err := w.mayWatch(ctx); return err },
	} {
		w := newSigner(t)
		synctest.Test(t, func(t *testing.T) {
			took := make(chan time.Duration, 1)
			w.Core = silent{w.api, took}
			if err := do(w, t.Context()); !errors.Is(err, context.DeadlineExceeded) || <-took != callTime {
				t.Errorf("%s: %v", sentence, err)
			}
		})
	}
}

// TestKinds: no agent runs before policies can be written.
func TestKinds(t *testing.T) {
	if !slices.Equal(Kinds, []string{"fencepolicies.fettle.io"}) {
		t.Errorf("they are %v", Kinds)
	}
}
