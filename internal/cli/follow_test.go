package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFollowedStatus: with --watch the status is printed anew when it changes, by an event or by time alone, and events that come
// together are printed as one.
func TestFollowedStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, clock())
		f.lead(24 * time.Hour)
		f.node("a", "Unknown", clock().Add(-200*time.Second))
		w := f.newFollower(&OpenShift{}, NHC{})
		w.start(t, w.status(20))
		text := "At first:\n" + w.pass(0)
		text += "A second before it is unhealthy:\n" + w.pass(99*time.Second)
		text += "When it is unhealthy:\n" + w.pass(time.Second)
		f.node("b", "Unknown", clock())
		text += "Just after a second node has changed:\n" + w.pass(100*time.Millisecond)
		f.node("c", "Unknown", clock())
		text += "As long after a third one has:\n" + w.pass(199*time.Millisecond)
		text += "When both are printed:\n" + w.pass(time.Millisecond)
		f.node("c", "Unknown", clock())
		f.drop(machinesPath, "machines/worker-b")
		text += "After one machine is deleted:\n" + w.pass(time.Second)
		f.node("c", "Unknown", clock().Add(-time.Second))
		f.tell(nodesPath, "BOOKMARK", object(t, "{apiVersion: v1, kind: Node, metadata: {name: node-d}}"))
		text += "After nothing that matters:\n" + w.pass(time.Second)
		w.stop()
		golden(t, "follow-status.txt", text+"After a signal:\n"+w.pass(0))
		if !w.ended || w.failure != nil {
			t.Errorf("after a signal the command has ended: %t, with %v", w.ended, w.failure)
		}
	})
}

// TestFollowingReadsAgain: when a watch ends, all is read again. While that fails, the user is told so, and the pauses grow.
func TestFollowingReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, clock())
		f.lead(24 * time.Hour)
		w := f.newFollower(&OpenShift{})
		w.start(t, w.status(20))
		w.pass(0)
		f.endWatch(nodesPath)
		if got := w.pass(time.Second); got != "" {
			t.Errorf("a watch ends, and nothing has changed: it prints %q", got)
		}
		f.tell(machinesPath, "ERROR", object(t, "{apiVersion: v1, kind: Status, status: Failure, code: 410, reason: Expired}"))
		w.pass(0)
		if reads := f.reads(nodesPath); reads != 3 {
			t.Errorf("after two watches have ended, nodes were read %d times, want 3", reads)
		}
		f.refuse("GET "+nodesPath, http.StatusInternalServerError)
		f.endWatch(nodesPath)
		var got []string
		for range 100 {
			got = append(got, strings.Split(w.pass(time.Second), "\n")...)
		}
		got = slices.DeleteFunc(got, func(line string) bool { return line == "" })
		var want []string
		for _, pause := range []string{"1s", "2s", "4s", "8s", "16s", "30s", "30s", "30s"} {
			want = append(want, "listing nodes: /api/v1/nodes: InternalError; trying again in "+pause)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("it prints (-want +got):\n%s", diff)
		}
		f.refuse("GET "+nodesPath, 0)
		f.node("a", "Unknown", clock().Add(-time.Minute))
		if got := w.pass(30 * time.Second); !strings.Contains(got, "worker-a   node-a   suspect") {
			t.Errorf("once it can be read again, it prints %q", got)
		}
		f.refuse("GET "+nodesPath, http.StatusInternalServerError)
		f.endWatch(nodesPath)
		if got, want := w.pass(0), "listing nodes: /api/v1/nodes: InternalError; trying again in 1s\n"; got != want {
			t.Errorf("at the next failure it prints %q, want %q", got, want)
		}
		w.stop()
		if got := w.pass(0); got != "" || !w.ended || w.failure != nil {
			t.Errorf("after a signal the command has ended: %t, with %v and %q", w.ended, w.failure, got)
		}
	})
}

