package baremetalhost_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
)

// FuzzJudge: any object is read without a panic, a message is short, and only a truth value is a power.
func FuzzJudge(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"metadata":5,"spec":[],"status":"x"}`, `{"metadata":{"annotations":["a"],"deletionTimestamp":7}}`,
		`{"metadata":{"annotations":{"reboot.metal3.io/x":"y"}},"spec":{"online":true},"status":{"poweredOn":false,"operationalStatus":"OK","provisioning":{"state":"provisioned"}}}`,
		`{"status":{"operationalStatus":{"a":1},"errorType":[1],"poweredOn":"false","provisioning":"provisioned"}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		state, failure := baremetalhost.Judge(&unstructured.Unstructured{Object: object})
		if len(failure.Message) > 600 {
			t.Errorf("the message has %d bytes", len(failure.Message))
		}
		status, _ := object["status"].(map[string]any)
		if on, is := status["poweredOn"].(bool); (state != fencing.PowerUnknown) != is || is && on != (state == fencing.IsOn) {
			t.Errorf("the power is %v of %v", state, status["poweredOn"])
		}
	})
}
