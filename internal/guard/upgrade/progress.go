package upgrade

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/lenient"
)

// status is what is read of the status of a ClusterVersion.
type status struct {
	Conditions []struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	} `json:"conditions"`
}

// Trim leaves of a ClusterVersion what Progressing reads. The rest grows with each update that is offered.
func Trim(u *unstructured.Unstructured) {
	if u.GroupVersionKind() != VersionKind {
		return
	}
	delete(u.Object, "spec")
	if whole, is := u.Object["status"].(map[string]any); is {
		u.Object["status"] = map[string]any{"conditions": whole["conditions"]}
	}
}

// Progressing tells whether a ClusterVersion is on its way to another version. One whose conditions can't be
// read is taken to be, since what waits for an upgrade had better wait for nothing than not wait.
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
