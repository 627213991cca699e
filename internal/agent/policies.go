package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fettlev1 "github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencepolicy"
)

// FencePolicies finds the FencePolicy that selects a node.
type FencePolicies struct {
	server *Server
	node   string
}

// NewFencePolicies returns the policies of a node.
func NewFencePolicies(s *Server, node string) *FencePolicies { return &FencePolicies{s, node} }

const (
	policies = "/apis/fettle.io/v1alpha1/fencepolicies"
	nodes    = "/api/v1/nodes"
	// onlyMetadata requests the metadata of an object.
	onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

var errPolicy = errors.New("the FencePolicy has settings that this agent doesn't know, or that are out of bounds")

// Find implements Policies.
func (f *FencePolicies) Find(ctx context.Context) (Settings, bool, error) {
	// A read from the memory of the API server is recent enough, and costs it little.
	recent := url.Values{"resourceVersion": {"0"}}
	var list fettlev1.FencePolicyList
	if err := f.server.do(ctx, call{method: http.MethodGet, path: policies, query: recent}, &list); err != nil {
		return Settings{}, false, fmt.Errorf("listing FencePolicies: %w", err)
	}
	if len(list.Items) == 0 {
		return Settings{}, false, nil
	}
	var node metav1.PartialObjectMetadata
	if err := f.server.do(ctx, call{method: http.MethodGet, path: path.Join(nodes, f.node), query: recent, accept: onlyMetadata}, &node); err != nil {
		return Settings{}, false, fmt.Errorf("reading the labels of the node: %w", err)
	}
	return lead(list.Items, node.Labels)
}

// lead returns the settings of the policy that applies to a node with labels.
func lead(all []fettlev1.FencePolicy, of map[string]string) (Settings, bool, error) {
	policy, err := fencepolicy.NewRule(all).Applies(labels.Set(of))
	if policy == nil || err != nil {
		return Settings{}, false, err
	}
	s, err := settingsOf(policy.Spec)
	return s, err == nil, err
}

// settingsOf returns the settings of a policy. A value that is missing, or that this agent doesn't know, is an error: a later version may demand
// something else.
func settingsOf(p fettlev1.FencePolicySpec) (Settings, error) {
	w := p.Watchdog
	if w.Timeout == nil || p.Renewal == nil || p.Validity == nil || p.Witnesses == nil {
		return Settings{}, errPolicy
	}
	s := Settings{
		Watchdog: Watchdog{Device: w.Device, Timeout: w.Timeout.Duration, Any: w.Kind == fettlev1.AnyWatchdog, Virtual: w.AllowVirtualMachines},
		Renewal:  p.Renewal.Duration, Validity: p.Validity.Duration, Reset: p.OnIsolation == fettlev1.ResetOnIsolation, Witnesses: int(*p.Witnesses),
	}
	known := (s.Watchdog.Any || w.Kind == fettlev1.HardwareWatchdog) && (s.Reset || p.OnIsolation == fettlev1.HoldOnIsolation)
	if !known || !s.Valid() {
		return Settings{}, errPolicy
	}
	return s, nil
}
