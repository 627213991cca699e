package servedapi

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"The Part": {things}})
		ready := func(sentence string, want bool) {
			t.Helper()
			synctest.Wait()
			if err := m.waker.Checks()["the-part"](nil); (err == nil) != want {
				t.Errorf("%s: ready %t (%v)", sentence, err == nil, err)
			}
		}
		ready("a part that has not started is ready", true)
		m.answers("The Part", nil, false)
		m.defines(things)
		ready("it wakes, and its caches are filling", false)
		m.answers("The Part", nil, true)
		ready("they are full", true)
		m.Of(crdKind).Handler.OnDelete(definition(things))
		m.answers("The Part", nil, false)
		ready("what it needs is gone, so it has nothing to wait for", true)
		m.stop()
	})
}

// TestReadyBesideOlderVersions: a cluster that serves older versions alone has nothing for the part, and the other parts work.
func TestReadyBesideOlderVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		ready := func(sentence string, later time.Duration, want bool) {
			t.Helper()
			<-time.After(later)
			synctest.Wait()
			if err := m.waker.Checks()["p"](nil); (err == nil) != want {
				t.Errorf("%s: ready %t (%v)", sentence, err == nil, err)
			}
		}
		m.answers("p", errNoKind, false)
		m.defines(things)
		ready("the version is not served", time.Second, true)
		ready("nor is it after a day", 24*time.Hour, true)
		m.answers("p", errDown, false)
		ready("it may be served, and can't be read", time.Minute, false)
		m.answers("p", nil, false)
		ready("it is served, and the caches are filling", time.Minute, false)
		m.answers("p", nil, true)
		ready("they are full", time.Minute, true)
		m.stop()
	})
}

// TestReadyOnceDefinedAnew: an earlier answer that a kind is not served says nothing of a definition that comes again.
func TestReadyOnceDefinedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		m.stop()
		answers := make(chan error)
		m.waker.Parts[0].Watch = func(context.Context) error { return <-answers }
		ctx, cancel := context.WithCancel(t.Context())
		go func() { m.ended <- m.waker.Start(ctx) }()
		synctest.Wait()
		m.answers("p", nil, false)
		m.defines(things)
		answers <- errNoKind
		synctest.Wait()
		if err := m.waker.Checks()["p"](nil); err != nil {
			t.Errorf("no version is served, and it is not ready: %v", err)
		}
		m.Of(crdKind).Handler.OnDelete(definition(things))
		synctest.Wait()
		m.defines(things)
		synctest.Wait()
		if err := m.waker.Checks()["p"](nil); err == nil {
			t.Error("it is ready before it is known whether a version is served")
		}
		cancel()
		answers <- errNoKind
		if err := <-m.ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestNothingIsReadyBeforeTheClusterIsKnown(t *testing.T) {
	w := &Starter{Parts: []Part{{Name: "a"}, {Name: "b c"}}}
	if diff := cmp.Diff([]string{"a", "b-c"}, slices.Sorted(maps.Keys(w.Checks()))); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	for name, check := range w.Checks() {
		if err := check(nil); err == nil {
			t.Errorf("%s is ready", name)
		}
	}
}

func TestWhatIsServed(t *testing.T) {
	unread := &Starter{}
	if got := unread.Served([]string{things}); got != core.Unknown || unread.Changed() != nil {
		t.Errorf("nothing has been read, and %s is served: %s", things, got)
	}
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": nil})
		serves := func(sentence string, want core.Tri, kinds ...string) {
			t.Helper()
			if got := m.waker.Served(kinds); got != want {
				t.Errorf("%s: %v served: %s, want %s", sentence, kinds, got, want)
			}
		}
		serves("no kinds are needed", core.Yes)
		serves("nothing is defined", core.No, things)
		changed := m.waker.Changed()
		m.defines(things)
		<-changed
		serves("it is defined", core.Yes, things)
		serves("half of it is", core.No, things, others)
		changed = m.waker.Changed()
		m.Of(crdKind).Handler.OnDelete("a word")
		select {
		case <-changed:
			t.Error("an object without a name is a change")
		default:
		}
		m.Of(crdKind).Handler.OnDelete(definition(things))
		<-changed
		serves("it is gone", core.No, things)
		m.stop()
	})
}
