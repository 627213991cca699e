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

// guest is Fettle's user in a workload cluster. It is an administrator, as in the kubeconfigs of Cluster API. Its name
// is that of Fettle's own service account, so that the audit logs of both clusters have one name.
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

// admit grants Fettle access to a workload cluster, and returns its kubeconfig.
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
