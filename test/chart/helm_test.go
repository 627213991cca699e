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

// imageSet is the one value that the chart requires. The image is that of config.
const imageSet = "image.repository=fettle.invalid/fettle"

func chartDir() string { return filepath.Join(cluster.Root(), "charts", "fettle") }

// helm runs helm with its own home directory, and returns its output or its error.
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
