package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/engine"
)

func TestPassThatHangsIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dog := engine.NewWatchdog(clock)
		alive := func(sentence string, want bool) {
			t.Helper()
			err := dog.Alive(nil)
			if (err == nil) != want {
				t.Errorf("%s: alive %t (%v)", sentence, err == nil, err)
			}
			if err != nil && !strings.Contains(err.Error(), "the-cluster") {
				t.Errorf("the error doesn't say what hangs: %v", err)
			}
		}
		release, ended := make(chan struct{}), make(chan struct{})
		due := clock().Add(time.Hour)
		pass := dog.Watch("the-cluster", func(context.Context) (time.Time, error) {
			<-release
			return due, errDown
		})
		alive("no pass yet, as on a replica that doesn't lead", true)
		for range 2 {
			go func() {
				if at, err := pass(t.Context()); !at.Equal(due) || !errors.Is(err, errDown) {
					t.Errorf("the pass gave %s, %v", at, err)
				}
				ended <- struct{}{}
			}()
			<-time.After(5 * time.Minute)
			alive("a slow pass", true)
			<-time.After(2 * time.Minute)
			alive("it hangs", false)
			release <- struct{}{}
			<-ended
			alive("it has ended after all", true)
			<-time.After(time.Hour)
			alive("and nothing is due", true)
		}
	})
}
