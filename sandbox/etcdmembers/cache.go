package etcdmembers

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cache embeds another cache, and forwards ports to simulated members.
type cache struct {
	clustercache.ClusterCache

	url string
}

// GetRESTConfig returns a configuration with which ports are forwarded. A KubeadmControlPlane uses it for nothing else.
func (c *cache) GetRESTConfig(ctx context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	if _, err := c.ClusterCache.GetRESTConfig(ctx, cluster); err != nil {
		return nil, fmt.Errorf("reaching cluster %s: %w", cluster, err)
	}
	return &rest.Config{Host: c.url + "/" + cluster.Namespace + "/" + cluster.Name}, nil
}
