package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestConnection: each request names the command, and what the API server warns of is not logged.
func TestConnection(t *testing.T) {
	f := startManagementCluster(t)
	f.serve()
	var lock sync.Mutex
	agents := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		agents[r.UserAgent()] = true
		lock.Unlock()
		w.Header().Set("Warning", `299 - "it is deprecated"`)
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var logged strings.Builder
	logger := funcr.New(func(_, text string) { logged.WriteString(text) }, funcr.Options{})
	root := &cobra.Command{Use: "fettle", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(testOptions(f.now))...)
	root.SetArgs([]string{"status", "--server", server.URL})
	root.SetOut(&strings.Builder{})
	if err := root.ExecuteContext(log.IntoContext(t.Context(), logger)); err != nil {
		t.Fatal(err)
	}
	if len(agents) != 1 || !agents["test"] {
		t.Errorf("the requests are of %v", agents)
	}
	if logged.String() != "" {
		t.Errorf("it logs %s", logged.String())
	}
}

// TestNoConnection: a command says which part of a configuration is of no use.
func TestNoConnection(t *testing.T) {
	f := startManagementCluster(t)
	f.serve()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: bm9uc2Vuc2U=}}]\n" +
		"users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"status --kubeconfig /none":    "finding the namespace to look in: ",
		"status --kubeconfig /none -A": "finding the cluster (is --kubeconfig, or $KUBECONFIG, right?): ",
		"status --kubeconfig " + path:  "preparing the connection to the cluster: ",
	} {
		if got := f.run(line); !strings.HasPrefix(got, "$ fettle "+line+"\nerror: "+want) {
			t.Errorf("%s", got)
		}
	}
}
