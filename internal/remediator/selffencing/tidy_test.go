package selffencing

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/internal/slim"
)

// state returns the state of the Lease of a node, or an empty text if there is none.
func (w *world) state(t *testing.T, name string) selffence.State {
	t.Helper()
	var l coordinationv1.Lease
	switch err := w.api.Get(t.Context(), types.NamespacedName{Namespace: promiselease.Namespace, Name: name}, &l); {
	case apierrors.IsNotFound(err):
		return ""
	case err != nil:
		t.Fatal(err)
	}
	record, err := promiselease.Decode(&l)
	if err != nil {
		t.Fatal(err)
	}
	return record.State
}

// tidies has the remediator tidy the Leases of a node, or of all.
func (w *world) tidies(t *testing.T, name string) {
	t.Helper()
	if err := w.tidy(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// TestOrphanedLeases: a Lease is freed once the remediation that has condemned it is known to be gone, and no other.
func TestOrphanedLeases(t *testing.T) {
	for sentence, tc := range map[string]struct {
		lease *coordinationv1.Lease
		fault func(verb string, o runtime.Object) error
		want  selffence.State
		fails bool
	}{
		"its remediation is gone":             {leaseOf(t, "node-a", condemnedBy("gone-uid")), nil, selffence.Withdrawn, false},
		"its remediation exists":              {leaseOf(t, "node-a", condemnedBy(uidA)), nil, selffence.Condemned, false},
		"its PowerRemediation exists":         {leaseOf(t, "node-a", condemnedBy("power-uid")), nil, selffence.Condemned, false},
		"the others can't be listed":          {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("list", &v1alpha1.PowerRemediationList{}, errors.New("no answer")), selffence.Condemned, true},
		"it promises":                         {leaseOf(t, "node-a"), nil, selffence.Promised, false},
		"the remediations can't be listed":    {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("list", &v1alpha1.SelfFenceRemediationList{}, errors.New("no answer")), selffence.Condemned, true},
		"the remediations may not be listed":  {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("list", &v1alpha1.SelfFenceRemediationList{}, forbidden()), selffence.Condemned, true},
		"the Lease can't be written":          {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("update", &coordinationv1.Lease{}, errors.New("no answer")), selffence.Condemned, true},
		"the Lease is gone meanwhile":         {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("update", &coordinationv1.Lease{}, apierrors.NewNotFound(schema.GroupResource{}, "")), selffence.Condemned, false},
		"the Lease has changed meanwhile":     {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("update", &coordinationv1.Lease{}, apierrors.NewConflict(schema.GroupResource{}, "", nil)), selffence.Condemned, false},
		"nodes are not set up for promises":   {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("create", &authorizationv1.SelfSubjectAccessReview{}, forbidden()), selffence.Condemned, false},
		"the review of the right fails":       {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("create", &authorizationv1.SelfSubjectAccessReview{}, errors.New("no answer")), selffence.Condemned, true},
		"the Leases can't be listed":          {leaseOf(t, "node-a", condemnedBy("gone-uid")), failing("list", &coordinationv1.LeaseList{}, errors.New("no answer")), selffence.Condemned, true},
		"the remediations are read only once": {leaseOf(t, "node-a"), failing("list", &v1alpha1.SelfFenceRemediationList{}, errors.New("not needed")), selffence.Promised, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			power := &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: keyA.Namespace, Name: keyA.Name, UID: "power-uid"}}
			w := newWorld(t, node(), tc.lease, remediation(in(fencing.Condemning)), power)
			w.refuses(tc.fault)
			err := w.tidy(t.Context(), allNodes)
			w.refuses(nil)
			if got := w.state(t, "node-a"); got != tc.want || (err != nil) != tc.fails {
				t.Errorf("it is %s after %v", got, err)
			}
		})
	}
}

// failing returns a fault of the calls with a verb for objects of a type.
func failing(verb string, sample runtime.Object, err error) func(string, runtime.Object) error {
	return func(v string, o runtime.Object) error {
		if v == verb && fmt.Sprintf("%T", o) == fmt.Sprintf("%T", sample) {
			return err
		}
		return nil
	}
}

