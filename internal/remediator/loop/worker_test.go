package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestPausesOfAQueue double from a tenth of a second to a minute.
func TestPausesOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue[string]()
		defer q.ShutDown()
		for want := 100 * time.Millisecond; want <= 128*time.Second; want *= 2 {
			begun := time.Now() //nolint:forbidigo // the clock of the bubble
			q.AddRateLimited("node-a")
			key, _ := q.Get()
			q.Done(key)
			if got := time.Since(begun); got != min(want, time.Minute) { //nolint:forbidigo // the same
				t.Errorf("the pause is %v, want %v", got, min(want, time.Minute))
			}
		}
	})
}

// TestRunEach works on some keys at a time, and ends with all of them.
func TestRunEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue[string]()
		var most, running, all atomic.Int32
		for i := range 10 {
			q.Add(fmt.Sprint(i))
		}
		ended := make(chan struct{})
		go func() {
			Worker[string]{Queue: q, Timeout: time.Minute, Log: logr.Discard(), Do: func(context.Context, string) error {
				most.Store(max(most.Load(), running.Add(1)))
				<-time.After(time.Second)
				running.Add(-1)
				all.Add(1)
				return nil
			}}.RunEach(t.Context(), 3)
			close(ended)
		}()
		<-time.After(1500 * time.Millisecond)
		q.ShutDown() // what was added is still worked on
		<-ended
		if most.Load() != 3 || all.Load() != 10 || running.Load() != 0 {
			t.Errorf("%d were done, and at most %d at a time", all.Load(), most.Load())
		}
	})
}

// TestRun works on one key after the other, until the queue is shut down and empty.
func TestRun(t *testing.T) {
	q := NewQueue[string]()
	var done []string
	for _, key := range []string{"a", "b", "c"} {
		q.Add(key)
	}
	q.ShutDown()
	w := Worker[string]{Queue: q, Timeout: time.Minute, Log: logr.Discard(), Do: func(_ context.Context, key string) error {
		done = append(done, key)
		return nil
	}}
	w.Run(t.Context())
	if got := strings.Join(done, " "); got != "a b c" || w.Next(t.Context()) {
		t.Errorf("%q were done, and then there is more", got)
	}
}

// TestNext: a key that failed is tried again after a pause, and only what needs an administrator is logged, with its key. Each key has a minute.
func TestNext(t *testing.T) {
	kind := schema.GroupResource{Resource: "leases"}
	for sentence, tc := range map[string]struct {
		do            func(context.Context) error
		over          bool
		retried, says bool
		took          time.Duration
	}{
		"it succeeds":         {func(context.Context) error { return nil }, false, false, false, 0},
		"another was faster":  {func(context.Context) error { return apierrors.NewConflict(kind, "a", nil) }, false, true, false, 0},
		"it is gone":          {func(context.Context) error { return apierrors.NewNotFound(kind, "a") }, false, true, false, 0},
		"it fails":            {func(context.Context) error { return errors.New("no") }, false, true, true, 0},
		"it panics":           {func(context.Context) error { panic("no") }, false, true, true, 0},
		"the process is over": {func(ctx context.Context) error { return ctx.Err() }, true, false, false, 0},
		"it takes too long":   {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, true, true, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := NewQueue[string]()
			defer q.ShutDown()
			var logged []string
			log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.over {
				cancel()
			}
			for range 2 {
				q.AddRateLimited("node-a") // it has failed before
				<-time.After(time.Minute)
				begun := time.Now() //nolint:forbidigo // the clock of the bubble
				more := Worker[string]{Queue: q, Timeout: time.Minute, Log: log, Noun: "node", Do: func(ctx context.Context, _ string) error { return tc.do(ctx) }}.Next(ctx)
				if took := time.Since(begun); took != tc.took || !more { //nolint:forbidigo // the same
					t.Errorf("%s: it ends after %v, and there is more: %t", sentence, took, more)
				}
			}
			synctest.Wait()
			if q.Len() != 0 {
				t.Errorf("%s: it is tried again at once", sentence)
			}
			<-time.After(retryMost)
			synctest.Wait()
			if (q.Len() == 1) != tc.retried || (len(logged) > 0) != tc.says || sentence == "it succeeds" && q.NumRequeues("node-a") != 0 {
				t.Errorf("%s: %d wait, %d lines were logged, and %d retries are counted", sentence, q.Len(), len(logged), q.NumRequeues("node-a"))
			}
			for _, line := range logged {
				if !strings.Contains(line, `"node"="node-a"`) {
					t.Errorf("%s: the log says %s", sentence, line)
				}
			}
		})
	}
}
