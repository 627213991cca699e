package clusterapi

import (
	"strings"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fettle-io/fettle/internal/core"
)

// decodeCluster reads a cluster as a watch delivers it.
func decodeCluster(t *testing.T, yaml string) *Cluster {
	t.Helper()
	body, err := utilyaml.ToJSON([]byte("metadata: {name: blue, uid: blue-uid, generation: 3}\n" + yaml))
	c := &Cluster{}
	if err == nil {
		err = c.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("decoding a cluster: %v", err)
	}
	return c
}

// TestUpgrade: a cluster is being upgraded when any sign says so, and not when all say that it is not.
func TestUpgrade(t *testing.T) {
	const (
		steady  = `{type: RollingOut, status: "False", reason: NotRollingOut}`
		managed = "spec: {topology: {version: v1.36.0}}\n"
		topical = `, {type: TopologyReconciled, status: "True", reason: ReconcileSucceeded, observedGeneration: 3}`
	)
	conditions := func(c string) string { return "status: {conditions: [" + c + "]}" }
	topology := func(status, reason string) string {
		return managed + conditions(steady+`, {type: TopologyReconciled, status: "`+status+`", reason: `+reason+`, observedGeneration: 3}`)
	}
	versions := func(list string) string {
		return "status: {conditions: [" + steady + "], controlPlane: " + list + "}"
	}
	for sentence, tc := range map[string]struct {
		yaml string
		is   core.Tri
		why  string
	}{
		"at rest":                           {conditions(steady), core.No, ""},
		"new":                               {"spec: {}", core.Unknown, "Cluster blue has no condition RollingOut"},
		"without v1beta2 conditions":        {conditions(`{type: InfrastructureReady, status: "True"}`), core.Unknown, "Cluster blue has no condition RollingOut"},
		"rolling out":                       {conditions(`{type: RollingOut, status: "True", reason: RollingOut}`), core.Yes, "condition RollingOut of Cluster blue is True"},
		"rolling out or not":                {conditions(`{type: RollingOut, status: Unknown, reason: RollingOutUnknown}`), core.Unknown, "condition RollingOut of Cluster blue is Unknown"},
		"rolling out as a word":             {conditions(`{type: RollingOut, status: perhaps}`), core.Unknown, "is perhaps"},
		"rolling out before it was known":   {managed + conditions(`{type: RollingOut, status: "True"}`), core.Yes, "condition RollingOut of Cluster blue is True"},
		"at rest by its class":              {managed + conditions(steady+topical), core.No, ""},
		"a class, and nothing said":         {managed + conditions(steady), core.Unknown, "Cluster blue has no condition TopologyReconciled"},
		"between two steps":                 {topology("False", "ClusterUpgrading"), core.Yes, "condition TopologyReconciled of Cluster blue is False (ClusterUpgrading)"},
		"between two steps of an earlier":   {managed + conditions(steady+`, {type: TopologyReconciled, status: "False", reason: ClusterUpgrading, observedGeneration: 2}`), core.Yes, "(ClusterUpgrading)"},
		"a class that was followed":         {managed + conditions(steady+`, {type: TopologyReconciled, status: "True", reason: ClusterUpgrading, observedGeneration: 3}`), core.No, ""},
		"machine deployments deferred":      {topology("False", "MachineDeploymentsUpgradeDeferred"), core.No, ""},
		"machine pools deferred":            {topology("False", "MachinePoolsUpgradeDeferred"), core.No, ""},
		"a class that can't be followed":    {topology("False", "ReconcileFailed"), core.Unknown, "is False (ReconcileFailed)"},
		"by an older Cluster API":           {topology("False", "ControlPlaneUpgradePending"), core.Unknown, "is False (ControlPlaneUpgradePending)"},
		"a class of which nothing known":    {topology("Unknown", "InternalError"), core.Unknown, "is Unknown (InternalError)"},
		"another version just requested":    {managed + conditions(steady+strings.Replace(topical, "3", "2", 1)), core.Unknown, "condition TopologyReconciled of Cluster blue is about an earlier specification"},
		"a class that does not say of what": {managed + conditions(steady+strings.Replace(topical, ", observedGeneration: 3", "", 1)), core.No, ""},
		"a word of a class, without one":    {conditions(steady + `, {type: TopologyReconciled, status: "False", reason: ClusterUpgrading}`), core.No, ""},
		"one version":                       {versions("{versions: [{version: v1.35.1, replicas: 3}]}"), core.No, ""},
		"no version":                        {versions("{replicas: 3}"), core.No, ""},
		"nothing of the control plane":      {versions("null"), core.No, ""},
		"two versions":                      {versions("{versions: [{version: v1.35.1, replicas: 2}, {version: v1.36.0, replicas: 1}]}"), core.Yes, "the control plane of Cluster blue has several versions"},
		"one version twice":                 {versions("{versions: [{version: v1.35.1}, {version: v1.35.1}]}"), core.No, ""},
		"versions that can't be read":       {versions("{versions: many}"), core.Unknown, "status.controlPlane of Cluster blue can't be read"},
		"a specification that is none":      {"spec: 7\n" + conditions(steady), core.Unknown, ""},
		"a status that is none":             {"status: 7", core.Unknown, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := decodeCluster(t, tc.yaml)
			if got.Upgrade.Is != tc.is || !strings.Contains(got.Upgrade.Why, tc.why) {
				t.Errorf("it is being upgraded: %s (%s), want %s (%s)", got.Upgrade.Is, got.Upgrade.Why, tc.is, tc.why)
			}
		})
	}
}

// TestUpgradesMatter: the cluster is looked at again when an upgrade begins, and not for what no decision reads.
func TestUpgradesMatter(t *testing.T) {
	at := func(status, message string) *Cluster {
		return decodeCluster(t, `status: {conditions: [{type: RollingOut, status: "`+status+`", message: "`+message+`"}]}`)
	}
	if was := at("False", ""); !was.Same(at("False", "again")) || was.Same(at("True", "")) {
		t.Error("an upgrade that begins counts as nothing, or a message as something")
	}
}

// TestI15WordsOfUpgradesAreBounded: who may write the status of a Cluster may write anything there.
func TestI15WordsOfUpgradesAreBounded(t *testing.T) {
	long := strings.Repeat("long", 20000)
	for _, c := range []string{
		`{type: RollingOut, status: ` + long + `}`,
		`{type: RollingOut, status: "False"}, {type: TopologyReconciled, status: "False", reason: ` + long + `}`,
	} {
		got := decodeCluster(t, "spec: {topology: {}}\nstatus: {conditions: ["+c+"]}").Upgrade
		if got.Is != core.Unknown || len(got.Why) > 256 {
			t.Errorf("it is being upgraded: %s, for a reason of %d bytes", got.Is, len(got.Why))
		}
	}
}
