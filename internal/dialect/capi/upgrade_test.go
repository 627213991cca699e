package capi

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

const waiting = `metadata: {annotations: {fettle.io/wait-for-upgrades: "true"}}`

// rolling sets the condition RollingOut of blue.
func rolling(status string) string {
	return `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-01T00:00:00Z"},
		{type: ControlPlaneInitialized, status: "True", lastTransitionTime: "2026-08-01T00:10:00Z"}, {type: RollingOut, status: "` + status + `"}]}`
}

// TestUpgradesAreWaitedFor: a health check that waits for upgrades starts repairs only when its Cluster says that there
// is none.
func TestUpgradesAreWaitedFor(t *testing.T) {
	const is = "is unhealthy (UnhealthyCondition)"
	for sentence, c := range map[string]struct {
		check, cluster string
		starts         int
		says           string
	}{
		"an upgrade":                {waiting, rolling("True"), 0, is + " and held back by ClusterUpgrading (condition RollingOut of Cluster blue is True)"},
		"none":                      {waiting, rolling("False"), 1, ""},
		"not known":                 {waiting, rolling("Unknown"), 0, is + " and held back by ClusterUpgrading (condition RollingOut of Cluster blue is Unknown)"},
		"nothing said":              {waiting, "{}", 0, is + " and held back by ClusterUpgrading (Cluster blue has no condition RollingOut)"},
		"an upgrade, and no wait":   {"{}", rolling("True"), 1, ""},
		"nothing said, and no wait": {"{}", "{}", 1, ""},
		"an upgrade, and a wait that is declined": {strings.Replace(waiting, "true", "false", 1), rolling("True"), 1, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := settle(t, c.check)
			s.show(theCluster(t, c.cluster))
			s.nodes.has("False", ago(time.Hour), "a-node")
			o, d := s.pass()
			if len(d.Starts) != c.starts {
				t.Errorf("it starts %d repairs, want %d; the cluster is being upgraded: %s", len(d.Starts), c.starts, o.Upgrading)
			}
			allowed := meta.FindStatusCondition(s.statusOf("check").Conditions, "RemediationAllowed")
			if allowed == nil || !strings.Contains(allowed.Message, c.says) {
				t.Errorf("the condition is %+v, want %q", allowed, c.says)
			}
		})
	}
}

// TestUpgradesOfOtherClusters hold nothing back.
func TestUpgradesOfOtherClusters(t *testing.T) {
	s := settle(t, waiting)
	green := "metadata: {name: green, uid: green-uid}"
	s.show(theCluster(t, rolling("False")), theCluster(t, green, rolling("True")), aCheck(t, "green-check", waiting, "spec: {clusterName: green}"))
	s.nodes.has("False", ago(time.Hour), "a-node")
	if _, d := s.pass(); len(d.Starts) != 1 {
		t.Errorf("it starts %d repairs; refusals: %v", len(d.Starts), d.Refusals)
	}
	other, err := s.client.Dialect(types.NamespacedName{Namespace: blue.Namespace, Name: "green"}, s.nodes).Observe()
	if err != nil || other.Upgrading != core.Yes {
		t.Errorf("the other is being upgraded: %s, %v", other.Upgrading, err)
	}
}

// TestUpgradeOfNoCluster is unknown.
func TestUpgradeOfNoCluster(t *testing.T) {
	s := begin(t).show(aMachine(t, "a"))
	if o := s.observe(); o.Observed != core.Yes || o.Upgrading != core.Unknown {
		t.Errorf("it is observed: %s, and being upgraded: %s", o.Observed, o.Upgrading)
	}
}
