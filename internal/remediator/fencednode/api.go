package fencednode

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// API is what the API server of one cluster does for Nodes. It reads at the API server, never from a cache.
type API interface {
	client.Reader

	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
	Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error
}

// Nodes reads and changes the nodes of one cluster.
type Nodes struct {
	api     API
	now     func() time.Time
	volumes *Volumes
}

// New returns the nodes of one cluster. Fencings of the same cluster share a counter of volumes.
func New(api API, now func() time.Time, volumes *Volumes) *Nodes {
	return &Nodes{api: api, now: now, volumes: volumes}
}

// Volumes returns the counter that these nodes share with others of the cluster.
func (a *Nodes) Volumes() *Volumes { return a.volumes }