// TestFollowingFails: a list that can not be read or watched at first is an error, and so is an answer that fails or can not be printed.
func TestFollowingFails(t *testing.T) {
	status := func(w *follower) answerFunc { return w.status(20) }
	for name, c := range map[string]struct {
		change func(*fleet, *follower)
		ask    func(*follower) answerFunc
		want   string
	}{
		"reading": {func(f *fleet, _ *follower) { f.refuse("GET "+nodesPath, http.StatusInternalServerError) }, status, "listing nodes: /api/v1/nodes: InternalError"},
		"watching": {func(f *fleet, _ *follower) { f.refuse("WATCH "+machinesPath, http.StatusForbidden) }, status,
			"you lack the permission to watch machines.machine.openshift.io in all namespaces; an administrator can grant it with the ClusterRole fettle-view (docs/cli.md): " + machinesPath + ": Forbidden"},
		"answering": {func(*fleet, *follower) {}, func(w *follower) answerFunc { return w.explained(machineSubject, "worker-z", "machines") },
			"there is no machine worker-z in namespace machines; did you mean worker-a, worker-b, worker-c?"},
		"printing": {func(_ *fleet, w *follower) { w.format, w.out = formatJSON, failingWriter{} }, status, "printing the answer: the disk is full"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, clock())
			w := f.newFollower(&OpenShift{})
			c.change(f, w)
			w.start(t, c.ask(w))
			if !w.ended || w.failure == nil || w.failure.Error() != c.want {
				t.Errorf("%s: it has ended: %t, with\n%v\nwant\n%s", name, w.ended, w.failure, c.want)
			}
			w.stop()
		})
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// TestFollowingUntilTheEnd: a final answer is the last one.
func TestFollowingUntilTheEnd(t *testing.T) {
	last := func(change func(*fleet), ask func(*follower) answerFunc) string {
		text := ""
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, clock())
			f.lead(24 * time.Hour)
			f.repair("e", runningRepair())
			w := f.newFollower(&OpenShift{}, NHC{})
			w.start(t, ask(w))
			if got := w.pass(0); !strings.HasPrefix(got, "── 2000-01-01 00:00:00Z\n") || w.ended {
				t.Errorf("at first it prints %q", got)
			}
			change(f)
			text = w.pass(time.Second)
			if !w.ended || w.failure != nil {
				t.Errorf("it has ended: %t, with %v", w.ended, w.failure)
			}
			w.stop()
		})
		return text
	}
	repair := "explain repair/" + repairName("e")
	text := "$ fettle explain machine/worker-a -w\n" + last(func(f *fleet) { f.drop(machinesPath, "machines/worker-a") },
		func(w *follower) answerFunc { return w.explained(machineSubject, "worker-a", "machines") })
	text += "$ fettle explain node/node-b -w\n" + last(func(f *fleet) { f.drop(machinesPath, "machines/worker-b") },
		func(w *follower) answerFunc { return w.explained(nodeSubject, "node-b", "") })
	text += "$ fettle explain mhc/workers -w\n" + last(func(f *fleet) { f.drop(checksPath, "machines/workers") },
		func(w *follower) answerFunc {
			return w.explainedCheck(subject{kind: machineCheckSubject, name: "workers"})
		})
	text += "$ fettle " + repair + " -w\n" + last(func(f *fleet) { f.drop(repairsPath, "machines/"+repairName("e")) },
		func(w *follower) answerFunc {
			return w.explainedRepair(subject{kind: repairSubject, name: repairName("e")})
		})
	text += "$ fettle " + repair + " -w\n" + last(func(f *fleet) { f.repair("e", finishedRepair()) },
		func(w *follower) answerFunc {
			return w.explainedRepair(subject{kind: repairSubject, name: repairName("e")})
		})
	text += "$ fettle explain machine/worker-e -w\n" + last(func(f *fleet) {
		f.repair("e", finishedRepair())
		f.drop(machinesPath, "machines/worker-e")
	}, func(w *follower) answerFunc { return w.explained(machineSubject, "worker-e", "machines") })
	golden(t, "follow-ends.txt", text)
}

