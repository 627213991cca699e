package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// large are packages that may not be linked, also through others. A name that ends with a slash has all packages below it.
var large = []string{
	"github.com/fettle-io/fettle/internal/cli", "github.com/fettle-io/fettle/internal/core", "github.com/fettle-io/fettle/internal/engine",
	"github.com/fettle-io/fettle/internal/informer", "github.com/fettle-io/fettle/internal/dialect/", "github.com/fettle-io/fettle/internal/remediator/",
	"github.com/prometheus/", "github.com/spf13/cobra", "google.golang.org/", "html/template", "k8s.io/api/", "k8s.io/apiextensions-apiserver/",
	"k8s.io/apiserver/", "k8s.io/client-go/dynamic", "k8s.io/client-go/informers", "k8s.io/client-go/kubernetes", "k8s.io/client-go/kubernetes/",
	"k8s.io/client-go/tools/cache", "os/exec", "plugin", "sigs.k8s.io/cluster-api/", "sigs.k8s.io/controller-runtime/", "text/template",
}

// linked are packages of large modules that are linked all the same, with the reason.
var linked = map[string]string{
	"k8s.io/api/coordination/v1": "the controller and the agent read and write Leases alike",
	"os/exec":                    "client-go's plug-ins for credentials, which a kubeconfig may name and a pod has none of",
}

// TestImports: the agent has all that it links in memory, on each node. With text/template or plugin, the linker would keep each method of each type.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("listing the packages: %v", err)
	}
	imported := strings.Fields(string(out))
	for _, path := range imported {
		isLarge := slices.ContainsFunc(large, func(l string) bool { return path == l || strings.HasSuffix(l, "/") && strings.HasPrefix(path, l) })
		if _, is := linked[path]; isLarge && !is {
			t.Errorf("it links %s", path)
		}
	}
	for path := range linked {
		if !slices.Contains(imported, path) {
			t.Errorf("it no longer links %s", path)
		}
	}
}
