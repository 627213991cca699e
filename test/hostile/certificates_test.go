package hostile

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/agentsigner"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/test/cluster"
)

// moreRequests lets others ask for certificates of agents, so that Fettle alone denies them.
const moreRequests = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: more-requests},
 rules: [{apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests, certificatesigningrequests/approval], verbs: [create, update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: more-requests},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: more-requests},
 subjects: [{kind: ServiceAccount, name: other, namespace: fettle-agents}, {kind: ServiceAccount, name: fettle, namespace: fettle-system},
  {kind: User, apiGroup: rbac.authorization.k8s.io, name: "system:node:promised"}]}
`

// A requestRow is a request for a certificate, and what becomes of it.
type requestRow struct {
	as     client.Client
	change func(*certificatesv1.CertificateSigningRequest)
	// refusal is a part of the API server's refusal, and denial the reason of Fettle's. If both are empty, the certificate is issued.
	refusal string
	denial  agentsigner.Reason
}

// TestI14CertificatesOfAgents: an agent gets a certificate for its own node alone, and no other user gets any.
func TestI14CertificatesOfAgents(t *testing.T) {
	t.Parallel()
	w := newLeasesWorld(t)
	w.Apply(t, moreRequests)
	w.awaitRequestPolicy()
	w.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, row := range w.requestRows() {
		beside.Run(name, func(t *testing.T) {
			r := w.request("fettle-agent-"+strings.ReplaceAll(name, " ", "-"), promisedNode, newKey(t), nil)
			if row.change != nil {
				row.change(r)
			}
			err := row.as.Create(cluster.Context(t), r)
			if row.refusal != "" {
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), row.refusal) {
					t.Errorf("the answer is %v, want a refusal with %q", err, row.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.becomes(t, r, row.denial)
		})
	}
	t.Run("authorities", w.authoritiesAreFettles)
	t.Run("signers", w.signsForAgentsAlone)
	t.Run("secrets", w.fettleCreatesNoSecret)
}

func (w *leasesWorld) requestRows() map[string]requestRow {
	type csr = certificatesv1.CertificateSigningRequest
	a, t := w.agents[promisedNode], w.t
	const (
		agents  = "only the agents of nodes ask for certificates"
		managed = "may name this request alone"
	)
	text := func(of func() []byte) func(*csr) { return func(r *csr) { r.Spec.Request = of() } }
	return map[string]requestRow{
		"an agent requests its node":     {as: a},
		"an agent requests another node": {as: a, change: text(func() []byte { return requestText(t, withdrawnNode, newKey(t), nil) }), denial: agentsigner.WrongName},
		"an agent requests an address too": {as: a, denial: agentsigner.WrongName, change: text(func() []byte {
			return requestText(t, promisedNode, newKey(t), func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} })
		})},
		"an agent requests a subject": {as: a, denial: agentsigner.Malformed, change: text(func() []byte {
			return requestText(t, promisedNode, newKey(t), func(r *x509.CertificateRequest) { r.Subject = pkix.Name{Organization: []string{"system:masters"}} })
		})},
		"an agent has another key": {as: a, denial: agentsigner.WrongKey, change: text(func() []byte {
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			w.must(err)
			return requestText(t, promisedNode, key, nil)
		})},
		"an agent requests other usages": {as: a, denial: agentsigner.WrongUsages, change: func(r *csr) {
			r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageCodeSigning)
		}},
		"an agent requests a duration":        {as: a, refusal: "names no duration", change: func(r *csr) { r.Spec.ExpirationSeconds = new(int32(3600)) }},
		"an agent sends a long request":       {as: a, refusal: "at most 4096 bytes", change: func(r *csr) { r.Spec.Request = append(r.Spec.Request, make([]byte, 4096)...) }},
		"an agent requests of another signer": {as: a, refusal: "of the signer fettle.io/agent alone", change: func(r *csr) { r.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName }},
		"an agent takes another name":         {as: a, refusal: "begins with fettle-agent-", change: func(r *csr) { r.Name = "other" }},
		"an agent labels its request":         {as: a, refusal: "no labels", change: func(r *csr) { r.Labels = map[string]string{"a": "b"} }},
		"an agent without a pod requests":     {as: w.unbound, refusal: "names no node"},
		"another account in a pod there":      {as: w.other, refusal: agents},
		"an administrator requests":           {as: w.Client, refusal: agents},
		"the kubelet of the node requests":    {as: w.kubelet(promisedNode), refusal: agents},
		"an agent of another node requests":   {as: w.agents[newNode], denial: agentsigner.WrongName},
		"Fettle itself requests an identity":  {as: w.fettle, refusal: agents},
		"an agent requests in 4096 bytes": {as: a, change: func(r *csr) {
			r.Spec.Request = append(bytes.Repeat([]byte("\n"), 4096-len(r.Spec.Request)), r.Spec.Request...)
		}},
		"an agent takes a long name":            {as: a, refusal: "at most 64 characters", change: func(r *csr) { r.Name = "fettle-agent-" + strings.Repeat("x", 52) }},
		"an agent manages many fields":          {as: a, refusal: managed, change: requestManagedBy(testManager, `{"f:spec":`+manyFields(17, 62)+`}`)},
		"an agent manages a long field":         {as: a, refusal: managed, change: requestManagedBy(testManager, `{"f:spec":`+manyFields(1, 63)+`}`)},
		"an agent manages fields of it":         {as: a, refusal: managed, change: requestManagedBy(testManager, `{"f:spec":{"f:request":{"f:a":{}}}}`)},
		"an agent manages fields of its status": {as: a, refusal: managed, change: requestManagedBy(testManager, `{"f:status":{"f:a":{}}}`)},
	}
}

// testManager is the manager of fields that the API server names for a request of this test.
var testManager = strings.SplitN(rest.DefaultKubernetesUserAgent(), "/", 2)[0]

// requestManagedBy has a request name fields of a manager.
func requestManagedBy(manager, fields string) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "certificates.k8s.io/v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}}
	}
}

// kubelet returns a client that is the kubelet of a node.
func (w *leasesWorld) kubelet(node string) client.Client {
	w.t.Helper()
	config := *w.Config
	config.Impersonate.UserName, config.Impersonate.Groups = "system:node:"+node, []string{"system:nodes", "system:authenticated"}
	c, err := client.New(&config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	w.must(err)
	return c
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// requestText returns the text of a request for the certificate of a node.
func requestText(t *testing.T, node string, key crypto.Signer, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{DNSNames: []string{peer.NameOf(node)}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (w *leasesWorld) request(name, node string, key crypto.Signer, change func(*x509.CertificateRequest)) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(name)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: agentsigner.SignerName, Usages: agentsigner.Usages(), Request: requestText(w.t, node, key, change),
		},
	}
}

func (w *leasesWorld) awaitRequestPolicy() {
	w.t.Helper()
	w.Eventually(w.t, "the API server follows the policies of certificates", func(ctx context.Context) error {
		probe := w.request("probe", promisedNode, newKey(w.t), nil)
		if err := w.agents[promisedNode].Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.New("the name of a request is not refused")
		}
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: promiselease.Namespace, Name: agentsigner.ConfigMapName}, Data: map[string]string{"a": "b"}}
		if err := w.Create(ctx, m, client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.New("an administrator may write the authorities")
		}
		return nil
	})
}

// becomes requires that a request is denied for a reason, or that its certificate is issued.
func (w *leasesWorld) becomes(t *testing.T, r *certificatesv1.CertificateSigningRequest, denial agentsigner.Reason) {
	t.Helper()
	w.Eventually(t, "Fettle decides", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if len(r.Status.Certificate) == 0 && denial == "" || len(r.Status.Conditions) == 0 {
			return errors.New("it has not decided")
		}
		return nil
	})
	last := r.Status.Conditions[0]
	if denial != "" {
		if last.Type != certificatesv1.CertificateDenied || last.Reason != string(denial) || last.Message == "" || len(r.Status.Certificate) > 0 {
			t.Errorf("the request has the condition %+v, want a denial for %s", last, denial)
		}
		return
	}
	w.isOfAgent(t, r.Status.Certificate)
}

// isOfAgent requires that a certificate is one of the agent of a node, which the published authorities have issued.
func (w *leasesWorld) isOfAgent(t *testing.T, text []byte) {
	t.Helper()
	m := &corev1.ConfigMap{}
	if err := w.agents[promisedNode].Get(cluster.Context(t), client.ObjectKey{Namespace: promiselease.Namespace, Name: agentsigner.ConfigMapName}, m); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(m.Data[agentsigner.BundleKey])) {
		t.Fatal("no authority is published")
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Unix(1, 0), time.Now(), time.Now().AddDate(1000, 0, 0)} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: peer.NameOf(promisedNode), CurrentTime: at, KeyUsages: peer.Usages()}); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
	}
	if node, err := peer.NodeOf(cert); err != nil || node != promisedNode {
		t.Errorf("the certificate is of node %q: %v", node, err)
	}
}

// authoritiesAreFettles: only Fettle writes which authorities agents trust.
func (w *leasesWorld) authoritiesAreFettles(t *testing.T) {
	m := &corev1.ConfigMap{}
	w.Eventually(t, "Fettle publishes an authority", func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKey{Namespace: promiselease.Namespace, Name: agentsigner.ConfigMapName}, m); err != nil || m.Data[agentsigner.BundleKey] != "" {
			return err
		}
		return errors.New("the ConfigMap is empty")
	})
	m.Labels = map[string]string{"applied": "again"}
	for name, data := range map[string]map[string]string{"the same data": m.Data, "no data": nil} {
		m.Data = data
		if err := w.Update(cluster.Context(t), m, client.DryRunAll); err != nil {
			t.Errorf("an administrator writes %s: %v", name, err)
		}
	}
	m.Data, m.BinaryData = nil, map[string][]byte{agentsigner.BundleKey: []byte("x")}
	if err := w.Update(cluster.Context(t), m, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("an administrator writes the authorities as bytes: %v", err)
	}
	m.Data, m.BinaryData = map[string]string{agentsigner.BundleKey: "x"}, nil
	for name, c := range map[string]client.Client{"an administrator": w.Client, "an agent": w.agents[promisedNode], "another": w.other} {
		if err := c.Update(cluster.Context(t), m, client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("%s writes the authorities: %v", name, err)
		}
	}
	w.staysChangeable(t)
	w.keysAreFettles(t)
	key := client.ObjectKey{Namespace: "fettle-system", Name: agentsigner.SecretName}
	if err := w.agents[promisedNode].Get(cluster.Context(t), key, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("an agent reads the keys of the authorities: %v", err)
	}
}

// staysChangeable: Fettle can replace the authorities, and nothing but a user deletes them.
func (w *leasesWorld) staysChangeable(t *testing.T) {
	t.Helper()
	for name, change := range map[string]func(*corev1.ConfigMap){
		"is immutable": func(m *corev1.ConfigMap) { m.Immutable = new(true) },
		"has an owner": func(m *corev1.ConfigMap) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
		},
		"has a finalizer": func(m *corev1.ConfigMap) { m.Finalizers = []string{"example.org/stays"} },
	} {
		m := &corev1.ConfigMap{}
		w.must(w.Get(cluster.Context(t), client.ObjectKey{Namespace: promiselease.Namespace, Name: agentsigner.ConfigMapName}, m))
		change(m)
		if err := w.Update(cluster.Context(t), m, client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("an administrator updates the ConfigMap, and it %s: %v", name, err)
		}
	}
}

// keysAreFettles: agents come to trust each authority in the Secret, so only Fettle writes it. Others may empty and label it.
func (w *leasesWorld) keysAreFettles(t *testing.T) {
	t.Helper()
	s := &corev1.Secret{}
	w.must(w.Get(cluster.Context(t), client.ObjectKey{Namespace: "fettle-system", Name: agentsigner.SecretName}, s))
	for name, c := range map[string]struct {
		change  func(*corev1.Secret)
		allowed bool
	}{
		"another authority": {func(s *corev1.Secret) { s.Data = map[string][]byte{"newest.crt": []byte("x")} }, false},
		"the same as text":  {func(s *corev1.Secret) { s.StringData = map[string]string{"newest.crt": "x"} }, false},
		"immutable":         {func(s *corev1.Secret) { s.Immutable = new(true) }, false},
		"nothing":           {func(s *corev1.Secret) { s.Data = nil }, true},
		"a label":           {func(s *corev1.Secret) { s.Labels = map[string]string{"applied": "again"} }, true},
	} {
		changed := s.DeepCopy()
		c.change(changed)
		if err := w.Update(cluster.Context(t), changed, client.DryRunAll); c.allowed != (err == nil) || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("an administrator writes %s into the Secret: %v", name, err)
		}
	}
	elsewhere := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Data: map[string][]byte{"a": []byte("b")}}
	if err := w.Create(cluster.Context(t), elsewhere, client.DryRunAll); err != nil {
		t.Errorf("an administrator creates another Secret: %v", err)
	}
}

// fettleCreatesNoSecret: one of an account's token would be that account. Nor does it create what agents trust.
func (w *leasesWorld) fettleCreatesNoSecret(t *testing.T) {
	for _, namespace := range []string{"fettle-system", promiselease.Namespace} {
		token := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		for _, o := range []client.Object{token, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}}} {
			if err := w.fettle.Create(cluster.Context(t), o, client.DryRunAll); !apierrors.IsForbidden(err) {
				t.Errorf("Fettle creates a %T in %s: %v", o, namespace, err)
			}
		}
	}
}

// signsForAgentsAlone: Fettle can approve and sign for no other signer.
func (w *leasesWorld) signsForAgentsAlone(t *testing.T) {
	r := w.request("client", promisedNode, newKey(t), nil)
	r.Spec.SignerName, r.Spec.Usages = certificatesv1.KubeAPIServerClientSignerName, []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}
	if err := w.Create(cluster.Context(t), r); err != nil {
		t.Fatal(err)
	}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "x"}}
	if err := w.fettle.SubResource("approval").Update(cluster.Context(t), r); !apierrors.IsForbidden(err) {
		t.Errorf("Fettle approves for another signer: %v", err)
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	r.Status = certificatesv1.CertificateSigningRequestStatus{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if err := w.fettle.Status().Update(cluster.Context(t), r); !apierrors.IsForbidden(err) {
		t.Errorf("Fettle signs for another signer: %v", err)
	}
}
