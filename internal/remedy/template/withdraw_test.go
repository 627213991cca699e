package template

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// reporting returns a request at revision 7 whose remediator reports conditions, which are given as TYPE=STATUS.
func reporting(uid string, conditions ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetUID(types.UID(uid))
	u.SetResourceVersion("7")
	var all []any
	for _, c := range conditions {
		kind, status, _ := strings.Cut(c, "=")
		all = append(all, map[string]any{"type": kind, "status": status})
	}
	u.Object["status"] = map[string]any{"conditions": all}
	return u
}

// TestWithdrawalAfterTheTargetHasGone depends on what the remediator reports at that time, which caches may not show yet.
func TestWithdrawalAfterTheTargetHasGone(t *testing.T) {
	const (
		get    = "get X remediators/w"
		remove = `delete x.example/v1, Kind=X remediators/w {"preconditions":{"uid":"x-uid","resourceVersion":"7"},"propagationPolicy":"Background"}`
	)
	conflict, gone := apierrors.NewConflict(xResource, "w", errDown), apierrors.NewNotFound(xResource, "w")
	replaces, same := core.Request{Replaces: true}, core.Request{}
	for name, tc := range map[string]struct {
		decided core.Request
		api     answers
		result  core.RemedyResult
		calls   []string
		says    string
	}{
		"as it was":                         {same, answers{stored: reporting("x-uid", "Processing=True", "Succeeded=Unknown")}, core.Accepted, []string{get, remove}, ""},
		"it expects a replacement":          {same, answers{stored: reporting("x-uid", "PermanentNodeDeletionExpected=True")}, core.Stale, []string{get}, ""},
		"it expects a replacement as ever":  {replaces, answers{stored: reporting("x-uid", "PermanentNodeDeletionExpected=True")}, core.Accepted, []string{get, remove}, ""},
		"it expects no replacement anymore": {replaces, answers{stored: reporting("x-uid", "PermanentNodeDeletionExpected=False")}, core.Stale, []string{get}, ""},
		"it has succeeded":                  {same, answers{stored: reporting("x-uid", "Succeeded=True")}, core.Stale, []string{get}, ""},
		"it has failed":                     {same, answers{stored: reporting("x-uid", "Succeeded=False")}, core.Stale, []string{get}, ""},
		"it has succeeded as ever":          {core.Request{Succeeded: core.Yes}, answers{stored: reporting("x-uid", "Succeeded=True")}, core.Accepted, []string{get, remove}, ""},
		"it changes meanwhile":              {same, answers{stored: reporting("x-uid"), write: conflict}, core.Stale, []string{get, remove, get}, ""},
		"it is gone":                        {same, answers{get: gone}, core.Accepted, []string{get}, ""},
		"it goes meanwhile":                 {same, answers{stored: reporting("x-uid"), write: gone}, core.Accepted, []string{get, remove}, ""},
		"it has a namesake":                 {same, answers{stored: reporting("y-uid", "Succeeded=True"), write: conflict}, core.Accepted, []string{get, remove, get}, ""},
		"it can't be read":                  {same, answers{get: errDown}, 0, []string{get}, "reading X remediators/w before it is withdrawn: " + errDown.Error()},
		"it can't be deleted":               {same, answers{stored: reporting("x-uid"), write: errDown}, 0, []string{get, remove}, "withdrawing X remediators/w: " + errDown.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := ownRequest()
			r.OnlyAsReported, r.Replaces, r.Succeeded = true, tc.decided.Replaces, tc.decided.Succeeded
			result, err := NewClient(Config{API: &tc.api}).Withdraw(t.Context(), r)
			if result != tc.result || (err == nil) != (tc.says == "") || (err != nil && err.Error() != tc.says) {
				t.Errorf("the result is %s, %v; want %s, %q", result, err, tc.result, tc.says)
			}
			if diff := cmp.Diff(tc.calls, tc.api.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestConflictOfAnotherWithdrawal is an error: a withdrawal that depends on nothing has only the UID as its precondition.
func TestConflictOfAnotherWithdrawal(t *testing.T) {
	conflict := apierrors.NewConflict(xResource, "w", errDown)
	api := &answers{stored: reporting("x-uid", "Succeeded=True"), write: conflict}
	result, err := NewClient(Config{API: api}).Withdraw(t.Context(), ownRequest())
	if result != 0 || !errors.Is(err, conflict) {
		t.Errorf("the result is %s, %v", result, err)
	}
}

// TestI15WithdrawalOfAnObjectThatIsCutInCaches: caches drop a status that is too large, so it counts as absent. The object that
// Withdraw reads is cut likewise, or the request would never be withdrawn.
func TestI15WithdrawalOfAnObjectThatIsCutInCaches(t *testing.T) {
	for _, reports := range []string{"Succeeded=True", "Succeeded=False", "PermanentNodeDeletionExpected=True"} {
		live := reporting("x-uid", reports)
		live.Object["status"].(map[string]any)["log"] = strings.Repeat("x", 600<<10)
		cached := live.DeepCopy()
		lenient.Bound(cached) // as the transform of the manager's caches does
		r := ownRequest()
		r.OnlyAsReported, r.Succeeded, r.Replaces = true, condition(cached, "Succeeded").status, replaces(cached)
		result, err := NewClient(Config{API: &answers{stored: live}}).Withdraw(t.Context(), r)
		if result != core.Accepted || err != nil {
			t.Errorf("%s: the result is %s, %v", reports, result, err)
		}
	}
}

// TestWithdrawalOfAKindThatIsGone: the kind is not served any more when the request is read.
func TestWithdrawalOfAKindThatIsGone(t *testing.T) {
	r := ownRequest()
	r.OnlyAsReported = true
	for _, gone := range []error{&meta.NoKindMatchError{}, &meta.NoResourceMatchError{}} {
		if result, err := NewClient(Config{API: &answers{get: gone}}).Withdraw(t.Context(), r); result != core.Accepted || err != nil {
			t.Errorf("the result is %s, %v", result, err)
		}
	}
}

// TestAdviceOnAWithdrawalThatMayNotRead names the role that lacks a right.
func TestAdviceOnAWithdrawalThatMayNotRead(t *testing.T) {
	for sentence, tc := range refusals() {
		if apierrors.IsNotFound(tc.err) {
			continue // it counts as withdrawn
		}
		r := ownRequest()
		r.OnlyAsReported = true
		_, err := NewClient(Config{API: &answers{get: tc.err}}).Withdraw(t.Context(), r)
		if want := "reading X remediators/w before it is withdrawn: " + tc.err.Error() + tc.advice; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", sentence, err, want)
		}
	}
}
