package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/sandbox/access"
	"github.com/fettle-io/fettle/sandbox/kubelets"
	"github.com/fettle-io/fettle/sandbox/metal"
	"github.com/fettle-io/fettle/sandbox/statedir"
)

// The controller manager's own defaults.
const (
	defaultNodeMonitorGracePeriod = 50 * time.Second
	defaultNodeMonitorPeriod      = 5 * time.Second
)

// The real default is 30 s, for clouds that take minutes.
const defaultMachineAPIPoll = time.Second

// options are the flags of a run.
type options struct {
	dir      string
	port     int
	auditLog string

	apiServer string

	nodeMonitorGracePeriod time.Duration
	nodeMonitorPeriod      time.Duration
	controllers            []string

	kubelets bool
	kwok     string

	machineAPI     bool
	machineAPIPoll time.Duration

	remediators bool

	metal    bool
	metalLog string
	bmcLog   string

	clusterAPI              bool
	clusterAPIHealthChecks  bool
	clusterAPIControlPlanes bool
	clusterAPIKindsOnly     bool
}

func newRootCommand(terminal terminal) *cobra.Command {
	// Imported Kubernetes code registers its own flags here, which would appear among ours.
	pflag.CommandLine = pflag.NewFlagSet("fettle-sandbox", pflag.ContinueOnError)
	opts := options{}
	cmd := &cobra.Command{
		Use:   "fettle-sandbox --dir DIR",
		Short: "Run a real Kubernetes control plane in one process, with a simulated fleet if asked to",
		Long: `Run a real Kubernetes control plane (API server, etcd and controller manager) in one process, on loopback only.
It prints one line when it is ready and runs until it is interrupted. Its state, its kubeconfig and its log are in DIR;
starting it again on the same DIR goes on where it stopped.`,
		Args:          cobra.NoArgs,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.check(); err != nil {
				return err
			}
			return serve(cmd.Context(), opts, terminal)
		},
	}
	cmd.SetOut(terminal.out)
	cmd.SetErr(terminal.err)
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.CompletionOptions.DisableDefaultCmd = true
	opts.register(cmd.Flags())
	cmd.AddCommand(newKubeconfigCommand(), newWorkloadClusterCommand())
	return cmd
}

func (o *options) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.dir, "dir", "", "directory of the sandbox's state, kubeconfig and log; made if missing (required)")
	flags.IntVar(&o.port, "port", 0, "port of the API server on 127.0.0.1 (default: that of the last run on DIR if it is free, else any free one)")
	flags.StringVar(&o.auditLog, "audit-log", "", "file to which one JSON line is added for each request to the API server")
	flags.StringVar(&o.apiServer, "api-server", "",
		"kube-apiserver of another version of Kubernetes, to run as a child process (default: the one in this program)")
	flags.DurationVar(&o.nodeMonitorGracePeriod, "node-monitor-grace-period", defaultNodeMonitorGracePeriod,
		"how long a node may be silent before the controller manager marks it Unknown")
	flags.DurationVar(&o.nodeMonitorPeriod, "node-monitor-period", defaultNodeMonitorPeriod,
		"how often the controller manager looks at the nodes")
	flags.StringSliceVar(&o.controllers, "controllers", []string{"*"},
		"controllers to run, as the controller manager's flag: '*' for all on by default, 'foo' for foo, '-foo' for not foo")
	flags.BoolVar(&o.kubelets, "kubelets", false,
		"play the kubelets of nodes annotated "+kubelets.Annotation+"="+kubelets.AnnotationValue+", by running KWOK")
	flags.StringVar(&o.kwok, "kwok", "", "KWOK's binary (default: kwok beside this program)")
	flags.BoolVar(&o.machineAPI, "machine-api", false,
		"install Machine, MachineSet and Instance, and simulate a Machine API and its cloud (its nodes need --kubelets to be ready)")
	flags.DurationVar(&o.machineAPIPoll, "machine-api-poll", defaultMachineAPIPoll,
		"how often the Machine API asks its cloud for news")
	flags.BoolVar(&o.remediators, "remediators", false,
		"install RebootRemediation, ReprovisionRemediation and their templates, and simulate the remediators of nodes")
	flags.BoolVar(&o.metal, "metal", false,
		"simulate a host and its BMC for each node labelled "+metal.Label+"="+metal.LabelRedfish+" or "+metal.LabelBareMetalHost+" (needs --kubelets)")
	flags.StringVar(&o.metalLog, "metal-log", "",
		"file to which one JSON line is added for each pod that runs on a host, ten times a second")
	flags.StringVar(&o.bmcLog, "bmc-log", "",
		"file to which one JSON line is added for each request that reaches a BMC by Redfish, with the tokens of sessions")
	flags.BoolVar(&o.clusterAPI, "cluster-api", false,
		"be a management cluster: install Cluster API's kinds, run its reconcilers and webhooks, and simulate its providers")
	flags.BoolVar(&o.clusterAPIHealthChecks, "cluster-api-health-checks", false,
		"run Cluster API's own reconciler of MachineHealthChecks too")
	flags.BoolVar(&o.clusterAPIControlPlanes, "cluster-api-control-planes", false,
		"run Cluster API's own reconciler and webhooks of KubeadmControlPlanes too, on simulated etcd members")
	flags.BoolVar(&o.clusterAPIKindsOnly, "cluster-api-kinds-only", false,
		"of Cluster API run the webhooks alone, and neither its reconcilers nor providers: a test plays those. "+
			"With --cluster-api-health-checks that one reconciler runs, without its pause of 15 seconds between two looks")
}

