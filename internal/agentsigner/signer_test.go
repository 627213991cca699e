package agentsigner

import (
	"context"
	"crypto/elliptic"
	"crypto/x509"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
)

// signer is a client before an API server, which may refuse calls.
type signer struct {
	*Client

	api       client.Client
	informers *informertest.Informers

	mu   sync.Mutex
	time time.Time
	// fault, if set, may refuse a call by its verb and the type of its object.
	fault func(verb string, o runtime.Object) error
	// forbidden is set while Fettle may not watch requests, and accessReviews has the reviews of that right.
	forbidden     bool
	accessReviews []authorizationv1.ResourceAttributes
}

// installed are the objects of the authorities as they are installed.
func installed() []client.Object {
	return []client.Object{
		&corev1.Secret{ObjectMeta: objectMeta("fettle-system", SecretName)}, &corev1.ConfigMap{ObjectMeta: objectMeta(promiselease.Namespace, ConfigMapName)},
	}
}

// newSigner returns a signer before an API server with some objects. Those of the authorities are empty, unless they are among these.
func newSigner(t *testing.T, objects ...client.Object) *signer {
	t.Helper()
	return bareSigner(t, append(slices.DeleteFunc(installed(), func(o client.Object) bool {
		return slices.ContainsFunc(objects, func(other client.Object) bool {
			return other.GetName() == o.GetName() && reflect.TypeOf(other) == reflect.TypeOf(o)
		})
	}), objects...)...)
}

// bareSigner returns a signer before an API server that has these objects alone.
func bareSigner(t *testing.T, objects ...client.Object) *signer {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, certificatesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &signer{time: day(0), informers: informertest.New()}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&csr{}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := w.refused("get", o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := w.refused("create", o); err != nil {
				return err
			}
			if review, is := o.(*authorizationv1.SelfSubjectAccessReview); is {
				return w.answer(review)
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := w.refused("update", o); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if err := w.refused("update "+sub, o); err != nil {
				return err
			}
			return c.Status().Update(ctx, o, opts...)
		},
	}).Build()
	w.Client = NewClient(Config{Informers: w.informers, Core: w.api, Namespace: "fettle-system", Log: logr.Discard(), Now: w.now})
	return w
}

// signs has a signer work in a bubble, where time passes at once.
func signs(t *testing.T, w func() *signer, story func(*signer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := w()
		ctx, cancel := context.WithCancel(t.Context())
		if err := w.Watch(ctx); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Start(ctx) }()
		synctest.Wait()
		story(w)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start returns %v", err)
		}
	})
}

// sees has the watch show requests, and waits until there is nothing more to do now.
func (w *signer) sees(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		w.informers.Of("CertificateSigningRequest").Show(get(t, w, "", name, &csr{}))
	}
	synctest.Wait()
}

func (w *signer) answer(review *authorizationv1.SelfSubjectAccessReview) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accessReviews = append(w.accessReviews, *review.Spec.ResourceAttributes)
	review.Status.Allowed = !w.forbidden
	return nil
}

func (w *signer) refused(verb string, o runtime.Object) error {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(verb, o)
}

// refuses has the API server refuse calls.
func (w *signer) refuses(fault func(verb string, o runtime.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func (w *signer) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}

func (w *signer) set(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = now
}

// named returns the request of the agent of a node, which has the name of the node.
func named(t *testing.T, node string, changes ...func(*csr)) *csr {
	t.Helper()
	r := request(text(t, ecKey(t, elliptic.P256()), func(of *x509.CertificateRequest) { of.DNSNames = []string{peer.NameOf(node)} }))
	r.Name, r.Spec.Extra[nodeClaim] = node, []string{node}
	for _, change := range changes {
		change(r)
	}
	return r
}

func get[T client.Object](t *testing.T, w *signer, namespace, name string, into T) T {
	t.Helper()
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatalf("reading %T %s: %v", into, name, err)
	}
	return into
}

// bundle returns what the agents are told to trust.
func (w *signer) bundle(t *testing.T) string {
	t.Helper()
	return get(t, w, promiselease.Namespace, ConfigMapName, &corev1.ConfigMap{}).Data[BundleKey]
}

// stored returns the authorities of the Secret.
func (w *signer) stored(t *testing.T) authorities {
	t.Helper()
	a, err := decode(get(t, w, "fettle-system", SecretName, &corev1.Secret{}).Data)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// conditions returns the conditions of a request by their types.
func conditions(r *csr) map[certificatesv1.RequestConditionType]string {
	all := map[certificatesv1.RequestConditionType]string{}
	for _, c := range r.Status.Conditions {
		all[c.Type] = c.Reason
	}
	return all
}

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// silent answers no read and no creation before the context ends. It stores how long that took.
type silent struct {
	client.Client

	took chan time.Duration
}

func (s silent) wait(ctx context.Context) error {
	begun := time.Now() //nolint:forbidigo // the clock of the bubble
	<-ctx.Done()
	s.took <- time.Since(begun) //nolint:forbidigo // the same
	return ctx.Err()
}

func (s silent) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return s.wait(ctx)
}

func (s silent) Create(ctx context.Context, _ client.Object, _ ...client.CreateOption) error {
	return s.wait(ctx)
}
