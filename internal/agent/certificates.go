package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"path"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/peer"
	"github.com/fettle-io/fettle/internal/promiselease"
)

// Names and paths of certificates, on which agents and Fettle agree.
const (
	requestName = "fettle-agent-"
	bundle      = "/api/v1/namespaces/" + promiselease.Namespace + "/configmaps/fettle-agent-authorities"
	bundleKey   = "authorities.pem"
	requests    = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// How often the agent reads what its certificate depends on.
const (
	// bundleEvery is how often the authorities are read, and bundleAgain how soon after a failure.
	bundleEvery = 5 * time.Minute
	bundleAgain = 30 * time.Second
	// answerSoon is how soon the agent reads a request that it has just sent. The pause doubles each time, up to bundleAgain.
	answerSoon = 2 * time.Second
	// deniedAgain is how soon another request follows that was denied. The API server keeps each for an hour.
	deniedAgain = time.Hour
	// renewWithin is the time in which all agents request a certificate of a new authority, each at its own moment.
	renewWithin = time.Hour
)

// Certificates are the certificate of this agent, and the authorities that it trusts. Both are stored, so that agents know each other without the
// API server.
type Certificates struct {
	server   *Server
	node     string
	dir      Directory
	boottime func() time.Duration
	tell     func(Note)

	mu    sync.Mutex
	owned *peer.Identity

	// The fields below belong to the goroutine that runs.
	stored credentials
	issuer *x509.Certificate
	// pending is the request that was not answered yet, or empty.
	pending pendingRequest
	// denied is why the last request was denied, and notBefore when another one may be sent then.
	denied    error
	notBefore time.Duration
	// renews is when the certificate is to be replaced, or zero.
	renews time.Duration
	told   bool
}

// pendingRequest is a CertificateSigningRequest that was not answered yet.
type pendingRequest struct {
	name string
	key  *ecdsa.PrivateKey
	at   time.Duration
}

// NewCertificates returns the certificate of a node's agent, as an earlier process has stored it in a directory.
func NewCertificates(s *Server, node string, dir Directory, boottime func() time.Duration, tell func(Note)) *Certificates {
	c := &Certificates{server: s, node: node, dir: dir, boottime: boottime, tell: tell}
	p, err := dir.loadCredentials()
	if err == nil && p != (credentials{}) {
		err = c.adopt(p)
	}
	if err != nil {
		tell(Note{Reason: NoCertificate, Err: err})
	}
	return c
}

var errNoCertificate = errors.New("this agent has no certificate yet")

// Identity returns the identity of this agent. It is a peer.Source.
func (c *Certificates) Identity() (peer.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned == nil {
		return peer.Identity{}, errNoCertificate
	}
	return *c.owned, nil
}

// adopt uses credentials from now on.
func (c *Certificates) adopt(p credentials) error {
	i, issuer, err := p.identity(c.node)
	if err != nil {
		return err
	}
	c.stored, c.issuer = p, issuer
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned = &i
	return nil
}

// Run renews the certificate until the context ends.
func (c *Certificates) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause, err := c.refresh(ctx)
		if err != nil && !c.told && ctx.Err() == nil {
			c.tell(Note{Reason: NoCertificate, Err: err})
		}
		c.told = err != nil
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// refresh reads the authorities, and requests a certificate where one is due. It returns the pause before the next call.
func (c *Certificates) refresh(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	var m configMap
	if err := c.server.do(ctx, call{method: http.MethodGet, path: bundle}, &m); err != nil {
		return bundleAgain, fmt.Errorf("reading the authorities of agents: %w", err)
	}
	text := m.Data[bundleKey]
	all, err := authoritiesOf(text)
	if err != nil {
		return bundleAgain, err
	}
	trusted := c.trust(text) == nil
	if trusted && c.fresh(all[0]) {
		return bundleEvery, nil
	}
	return c.request(ctx, text)
}

// trust uses other authorities from now on, if one of them has issued the certificate.
func (c *Certificates) trust(text string) error {
	p := c.stored
	p.Authorities = text
	if p == c.stored && c.issuer != nil {
		return nil
	}
	if err := c.adopt(p); err != nil {
		return err
	}
	return c.dir.saveCredentials(p)
}

// fresh reports whether the certificate need not be replaced yet. After a change of the issuer each agent waits for its own moment.
func (c *Certificates) fresh(issuer *x509.Certificate) bool {
	i, err := c.Identity()
	if err != nil {
		return false
	}
	now := c.boottime()
	switch {
	case issuedBy(i, issuer):
		c.renews = 0
		return true
	case c.renews == 0:
		c.renews = now + spread(c.node)
	}
	return now < c.renews
}

// spread returns the moment of a node within renewWithin.
func spread(node string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node))
	return time.Duration(h.Sum32()) * time.Microsecond % renewWithin
}

