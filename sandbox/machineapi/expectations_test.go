package machineapi

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

func TestIssuedCallsAreExpectedUntilTheyAreSeen(t *testing.T) {
	const set = types.UID("set")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	machine := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "machine"}}
	deleting := machine.DeepCopy()
	deleting.DeletionTimestamp = &metav1.Time{Time: now}
	created := func(i *expectations) { i.created(set, machine, now) }
	deleted := func(i *expectations) { i.deleted(set, machine, now) }

	cases := map[string]struct {
		reason string
		call   func(*expectations)
		seen   []*machinev1.Machine
		after  time.Duration
		want   time.Duration
	}{
		"a creation not seen":     {"doing it again would make one too many", created, nil, time.Second, 9 * time.Second},
		"a creation seen":         {"the cache counts it now", created, []*machinev1.Machine{machine}, time.Second, 0},
		"a creation never seen":   {"it came and went in between", created, nil, cacheTimeout, 0},
		"a deletion not seen":     {"another would have to go", deleted, []*machinev1.Machine{machine}, time.Second, 9 * time.Second},
		"a deletion under way":    {"it isn't counted any more", deleted, []*machinev1.Machine{deleting}, time.Second, 0},
		"a deletion that is over": {"the same", deleted, nil, time.Second, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expected := newExpectations()
			tc.call(expected)
			if got := expected.unseen(set, tc.seen, now.Add(tc.after)); got != tc.want {
				t.Errorf("%s: waits %v, want %v", tc.reason, got, tc.want)
			}
			if got := expected.unseen("another set", nil, now); got != 0 {
				t.Errorf("a set waits %v for what another one did", got)
			}
		})
	}
}
