package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// inStep is what the floor prints once its caches have synced, before the time.
const inStep = "in step at "

// floorCommand runs the floor in a process of its own, so that the kernel counts its use.
func floorCommand() *cobra.Command {
	var kubeconfig, nodesKubeconfig, dialect string
	cmd := &cobra.Command{
		Use:    "floor",
		Short:  "Watch nodes, and machines where there are any, with the stock typed client, keep what decisions read, and do nothing else",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var configs [2]*rest.Config
			for i, file := range []string{nodesKubeconfig, kubeconfig} {
				config, err := clientcmd.BuildConfigFromFlags("", file)
				if err != nil {
					return fmt.Errorf("reading the kubeconfig: %w", err)
				}
				config.QPS = -1
				config.UserAgent = "fettle-bench/floor"
				configs[i] = config
			}
			return watchAll(cmd.Context(), configs[0], configs[1], dialects()[dialect], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster whose machines to watch")
	cmd.Flags().StringVar(&nodesKubeconfig, "nodes-kubeconfig", "", "kubeconfig of the cluster whose nodes to watch")
	cmd.Flags().StringVar(&dialect, "dialect", "openshift", "dialect whose machines to watch")
	return cmd
}

func watchAll(ctx context.Context, ofNodes, ofMachines *rest.Config, d dialect, out io.Writer) error {
	nodes, err := watchNodes(ofNodes)
	if err != nil {
		return err
	}
	watched := []cache.SharedInformer{nodes}
	if d.watch != nil {
		machines, err := d.watch(ofMachines)
		if err != nil {
			return err
		}
		watched = append(watched, machines)
	}
	for _, informer := range watched {
		go informer.RunWithContext(ctx)
	}
	for _, informer := range watched {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return errors.New("ended before it was in step")
		}
	}
	if _, err := fmt.Fprintln(out, inStep+time.Now().Format(time.RFC3339Nano)); err != nil {
		return fmt.Errorf("saying that it is in step: %w", err)
	}
	<-ctx.Done()
	return nil
}

// watchNodes watches nodes as protocol buffers, like the components of Kubernetes.
func watchNodes(base *rest.Config) (cache.SharedInformer, error) {
	config := rest.CopyConfig(base)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for nodes: %w", err)
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	return informer, informer.SetTransform(trimNode)
}

func trimNode(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	conditions := make([]corev1.NodeCondition, len(n.Status.Conditions))
	for i, c := range n.Status.Conditions {
		conditions[i] = corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels},
		Status:     corev1.NodeStatus{Conditions: conditions},
	}, nil
}
