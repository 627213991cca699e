package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

const (
	release   = "fettle"
	namespace = "fettle-system"
)

// imageSet is the value without which the chart renders nothing; it is the image that config names.
const imageSet = "image.repository=fettle.invalid/fettle"

func chartDir() string { return filepath.Join(cluster.Root(), "charts", "fettle") }

// helm runs helm in a home of its own, and gives its output or its complaint.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, complaint bytes.Buffer
	cmd := exec.Command(cluster.Tool(t, "helm"), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %v: %w: %s", args, err, complaint.String())
	}
	return out.String(), nil
}

func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
