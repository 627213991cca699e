package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestClaimedVersionsAreTried: the chart and the documents claim the versions of Kubernetes that the tests run on, and
// the versions in between.
func TestClaimedVersionsAreTried(t *testing.T) {
	t.Parallel()
	oldest, newest := minor(pinned(t, "sandbox/older/go.mod")), minor(pinned(t, "sandbox/go.mod"))
	for path, claims := range map[string][]string{
		"charts/fettle/Chart.yaml": {`kubeVersion: ">=` + oldest + `.0-0"`},
		"docs/install.md": {
			"You need a cluster of Kubernetes " + oldest + " or later",
			"Fettle's tests run with Kubernetes " + newest + ",",
			"`make test-versions` runs a part of them with Kubernetes " + oldest + ",",
		},
		"README.md": {"Kubernetes " + oldest + " or later"},
	} {
		text := file(t, path)
		for _, claim := range claims {
			if !strings.Contains(text, claim) {
				t.Errorf("%s does not say %q", path, claim)
			}
		}
	}
}

// underTest returns the version of Kubernetes that sandboxes run.
func underTest(t *testing.T) string {
	t.Helper()
	if cluster.OtherAPIServer() != "" {
		return pinned(t, "sandbox/older/go.mod")
	}
	return pinned(t, "sandbox/go.mod")
}

var kubernetesVersion = regexp.MustCompile(`(?m)^(?:require)?\s*k8s\.io/kubernetes (v1\.\d+\.\d+)`)

// pinned returns the version of Kubernetes that a go.mod of the repository requires, such as v1.36.3.
func pinned(t *testing.T, path string) string {
	t.Helper()
	found := kubernetesVersion.FindStringSubmatch(file(t, path))
	if found == nil {
		t.Fatalf("%s requires no Kubernetes", path)
	}
	return found[1]
}

// minor returns the part of a version that documents name, such as 1.36.
func minor(version string) string {
	version = strings.TrimPrefix(version, "v")
	return version[:strings.LastIndexByte(version, '.')]
}

func file(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cluster.Root(), path))
	if err != nil {
		t.Fatalf("reading a file of the repository: %v", err)
	}
	return string(text)
}
