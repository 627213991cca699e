package servedapi

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// api answers lists, and refuses those of one kind.
type api struct {
	client.Reader

	m      *fixture
	refuse string
	err    error // of all lists, if it is set
}

func (a *api) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	kind := list.GetObjectKind().GroupVersionKind()
	a.m.note(fmt.Sprintf("list %d %s in %q", o.Limit, kind.Kind, o.Namespace))
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	if kind.Kind == a.refuse {
		return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: "others"}, "", errDown)
	}
	return a.err
}

func (a *api) answers(err error) {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	a.err = err
}

func (a *api) refuses(kind string) {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	a.refuse = kind
}

// TestPartsAskFirst: a part that may not list one of its kinds begins no watch, which would be refused without end.
func TestPartsAskFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := begins(t, map[string][]string{"p": {things}})
		a := &api{m: m}
		m.waker.API = a
		part := &m.waker.Parts[0]
		part.Optional = false
		m.stop()
		part.Reads = append(ReadsOf(schema.GroupVersion{Group: "example.org", Version: "v1"}, "Thing", "Other"), Read{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Lease"}, Namespace: "n"})
		part.Grants = "config/things"
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = m.waker.Start(ctx) }()
		synctest.Wait()
		m.diary = nil
		a.refuses("OtherList")
		m.defines(things)
		m.wantDid("it may not list the second kind", 0, `list 1 ThingList in ""`, `list 1 OtherList in ""`,
			`log "level"=0 "msg"="asleep until this may read what it needs" "part"="p" "why"="listing Other of example.org/v1: others.example.org is forbidden: the API server is down; apply config/things"`)
		m.wantForbidden("it may not", 1)
		if err := m.waker.Checks()["p"](nil); err == nil {
			t.Error("a part that every installation may read is ready without")
		}
		a.refuses("")
		a.answers(errDown)
		m.wantDid("its first kind can't be listed", allowedCheck, `list 1 ThingList in ""`,
			`log "msg"="could not begin to watch; it is tried again" "error"="listing Thing of example.org/v1: the API server is down" "part"="p"`)
		a.answers(nil)
		m.wantDid("it can be listed", servedCheck, `list 1 ThingList in ""`, `list 1 OtherList in ""`, `list 1 LeaseList in "n"`, "watch p", isUp, "awake")
		m.wantForbidden("it may", 0)
		cancel()
		synctest.Wait()
	})
}
