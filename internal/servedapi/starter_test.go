package servedapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

var (
	errDown   = errors.New("the API server is down")
	errNoKind = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "example.org", Kind: "Thing"}}
)

const crdKind = "CustomResourceDefinition"

func definition(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// fixture is a Starter that runs in a bubble of time, with a log of its actions.
type fixture struct {
	*testing.T
	*informertest.Informers

	mu    sync.Mutex
	diary []string
	// watch is the answer when a part begins to watch, and inStep whether it has filled.
	watch  map[string]error
	inStep map[string]bool
	waker  *Starter
	// onChange, if it is set, is called by the Starter beside the entry in the log.
	onChange func()
	ended    chan error
	stop     func()
}

// defines has a definition come.
func (m *fixture) defines(name string) { m.Of(crdKind).Handler.OnAdd(definition(name), false) }

// begins starts a Starter with parts, each of which needs the kinds.
func begins(t *testing.T, parts map[string][]string) *fixture {
	t.Helper()
	return beginsWith(t, nil, parts)
}

// beginsWith starts a Starter with a mapper, which may be nil.
func beginsWith(t *testing.T, mapper meta.RESTMapper, parts map[string][]string) *fixture {
	t.Helper()
	m := &fixture{T: t, Informers: informertest.New(), watch: map[string]error{}, inStep: map[string]bool{}}
	m.SetSynced(true)
	w := &Starter{Informers: m.Informers, Mapper: mapper, OnChange: m.changed, Log: funcr.New(func(_, args string) { m.note("log " + args) }, funcr.Options{})}
	for name, kinds := range parts {
		m.inStep[name] = true
		w.Parts = append(w.Parts, Part{
			Name: name, Kinds: kinds, Optional: true,
			Watch: func(context.Context) error {
				m.note("watch " + name)
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.watch[name]
			},
			HasSynced: func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.inStep[name]
			},
		})
	}
	m.waker = w
	ctx, cancel := context.WithCancel(t.Context())
	m.ended = make(chan error)
	go func() { m.ended <- w.Start(ctx) }()
	m.stop = func() {
		cancel()
		if err := <-m.ended; err != nil {
			t.Errorf("the waker ended with %v", err)
		}
	}
	synctest.Wait()
	return m
}

func (m *fixture) changed() {
	m.mu.Lock()
	then := m.onChange
	m.mu.Unlock()
	if then != nil {
		then()
	}
	m.note("awake")
}

// then sets what the Starter calls when a part or a kind has changed.
func (m *fixture) then(onChange func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onChange = onChange
}

func (m *fixture) note(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.diary = append(m.diary, line)
}

func (m *fixture) answers(part string, watch error, inStep bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch[part], m.inStep[part] = watch, inStep
}

// wantDid checks what was done since the last time, a while later.
func (m *fixture) wantDid(sentence string, later time.Duration, want ...string) {
	m.Helper()
	if later > 0 {
		<-time.After(later)
	}
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if diff := cmp.Diff(want, m.diary); diff != "" {
		m.Errorf("%s; done (-want +got):\n%s", sentence, diff)
	}
	m.diary = nil
}

const (
	things = "things.example.org"
	others = "others.example.org"
	asleep = `log "level"=0 "msg"="asleep until the cluster serves what this needs" "part"="p" "needs"=["things.example.org" "others.example.org"]`
	isUp   = `log "level"=0 "msg"="awake" "part"="p"`
)

func TestPartWakesWhenAllItsKindsAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things, others}})
		m.wantDid("it sleeps, and says so once", time.Hour, asleep)
		m.defines(things)
		m.wantDid("one is not enough", time.Hour)
		m.defines("unrelated.example.org")
		m.wantDid("nor is another", time.Hour)
		m.Of(crdKind).Handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: things, Obj: definition(things)})
		m.Of(crdKind).Handler.OnDelete(definition("unrelated.example.org"))
		m.Of(crdKind).Handler.OnDelete("a word")
		m.wantDid("what p needs has left, so no pass may wait for p", 0, "awake")
		m.defines(others)
		m.wantDid("a removed definition does not count", time.Hour)
		m.defines(things)
		m.wantDid("both are there, and it wakes at once", 0, "watch p", isUp, "awake")
		m.Of(crdKind).Handler.OnDelete(definition(things))
		m.defines(things)
		m.wantDid("once awake it stays so", time.Hour, "awake")
		m.stop()
		if want := (schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}); m.Of(crdKind).Kind != want {
			t.Errorf("it watches %s", m.Of(crdKind).Kind)
		}
	})
}

