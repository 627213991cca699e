package agentsigner

import (
	"context"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fettle-io/fettle/internal/peer"
)

// TestNameAndNode: of a request, however long, the watch keeps its name, its revision, and the node that the API server states.
func TestNameAndNode(t *testing.T) {
	t.Parallel()
	kept := metav1.ObjectMeta{Name: "fettle-agent-a", UID: "uid", ResourceVersion: "7"}
	for node, claims := range map[string]map[string]certificatesv1.ExtraValue{
		"a": {nodeClaim: {"a"}, "b": {strings.Repeat("x", 200<<10)}}, "": {nodeClaim: {"a", strings.Repeat("x", 200<<10)}},
	} {
		r := &csr{ObjectMeta: kept}
		r.Annotations = map[string]string{"a": strings.Repeat("x", 200<<10)}
		r.Spec.Username, r.Spec.Extra = agentUser, claims
		r.Spec.Request = make([]byte, 1<<20)
		r.Status.Certificate = make([]byte, 1<<20)
		want := &csr{ObjectMeta: kept}
		if node != "" {
			want.Spec.Username, want.Spec.Extra = agentUser, map[string]certificatesv1.ExtraValue{nodeClaim: {node}}
		}
		got, err := NameAndNode(r)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("of node %q the watch keeps %+v, %v", node, got, err)
		}
	}
	other := &corev1.ConfigMap{}
	if got, err := NameAndNode(other); err != nil || got != any(other) {
		t.Errorf("of another object the watch keeps %+v, %v", got, err)
	}
}

// world has a client before an API server.
type world struct {
	*Client

	t   *testing.T
	api client.Client

	// begin is closed by once, when the worker is to begin.
	begin chan struct{}
	once  sync.Once

	mu sync.Mutex
	// fault, if set, may refuse to store an answer.
	fault func(name string) error
	// answered are the names of requests in the order of their answers.
	answered []string
}

// play plays a story in a bubble of synctest.
func play(t *testing.T, story func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, certificatesv1.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		w := &world{t: t, begin: make(chan struct{})}
		api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(installed()...).Build()
		w.api = api
		core := interceptor.NewClient(api, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
				if err := w.answers(o); err != nil {
					return err
				}
				return api.Status().Update(ctx, o)
			},
		})
		w.Client = NewClient(Config{Core: core, Namespace: "fettle-system", Log: logr.Discard(), Now: now})
		if _, err := w.authorities(t.Context()); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() {
			<-w.begin
			w.work(t.Context())
		})
		story(w)
		w.turns.ShutDown()
		group.Wait()
	})
}

// now returns the time of the bubble.
func now() time.Time {
	return time.Now() //nolint:forbidigo // the clock of synctest
}

// answers notes that a request is about to be answered, unless it is a fault.
func (w *world) answers(o client.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		if err := w.fault(o.GetName()); err != nil {
			return err
		}
	}
	if r, is := o.(*csr); is && (len(r.Status.Certificate) > 0 || !has(r, certificatesv1.CertificateApproved)) {
		w.answered = append(w.answered, r.Name)
	}
	return nil
}

// forward has the one worker work for a time.
func (w *world) forward(d time.Duration) {
	w.once.Do(func() { close(w.begin) })
	<-time.After(d)
	synctest.Wait()
}

