package controlplane

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	serviceRange        = "10.96.0.0/16"
	kubernetesServiceIP = "10.96.0.1" // the first of serviceRange
	//nolint:gosec // a name that stands in tokens, not a token
	tokenIssuer = "https://kubernetes.default.svc.cluster.local"
)

// runAPIServer serves until ctx ends.
func runAPIServer(ctx context.Context, cfg Config, f files, etcdEndpoint string) error {
	opts := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(apiServerArgs(cfg, f, etcdEndpoint)); err != nil {
		return fmt.Errorf("reading its flags: %w", err)
	}
	opts.SecureServing.Listener = cfg.Listener
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting its features: %w", err)
	}
	completed, err := opts.Complete(ctx)
	if err != nil {
		return fmt.Errorf("completing its options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("checking its options: %w", utilerrors.NewAggregate(errs))
	}
	return app.Run(ctx, completed)
}

func apiServerArgs(cfg Config, f files, etcdEndpoint string) []string {
	args := []string{
		"--etcd-servers=" + etcdEndpoint,
		"--bind-address=127.0.0.1",
		// No pod runs here that could reach the API server through its service.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--tls-cert-file=" + f.serving.CertFile,
		"--tls-private-key-file=" + f.serving.KeyFile,
		"--client-ca-file=" + f.caCert,
		// Like kubeadm: a kubelet may write its own node and little else.
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=" + tokenIssuer,
		"--service-account-key-file=" + f.tokenKey,
		"--service-account-signing-key-file=" + f.tokenKey,
		"--allow-privileged=true",
		// One host plays thousands of kubelets, so the limits are those of a large cluster.
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1500",
	}
	if cfg.AuditLog != "" {
		args = append(args,
			"--audit-policy-file="+f.auditPolicy,
			"--audit-log-path="+cfg.AuditLog,
			"--audit-log-maxsize=10240") // MiB; rotation would remove lines that readers count
	}
	return args
}
