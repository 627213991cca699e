package upgrade

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/lenient"
)

// status has the fields of a ClusterVersion's status that are read.
type status struct {
	Conditions []struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	} `json:"conditions"`
}

// Trim removes the fields of a ClusterVersion that Progressing doesn't read. The others grow
// with each available update.
func Trim(u *unstructured.Unstructured) {
	if u.GroupVersionKind() != VersionKind {
		return
	}
	delete(u.Object, "spec")
	if whole, is := u.Object["status"].(map[string]any); is {
		u.Object["status"] = map[string]any{"conditions": whole["conditions"]}
	}
}

// Progressing reports whether a ClusterVersion moves to another version. It returns true if the
// conditions can't be read: a repair that waits without need is safer than one during an upgrade.
func Progressing(version *unstructured.Unstructured) bool {
	s, problems := lenient.Part[status](version.Object, "status")
	if len(problems) > 0 {
		return true
	}
	for _, c := range s.Conditions {
		if c.Type == "Progressing" {
			return c.Status == "True"
		}
	}
	return false
}
