package main

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs"
)

func TestUsageOf(t *testing.T) {
	fs, err := procfs.NewFS("testdata/proc")
	if err != nil {
		t.Fatal(err)
	}
	got, err := usageOf(fs, 42)
	if err != nil {
		t.Fatal(err)
	}
	// 1234 ticks for the program and 566 for the kernel on its behalf. Those of its children are not its own.
	want := usage{cpu: 18 * time.Second, resident: 48, anonymous: 24, peak: 64}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{}), cmpopts.IgnoreFields(usage{}, "at")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := usageOf(fs, 43); err == nil {
		t.Error("there is no such process")
	}
}

// TestUsageOfMyself: the kernel of the test's machine reports everything.
func TestUsageOfMyself(t *testing.T) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	u, err := usageOf(fs, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.resident <= 0 || u.anonymous <= 0 || u.peak < u.resident/2 {
		t.Errorf("these can't be: %+v", u)
	}
}
