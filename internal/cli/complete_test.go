package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/google/go-cmp/cmp"
)

// TestCompletion: a shell is offered kinds, and then names from the cluster, and none where the cluster does not answer.
func TestCompletion(t *testing.T) {
	f := startManagementCluster(t)
	f.ended()
	f.workloads()
	f.serve()
	none := "--kubeconfig /none "
	for line, want := range map[string]string{
		"explain _":                       "machine/ node/ repair/ nodehealthcheck/ machinehealthcheck/ :6",
		"explain no_":                     "node/ nodehealthcheck/ :6",
		"explain x_":                      ":6",
		"explain machine/_":               "machine/worker-a machine/worker-b machine/worker-c :4",
		"explain Machines/worker-b_":      "Machines/worker-b :4",
		"explain machine worker-_":        "worker-a worker-b worker-c :4",
		"explain machine -n fleets _":     "east-a east-b east-c west-a west-b west-c :4",
		"explain machine worker-a worke_": ":4",
		"explain machine/worker-a worke_": ":4",
		"explain pod/_":                   ":4",
		"explain machine.machine.openshift.io/worker-a worke_": ":4",
		"explain no node-f_":                                 "node-free :4",
		"explain mhc -A _":                                   "example east west :4",
		"explain repair/_":                                   "repair/" + repairOf("worker-b", "uid-b") + " :4",
		"explain " + none + "machine/_":                      ":4",
		"status --context _":                                 "elsewhere here :4",
		"status --context e_":                                "elsewhere :4",
		"status --kubeconfig " + "fleet_test.go --context _": ":4",
		"status -n _":                                        "machines other :4",
		"status --namespace o_":                              "other :4",
		"status " + none + "-n _":                            ":4",
		"status -o j_":                                       "json yaml :4",
	} {
		var out strings.Builder
		root := &cobra.Command{Use: "fettle", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(Commands(testOptions(f.now))...)
		words := strings.Fields(strings.TrimSuffix(line, "_"))
		if strings.HasSuffix(line, " _") {
			words = append(words, "")
		}
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, words...))
		root.SetOut(&out)
		root.SetErr(&strings.Builder{})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, strings.Join(strings.Fields(out.String()), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}