// TestFollowingUnreadClusters: a workload cluster that can't be read is tried again after half a minute, or when the answer may
// change before that.
func TestFollowingUnreadClusters(t *testing.T) {
	const secret = "/api/v1/namespaces/fleets/secrets/east-kubeconfig"
	for sentence, c := range map[string]struct {
		unread bool
		next   time.Duration
		reads  []int // after 0, 10, 20, 30, 40, 50 and 60 seconds
	}{
		"nothing is due":    {true, 0, []int{1, 1, 1, 2, 2, 2, 3}},
		"something later":   {true, 50 * time.Second, []int{1, 1, 1, 2, 2, 2, 3}},
		"something earlier": {true, 20 * time.Second, []int{1, 1, 2, 2, 3, 3, 4}},
		"all were read":     {false, 20 * time.Second, []int{0, 0, 0, 0, 0, 0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, clock())
			f.manage(newClusterScene(t))
			w := f.newFollower(ClusterAPI{})
			w.namespace, w.concerns = "fleets", func(*view, *ClusterObservation) bool { return c.unread }
			answers := 0
			w.start(t, func(context.Context, *view, Header) (answer, error) {
				answers++
				e := &Explanation{Message: strconv.Itoa(answers)}
				a := answer{value: e, header: &e.Header, people: func(p *page) { p.explanation(e) }}
				if c.next > 0 {
					a.nextAt = clock().Add(c.next)
				}
				return a, nil
			})
			reads := []int{f.reads(secret)}
			for range 6 {
				w.pass(10 * time.Second)
				reads = append(reads, f.reads(secret))
			}
			if diff := cmp.Diff(c.reads, reads); diff != "" {
				t.Errorf("%s: the reads are (-want +got):\n%s", sentence, diff)
			}
			w.stop()
			w.pass(0)
		})
	}
}

// TestWatches: each list is watched in its own cluster and namespace, from the revision at which it was read.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, east := newFleet(t, clock()), newFleet(t, clock())
		reading := (&OpenShift{}).Read().Sources()
		v := &view{followed: []followed{
			{Source: reading[1], namespace: "machines", revision: "7"}, {Source: reading[3], revision: "8", at: east.client()},
		}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if _, err := v.watch(ctx, home.client()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := [][]string{home.watched, east.watched}
		want := [][]string{
			{"/apis/machine.openshift.io/v1beta1/namespaces/machines/machines?allowWatchBookmarks=true&resourceVersion=7&watch=true"},
			{"/api/v1/nodes?allowWatchBookmarks=true&resourceVersion=8&watch=true"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the watches of both clusters are (-want +got):\n%s", diff)
		}
	})
}

// TestUntil: an instant that has passed is due now, and without one nothing is due.
func TestUntil(t *testing.T) {
	s := &session{Options: Options{Now: func() time.Time { return noon }}}
	for at, want := range map[time.Time]time.Duration{noon.Add(time.Minute): time.Minute, noon.Add(-time.Minute): 0, noon: 0, {}: 1 << 62} {
		if got := s.until(at); got != want {
			t.Errorf("until %s: %s, want %s", at, got, want)
		}
	}
}

// TestChanges: a change can matter if the reading says so of the object, or if the object is deleted.
func TestChanges(t *testing.T) {
	machine, node := object(t, "{metadata: {namespace: machines, name: a}}"), object(t, "{metadata: {name: node-a}}")
	var got []string
	for _, changes := range []bool{true, false} {
		of := &Source{
			Put:  func(o client.Object) bool { got = append(got, "put "+key(o)); return changes },
			Drop: func(key string) { got = append(got, "drop "+key) },
		}
		for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
			for _, o := range []map[string]any{machine, node} {
				c := change{of: of, event: watch.Event{Type: kind, Object: &unstructured.Unstructured{Object: o}}, open: true}
				got = append(got, fmt.Sprintf("%s: %t", kind, c.apply()))
			}
		}
		c := change{of: of, event: watch.Event{Type: watch.Modified, Object: &metav1.Status{}}, open: true}
		got = append(got, fmt.Sprintf("no object: %t", c.apply()))
	}
	want := []string{
		"put machines/a", "ADDED: true", "put node-a", "ADDED: true", "put machines/a", "MODIFIED: true", "put node-a", "MODIFIED: true",
		"drop machines/a", "DELETED: true", "drop node-a", "DELETED: true", "BOOKMARK: false", "BOOKMARK: false", "ERROR: false", "ERROR: false", "no object: false",
		"put machines/a", "ADDED: false", "put node-a", "ADDED: false", "put machines/a", "MODIFIED: false", "put node-a", "MODIFIED: false",
		"drop machines/a", "DELETED: true", "drop node-a", "DELETED: true", "BOOKMARK: false", "BOOKMARK: false", "ERROR: false", "ERROR: false", "no object: false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events do this (-want +got):\n%s", diff)
	}
}
