package cli

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// soleController is the type of the condition that is False while another controller writes the status.
// anotherController is its reason.
const (
	soleController    = "SoleController"
	anotherController = "AnotherController"
)

// foreignWriters has the messages about other controllers that write the status of health checks, by their UIDs. The
// conditions of all APIs have the fields that are read here.
type foreignWriters map[string]string

// watch wraps the first source, the health checks, to read their conditions too.
func (r foreignWriters) watch(sources []Source) []Source {
	put := sources[0].Put
	sources[0].Put = func(o client.Object) bool {
		changed := put(o)
		return r.put(o) || changed
	}
	return sources
}

// put reads the conditions of a health check, and reports whether the message has changed.
func (r foreignWriters) put(o client.Object) bool {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	uid := string(u.GetUID())
	was, message := r[uid], foreignWriterIn(u)
	if message == "" {
		delete(r, uid)
	} else {
		r[uid] = message
	}
	return was != message
}

// foreignWriterIn returns the message of the condition that is False while another controller writes the status. It is
// empty without one.
func foreignWriterIn(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] == soleController && c["status"] == string(metav1.ConditionFalse) && c["reason"] == anotherController {
			message, _ := c["message"].(string)
			return message
		}
	}
	return ""
}