func forbidden() error { return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")) }

// TestTheRemediationOfALeaseEnds: once a remediation is gone, the Lease of its node is read.
func TestTheRemediationOfALeaseEnds(t *testing.T) {
	r := remediation(in(fencing.Condemning))
	for sentence, tc := range map[string]struct {
		event any
		want  int
	}{
		"it has gone":                 {r, 1},
		"the watch has missed it":     {toolscache.DeletedFinalStateUnknown{Key: "checks/node-a", Obj: r}, 1},
		"it had not begun":            {remediation(), 0},
		"the watch does not know it":  {toolscache.DeletedFinalStateUnknown{Key: "checks/node-a"}, 0},
		"it is something else at all": {node(), 0},
	} {
		w := newWorld(t, leaseOf(t, "node-a", condemnedBy(uidA)), leaseOf(t, "node-b", condemnedBy(uidA)))
		w.remediationEvents().OnDelete(tc.event)
		if w.tidying.Len() != tc.want {
			t.Errorf("%s: %d Leases are to be read", sentence, w.tidying.Len())
			continue
		}
		if tc.want == 0 {
			continue
		}
		name, _ := w.tidying.Get()
		w.tidies(t, name)
		if w.state(t, "node-a") != selffence.Withdrawn || w.state(t, "node-b") != selffence.Condemned {
			t.Errorf("%s: the Leases are %s and %s", sentence, w.state(t, "node-a"), w.state(t, "node-b"))
		}
	}
	w := newWorld(t, leaseOf(t, "node-a", withdrawn))
	for _, err := range []error{nil, forbidden()} { // there is none, and there are no rights
		w.refuses(failing("get", &coordinationv1.Lease{}, err))
		w.tidies(t, "node-b")
	}
	w.refuses(failing("get", &coordinationv1.Lease{}, errors.New("no answer")))
	if err := w.tidy(t.Context(), "node-a"); err == nil {
		t.Error("a failed read is no failure")
	}
	w.refuses(nil)
	w.forward(24 * time.Hour)
	w.tidies(t, "node-a")
	if w.state(t, "node-a") == "" {
		t.Error("the Lease of a node is deleted that is not known to be gone")
	}
}

// TestLeasesOfNodesThatAreGone: the Lease of a node that is gone for an hour is deleted, once its promise is withdrawn.
func TestLeasesOfNodesThatAreGone(t *testing.T) {
	appears := func(w *world) { w.noteNode(&slim.Node{Meta: slim.Meta{Name: "node-a"}}) }
	gone := func(w *world) { w.nodeEvents().OnDelete(&slim.Node{Meta: slim.Meta{Name: "node-a"}}) }
	nothing := func(*world) {}
	withdraws := func(w *world) {
		update(t, w, read(t, w, promiselease.Namespace, "node-a", &coordinationv1.Lease{}), func(l *coordinationv1.Lease) {
			l.Annotations = leaseOf(t, "node-a", withdrawn).Annotations
		})
	}
	broken := leaseOf(t, "node-a")
	delete(broken.Annotations, annotation.PromiseState)
	for sentence, tc := range map[string]struct {
		objects       []client.Object
		first, before func(*world) // before the first and the last round
		wait          time.Duration
		want          selffence.State
	}{
		"for long":                       {[]client.Object{leaseOf(t, "node-a", withdrawn)}, nothing, nothing, time.Hour, ""},
		"not for long enough":            {[]client.Object{leaseOf(t, "node-a", withdrawn)}, nothing, nothing, time.Hour - time.Second, selffence.Withdrawn},
		"after it was there":             {[]client.Object{leaseOf(t, "node-a", withdrawn)}, func(w *world) { appears(w); gone(w) }, nothing, time.Hour, ""},
		"it promised until then":         {[]client.Object{leaseOf(t, "node-a")}, nothing, withdraws, time.Hour, selffence.Withdrawn},
		"it was broken until then":       {[]client.Object{broken}, nothing, withdraws, time.Hour, selffence.Withdrawn},
		"its promise stands":             {[]client.Object{leaseOf(t, "node-a")}, nothing, nothing, time.Hour, selffence.Promised},
		"its remediation exists":         {[]client.Object{leaseOf(t, "node-a", condemnedBy(uidA)), remediation(in(fencing.Booting))}, nothing, nothing, time.Hour, selffence.Condemned},
		"it exists":                      {[]client.Object{leaseOf(t, "node-a", withdrawn), node()}, appears, nothing, time.Hour, selffence.Withdrawn},
		"the watch has not shown it yet": {[]client.Object{leaseOf(t, "node-a", withdrawn), node()}, nothing, nothing, time.Hour, selffence.Withdrawn},
		"it has registered again":        {[]client.Object{leaseOf(t, "node-a", withdrawn)}, nothing, appears, time.Hour, selffence.Withdrawn},
		"it was there in between":        {[]client.Object{leaseOf(t, "node-a", withdrawn)}, nothing, func(w *world) { appears(w); gone(w) }, time.Hour, selffence.Withdrawn},
		"it left only then":              {[]client.Object{leaseOf(t, "node-a", withdrawn)}, appears, gone, time.Hour, selffence.Withdrawn},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			tc.first(w)
			w.tidies(t, allNodes)
			w.forward(tc.wait)
			tc.before(w)
			w.tidies(t, allNodes)
			if got := w.state(t, "node-a"); got != tc.want {
				t.Errorf("the Lease is %q", got)
			}
		})
	}
	t.Run("the node can't be read", func(t *testing.T) {
		w := newWorld(t, leaseOf(t, "node-a", withdrawn))
		w.tidies(t, allNodes)
		w.forward(time.Hour)
		w.refuses(failing("get", &corev1.Node{}, errors.New("no answer")))
		if err := w.tidy(t.Context(), allNodes); err == nil || w.state(t, "node-a") != selffence.Withdrawn {
			t.Errorf("%v, and the Lease is %q", err, w.state(t, "node-a"))
		}
	})
	t.Run("the Lease can't be deleted", func(t *testing.T) {
		w := newWorld(t, leaseOf(t, "node-a", withdrawn))
		w.tidies(t, allNodes)
		w.forward(time.Hour)
		w.refuses(failing("delete", &coordinationv1.Lease{}, errors.New("no answer")))
		if err := w.tidy(t.Context(), allNodes); err == nil || w.state(t, "node-a") != selffence.Withdrawn {
			t.Errorf("%v, and the Lease is %q", err, w.state(t, "node-a"))
		}
	})
	t.Run("the Lease is written meanwhile", func(t *testing.T) {
		w := newWorld(t, leaseOf(t, "node-a", withdrawn))
		w.tidies(t, allNodes)
		w.forward(time.Hour)
		w.refuses(func(verb string, o runtime.Object) error {
			if l, is := o.(*coordinationv1.Lease); is && verb == "delete" {
				w.refuses(nil)
				update(t, w, read(t, w, l.Namespace, l.Name, &coordinationv1.Lease{}), func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} })
			}
			return nil
		})
		w.tidies(t, allNodes)
		if w.state(t, "node-a") != selffence.Withdrawn {
			t.Error("the Lease is deleted that was written meanwhile")
		}
	})
}

