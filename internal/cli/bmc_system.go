package cli

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/internal/workload"
)

// checkSystemOf says whether the system of the BMC is that of the node. Where the BMC reports no UUID, there is nothing to compare.
func (s *session) checkSystemOf(ctx context.Context, c *BMCCheck, b *v1alpha1.BMC, uuid string) {
	if uuid == "" || b.Spec.SystemUUIDCheck == v1alpha1.SystemUUIDCheckDisabled {
		return
	}
	node, err := s.nodeOfBMC(ctx, b)
	if err != nil {
		c.add(checkSystem, unknown, "the BMC reports UUID %s, and node %s could not be read: %v", uuid, c.Node, err)
		return
	}
	if node == nil {
		c.add(checkSystem, works, "the BMC reports UUID %s, and there is no node %s to compare it with", uuid, c.Node)
		return
	}
	reported, _, _ := unstructured.NestedString(node.Object, "status", "nodeInfo", "systemUUID") // empty where it is no text
	switch expected := power.CanonicalUUID(reported); {
	case expected == "":
		c.add(checkSystem, works, "the BMC reports UUID %s, and node %s reports none to compare it with", uuid, c.Node)
	case power.DifferentSystems(uuid, expected):
		c.add(checkSystem, fails, "the system has UUID %s, and node %s runs on a host with UUID %s, so Fettle powers it for no remediation of the node; "+
			"correct spec.address, spec.system or spec.nodeName; where the BMC reports a wrong UUID, set spec.systemUUIDCheck to Disabled", uuid, c.Node, expected)
	default:
		c.add(checkSystem, works, "node %s runs on the system with UUID %s", c.Node, uuid)
	}
}

// nodeOfBMC reads the node of a BMC with the user's own rights, or returns nil if there is none. Its errors are for users.
func (s *session) nodeOfBMC(ctx context.Context, b *v1alpha1.BMC) (*unstructured.Unstructured, error) {
	node := &unstructured.Unstructured{}
	node.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	at := types.NamespacedName{Name: b.Spec.NodeName}
	of := b.Spec.Cluster
	if of == nil {
		switch err := s.cluster.Get(ctx, at, node); {
		case apierrors.IsNotFound(err):
			return nil, nil //nolint:nilnil // there is none
		case err != nil:
			return nil, errors.New(failureText(err)) //nolint:err113 // told to a person
		}
		return node, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	cluster := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	config, err := kubeconfigOf(ctx, s.cluster, cluster)
	if err != nil {
		return nil, err
	}
	config.UserAgent = s.UserAgent
	there, err := workload.NewClient(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in Secret %s can't be followed: %w", workload.SecretOf(cluster), err)
	}
	switch err := there.Get(ctx, at, node); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, errors.New(workload.Explain(err, config, cluster)) //nolint:err113 // told to a person
	}
	return node, nil
}
