package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var deadline = time.Date(2026, time.August, 3, 12, 0, 5, 0, time.UTC)

func after(d time.Duration) time.Time { return deadline.Add(d) }

func TestOnlyTo(t *testing.T) {
	victims := []victim{{"a", "node-a", deadline}, {"b", "node-b", deadline}}
	cases := map[string]struct {
		gone    map[string]time.Time
		deleted map[string]int
		wrong   string
	}{
		"both, each once": {map[string]time.Time{"a": after(0), "b": after(1)}, map[string]int{"a": 1, "b": 1}, ""},
		"one is missing":  {map[string]time.Time{"a": after(1)}, map[string]int{"a": 1}, "b was deleted 0 times"},
		"one was deleted twice": {
			map[string]time.Time{"a": after(1), "b": after(1)}, map[string]int{"a": 2, "b": 1}, "a was deleted 2 times",
		},
		"one was deleted too early": {
			map[string]time.Time{"a": after(-1), "b": after(1)}, map[string]int{"a": 1, "b": 1}, "a was deleted 1ns before its deadline",
		},
		"one is healthy": {
			map[string]time.Time{"a": after(1), "b": after(1), "c": after(1)}, map[string]int{"a": 1, "b": 1, "c": 1}, "c was deleted and is not broken",
		},
		"one went by itself": {map[string]time.Time{"a": after(1), "b": after(1), "c": after(1)}, map[string]int{"a": 1, "b": 1}, "c was deleted, and neither"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := openShift().remedyCall
			err := d.onlyTo(victims, tc.gone, tc.deleted)
			switch {
			case tc.wrong == "" && err != nil:
				t.Errorf("nothing is wrong, but: %v", err)
			case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
				t.Errorf("got %v, want %q", err, tc.wrong)
			}
		})
	}
}

func TestCountIn(t *testing.T) {
	d := openShift().remedyCall
	got := d.countIn([]request{
		{verb: "delete", resource: "machines", name: "a", code: 409}, {verb: "delete", resource: "machines", name: "a", code: 200},
		{verb: "delete", resource: "repairs", name: "b", code: 200}, {verb: "get", resource: "machines", name: "c", code: 200},
	})
	if diff := cmp.Diff(map[string]int{"a": 1}, got); diff != "" {
		t.Errorf("only accepted deletions of machines count (-want +got):\n%s", diff)
	}
}

// TestCountInSubresources: a patch of the status is not a patch of the object.
func TestCountInSubresources(t *testing.T) {
	d := clusterAPI().remedyCall
	got := d.countIn([]request{
		{verb: "patch", resource: "machines/status", name: "a", code: 200}, {verb: "patch", resource: "machines", name: "a", code: 200},
		{verb: "patch", resource: "machinehealthchecks/status", name: "b", code: 200},
	})
	if diff := cmp.Diff(map[string]int{"a": 1}, got); diff != "" {
		t.Errorf("only marks count (-want +got):\n%s", diff)
	}
}

func TestNotAgain(t *testing.T) {
	victims := []victim{{"a", "node-a", deadline}}
	cases := map[string]struct {
		call  remedyCall
		done  map[string]int
		wrong string
	}{
		"nothing more":                       {nodeHealthCheck().remedyCall, nil, ""},
		"it is requested again":              {nodeHealthCheck().remedyCall, map[string]int{"a": 1}, "a was handed to a remediator after"},
		"the same call reverses it":          {clusterAPI().remedyCall, map[string]int{"a": 1}, ""},
		"another is called so while all are": {clusterAPI().remedyCall, map[string]int{"a": 1, "b": 1}, "b was marked after"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			err := tc.call.notAgain(victims, tc.done)
			if tc.wrong == "" && err != nil || tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)) {
				t.Errorf("got %v, want %q", err, tc.wrong)
			}
		})
	}
}

func TestStartOf(t *testing.T) {
	got := startOf([]request{
		{verb: "create", resource: "leases", received: after(9)}, {verb: "list", resource: "machines", received: after(8)},
		{verb: "patch", resource: "machines/status", received: after(2)}, {verb: "patch", resource: "machines/status", received: after(5)},
	}, deadline)
	if diff := cmp.Diff(start{Writes: 2, Lasted: 5}, got); diff != "" {
		t.Errorf("neither leases nor reading count (-want +got):\n%s", diff)
	}
}

func TestStagesOf(t *testing.T) {
	victims := []victim{{"pool-a", "node-a", deadline}, {"pool-b", "node-b", after(time.Second)}}
	requests := []request{
		{verb: "get", resource: "nodes", name: "node-a", received: after(1 * time.Millisecond)},
		{verb: "get", resource: "nodes", name: "node-c", received: after(2 * time.Millisecond)},
		{verb: "create", resource: "repairs", name: "pool-a-0123abcd-1", received: after(3 * time.Millisecond)},
		{verb: "delete", resource: "machines", name: "pool-a", received: after(5 * time.Millisecond)},
		{verb: "delete", resource: "machines", name: "pool-b", received: after(1007 * time.Millisecond)},
		{verb: "patch", resource: "repairs/status", name: "pool-a-0123abcd-1", received: after(8 * time.Millisecond)},
		{verb: "patch", resource: "repairs/status", name: "pool-a-0123abcd-1", received: after(9 * time.Millisecond)},
	}
	gone := map[string]time.Time{"pool-a": after(6 * time.Millisecond), "pool-b": after(1010 * time.Millisecond)}
	ms := func(n int) seconds { return seconds(time.Duration(n) * time.Millisecond) }
	want := []stageDelay{
		{"node read from the API server", distribution{1, ms(1), ms(1), ms(1)}},
		{"repair recorded", distribution{1, ms(3), ms(3), ms(3)}},
		{deletionRequested, distribution{2, ms(5), ms(7), ms(7)}},
		{deletionSeen, distribution{2, ms(6), ms(10), ms(10)}},
		{"repair closed", distribution{1, ms(9), ms(9), ms(9)}},
	}
	d := openShift()
	if diff := cmp.Diff(want, d.stagesOf(victims, requests, gone), cmp.AllowUnexported(stageDelay{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeadlinesOf(t *testing.T) {
	later := deadline.Add(time.Second)
	got := deadlinesOf([]victim{{"a", "n", later}, {"b", "n", deadline}, {"c", "n", later}})
	if diff := cmp.Diff([]int{1, 2}, got); diff != "" {
		t.Errorf("the earliest comes first (-want +got):\n%s", diff)
	}
}

func TestTargetOf(t *testing.T) {
	for repair, want := range map[string]string{"bench-worker-00024-0a1b2c3d-12": "bench-worker-00024", "odd": "", "": ""} {
		if got := targetOf(repair); got != want {
			t.Errorf("repair %q is of %q, not %q", repair, want, got)
		}
	}
}
