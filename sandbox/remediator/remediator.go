package remediator

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/crd"
	"github.com/fettle-io/fettle/sandbox/simulation"
)

//go:embed cluster_role.yaml
var clusterRole []byte

// Install defines the kinds, and the role that health checkers need for them. It starts no remediator.
func Install(ctx context.Context, config *rest.Config) error {
	if err := crd.Install(config, crd.Remediators); err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(clusterRole, role); err != nil {
		return fmt.Errorf("parsing the embedded role: %w", err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := c.Create(ctx, role); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating ClusterRole %s: %w", role.Name, err)
	}
	return nil
}

// Start installs the kinds, runs the remediators as an administrator, and returns when their caches have synced.
func Start(ctx context.Context, config *rest.Config, log logr.Logger) (*simulation.Simulation, error) {
	if err := Install(ctx, config); err != nil {
		return nil, err
	}
	ctrl.SetLogger(log)
	mgr, err := simulation.NewManager(config, remediationv1.AddToScheme, cloudv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	for _, t := range remediatorKinds() {
		r := &remediator{remediatorKind: t, client: mgr.GetClient(), live: mgr.GetAPIReader(), now: time.Now}
		if err := r.register(mgr); err != nil {
			return nil, fmt.Errorf("registering the %s remediator: %w", t.name, err)
		}
	}
	return simulation.Start(ctx, "the remediators", mgr)
}
