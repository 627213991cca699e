package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fettle-io/fettle/sandbox/statedir"
	"github.com/fettle-io/fettle/sandbox/workload"
)

func newWorkloadClusterCommand() *cobra.Command {
	var dir, workloadDir string
	cluster := workload.Cluster{}
	cmd := &cobra.Command{
		Use:   "workload-cluster --dir DIR --name NAME --workload-dir DIR",
		Short: "Make a running sandbox a workload cluster of another one, which runs with --cluster-api",
		Long: `Make the sandbox on --workload-dir a workload cluster of the sandbox on --dir, which runs with --cluster-api: a
Cluster with its kubeconfig, infrastructure and control plane, and machines if asked for. Their nodes are ready only if the
workload cluster runs with --kubelets. Doing it again after a restart tells the management cluster the new address.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" || workloadDir == "" || cluster.Name == "" {
				return errors.New("--dir DIR, --name NAME and --workload-dir DIR are required")
			}
			if err := register(cmd.Context(), dir, workloadDir, cluster); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "cluster %s/%s is connected\n", cluster.Namespace, cluster.Name)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "directory of the management cluster (required)")
	flags.StringVar(&workloadDir, "workload-dir", "", "directory of the workload cluster (required)")
	flags.StringVar(&cluster.Namespace, "namespace", "default", "namespace of the Cluster; made if missing")
	flags.StringVar(&cluster.Name, "name", "", "name of the Cluster (required)")
	flags.Int32Var(&cluster.ControlPlaneMachines, "control-plane-machines", 0, "machines of the control plane; without --kubeadm nothing ever replaces one")
	flags.BoolVar(&cluster.Kubeadm, "kubeadm", false, "leave the machines of the control plane to its own reconciler (--cluster-api-control-planes)")
	flags.Int32Var(&cluster.Workers, "workers", 0, "machines of a machine deployment, labelled nodepool: nodepool-0")
	return cmd
}

func register(ctx context.Context, dir, workloadDir string, cluster workload.Cluster) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, statedir.Kubeconfig))
	if err != nil {
		return fmt.Errorf("reading the management cluster's kubeconfig: %w", err)
	}
	if cluster.Kubeconfig, err = os.ReadFile(filepath.Join(workloadDir, statedir.Kubeconfig)); err != nil {
		return fmt.Errorf("reading the workload cluster's kubeconfig: %w", err)
	}
	c, err := workload.NewClient(config)
	if err != nil {
		return err
	}
	if err := workload.Register(ctx, c, cluster); err != nil {
		return err
	}
	return workload.Await(ctx, c, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
}
