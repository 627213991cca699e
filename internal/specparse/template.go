package specparse

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/lenient"
)

// readGroups are the API groups that Fettle itself reads. Remediators have no kinds in them.
var readGroups = []string{"machine.openshift.io", "config.openshift.io", "cluster.x-k8s.io"} //nolint:gochecknoglobals // a constant table

// readKinds are the kinds that Fettle itself reads in groups of remediators.
var readKinds = []schema.GroupKind{ //nolint:gochecknoglobals // a constant table
	{Group: "remediation.medik8s.io", Kind: "NodeHealthCheck"}, {Group: "fettle.io", Kind: "Repair"},
}

// The groups of Cluster API's providers. Remediators of infrastructure have their kinds in infrastructureGroup too.
const (
	providerSuffix      = ".cluster.x-k8s.io"
	infrastructureGroup = "infrastructure" + providerSuffix
)

// partSuffixes end the names of the kinds of infrastructureGroup that machines and clusters consist of.
var partSuffixes = []string{"Machine", "MachinePool", "Cluster"} //nolint:gochecknoglobals // a constant table

const templateSuffix = "Template"

// RequestKind returns an error for a kind that can't be the template of a remediator in any cluster. The objects
// made from it would be Kubernetes' own, or objects that Fettle itself reads, or parts of machines. Fettle must not
// watch, create or delete them. The text of the error follows the name of the field and "is".
func RequestKind(apiVersion, kind string) error {
	why := ""
	version, _ := schema.ParseGroupVersion(apiVersion) // without a version for text that is none
	if version.Version != "" {
		why = reserved(schema.GroupKind{Group: version.Group, Kind: strings.TrimSuffix(kind, templateSuffix)})
	}
	if why == "" { // other rules refuse what is no apiVersion
		return nil
	}
	return fmt.Errorf("%s of %s, which can't be the template of a remediator, since %s; name a template that a remediator has brought",
		lenient.Quote(kind), lenient.Quote(apiVersion), why)
}

// reserved returns why no request can have a kind. It is empty for kinds that remediators may have.
func reserved(made schema.GroupKind) string {
	switch {
	case builtIn(made.Group):
		return "its API group is one of Kubernetes itself"
	case slices.Contains(readGroups, made.Group), slices.Contains(readKinds, made):
		return "Fettle itself reads the kinds that it stands for"
	case made.Group == infrastructureGroup && hasAnySuffix(made.Kind, partSuffixes):
		return "machines and clusters are made of such objects"
	case made.Group != infrastructureGroup && strings.HasSuffix(made.Group, providerSuffix):
		return "machines and clusters are made of the objects of its API group"
	}
	return ""
}

// builtIn reports whether an API group is one of Kubernetes itself. The group of a custom resource has a dot.
// Groups that end in k8s.io or kubernetes.io are reserved for Kubernetes, and those of Cluster API end in x-k8s.io.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || hasAnySuffix("."+group, []string{".k8s.io", ".kubernetes.io"})
}

func hasAnySuffix(s string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(s, suffix) })
}
