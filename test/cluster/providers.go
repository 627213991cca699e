package cluster

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// providersRoles have the shape and the labels of three providers' roles: Cluster API's core, its kubeadm control
// plane, and an infrastructure provider with its own API group.
const providersRoles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: capi-aggregated-manager-role}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {cluster.x-k8s.io/aggregate-to-manager: "true"}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: capi-manager-role, labels: {cluster.x-k8s.io/aggregate-to-manager: "true"}}
rules:
- {apiGroups: [""], resources: [secrets, configmaps], verbs: [create, delete, get, list, patch, update, watch]}
- apiGroups: [bootstrap.cluster.x-k8s.io, controlplane.cluster.x-k8s.io, infrastructure.cluster.x-k8s.io]
  resources: ["*"]
  verbs: [create, delete, get, list, patch, update, watch]
- {apiGroups: [cluster.x-k8s.io], resources: [machines, machinesets, machinedeployments], verbs: [create, delete, get, list, patch, update, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: capi-kubeadm-control-plane-aggregated-manager-role}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager: "true"}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: capi-kubeadm-control-plane-manager-role, labels: {kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager: "true"}}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [create, delete, get, list, patch, update, watch]}
- {apiGroups: [cluster.x-k8s.io], resources: [machines], verbs: [create, delete, get, list, patch, update, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: capx-manager-role, labels: {cluster.x-k8s.io/aggregate-to-manager: "true", cluster.x-k8s.io/provider: infrastructure-x}}
rules:
- {apiGroups: [infrastructure.x.example], resources: [xmachines, xmachinetemplates, xremediations, xremediationtemplates], verbs: [create, delete, get, list, patch, update, watch]}
`

// InstallProvidersRoles adds the roles of Cluster API and its providers. It waits until the cluster has filled in the
// aggregated roles.
func (c *Cluster) InstallProvidersRoles(t testing.TB) {
	t.Helper()
	c.Apply(t, providersRoles)
	for _, name := range []string{"capi-aggregated-manager-role", "capi-kubeadm-control-plane-aggregated-manager-role"} {
		c.Eventually(t, "ClusterRole "+name+" is filled in", func(ctx context.Context) error {
			var role rbacv1.ClusterRole
			if err := c.Get(ctx, client.ObjectKey{Name: name}, &role); err != nil {
				return err
			}
			if len(role.Rules) == 0 {
				return errors.New("it has no rules")
			}
			return nil
		})
	}
}
