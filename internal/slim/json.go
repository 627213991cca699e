package slim

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Metadata is metadata in JSON. The UnmarshalJSON of a kind decodes it, and calls Keep.
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

// Keep returns the Meta of the metadata. It keeps the annotations with the given keys, and the annotation that
// informers read.
func (w *Metadata) Keep(annotations ...string) Meta {
	m := Meta{
		Namespace: Intern(w.Namespace), Name: w.Name, UID: w.UID, ResourceVersion: w.ResourceVersion,
		CreationTimestamp: w.CreationTimestamp, DeletionTimestamp: w.DeletionTimestamp,
	}
	m.keepLabels(w.Labels)
	m.keep(w.Annotations, append(annotations, metav1.InitialEventsAnnotationKey))
	for i := range w.OwnerReferences {
		if o := &w.OwnerReferences[i]; o.Controller {
			m.own(o.APIVersion, o.Kind, o.Name, o.UID)
			break
		}
	}
	return m
}

// own stores the reference to the controller.
func (m *Meta) own(apiVersion, kind, name, uid string) {
	if max(len(apiVersion), len(kind), len(name), len(uid)) > maxWord {
		m.skip(tooLongOwner)
		return
	}
	m.Owner = &Owner{APIVersion: Intern(apiVersion), Kind: Intern(kind), Name: Intern(name), UID: Intern(uid)}
}

// keepLabels stores the labels that fit.
func (m *Meta) keepLabels(all map[string]string) {
	bytes, longest := 0, 0
	for key, value := range all {
		bytes += len(key) + len(value)
		longest = max(longest, len(key), len(value))
	}
	if m.hasRoom(len(all), bytes, longest) {
		m.Labels = LabelsOf(all)
		return
	}
	raw := make([]rawEntry, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		raw = append(raw, rawEntry{[]byte(key), []byte(all[key])})
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	m.Labels = m.Labels.with(m.cut(raw), sharedLabel)
}

func (m *Meta) keep(all map[string]string, keys []string) {
	for _, key := range keys {
		if value, set := all[key]; set {
			e := m.short(rawEntry{[]byte(key), []byte(value)})
			m.Annotations = append(m.Annotations, &label{Intern(key), string(e.value)})
		}
	}
	m.Annotations = m.Annotations.arranged()
}

// Intern returns a copy of a word that objects share.
func Intern(w string) string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.addWord(w)
}