// request sends a request, or reads the last one. The API server has one of each agent, however long no answer comes.
func (c *Certificates) request(ctx context.Context, authorities string) (time.Duration, error) {
	now := c.boottime()
	if now < c.notBefore {
		return bundleEvery, c.denied
	}
	if c.pending == (pendingRequest{}) {
		next, err := c.send(ctx)
		if err != nil {
			return bundleAgain, err
		}
		c.pending = next
		return answerSoon, nil
	}
	var r certificateRequest
	err := c.server.do(ctx, call{method: http.MethodGet, path: path.Join(requests, c.pending.name)}, &r)
	switch {
	case apierrors.IsNotFound(err):
		c.pending = pendingRequest{}
		return bundleAgain, nil
	case err != nil:
		return bundleAgain, fmt.Errorf("reading the request for a certificate: %w", err)
	case len(r.Status.Certificate) > 0:
		return c.receive(r.Status.Certificate, authorities)
	}
	for _, condition := range r.Status.Conditions {
		if t := condition.Type; t == requestDenied || t == requestFailed {
			c.pending, c.notBefore = pendingRequest{}, now+deniedAgain
			c.denied = fmt.Errorf("the request for a certificate was denied (%s): %s", condition.Reason, condition.Message)
			return bundleEvery, c.denied
		}
	}
	if waited := max(now-c.pending.at, answerSoon); waited < bundleAgain {
		return waited, nil
	}
	return bundleAgain, errUnanswered
}

var errUnanswered = errors.New("the request for a certificate has no answer yet")

// receive uses a certificate that was issued.
func (c *Certificates) receive(certificate []byte, authorities string) (time.Duration, error) {
	key, err := x509.MarshalECPrivateKey(c.pending.key)
	if err != nil {
		return bundleAgain, fmt.Errorf("encoding the key of the certificate: %w", err)
	}
	c.pending = pendingRequest{}
	p := credentials{string(certificate), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})), authorities}
	if len(certificate) > maxBundle {
		return bundleEvery, errCredentials
	}
	if err := c.adopt(p); err != nil {
		return bundleAgain, err
	}
	if err := c.dir.saveCredentials(p); err != nil {
		return bundleAgain, err
	}
	return bundleEvery, nil
}

// send makes a key and sends the request for its certificate.
func (c *Certificates) send(ctx context.Context) (pendingRequest, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pendingRequest{}, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{peer.NameOf(c.node)}}, key)
	if err != nil {
		return pendingRequest{}, fmt.Errorf("making a request for a certificate: %w", err)
	}
	var random [16]byte
	_, _ = rand.Read(random[:])
	r := certificateRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		Metadata: objectName{Name: requestName + hex.EncodeToString(random[:])},
		Spec: requestSpec{
			SignerName: annotation.AgentSigner, Usages: usages[:],
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
	if err := c.server.do(ctx, call{method: http.MethodPost, path: requests, body: r}, nil); err != nil {
		return pendingRequest{}, fmt.Errorf("requesting a certificate: %w", err)
	}
	return pendingRequest{r.Metadata.Name, key, c.boottime()}, nil
}
