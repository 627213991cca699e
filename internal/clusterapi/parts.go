package clusterapi

import (
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// machineSpec has the fields of a machine's spec that are read: references to its infrastructure and bootstrap
// objects.
type machineSpec struct {
	InfrastructureRef reference `json:"infrastructureRef"`
	Bootstrap         struct {
		ConfigRef *reference `json:"configRef"`
	} `json:"bootstrap"`
}

// reference is a reference of either version. It has a group since v1beta2, and had a group with a version before.
type reference struct {
	APIGroup   string `json:"apiGroup"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// refs are the kinds of a machine's infrastructure and bootstrap objects, each with its group. Nearly all machines
// have the same kinds, so machines share them. The first is nil if the kinds are unknown.
type refs struct{ infrastructure, bootstrap *slim.Pair }

// readSpec reads a spec that could not be decoded as a whole. Kinds that can't be read are unknown.
func readSpec(l rawField) machineSpec {
	var s machineSpec
	if utiljson.Unmarshal(l.body, &s) != nil {
		return machineSpec{}
	}
	return s
}

func (s *machineSpec) refs() refs {
	infrastructure := s.InfrastructureRef.pair()
	if infrastructure == nil || s.Bootstrap.ConfigRef == nil {
		return refs{infrastructure: infrastructure}
	}
	bootstrap := s.Bootstrap.ConfigRef.pair()
	if bootstrap == nil {
		return refs{}
	}
	return refs{infrastructure, bootstrap}
}

// pair returns the group and the kind, or nil if either is missing.
func (r *reference) pair() *slim.Pair {
	group := r.APIGroup
	if old, _, named := strings.Cut(r.APIVersion, "/"); group == "" && named {
		group = old
	}
	if group == "" || r.Kind == "" {
		return nil
	}
	return slim.InternPair(group, r.Kind)
}

// PartsCache stores the kinds that machines consist of. It is not safe for concurrent use. The zero PartsCache is
// empty.
type PartsCache struct {
	known map[refs]*core.Parts
	// last is the answer about lastRefs: of one cluster, most machines in a row have the same.
	lastRefs refs
	// last is the result for lastRefs. Most machines in a row have the same.
	last *core.Parts
}

// maxKnown bounds the combinations of kinds in a cache.
const maxKnown = 64

// Parts returns the kinds of the objects that the machine consists of, or nil if they are unknown. Machines of the
// same kinds share one result.
func (p *PartsCache) Parts(m *Machine) *core.Parts {
	if m.refs != p.lastRefs {
		p.lastRefs, p.last = m.refs, p.find(m.refs)
	}
	return p.last
}

func (p *PartsCache) find(r refs) *core.Parts {
	if r.infrastructure == nil {
		return nil
	}
	if known := p.known[r]; known != nil {
		return known
	}
	if p.known == nil || len(p.known) >= maxKnown {
		p.known = map[refs]*core.Parts{}
	}
	kinds := kindsOf(r)
	parts := &core.Parts{Kinds: kinds[:1]}
	if r.bootstrap != nil {
		parts.Kinds = kinds[:]
	}
	p.known[r] = parts
	return parts
}

// SameParts reports whether two versions of a machine consist of the same kinds.
func (m *Machine) SameParts(other *Machine) bool {
	return kindsOf(m.refs) == kindsOf(other.refs)
}

func kindsOf(r refs) (kinds [2]core.Kind) {
	for i, pair := range [...]*slim.Pair{r.infrastructure, r.bootstrap} {
		if pair != nil {
			kinds[i] = core.Kind{Group: pair.Key(), Kind: pair.Value()}
		}
	}
	return kinds
}
