package selffence

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/test/cluster"
)

// fit checks that each agent, with what it has locked, is in the memory that its DaemonSet requests.
func (w *world) fit(t *testing.T) {
	t.Helper()
	var set appsv1.DaemonSet
	for _, u := range cluster.Kustomization(t, "config/selffence") {
		if u.GetKind() == "DaemonSet" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &set); err != nil {
				t.Fatalf("reading the DaemonSet: %v", err)
			}
		}
	}
	requested := set.Spec.Template.Spec.Containers[0].Resources.Requests.Memory().Value()
	for _, m := range w.nodes {
		used := resident(t, m.part.AgentKubeconfig)
		t.Logf("the agent of %s has %.1f MiB in memory", m.part.Node, float64(used)/(1<<20))
		if used == 0 || used > requested {
			t.Errorf("the agent of %s has %d bytes in memory, and requests %d", m.part.Node, used, requested)
		}
	}
}

// resident returns how many bytes the program has in memory that was started with an argument, or zero.
func resident(t *testing.T, argument string) int64 {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		args, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // it may have ended
		if !bytes.Contains(args, []byte("\x00"+argument+"\x00")) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(folder, "status"))
		if err != nil {
			t.Fatalf("reading what an agent uses: %v", err)
		}
		kilobytes := regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`).FindSubmatch(status)
		if kilobytes == nil {
			t.Fatalf("the status of an agent says nothing of memory: %s", status)
		}
		n, err := strconv.ParseInt(string(kilobytes[1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n << 10
	}
	return 0
}
