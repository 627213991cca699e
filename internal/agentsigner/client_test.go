package agentsigner

import (
	"reflect"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNameOnly: of a request, however long, the watch keeps its name and its revision.
func TestNameOnly(t *testing.T) {
	t.Parallel()
	kept := metav1.ObjectMeta{Name: "fettle-agent-a", UID: "uid", ResourceVersion: "7"}
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: kept}
	r.Annotations = map[string]string{"a": strings.Repeat("x", 200<<10)}
	r.Spec.Request = make([]byte, 1<<20)
	r.Status.Certificate = make([]byte, 1<<20)
	got, err := NameOnly(r)
	if want := (&certificatesv1.CertificateSigningRequest{ObjectMeta: kept}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the watch keeps %+v, %v", got, err)
	}
	other := &corev1.ConfigMap{}
	if got, err := NameOnly(other); err != nil || got != any(other) {
		t.Errorf("of another object the watch keeps %+v, %v", got, err)
	}
}
