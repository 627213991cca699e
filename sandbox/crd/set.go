package crd

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml clusterapi/*_*.yaml
var manifests embed.FS

// Set names definitions that belong together.
type Set int

// The sets.
const (
	// MachineAPI has Machine, MachineSet and Instance.
	MachineAPI Set = iota + 1
	// Remediators has the remediations of nodes and their templates.
	Remediators
	// Provider has the simulated providers of Cluster API.
	Provider
	// ClusterAPI has Cluster API's own kinds, and the control plane that it comes with.
	ClusterAPI
	// Metal3 has BareMetalHost.
	Metal3
)

// setOf returns the set of a definition.
func setOf(definition *apiextensionsv1.CustomResourceDefinition) Set {
	switch kind := definition.Spec.Names.Kind; {
	case strings.HasSuffix(definition.Spec.Group, "cluster.x-k8s.io"):
		return ClusterAPI
	case definition.Spec.Group == "metal3.io":
		return Metal3
	case strings.HasPrefix(kind, "Sandbox"):
		return Provider
	case strings.Contains(kind, "Remediation"):
		return Remediators
	default:
		return MachineAPI
	}
}

// Definitions returns the generated definitions of a set.
func Definitions(set Set) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	definitions, err := read()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return setOf(d) != set }), nil
}

func read() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, dir := range []string{".", "clusterapi"} {
		entries, err := manifests.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("listing the embedded definitions: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() {
				continue
			}
			definition, err := parse(path.Join(dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			definitions = append(definitions, definition)
		}
	}
	return definitions, nil
}

func parse(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := manifests.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the embedded %s: %w", file, err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, definition); err != nil {
		return nil, fmt.Errorf("parsing the embedded %s: %w", file, err)
	}
	return definition, nil
}
