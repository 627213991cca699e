package annotate

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// render returns the machine and the patch that annotates it. The patch names the UID and the revision of the judged
// machine. For any other, the API server answers with a conflict (I11).
func render(gvk schema.GroupVersionKind, annotations map[string]string, t core.Target) (*metav1.PartialObjectMetadata, client.Patch, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             t.ID.UID,
		"resourceVersion": t.Revision,
		"annotations":     annotations,
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the patch: %w", err)
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	m.SetNamespace(t.ID.Namespace)
	m.SetName(t.ID.Name)
	return m, client.RawPatch(types.MergePatchType, body), nil
}