// TestServed: a kind that is not known yet does not count as absent.
func TestServed(t *testing.T) {
	if got := (&Starter{}).Served([]string{things}); got != core.Unknown {
		t.Errorf("before the definitions have been read, a kind is served: %s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, nil)
		served := func(sentence string, want core.Tri, kinds ...string) {
			t.Helper()
			if got := m.waker.Served(kinds); got != want {
				t.Errorf("%s: %s, want %s", sentence, got, want)
			}
		}
		served("none is defined", core.No, things)
		m.defines(things)
		served("it is defined", core.Yes, things)
		served("all must be", core.No, things, others)
		m.defines(others)
		served("all are", core.Yes, things, others)
		m.Of(crdKind).Handler.OnDelete(definition(things))
		served("one has left", core.No, things, others)
		served("nothing is needed", core.Yes)
		m.stop()
	})
}

func TestDefinitionThatIsNotServedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		m.diary = nil
		m.answers("p", errNoKind, true)
		m.defines(things)
		m.wantDid("defined, and not yet served", 0, "watch p")
		m.wantDid("it looks again every second, and makes no fuss of it", 2500*time.Millisecond, "watch p", "watch p")
		m.answers("p", nil, true)
		m.wantDid("it is served", time.Second, "watch p", isUp, "awake")
		m.stop()
	})
}

func TestWatchThatFailsIsLoggedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		m.diary = nil
		m.answers("p", errDown, true)
		m.defines(things)
		logged := `log "msg"="could not begin to watch; it is tried again" "error"="the API server is down" "part"="p"`
		m.wantDid("it fails", 0, "watch p", logged)
		m.wantDid("it fails again", time.Second, "watch p", logged)
		m.answers("p", nil, true)
		m.defines(others)
		m.wantDid("a change is a reason to look at once", 0, "watch p", isUp, "awake")
		m.stop()
	})
}

// wantUnread checks whether others go on without p.
func (m *fixture) wantUnread(sentence string, want bool) {
	m.Helper()
	if got := m.waker.Unreadable("p"); got != want {
		m.Errorf("%s: others go on without the part: %t, want %t", sentence, got, want)
	}
}

// later lets time pass, and returns what was logged of what could not be read.
func (m *fixture) later(d time.Duration) []string {
	<-time.After(d)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	logged := slices.DeleteFunc(m.diary, func(line string) bool {
		return !strings.Contains(line, "reading it has failed for a minute") && line != "awake"
	})
	m.diary = nil
	return logged
}

// TestOthersGoOnWithoutAPartThatCannotRead: at once if no version is served that Fettle reads, and after a minute
// of any other error.
func TestOthersGoOnWithoutAPartThatCannotRead(t *testing.T) {
	for sentence, tc := range map[string]struct {
		watch       error
		first, wait bool
	}{
		"its version is not served":   {errNoKind, true, false},
		"its webhook is broken":       {errDown, false, false},
		"its caches are never filled": {nil, false, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := begins(t, map[string][]string{"p": {things}})
				defer m.stop()
				m.later(time.Hour)
				m.wantUnread("there is nothing to read", false)
				m.answers("p", tc.watch, !tc.wait)
				m.defines(things)
				m.later(59 * time.Second)
				m.wantUnread("less than a minute", tc.first)
				if logged := m.later(2 * time.Second); len(logged) != 2 || logged[1] != "awake" {
					t.Errorf("after a minute it tells %q, and wakes the others", logged)
				}
				m.wantUnread("over a minute", true)
				if logged := m.later(time.Hour); len(logged) != 0 {
					t.Errorf("it tells again: %q", logged)
				}
				m.answers("p", nil, true)
				m.later(time.Second)
				m.wantUnread("it has been read", false)
			})
		})
	}
}

// TestPartIsWaitedForAnew once its definition is removed and comes again, and once the error is not a missing
// version.
func TestPartIsWaitedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		defer m.stop()
		m.answers("p", errNoKind, true)
		m.defines(things)
		m.later(time.Second)
		m.wantUnread("its version is not served", true)
		m.answers("p", errDown, true)
		m.later(time.Second)
		m.wantUnread("it is served, and fails", false)
		m.later(time.Minute)
		m.wantUnread("it has failed for a minute", true)
		m.Of(crdKind).Handler.OnDelete(definition(things))
		m.later(time.Hour)
		m.wantUnread("there is nothing to read", false)
		m.defines(things)
		m.later(59 * time.Second)
		m.wantUnread("less than a minute", false)
		m.later(2 * time.Second)
		m.wantUnread("it has failed for a minute again", true)
		m.answers("p", nil, false)
		m.later(time.Second)
		m.wantUnread("it fills", false)
	})
}

