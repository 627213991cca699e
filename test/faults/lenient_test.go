package faults

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lenient is a cluster's own definition for health checks of a kind, with labels. It accepts any spec and any status.
func lenient(kind schema.GroupVersionKind, scope, labels string) string {
	plural := strings.ToLower(kind.Kind) + "s"
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.%[2]s
  labels: {%[3]s}
spec:
  group: %[2]s
  names: {kind: %[4]s, listKind: %[4]sList, plural: %[1]s, singular: %[5]s}
  scope: %[6]s
  versions:
  - name: %[7]s
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, plural, kind.Group, labels, kind.Kind, strings.ToLower(kind.Kind), scope, kind.Version)
}