// requests creates a request, and has the watch report it.
func (w *world) requests(name string, changes ...func(*csr)) {
	w.t.Helper()
	r := request(text(w.t, ecKey(w.t, elliptic.P256())))
	r.Name = name
	for _, change := range changes {
		change(r)
	}
	status := r.Status
	if err := w.api.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	r.Status = status
	if err := w.api.Status().Update(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	seen, err := NameAndNode(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.take(seen)
}

// ofNodeB has a request be of another node.
func (w *world) ofNodeB(r *csr) {
	r.Spec.Extra = map[string]certificatesv1.ExtraValue{nodeClaim: {"b"}}
	r.Spec.Request = text(w.t, ecKey(w.t, elliptic.P256()), func(r *x509.CertificateRequest) { r.DNSNames = []string{peer.NameOf("b")} })
}

// becomes requires that a request has a certificate, was denied for a reason, or has failed for it.
func (w *world) becomes(name string, want certificatesv1.RequestConditionType, reason Reason) {
	w.t.Helper()
	r := &csr{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, r); err != nil {
		w.t.Fatal(err)
	}
	if want == "" {
		if len(r.Status.Conditions) > 0 {
			w.t.Errorf("%s has the conditions %+v, want none", name, r.Status.Conditions)
		}
		return
	}
	last := certificatesv1.CertificateSigningRequestCondition{}
	if n := len(r.Status.Conditions); n > 0 {
		last = r.Status.Conditions[n-1]
	}
	issued := want == certificatesv1.CertificateApproved
	if last.Type != want || last.Message == "" || !issued && last.Reason != string(reason) || issued != (len(r.Status.Certificate) > 0) {
		w.t.Errorf("%s has the condition %+v and %d bytes of a certificate, want %s %s", name, last, len(r.Status.Certificate), want, reason)
	}
}

// TestManyRequests: a node that sends many requests gets so many certificates, and delays no other node.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for i := range maxIssued + 3 {
			w.requests(fmt.Sprint("a", i))
		}
		w.requests("b", w.ofNodeB)
		w.forward(0)
		if at := slices.Index(w.answered, "b"); at != 1 {
			t.Errorf("the answers are in the order %q", w.answered)
		}
		w.becomes("b", certificatesv1.CertificateApproved, "")
		for i := range maxIssued {
			w.becomes(fmt.Sprint("a", i), certificatesv1.CertificateApproved, "")
		}
		w.becomes("a10", certificatesv1.CertificateDenied, TooMany)
		w.becomes("a11", "", "")
		w.requests("a-later") // this wakes the node, and changes nothing
		w.forward(afterDenial - 1)
		w.becomes("a11", "", "")
		w.forward(1)
		w.becomes("a11", certificatesv1.CertificateDenied, TooMany)
		w.becomes("a12", "", "")
		w.forward(issuedWithin)
		w.requests("a-last")
		w.forward(0)
		w.becomes("a-last", certificatesv1.CertificateApproved, "")
	})
}

// TestApprovedByOthers: a request that was approved, and that is one too many, fails.
func TestApprovedByOthers(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for range maxIssued {
			w.nodes.issues("a", now())
		}
		w.requests("a0", func(r *csr) { add(r, certificatesv1.CertificateApproved, "x", "x") })
		w.forward(0)
		w.becomes("a0", certificatesv1.CertificateFailed, TooMany)
	})
}

// TestWrongAndTooMany: a request that is one too many is denied for what is wrong with it, which its agent can correct.
func TestWrongAndTooMany(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for range maxIssued {
			w.nodes.issues("a", now())
		}
		w.requests("a0", func(r *csr) { r.Spec.Usages = nil })
		w.forward(0)
		w.becomes("a0", certificatesv1.CertificateDenied, WrongUsages)
	})
}

// TestStrangers: the requests of strangers delay no agent.
func TestStrangers(t *testing.T) {
	t.Parallel()
	stranger := func(r *csr) { r.Spec.Username = "system:node:a" }
	play(t, func(w *world) {
		for i := range maxWaiting + 1 {
			w.requests(fmt.Sprint("s", i), stranger)
		}
		w.requests("a0")
		w.forward(0)
		w.becomes("a0", certificatesv1.CertificateApproved, "")
		w.becomes("s0", certificatesv1.CertificateDenied, NotAnAgent)
		w.becomes("s1", "", "")
		w.forward(maxWaiting * afterDenial)
		w.becomes(fmt.Sprint("s", maxWaiting-1), certificatesv1.CertificateDenied, NotAnAgent)
		w.becomes(fmt.Sprint("s", maxWaiting), "", "")
	})
}

// TestFailures: a request that can't be answered is tried again, and keeps no other of its node waiting.
func TestFailures(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		fails := true
		w.fault = func(name string) error {
			if fails && name == "a0" {
				return errors.New("no answer")
			}
			return nil
		}
		w.requests("a0")
		w.requests("a1")
		w.forward(retryFirst)
		w.becomes("a0", "", "")
		w.becomes("a1", certificatesv1.CertificateApproved, "")
		w.mu.Lock()
		fails = false
		w.mu.Unlock()
		w.forward(retryMost)
		w.becomes("a0", certificatesv1.CertificateApproved, "")
	})
}

// TestAnswered: a request that has its answer, or is gone, is left alone.
func TestAnswered(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*csr){
		"issued":         func(r *csr) { r.Status.Certificate = []byte("x") },
		"denied":         func(r *csr) { add(r, certificatesv1.CertificateDenied, "x", "x") },
		"failed":         func(r *csr) { add(r, certificatesv1.CertificateFailed, "x", "x") },
		"another signer": func(r *csr) { r.Spec.SignerName = certificatesv1.KubeletServingSignerName },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.requests("a0", change)
				w.nodes.add("a", "gone")
				w.requests("a1")
				w.forward(0)
				if !slices.Equal(w.answered, []string{"a1"}) {
					t.Errorf("these are answered: %q", w.answered)
				}
			})
		})
	}
}