// wantForbidden checks the series of the part that lacks rights.
func (m *fixture) wantForbidden(sentence string, want float64) {
	m.Helper()
	descriptions := make(chan *prometheus.Desc, 2)
	m.waker.Describe(descriptions)
	if len(descriptions) != 1 {
		m.Errorf("%d series are described, want 1", len(descriptions))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.waker)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		m.Fatalf("%s: there are %v, with the error %v", sentence, families, err)
	}
	series := families[0].GetMetric()[0]
	if part := series.GetLabel()[0].GetValue(); part != "p" || series.GetGauge().GetValue() != want {
		m.Errorf("%s: %s of part %s is %v, want %v", sentence, families[0].GetName(), part, series.GetGauge().GetValue(), want)
	}
}

// TestPartSleepsUntilItMay: Fettle may lack rights to what a cluster serves.
func TestPartSleepsUntilItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		m.diary = nil
		forbidden := fmt.Errorf("asking for things: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errDown))
		m.answers("p", forbidden, false)
		m.defines(things)
		m.wantDid("it may not, and that is told", 0, "watch p", fmt.Sprintf(`log "level"=0 "msg"="asleep until this may read what it needs" "part"="p" "why"=%q`, forbidden))
		if err := m.waker.Checks()["p"](nil); err != nil {
			t.Errorf("a part that may not is not ready: %v", err)
		}
		m.wantDid("it tries to watch now and then, and logs nothing more", 61*time.Second, "watch p", "watch p")
		m.wantForbidden("it may not", 1)
		m.wantUnread("it may not", true)
		m.Of(crdKind).Handler.OnDelete(definition(things))
		m.wantDid("the cluster doesn't serve it any more", 0, "awake")
		m.wantForbidden("there is nothing to read", 0)
		m.defines(things)
		m.wantDid("it is served again", 0, "watch p", fmt.Sprintf(`log "level"=0 "msg"="asleep until this may read what it needs" "part"="p" "why"=%q`, forbidden))
		m.wantForbidden("it still may not", 1)
		m.answers("p", nil, false)
		m.wantDid("it may", 30*time.Second, "watch p")
		m.wantForbidden("it may", 0)
		m.wantUnread("it may", false)
		if err := m.waker.Checks()["p"](nil); err == nil {
			t.Error("it is ready before it has filled")
		}
		m.answers("p", nil, true)
		m.wantDid("it has filled", time.Second, isUp, "awake")
		m.stop()
	})
}

func TestPartIsAwakeWhenItHasFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		m.diary = nil
		m.answers("p", nil, false)
		m.defines(things)
		m.wantDid("it watches, and its caches fill", 59*time.Second, "watch p")
		m.answers("p", nil, true)
		m.wantDid("they have filled", fillCheck, isUp, "awake")
		m.stop()
	})
}

// TestPartsDontWaitForEachOther: a cluster may never serve what one of them needs.
func TestPartsDontWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}, "q": {others}, "r": nil})
		m.mu.Lock()
		if !slices.Contains(m.diary, "watch r") {
			t.Errorf("a part that needs nothing sleeps: %v", m.diary)
		}
		m.diary = nil
		m.mu.Unlock()
		m.defines(things)
		m.wantDid("p has what it needs", time.Hour, "watch p", isUp, "awake")
		m.stop()
	})
}

// TestWakerStops with its context, wherever its parts are.
func TestWakerStops(t *testing.T) {
	for sentence, prepare := range map[string]func(m *fixture){
		"while a part sleeps":     func(*fixture) {},
		"while one is not served": func(m *fixture) { m.answers("p", errNoKind, true); m.defines(things) },
		"while one fills":         func(m *fixture) { m.answers("p", nil, false); m.defines(things) },
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := begins(t, map[string][]string{"p": {things}})
				prepare(m)
				synctest.Wait()
				select {
				case err := <-m.ended:
					t.Errorf("it ended before its context, with %v", err)
					return
				default:
				}
				m.stop()
				if slices.Contains(m.diary, "awake") {
					t.Error("it woke although it was stopped")
				}
			})
		})
	}
}

func TestWakerTellsWhyItCantStart(t *testing.T) {
	refused, unsubscribed := informertest.New(), informertest.New()
	refused.Refuse[crdKind], unsubscribed.Of(crdKind).Refuse = errDown, errDown
	for _, in := range []*informertest.Informers{refused, unsubscribed} {
		if err := (&Starter{Informers: in}).Start(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestEveryReplicaFillsItsCaches, so that the next leader can act at once.
func TestEveryReplicaFillsItsCaches(t *testing.T) {
	if (&Starter{}).NeedLeaderElection() {
		t.Error("only the leader would watch")
	}
}
