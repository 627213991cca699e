package main

import (
	"context"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/watchdog"
)

// TestEachSecond: the function is called again and again until the context ends.
func TestEachSecond(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	before, err := watchdog.BootTime()
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	if err := eachSecond(ctx, func() {
		calls++
		if calls == 2 {
			cancel()
		}
	}); err != nil || calls != 2 {
		t.Errorf("%d calls: %v", calls, err)
	}
	if after, err := watchdog.BootTime(); err != nil || after-before < 2*time.Second {
		t.Errorf("two calls took %s: %v", after-before, err)
	}
	if err := eachSecond(ctx, func() { t.Error("a call after the end") }); err != nil {
		t.Error(err)
	}
}
