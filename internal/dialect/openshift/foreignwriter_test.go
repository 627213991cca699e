package openshift

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/writers"
)

// TestOwnFieldsAreThoseThatAreWritten: a field that Fettle writes, and another controller too, shows that controller.
func TestOwnFieldsAreThoseThatAreWritten(t *testing.T) {
	status, _ := statusOf(v1beta1.MachineHealthCheckStatus{}, report(10, nil, metal), noon)
	written := stored(t, status)
	delete(written, "conditions")
	var conditions []string
	for _, c := range status.Conditions {
		conditions = append(conditions, c.Type)
	}
	own := ownFields()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(written)), slices.Sorted(slices.Values(own.Names))); diff != "" {
		t.Errorf("fields (-written +own):\n%s", diff)
	}
	if diff := cmp.Diff(conditions, slices.Sorted(slices.Values(own.Conditions))); diff != "" {
		t.Errorf("conditions (-written +own):\n%s", diff)
	}
}

// TestForeignWriter: an event names a controller that writes the status again and again, once. The condition names it
// until the health check is deleted.
func TestForeignWriter(t *testing.T) {
	now, woken := noon, 0
	var lines []string
	status := map[string]any{}
	c := NewClient(Config{
		Now: func() time.Time { return now }, Wake: func() { woken++ }, Events: recorder(func(line string) { lines = append(lines, line) }),
		Writer: patcher(func(_ *unstructured.Unstructured, body map[string]any) error {
			status, _ = body["status"].(map[string]any)
			return nil
		}),
		Writers: writers.NewRegistry("machinehealthchecks.machine.openshift.io", nil, func() time.Time { return now }, func(time.Duration, func()) {}),
	})
	signed := func(revision string) *unstructured.Unstructured {
		u := check(t, "check", revision, workers, nil)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "other", Subresource: "status", Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:currentHealthy":{}}}`),
		}})
		return u
	}
	pass := func() {
		t.Helper()
		policies, _ := c.store.snapshot(none)
		if failed := c.WriteStatuses(t.Context(), []core.PolicyReport{{Policy: policies[0]}}); len(failed) > 0 {
			t.Errorf("writing failed: %v", failed)
		}
	}
	for _, revision := range []string{"1", "2", "3"} {
		c.putCheck(signed(revision))
		now = now.Add(time.Second)
		pass()
	}
	if len(lines) > 0 {
		t.Fatalf("after two writes it says %q", lines)
	}
	woken = 0
	c.putCheck(signed("4"))
	pass()
	if woken == 0 || len(lines) != 1 || !strings.HasPrefix(lines[0], "Warning|AnotherController|HealthCheck|") || !strings.Contains(lines[0], "written by other too") {
		t.Errorf("it has woken the engine %d times, and says %q", woken, lines)
	}
	if text := strings.Join(typesIn(status), " "); text != "RemediationAllowed SoleController" {
		t.Errorf("the conditions are %q", text)
	}
	pass()
	if len(lines) != 1 {
		t.Errorf("it says it again: %q", lines)
	}
	c.dropCheck("machines/check")
	c.putCheck(signed("6"))
	pass()
	if text := strings.Join(typesIn(status), " "); text != "RemediationAllowed" {
		t.Errorf("of its namesake the conditions are %q", text)
	}
	c.putCheck("no health check")
}

// TestForeignWriteIsSeenByItsPass: the pass that a foreign write causes reads the status that was written, or nothing would
// correct it.
func TestForeignWriteIsSeenByItsPass(t *testing.T) {
	now := noon
	var c *Client
	var read []string
	c = NewClient(Config{
		Now: func() time.Time { return now }, Wake: func() {
			policies, _ := c.store.snapshot(none)
			_, revision, _ := c.store.statusOf(policies[0].ID)
			read = append(read, revision)
		},
		Writers: writers.NewRegistry("machinehealthchecks.machine.openshift.io", nil, func() time.Time { return now }, func(time.Duration, func()) {}),
	})
	c.putCheck(check(t, "check", "1", workers, nil))
	u := check(t, "check", "2", workers, nil)
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "other", Subresource: "status", Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:currentHealthy":{}}}`),
	}})
	c.putCheck(u)
	if !slices.Equal(read, []string{"2"}) {
		t.Errorf("the passes read the versions %q", read)
	}
}

// TestForeignWriterOfADeletedHealthCheck: a write to a health check that is being deleted, such as that of its finalizers, wakes
// nothing.
func TestForeignWriterOfADeletedHealthCheck(t *testing.T) {
	now, woken := noon, 0
	clock := func() time.Time { return now }
	c := NewClient(Config{
		Now: clock, Wake: func() { woken++ },
		Writers: writers.NewRegistry("machinehealthchecks.machine.openshift.io", nil, clock, func(time.Duration, func()) {}),
	})
	for _, leaves := range []bool{false, true} {
		u := check(t, "check", "1", workers, nil)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "other", Subresource: "status", Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:currentHealthy":{}}}`),
		}})
		if leaves {
			u.SetDeletionTimestamp(&metav1.Time{Time: now})
		}
		c.putCheck(u)
		now = now.Add(time.Second)
	}
	if woken > 0 {
		t.Error("a write to a health check that is being deleted wakes the engine")
	}
}

// typesIn returns the types of the conditions of a status.
func typesIn(status map[string]any) []string {
	var types []string
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		text, _ := condition["type"].(string)
		types = append(types, text)
	}
	return types
}

// TestWriteThatIsStoredAsWritersAreLookedAt is read by that pass. Such a write causes no pass while one is due because of an earlier write.
func TestWriteThatIsStoredAsWritersAreLookedAt(t *testing.T) {
	between, revision := func() {}, any(nil)
	c := NewClient(Config{
		Now: func() time.Time { return noon }, Wake: func() {},
		Writer: patcher(func(_ *unstructured.Unstructured, body map[string]any) error {
			metadata, _ := body["metadata"].(map[string]any)
			revision = metadata["resourceVersion"]
			return nil
		}),
		Writers: writers.NewRegistry("machinehealthchecks.machine.openshift.io", nil, func() time.Time { between(); return noon }, func(time.Duration, func()) {}),
	})
	c.putCheck(check(t, "check", "1", workers, nil))
	policies, _ := c.store.snapshot(none)
	between = func() { c.store.putCheck(check(t, "check", "2", workers, nil)) }
	c.WriteStatuses(t.Context(), []core.PolicyReport{{Policy: policies[0]}})
	if revision != "2" {
		t.Errorf("the status is made from version %v", revision)
	}
}