func (o *options) check() error {
	switch {
	case o.kwok != "" && !o.kubelets:
		return errors.New("--kwok is of use only with --kubelets: add that, or leave it out")
	case o.dir == "":
		return errors.New("--dir is required: name a directory for the sandbox's state, such as --dir /tmp/sandbox")
	case o.port < 0 || o.port > 65535:
		return fmt.Errorf("--port %d is no port: use one between 1 and 65535, or leave it out", o.port)
	case o.nodeMonitorPeriod <= 0:
		return fmt.Errorf("--node-monitor-period must be positive, such as 5s; it is %v", o.nodeMonitorPeriod)
	case o.machineAPIPoll <= 0:
		return fmt.Errorf("--machine-api-poll must be positive, such as 1s; it is %v", o.machineAPIPoll)
	case o.nodeMonitorGracePeriod <= 0:
		return fmt.Errorf("--node-monitor-grace-period must be positive, such as 50s; it is %v", o.nodeMonitorGracePeriod)
	}
	if err := o.checkMetal(); err != nil {
		return err
	}
	return o.checkClusterAPI()
}

func (o *options) checkMetal() error {
	switch {
	case o.metal && !o.kubelets:
		return errors.New("--metal needs --kubelets, which run on its hosts: add that, or leave it out")
	case o.metalLog != "" && !o.metal:
		return errors.New("--metal-log is of use only with --metal: add that, or leave it out")
	case o.bmcLog != "" && !o.metal:
		return errors.New("--bmc-log is of use only with --metal: add that, or leave it out")
	}
	return nil
}

func (o *options) checkClusterAPI() error {
	switch {
	case o.clusterAPIKindsOnly && !o.clusterAPI:
		return errors.New("--cluster-api-kinds-only is of use only with --cluster-api: add that, or leave it out")
	case o.clusterAPIHealthChecks && !o.clusterAPI:
		return errors.New("--cluster-api-health-checks is of use only with --cluster-api: add that, or leave it out")
	case o.clusterAPIControlPlanes && (!o.clusterAPI || o.clusterAPIKindsOnly):
		return errors.New("--cluster-api-control-planes is of use only with --cluster-api, and without --cluster-api-kinds-only: " +
			"a control plane makes machines, which need the other reconcilers and the providers")
	}
	return nil
}

func newKubeconfigCommand() *cobra.Command {
	var dir, account, out string
	cmd := &cobra.Command{
		Use:   "kubeconfig --dir DIR --service-account NAMESPACE/NAME [--out FILE]",
		Short: "Write a kubeconfig for a service account of a running sandbox",
		Long: `Write a kubeconfig whose identity is a service account of the sandbox that runs on DIR, so that a program can be
run under its own role. It works for 24 hours.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, name, ok := strings.Cut(account, "/")
			if dir == "" || !ok || namespace == "" || name == "" {
				return errors.New("--dir DIR and --service-account NAMESPACE/NAME are required")
			}
			if out == "" {
				out = filepath.Join(dir, fmt.Sprintf("kubeconfig-%s-%s", namespace, name))
			}
			key := types.NamespacedName{Namespace: namespace, Name: name}
			if err := access.WriteForServiceAccount(cmd.Context(), filepath.Join(dir, statedir.Kubeconfig), key, out); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), out)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the running sandbox (required)")
	cmd.Flags().StringVar(&account, "service-account", "", "the service account, as NAMESPACE/NAME (required)")
	cmd.Flags().StringVar(&out, "out", "", "file to write (default: DIR/kubeconfig-NAMESPACE-NAME)")
	return cmd
}

// version names the sandbox and its components, as the build recorded them.
func version() string {
	own, parts := "(devel)", []string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "fettle-sandbox " + own
	}
	if info.Main.Version != "" {
		own = info.Main.Version
	}
	named := map[string]string{"k8s.io/kubernetes": "Kubernetes", "go.etcd.io/etcd/server/v3": "etcd"}
	for _, dep := range info.Deps {
		if name, ok := named[dep.Path]; ok {
			parts = append(parts, name+" "+dep.Version)
		}
	}
	return fmt.Sprintf("fettle-sandbox %s (%s)", own, strings.Join(parts, ", "))
}
