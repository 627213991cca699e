package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/logging"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/workload"
)

// controllerOptions has the flags of fettle controller.
type controllerOptions struct {
	kubeconfig string

	leaderElect             bool
	leaderElectionNamespace string
	leaseDuration           time.Duration
	renewDeadline           time.Duration
	retryPeriod             time.Duration

	healthAddress  string
	metricsAddress string
	metricsCertDir string

	// dialects and remediators name the parts that run.
	dialects    []string
	remediators []string

	repairNamespace string
	bmcNamespace    string
	watchFilter     string
	workloadBounds  workload.Bounds
	retention       core.Retention
	external        openshift.ExternalBaremetal

	logLevel  string
	logFormat string
}

func controllerCommand() *cobra.Command {
	o := controllerOptions{external: openshift.Mark}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Watch the cluster's health checks and have unhealthy machines repaired",
		Long: "Watch the cluster's health checks and have unhealthy machines repaired, until a signal ends it.\n\n" +
			"It acts as the identity of the kubeconfig, or of its pod's service account, and needs the rights of config/rbac;\n" +
			"for Cluster API those of config/cluster_api too, and for the control plane's quorum on OpenShift those of config/openshift.",
		Example: "  fettle controller --kubeconfig ~/.kube/config --leader-elect=false",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runController(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to serve (default: $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "act only while holding the lease, so that of several replicas one acts")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "fettle-system", "namespace of the lease")
	f.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long the other replicas wait for a leader that has fallen silent")
	f.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader that can't renew its lease goes on before it ends")
	f.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "how often the leader renews the lease, and the other replicas look at it")
	f.StringVar(&o.healthAddress, "health-probe-bind-address", off, "address that /healthz and /readyz are served on, such as :8081; 0 serves none")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", off, "address that /metrics is served on over TLS, such as :8443, to clients that the cluster allows to read it; 0 serves none")
	f.StringVar(&o.metricsCertDir, "metrics-cert-dir", "", "directory of tls.crt and tls.key for /metrics, which are read again when they change (default: a certificate made at the start)")
	f.StringSliceVar(&o.dialects, "dialects", dialectNames(), "the kinds of health checks to follow; Fettle neither watches nor writes other kinds")
	f.StringSliceVar(&o.remediators, "remediators", allRemediators(), "which of Fettle's own remediators run; empty runs none")
	f.StringVar(&o.repairNamespace, "repair-namespace", "fettle-system", "namespace of Repairs whose targets have no namespace, such as nodes; it must exist")
	f.StringVar(&o.bmcNamespace, "bmc-namespace", "fettle-system", "namespace of BMCs and of the Secrets with their credentials; BMCs elsewhere are ignored")
	f.Var(&o.external, "external-baremetal", externalUsage)
	f.StringVar(&o.watchFilter, "watch-filter", "", "follow only Cluster API health checks whose label cluster.x-k8s.io/watch-filter has this value (default: all)")
	f.IntVar(&o.workloadBounds.Memory, "workload-clusters-max-memory", workload.DefaultMemory, "how many bytes the nodes of all workload clusters of Cluster API may take; beyond that each namespace has an equal share")
	f.IntVar(&o.workloadBounds.Nodes, "workload-cluster-max-nodes", workload.DefaultNodes, "how many nodes one workload cluster of Cluster API may have; a cluster with more is not judged")
	f.DurationVar(&o.retention.For, "repair-retention", 24*time.Hour, "how long a finished Repair is kept, once back-off no longer reads it")
	f.IntVar(&o.retention.Max, "repair-retention-count", 1000, "how many finished Repairs are kept in one namespace, besides the Repairs that back-off still reads; the oldest go first")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json, or text for people")
	return cmd
}

const externalUsage = "how OpenShift health checks of the strategy external-baremetal are carried out: Mark leaves machines to the machine controller of their platform, and PowerRemediation has Fettle power their hosts"

func (o *controllerOptions) validate() error {
	var problems []error
	if o.retention.For <= 0 {
		problems = append(problems, fmt.Errorf("--repair-retention is %s; it must be above zero, such as 24h", o.retention.For))
	}
	if o.retention.Max < 1 {
		problems = append(problems, fmt.Errorf("--repair-retention-count is %d; it must be at least 1", o.retention.Max))
	}
	if o.workloadBounds.Memory < 1<<20 {
		problems = append(problems, fmt.Errorf("--workload-clusters-max-memory is %d; it must be at least 1048576 bytes (1 MiB), or no nodes are kept", o.workloadBounds.Memory))
	}
	if o.workloadBounds.Nodes < 1 {
		problems = append(problems, fmt.Errorf("--workload-cluster-max-nodes is %d; it must be at least 1, since no cluster has fewer", o.workloadBounds.Nodes))
	}
	if wrong := validation.IsDNS1123Label(o.repairNamespace); len(wrong) > 0 {
		problems = append(problems, fmt.Errorf("--repair-namespace is %q, which no namespace can be called: %s", o.repairNamespace, strings.Join(wrong, "; ")))
	}
	if wrong := validation.IsDNS1123Label(o.bmcNamespace); len(wrong) > 0 {
		problems = append(problems, fmt.Errorf("--bmc-namespace is %q, which no namespace can be called: %s", o.bmcNamespace, strings.Join(wrong, "; ")))
	}
	problems = append(problems, o.checkElection(), o.checkServing(), o.checkWatchFilter(), o.checkParts())
	return errors.Join(problems...)
}

func runController(ctx context.Context, o controllerOptions) error {
	log, err := newLogger(ctx, o.logLevel, o.logFormat)
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
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	config.Wrap(newRollbackDetector(log.WithName("history"), end).wrap)
	manager, err := newManager(config, o, log)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version, "server", sanitize.URL(config.Host), "leaderElection", o.leaderElect)
	err = manager.Start(ctx)
	if why := context.Cause(ctx); errors.Is(why, errRolledBack) {
		return reexec(why)
	}
	if err != nil {
		return fmt.Errorf("running the controller: %w", err)
	}
	return nil
}

// newLogger returns the log of a process that shuts down when the context ends.
func newLogger(ctx context.Context, level, format string) (logr.Logger, error) {
	handler, err := logging.New(os.Stderr, level, format)
	if err != nil {
		return logr.Logger{}, err
	}
	log := logr.FromSlogHandler(shutdownHandler{handler, ctx.Done()})
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log, nil
}

// restConfig returns the cluster and the identity to act as. It turns client-go's rate limit off,
// since the API server's priority and fairness limits the calls.
func restConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (give --kubeconfig): %w", err)
	}
	config.QPS = -1
	config.UserAgent = "fettle/" + version
	return config, nil
}
