package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/test/cluster"
)

// The kinds of a provider's remediator. Cluster API's manager aggregates the role of its manager.
const (
	providersGroup       = "infrastructure.x.example"
	providersRemediation = "XRemediation"
)

// TestRightsOnClusterAPI: Fettle has the rights that it uses for Cluster API and no others. It runs beside the roles of
// Cluster API and its providers, and with the Secrets of one namespace.
func TestRightsOnClusterAPI(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, clusterAPIOnly())
	c.InstallProvidersRoles(t)
	c.InstallFettleForNodes(t)
	c.Namespace(t, "rights")
	c.AllowClusterAPIIn(t, "rights")
	fettle := c.StartFettle(t)
	h := newClusterFixture(t, c, c, "rights")
	h.running("a", "b")
	h.healthCheck()
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.wantEvent("a", "MachineMarkedUnhealthy")
	h.machineChangesAllTheTime()
	h.template()
	h.changeCheck(`{"spec":{"remediation":{"templateRef":{"apiVersion":"` + remediators + `","kind":"` + rebooting + `Template","name":"reboot"}}}}`)
	h.fail("b")
	h.wantMachine("b", externally, "False/WaitingForRemediation")
	asksAProvider(h)
	secretIsElsewhere(newClusterFixture(t, c, c, "elsewhere"))
	fettle.Stop(t)

	effective, uses := c.Effective(t), c.Uses(t)
	wantAllAllowed(t, effective, slices.DeleteFunc(slices.Clone(uses), isRefusedHere))
	others := c.Granted(t, func(role string) bool { return !strings.HasPrefix(role, cluster.ClusterAPIRoles) })
	wantAllUsed(t, effective, uses, func(r cluster.Right) bool { return slices.Contains(others, r) })
}

// isRefusedHere reports whether this story withholds a right that Fettle tried to use.
func isRefusedHere(u cluster.Use) bool {
	return !u.Allowed && (u.Group == providersGroup || u.Resource == "secrets" && u.Namespace == "elsewhere")
}

// grantedByHand grants Fettle the kinds of one template.
const grantedByHand = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: fettle-asks-x, labels: {fettle.io/aggregate-to-fettle: "true"}}
rules:
- {apiGroups: [infrastructure.x.example], resources: [xremediationtemplates], verbs: [list, watch]}
- {apiGroups: [infrastructure.x.example], resources: [xremediations], verbs: [list, watch, create]}
`

// asksAProvider: the role of a provider's manager grants Fettle nothing, and the machine says which right is missing.
func asksAProvider(h *clusterFixture) {
	for kind, names := range map[string]string{providersRemediation: "xremediations", providersRemediation + "Template": "xremediationtemplates"} {
		h.management.Apply(h.t, strings.NewReplacer("GROUP", providersGroup, "SCOPE", "Namespaced", "KIND", kind, "NAMES", names, "NAME", strings.ToLower(kind)).Replace(madeKinds))
	}
	h.management.Apply(h.t, "apiVersion: "+providersGroup+"/v1\nkind: "+providersRemediation+"Template\nmetadata: {name: x, namespace: "+h.namespace+"}\nspec: {template: {spec: {a: b}}}")
	h.changeCheck(`{"spec":{"remediation":{"templateRef":{"apiVersion":"` + providersGroup + `/v1","kind":"` + providersRemediation + `Template","name":"x"}}}}`)
	h.running("c")
	h.fail("c")
	h.wantMachine("c", externally, "False/RemediationRequestCreationFailed", "create a ClusterRole with the label fettle.io/aggregate-to-fettle=true")
	h.management.Apply(h.t, grantedByHand)
	h.wantMachine("c", externally, "False/WaitingForRemediation")
}

// secretIsElsewhere: a cluster whose Secret Fettle may not read is unknown, and its health check names the missing
// right.
func secretIsElsewhere(h *clusterFixture) {
	h.running("d")
	h.healthCheck()
	h.wantCheck("RemediationAllowed", "Unknown/ConnectionDown", "may not read Secret elsewhere/c-kubeconfig", "ClusterRole fettle-cluster-api-kubeconfigs", "in namespace elsewhere")
}

// machineChangesAllTheTime: Fettle withdraws marks of a machine that other clients write to meanwhile, until it has
// read the machine again for that.
func (h *clusterFixture) machineChangesAllTheTime() {
	h.t.Helper()
	read := cluster.Right{Group: clusterv1.GroupVersion.Group, Resource: "machines", Verb: "get"}
	h.management.Eventually(h.t, "a machine is read anew", func(context.Context) error {
		h.recover("a")
		for i := range 30 {
			h.annotate("a", fmt.Sprintf("example.org/change-%d", i%3))
			h.annotate("a", fmt.Sprintf("-example.org/change-%d", i%3))
		}
		h.wantMachine("a", byOwner, "")
		if slices.ContainsFunc(h.management.Uses(h.t), func(u cluster.Use) bool { return read.Covers(u.Right) }) {
			return nil
		}
		h.fail("a")
		h.wantMarked("a", "UnhealthyNode")
		return errors.New("it was never in the way")
	})
}
