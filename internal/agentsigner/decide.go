package agentsigner

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strconv"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/peer"
)

// SignerName is the signer that requests of agents name.
const SignerName = annotation.AgentSigner

// agentUser is the service account of the agents, and nodeClaim where the API server states the node of a token.
const (
	agentUser = "system:serviceaccount:fettle-agents:fettle-agent"
	nodeClaim = "authentication.kubernetes.io/node-name"
)

// maxRequest bounds the text of a request. One of an agent has some 500 bytes.
const maxRequest = 4 << 10

// Usages returns the usages that a request of an agent names.
func Usages() []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}
}

// Reason is why a request is denied.
type Reason string

// Reasons.
const (
	// NotAnAgent: another user has made the request.
	NotAnAgent Reason = "NotAnAgent"
	// NoNode: the token of the agent names no node.
	NoNode Reason = "NoNode"
	// Malformed: the request can't be read, or has more than the name of a node and a key.
	Malformed Reason = "Malformed"
	// WrongKey: the key is not of the kind that agents use, or has not signed the request.
	WrongKey Reason = "WrongKey"
	// WrongName: the request names another node than the token, or anything else.
	WrongName Reason = "WrongName"
	// WrongUsages: the request is for other usages, or for a certain time.
	WrongUsages Reason = "WrongUsages"
	// TooMany: the node has got many certificates in a short time.
	TooMany Reason = "TooMany"
)

// message returns what a reason says to people.
func (r Reason) message() string {
	switch r {
	case NotAnAgent:
		return "only the agents of nodes get certificates of " + SignerName
	case NoNode:
		return "the token of the agent names no node; an agent needs the token that the kubelet has mounted into its pod"
	case Malformed:
		return "the request must be one PEM block of at most 4096 bytes, with the name of a node and nothing else"
	case WrongKey:
		return "the key must be of ECDSA on P-256, and must have signed the request"
	case WrongName:
		return "the only name must be the name of the agent's own node, followed by .node.fettle.io"
	case TooMany:
		return "the node has got " + strconv.Itoa(maxIssued) + " certificates within an hour, so it gets no other one before that hour is over"
	case WrongUsages:
		return "the usages must be digital signature, client auth and server auth, and the request may name no duration"
	}
	return ""
}

// grant is what a certificate is issued for.
type grant struct {
	node string
	key  *ecdsa.PublicKey
}

// decide returns what to issue a certificate for, or why not. It believes what the API server states of the user alone.
func decide(r *certificatesv1.CertificateSigningRequest) (grant, Reason) {
	s := &r.Spec
	if s.SignerName != SignerName || s.Username != agentUser {
		return grant{}, NotAnAgent
	}
	node := nodeOf(s)
	if node == "" {
		return grant{}, NoNode
	}
	usages := slices.Sorted(slices.Values(s.Usages))
	if want := slices.Sorted(slices.Values(Usages())); !slices.Equal(usages, want) || s.ExpirationSeconds != nil {
		return grant{}, WrongUsages
	}
	key, reason := read(s.Request, peer.NameOf(node))
	if reason != "" {
		return grant{}, reason
	}
	return grant{node, key}, ""
}

// nodeOf returns the node of the agent that has made a request, as the API server states it. It is empty for other users, and where the API
// server states none.
func nodeOf(s *certificatesv1.CertificateSigningRequestSpec) string {
	claim := s.Extra[nodeClaim]
	if s.Username != agentUser || len(claim) != 1 || len(validation.IsDNS1123Subdomain(claim[0])) > 0 {
		return ""
	}
	return claim[0]
}

// read returns the key of a request for a name, or why there is none.
func read(text []byte, name string) (*ecdsa.PublicKey, Reason) {
	if len(text) > maxRequest {
		return nil, Malformed
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(block.Headers)+len(rest) > 0 {
		return nil, Malformed
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || len(request.Subject.Names) > 0 || len(request.Extensions) != 1 {
		return nil, Malformed
	}
	key, is := request.PublicKey.(*ecdsa.PublicKey)
	if !is || key.Curve != elliptic.P256() || request.CheckSignature() != nil {
		return nil, WrongKey
	}
	others := len(request.IPAddresses) + len(request.EmailAddresses) + len(request.URIs)
	if others > 0 || !slices.Equal(request.DNSNames, []string{name}) {
		return nil, WrongName
	}
	return key, ""
}
