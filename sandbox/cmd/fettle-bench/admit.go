package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/sandbox/access"
	"github.com/fettle-io/fettle/sandbox/stage"
)

// guest is whom Fettle is in a workload cluster: an administrator, as the kubeconfigs of Cluster API have it, and of the name
// that it has in its own, so that the audit logs of both name it alike.
const guest = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: %[1]s, name: %[2]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s-%[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, namespace: %[1]s, name: %[2]s}]
`

// admit lets Fettle into a workload cluster, and gives the kubeconfig for that.
func admit(ctx context.Context, s *stage.Stage) ([]byte, error) {
	space, name, _ := strings.Cut(stage.Account, "/")
	objects, err := stage.Decode(fmt.Appendf(nil, guest, space, name))
	if err != nil {
		return nil, err
	}
	if err := s.Apply(ctx, objects...); err != nil {
		return nil, err
	}
	file := filepath.Join(s.Dir, "guest.kubeconfig")
	if err := access.WriteForServiceAccount(ctx, s.Kubeconfig(), types.NamespacedName{Namespace: space, Name: name}, file); err != nil {
		return nil, err
	}
	kubeconfig, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of a workload cluster: %w", err)
	}
	return kubeconfig, nil
}
