package workload

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// The place where Cluster API keeps the kubeconfig of a cluster.
const (
	secretSuffix = "-kubeconfig" //nolint:gosec // the end of a name
	secretKey    = "value"
)

// kubeconfigsRole is the ClusterRole that grants reading Secrets: in all namespaces, or where a RoleBinding names
// it.
const kubeconfigsRole = "fettle-cluster-api-kubeconfigs"

// secretTimeout bounds reading a Secret.
const secretTimeout = 10 * time.Second

// Reader reads one object from the API server of the management cluster.
type Reader interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
}

func secretOf(cluster types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + secretSuffix}
}

// A userError is an error whose text is for users.
type userError struct{ text string }

func (e userError) Error() string { return e.text }

func userErrorf(format string, a ...any) error {
	return userError{sanitize.Line(sanitize.MaxMessage, fmt.Sprintf(format, a...))}
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// kubeconfig reads the kubeconfig of a cluster. Its errors are texts for users.
func (c *Config) kubeconfig(ctx context.Context, cluster types.NamespacedName) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	at := secretOf(cluster)
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	err := c.Secrets.Get(ctx, at, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, userErrorf("there is no Secret %s; the control plane's provider makes it once the cluster has an API server, and else it is to be made with a kubeconfig under the key %q", at, secretKey)
	case apierrors.IsForbidden(err):
		return nil, userErrorf("Fettle may not read Secret %s; bind ClusterRole %s to its service account in namespace %s, or in all: docs/install.md says how", at, kubeconfigsRole, at.Namespace)
	case err != nil:
		return nil, userErrorf("Secret %s can't be read: %s; it is tried again", at, causeOf(err))
	}
	return valueOf(secret)
}

var errNoValue = errors.New("it has no value there")

// valueOf decodes the value of a Secret that any user may have written.
func valueOf(secret *unstructured.Unstructured) ([]byte, error) {
	at := types.NamespacedName{Namespace: secret.GetNamespace(), Name: secret.GetName()}
	text, _, err := unstructured.NestedString(secret.Object, "data", secretKey)
	var raw []byte
	switch {
	case err != nil:
	case text == "":
		err = errNoValue
	default:
		raw, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, userErrorf("Secret %s has no kubeconfig under the key %q: %s; put one there", at, secretKey, err)
	}
	return raw, nil
}
