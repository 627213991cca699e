package controlplane

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	readyTimeout = 2 * time.Minute
	readyPoll    = 50 * time.Millisecond
)

// check returns nil when its condition holds.
type check func(context.Context, kubernetes.Interface) error

// waitUntil repeats the check until it passes, a component dies, or the time is over.
func (p *ControlPlane) waitUntil(ctx context.Context, what string, passes check) error {
	client, err := kubernetes.NewForConfig(p.admin.ClientConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		last := passes(ctx, client)
		if last == nil {
			return nil
		}
		select {
		case err := <-p.died:
			return err
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %w)", what, ctx.Err(), last)
		case <-ticker.C:
		}
	}
}

func apiServes(ctx context.Context, client kubernetes.Interface) error {
	if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	// The namespaces are made after the server reports itself ready.
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// controllersWork checks for an object that only a controller makes, and without which pods can't be created.
func controllersWork(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}
