package cli

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// soleController is the type of the condition that is False, for this reason, while another controller writes the status.
const (
	soleController    = "SoleController"
	anotherController = "AnotherController"
)

// foreignWriters are what a controller has written of health checks that another controller writes too, by their UIDs. Conditions of all
// APIs have the fields that are read here.
type foreignWriters map[string]string

// watch returns the sources with the first, which is that of the health checks, taken in here too.
func (r foreignWriters) watch(sources []Source) []Source {
	put := sources[0].Put
	sources[0].Put = func(o client.Object) bool {
		changed := put(o)
		return r.put(o) || changed
	}
	return sources
}

// put takes in a health check, and reports whether what is said of another controller has changed.
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

// foreignWriterIn returns the message of the condition that is False while another controller writes the status, empty without one.
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
