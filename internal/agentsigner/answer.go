package agentsigner

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// handle approves and signs a request, or denies it, which it reports.
func (c *Client) handle(ctx context.Context, name string) (denied bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r := &certificatesv1.CertificateSigningRequest{}
	if err := c.Core.Get(ctx, client.ObjectKey{Name: name}, r); err != nil {
		return false, client.IgnoreNotFound(err) //nolint:wrapcheck // the caller names the request
	}
	if r.Spec.SignerName != SignerName || len(r.Status.Certificate) > 0 || has(r, certificatesv1.CertificateDenied) || has(r, certificatesv1.CertificateFailed) {
		return false, nil
	}
	g, reason := decide(r)
	if reason == "" && !c.nodes.mayIssue(g.node, c.Now()) {
		reason = TooMany
	}
	if reason != "" {
		return true, c.deny(ctx, r, reason)
	}
	return false, c.sign(ctx, r, g)
}

// sign approves a request and stores its certificate.
func (c *Client) sign(ctx context.Context, r *certificatesv1.CertificateSigningRequest, g grant) error {
	a, err := c.authorities(ctx)
	if err != nil {
		return err
	}
	if !has(r, certificatesv1.CertificateApproved) {
		add(r, certificatesv1.CertificateApproved, "NodeOfToken", "the token of the agent names the node of the request")
		if err := c.Core.SubResource("approval").Update(ctx, r); err != nil {
			return fmt.Errorf("approving: %w", err)
		}
	}
	if r.Status.Certificate, err = a.issuer(c.Now()).issue(g); err != nil {
		return err
	}
	if err := c.Core.Status().Update(ctx, r); err != nil {
		return fmt.Errorf("storing the certificate: %w", err)
	}
	c.nodes.issues(g.node, c.Now())
	c.Log.Info("issued the certificate of an agent", "node", g.node, "request", r.Name)
	return nil
}

// deny denies a request. If an administrator has approved it, it fails instead.
func (c *Client) deny(ctx context.Context, r *certificatesv1.CertificateSigningRequest, reason Reason) error {
	var err error
	if has(r, certificatesv1.CertificateApproved) {
		add(r, certificatesv1.CertificateFailed, string(reason), reason.message())
		err = c.Core.Status().Update(ctx, r)
	} else {
		add(r, certificatesv1.CertificateDenied, string(reason), reason.message())
		err = c.Core.SubResource("approval").Update(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("denying: %w", err)
	}
	c.Log.Info("denied a certificate of an agent", "reason", reason, "request", r.Name)
	return nil
}

func has(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == t {
			return true
		}
	}
	return false
}

func add(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType, reason, message string) {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
}
