package powercycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// Annotations that name other objects. Kubelets may not write those of nodes.
const (
	machineAnnotation = fencednode.MachineAnnotation
	hostAnnotation    = "metal3.io/BareMetalHost"
)

// subject is what a remediation is for.
type subject struct {
	// node is nil if there is none of that name, or while that of a workload cluster was not read.
	node    *corev1.Node
	readAt  time.Time // when the read of the node began
	name    string
	bmc     *v1alpha1.BMC
	machine *v1alpha1.ObjectReference
	// cluster and nodes are those of the workload cluster that the node belongs to, if it belongs to one.
	cluster fencedCluster
	nodes   *fencednode.Nodes
	// waits is why the remediation can't start yet.
	waits problem
}

// identify finds the node of a remediation, its BMC and its machine, or returns why it can't start. A node of a workload cluster is not read.
func (c *Client) identify(ctx context.Context, r *v1alpha1.PowerRemediation) (subject, problem, error) {
	if c.isForClusterAPI(r) {
		return c.identifyMachine(ctx, r)
	}
	if found := problemOf(fencednode.OrphanMismatch(r)); found.found() {
		return subject{}, found, nil
	}
	name, found, err := c.nodeNameOf(ctx, r)
	if found.found() || err != nil {
		return subject{}, found, err
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return subject{}, problem{reason: v1alpha1.CannotStartNodeNotFoundReason, message: "no node can be called " + name + ": " + strings.Join(wrong, "; ")}, nil
	}
	s := subject{name: name, readAt: c.Now()}
	if s.node, err = c.nodes.Get(ctx, name); err != nil {
		return s, problem{}, err
	}
	if s.node != nil && !s.node.CreationTimestamp.Time.Before(r.CreationTimestamp.Time) {
		return s, problem{reason: v1alpha1.CannotStartNodeIsNewerReason, message: "node " + name + " is not older than this remediation, so it was not meant"}, nil
	}
	if found := problemOf(fencednode.MachineMismatch(r, name, s.node)); found.found() {
		return s, found, nil
	}
	if s.bmc, found = c.bmcs.find(name); found.found() {
		return s, found, nil
	}
	if found := systemMismatch(s.bmc, s.node); found.found() {
		return s, found, nil
	}
	s.machine, err = c.machineOf(ctx, s.node)
	return s, problem{}, err
}

// nodeNameOf returns the name of the node that a remediation is for.
func (c *Client) nodeNameOf(ctx context.Context, r *v1alpha1.PowerRemediation) (string, problem, error) {
	name, found, err := c.machines.NodeNameOf(ctx, r)
	return name, problemOf(found), err
}

func (c *Client) get(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	u, err := c.getServed(ctx, kind, key)
	if apierrors.IsNotFound(err) || isNotServed(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	return u, err
}

// getServed reads an object of a kind that the cluster has to serve.
func (c *Client) getServed(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	if err := c.Live.Get(ctx, key, u); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
	}
	return u, nil
}
