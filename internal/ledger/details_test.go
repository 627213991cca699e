package ledger

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAccountsAreReadFieldByField: nonsense in one field of a Repair hides no other, nor another Repair.
func TestAccountsAreReadFieldByField(t *testing.T) {
	look := func(spec, status string) Details {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"metadata": {"namespace": "machines", "name": "`+ofM+`"}, "spec": `+spec+`, "status": `+status+`}`), &u.Object); err != nil {
			t.Fatalf("reading %s: %v", spec, err)
		}
		return ReadDetails(u, "fettle-system")
	}
	status := `{"phase": "Running", "message": "it is tried again", "attempts": 3, "lastError": "denied"}`
	whole := look(aSpec(`"message": "too long", "unhealthySince": "2026-08-03T11:00:00Z"`), status)
	if whole.Reason != "Failed" || whole.Message != "too long" || whole.Progress != "it is tried again" || whole.LastError != "denied" || whole.Phase != "Running" ||
		whole.Attempts != 3 || !whole.UnhealthySince.Equal(time.Date(2026, 8, 3, 11, 0, 0, 0, time.UTC)) || whole.Problem != "" || whole.Ignored {
		t.Errorf("a whole one is read as %+v", whole)
	}
	odd := look(aSpec(`"reason": 7, "message": "why", "unhealthySince": "once", "retry": "often"`), `{"phase": [], "lastError": "denied", "attempts": 2}`)
	if odd.Message != "why" || odd.Reason != "" || odd.LastError != "denied" || odd.Attempts != 2 || odd.Ignored || !strings.Contains(odd.Problem, "spec.retry") {
		t.Errorf("an odd one is read as %+v", odd)
	}
	if none := look(`{"target": "node-a", "reason": "Failed"}`, `1`); !none.Ignored || none.Reason != "Failed" || none.Problem == "" {
		t.Errorf("a Repair without a target is read as %+v", none)
	}
}
