package lean

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Metadata is metadata as it travels in JSON. The UnmarshalJSON of a kind decodes it, and has of it
// what is read by calling Keep.
type Metadata struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               types.UID         `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	OwnerReferences   []struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Name       string `json:"name"`
		UID        string `json:"uid"`
		Controller bool   `json:"controller"`
	} `json:"ownerReferences"`
}

// Keep gives what is read of the metadata: of the annotations these alone, and the one that informers read.
func (w *Metadata) Keep(annotations ...string) Meta {
	m := Meta{
		Namespace: Word(w.Namespace), Name: w.Name, UID: w.UID, ResourceVersion: w.ResourceVersion, Labels: LabelsOf(w.Labels),
		CreationTimestamp: w.CreationTimestamp, DeletionTimestamp: w.DeletionTimestamp,
	}
	m.keep(w.Annotations, append(annotations, metav1.InitialEventsAnnotationKey))
	for _, o := range w.OwnerReferences {
		if o.Controller {
			m.Owner = &Owner{APIVersion: Word(o.APIVersion), Kind: Word(o.Kind), Name: Word(o.Name), UID: Word(o.UID)}
			break
		}
	}
	return m
}

func (m *Meta) keep(all map[string]string, keys []string) {
	for _, key := range keys {
		if value, set := all[key]; set {
			m.Annotations = append(m.Annotations, &label{Word(key), value})
		}
	}
	m.Annotations = m.Annotations.arranged()
}

// Word gives a copy of a word that is shared with the objects that have it too.
func Word(w string) string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.addWord(w)
}
