package controlplane

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	controllermanager "k8s.io/controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// runControllerManager runs the controllers until ctx ends.
func runControllerManager(ctx context.Context, cfg Config, f files) error {
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("making its options: %w", err)
	}
	known, disabled, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	named := opts.Flags(known, disabled, aliases)
	for _, set := range named.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(controllerManagerArgs(cfg, f)); err != nil {
		return fmt.Errorf("reading its flags: %w", err)
	}
	opts.ParsedFlags = &named
	config, err := opts.Config(ctx, known, disabled, aliases)
	if err != nil {
		return fmt.Errorf("checking its options: %w", err)
	}
	return app.Run(ctx, config.Complete())
}

func controllerManagerArgs(cfg Config, f files) []string {
	return []string{
		"--kubeconfig=" + f.controllerManagerKubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + f.tokenKey,
		"--root-ca-file=" + f.caCert,
		"--allocate-node-cidrs=false",
		// Created if missing. The default is a directory of the host.
		"--flex-volume-plugin-dir=" + filepath.Join(cfg.Dir, "flexvolume"),
		"--controllers=" + strings.Join(cfg.Controllers, ","),
		"--node-monitor-grace-period=" + cfg.NodeMonitorGracePeriod.String(),
		"--node-monitor-period=" + cfg.NodeMonitorPeriod.String(),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

// makesServiceAccounts reports whether one of the controllers creates the default account of each namespace.
func makesServiceAccounts(controllers []string) bool {
	disabled := sets.NewString(app.ControllersDisabledByDefault()...)
	return controllermanager.IsControllerEnabled(names.ServiceAccountController, disabled, controllers)
}
