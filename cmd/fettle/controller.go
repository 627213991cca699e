package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-io/fettle/internal/core"
)

// controllerOptions are the flags of fettle controller.
type controllerOptions struct {
	kubeconfig string

	leaderElect             bool
	leaderElectionNamespace string
	healthAddress           string
	metricsAddress          string

	retention core.Retention
	logLevel  string
}

func controllerCommand() *cobra.Command {
	var o controllerOptions
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Watch the cluster's health checks and have unhealthy machines repaired",
		Long: "Watch the cluster's health checks and have unhealthy machines repaired, until a signal ends it.\n\n" +
			"It acts as the identity of the kubeconfig, or of its pod's service account, and needs no rights beyond config/rbac.",
		Example: "  fettle controller --kubeconfig ~/.kube/config --leader-elect=false",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runController(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to keep (default: $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "act only while holding the lease, so that of several replicas one acts")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "fettle-system", "namespace of the lease")
	f.StringVar(&o.healthAddress, "health-probe-bind-address", "0", "address that /healthz and /readyz are served on, such as :8081; 0 serves none")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", "0", "address that /metrics is served on, such as :8080; 0 serves none")
	f.DurationVar(&o.retention.For, "repair-retention", 24*time.Hour, "how long a finished Repair is kept")
	f.IntVar(&o.retention.Most, "repair-retention-count", 1000, "how many finished Repairs are kept in one namespace; the oldest go first")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func (o *controllerOptions) validate() error {
	var problems []error
	if o.retention.For <= 0 {
		problems = append(problems, fmt.Errorf("--repair-retention is %s; it must be above zero, since back-off reads finished repairs", o.retention.For))
	}
	if o.retention.Most < 1 {
		problems = append(problems, fmt.Errorf("--repair-retention-count is %d; it must be at least 1, since back-off reads finished repairs", o.retention.Most))
	}
	return errors.Join(problems...)
}

func runController(ctx context.Context, o controllerOptions) error {
	log, err := newLogger(o.logLevel)
	if err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	manager, err := newManager(config, o, log)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version, "server", config.Host, "leaderElection", o.leaderElect)
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("running the controller: %w", err)
	}
	return nil
}

func newLogger(level string) (logr.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level is %q; it must be debug, info, warn or error", level)
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: l}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log, nil
}

// restConfig finds the cluster and the identity to act as. The client's own rate limit is off: the
// API server's priority and fairness paces it.
func restConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster to keep (give --kubeconfig): %w", err)
	}
	config.QPS = -1
	config.UserAgent = "fettle/" + version
	return config, nil
}
