package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	// onlyMetadata asks for the metadata of an object.
	onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

var errPolicy = errors.New("the FencePolicy has settings that this agent doesn't know, or that are out of bounds")

// Find implements Policies.
func (f *FencePolicies) Find(ctx context.Context) (Settings, bool, error) {
	// What the API server has in memory is recent enough, and costs it little.
	recent := url.Values{"resourceVersion": {"0"}}
	var list fencePolicyList
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

// lead returns the settings of the policy that leads for a node with labels: the oldest that selects it, and then the first by name.
func lead(all []fencePolicy, of map[string]string) (Settings, bool, error) {
	slices.SortFunc(all, func(a, b fencePolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range all {
		selector, err := metav1.LabelSelectorAsSelector(&all[i].Spec.NodeSelector)
		if err != nil {
			return Settings{}, false, fmt.Errorf("reading the selector of a FencePolicy: %w", err)
		}
		if selector.Matches(labels.Set(of)) {
			s, err := settingsOf(all[i].Spec)
			return s, err == nil, err
		}
	}
	return Settings{}, false, nil
}

// fencePolicy is a FencePolicy of fettle.io/v1alpha1.
type fencePolicy struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec fencePolicySpec `json:"spec"`
}

type fencePolicyList struct {
	Items []fencePolicy `json:"items"`
}

type fencePolicySpec struct {
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
	Watchdog     struct {
		Device              string          `json:"device"`
		Timeout             metav1.Duration `json:"timeout"`
		Kind                string          `json:"kind"`
		AllowVirtualMachine bool            `json:"allowVirtualMachine"`
	} `json:"watchdog"`
	Renewal     metav1.Duration `json:"renewal"`
	Validity    metav1.Duration `json:"validity"`
	OnIsolation string          `json:"onIsolation"`
	Witnesses   int             `json:"witnesses"`
}

// settingsOf returns the settings of a policy. A value that this agent doesn't know is an error: it may be a demand of a later version.
func settingsOf(p fencePolicySpec) (Settings, error) {
	s := Settings{
		Watchdog: Watchdog{
			Device: p.Watchdog.Device, Timeout: p.Watchdog.Timeout.Duration, Any: p.Watchdog.Kind == "Any", Virtual: p.Watchdog.AllowVirtualMachine,
		},
		Renewal: p.Renewal.Duration, Validity: p.Validity.Duration, Reset: p.OnIsolation == "Reset", Witnesses: p.Witnesses,
	}
	known := (s.Watchdog.Any || p.Watchdog.Kind == "Hardware") && (s.Reset || p.OnIsolation == "Hold")
	if !known || !s.Valid() {
		return Settings{}, errPolicy
	}
	return s, nil
}