// TestARoundIsBounded: a round makes a number of changes, and the next one goes on soon.
func TestARoundIsBounded(t *testing.T) {
	var leases []client.Object
	for i := range mostTidied + 3 {
		leases = append(leases, leaseOf(t, fmt.Sprintf("node-%d", i), condemnedBy("gone-uid")))
	}
	w := newWorld(t, leases...)
	for _, want := range []int{3, 0} {
		w.tidies(t, allNodes)
		left := 0
		for _, l := range leases {
			if w.state(t, l.GetName()) == selffence.Condemned {
				left++
			}
		}
		if left != want {
			t.Errorf("%d Leases are left, want %d", left, want)
		}
	}
}

// TestWhenTheNextRoundComes: after ten minutes, and soon where a round has left something to do.
func TestWhenTheNextRoundComes(t *testing.T) {
	for leases, pause := range map[int]time.Duration{1: tidyEvery, mostTidied + 1: tidySoon} {
		synctest.Test(t, func(t *testing.T) {
			var objects []client.Object
			for i := range leases {
				objects = append(objects, leaseOf(t, fmt.Sprintf("node-%d", i), condemnedBy("gone-uid")))
			}
			w := newWorld(t, objects...)
			w.tidies(t, allNodes)
			<-time.After(pause - time.Millisecond)
			synctest.Wait()
			if early := taken(w.tidying); len(early) != 0 {
				t.Errorf("after %d Leases a round begins too early", leases)
			}
			<-time.After(2 * time.Millisecond)
			synctest.Wait()
			if due := taken(w.tidying); !slices.Equal(due, []string{allNodes}) {
				t.Errorf("after %d Leases no round begins after %v", leases, pause)
			}
		})
	}
}

// TestTidyForOthers: another remediator has the Lease of a node read.
func TestTidyForOthers(t *testing.T) {
	w := newWorld(t)
	w.Tidy("node-a")
	if due := taken(w.tidying); !slices.Equal(due, []string{"node-a"}) {
		t.Errorf("read are those of %v", due)
	}
}

// TestEachLeaseIsForItself: a Lease that is condemned is freed, whatever the others say.
func TestEachLeaseIsForItself(t *testing.T) {
	w := newWorld(t, leaseOf(t, "node-a", condemnedBy("gone-uid")), leaseOf(t, "node-b", withdrawn))
	w.tidies(t, allNodes)
	if w.state(t, "node-a") != selffence.Withdrawn {
		t.Error("it is still condemned")
	}
}

// TestListsAreBounded: of remediations that can't be listed as a whole, any may exist.
func TestListsAreBounded(t *testing.T) {
	w := newWorld(t, leaseOf(t, "node-a", condemnedBy("gone-uid")))
	w.tidies(t, allNodes)
	if w.pages != 3 || w.state(t, "node-a") != selffence.Withdrawn {
		t.Errorf("%d pages of Leases and of remediations were read, and the Lease is %s", w.pages, w.state(t, "node-a"))
	}
	w = newWorld(t, leaseOf(t, "node-a", condemnedBy("gone-uid")))
	w.endless = true
	w.tidies(t, allNodes)
	if w.pages != 200 || w.state(t, "node-a") != selffence.Condemned {
		t.Errorf("%d pages of Leases and of remediations were read, and the Lease is %s", w.pages, w.state(t, "node-a"))
	}
}
