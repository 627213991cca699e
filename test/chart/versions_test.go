package chart

import (
	"strings"
	"testing"
)

// TestOlderKubernetesIsRefused: where the API server lacks a feature that Fettle needs, Helm says so and installs
// nothing.
func TestOlderKubernetesIsRefused(t *testing.T) {
	t.Parallel()
	template := []string{"template", release, chartDir(), "--set", imageSet, "--kube-version"}
	_, err := helm(t, append(template, "1.29.9")...)
	if want := "chart requires kubeVersion: >=1.30.0-0 which is incompatible with Kubernetes v1.29.9"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Kubernetes 1.29 gets %v, want %q", err, want)
	}
	// OpenShift and cloud providers add to the version.
	for _, version := range []string{"1.30.0", "1.30.14-gke.100", "1.36.3"} {
		if _, err := helm(t, append(template, version)...); err != nil {
			t.Errorf("Kubernetes %s is refused: %v", version, err)
		}
	}
}
