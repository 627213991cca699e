package machinedelete

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

var machines = schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"}

func target(uid, revision string) core.Target {
	return core.Target{ID: core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: uid}, Revision: revision}
}

// deleter answers deletions; nothing else is ever called.
type deleter func(obj client.Object, opts *client.DeleteOptions) error

func (d deleter) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return d(obj, (&client.DeleteOptions{}).ApplyOptions(opts))
}

func (deleter) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errUncalled
}

func (deleter) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errUncalled
}

func (deleter) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errUncalled
}

func (deleter) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errUncalled
}

func (deleter) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errUncalled
}

var (
	errUncalled = errors.New("a machine is deleted, and nothing else is done")
	errDown     = errors.New("the API server is down")
)

// TestI11DeletionInsistsOnWhatWasJudged: a namesake is never hit, nor a machine that has changed.
func TestI11DeletionInsistsOnWhatWasJudged(t *testing.T) {
	calls := 0
	c := NewClient(machines, deleter(func(obj client.Object, opts *client.DeleteOptions) error {
		calls++
		m := obj.(*metav1.PartialObjectMetadata)
		if got := m.GroupVersionKind(); got != machines {
			t.Errorf("it deletes a %s", got)
		}
		if m.Namespace != "machines" || m.Name != "m" {
			t.Errorf("it deletes %s/%s", m.Namespace, m.Name)
		}
		uid, revision := types.UID("m-uid"), "7"
		want := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}}
		if diff := cmp.Diff(want, opts); diff != "" {
			t.Errorf("options (-want +got):\n%s", diff)
		}
		return nil
	}))
	if answer, err := c.Start(t.Context(), core.RemedyCall{Target: target("m-uid", "7")}); answer != core.Accepted || err != nil || calls != 1 {
		t.Errorf("got %s, %v after %d calls", answer, err, calls)
	}
}

func TestI11NothingIsDeletedWithoutUIDAndRevision(t *testing.T) {
	for sentence, unknown := range map[string]core.Target{
		"no UID": target("", "7"), "no revision": target("m-uid", ""), "neither": target("", ""), "no target": {},
	} {
		c := NewClient(machines, deleter(func(client.Object, *client.DeleteOptions) error {
			t.Errorf("%s: it was deleted", sentence)
			return nil
		}))
		if answer, err := c.Start(t.Context(), core.RemedyCall{Target: unknown}); err == nil || answer != 0 {
			t.Errorf("%s gives %s, %v", sentence, answer, err)
		}
	}
}

// TestRenderKeepsTargetsApart: two deletions share no preconditions.
func TestRenderKeepsTargetsApart(t *testing.T) {
	_, first := render(machines, target("a", "1"))
	_, _ = render(machines, target("b", "2"))
	opts := (&client.DeleteOptions{}).ApplyOptions([]client.DeleteOption{first})
	if *opts.Preconditions.UID != "a" || *opts.Preconditions.ResourceVersion != "1" {
		t.Errorf("the first deletion insists on %s at %s", *opts.Preconditions.UID, *opts.Preconditions.ResourceVersion)
	}
}

func TestAnswers(t *testing.T) {
	resource := schema.GroupResource{Group: machines.Group, Resource: "machines"}
	cases := map[string]struct {
		reason string
		answer error
		want   core.RemedyResult
		fails  bool
	}{
		"accepted":  {"it is being deleted", nil, core.Accepted, false},
		"not found": {"it is gone, which is what was wanted", apierrors.NewNotFound(resource, "m"), core.Vanished, false},
		"conflict":  {"it must be judged again", apierrors.NewConflict(resource, "m", errors.New("precondition failed")), core.Stale, false},
		"forbidden": {"an administrator must grant the right", apierrors.NewForbidden(resource, "m", errors.New("no")), 0, true},
		"throttled": {"it is tried again later", apierrors.NewTooManyRequests("slow down", 1), 0, true},
		"refused by a webhook": {
			"the API server says why", apierrors.NewInvalid(machines.GroupKind(), "m", nil), 0, true,
		},
		"no answer": {"the result is unknown", errDown, 0, true},
		"cancelled": {"the result is unknown", context.DeadlineExceeded, 0, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c := NewClient(machines, deleter(func(client.Object, *client.DeleteOptions) error { return tc.answer }))
			got, err := c.Start(t.Context(), core.RemedyCall{Target: target("m-uid", "7")})
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %s, %v; want %s, an error: %t. %s", got, err, tc.want, tc.fails, tc.reason)
			}
			if tc.fails && !errors.Is(err, tc.answer) {
				t.Errorf("the error %v does not wrap %v", err, tc.answer)
			}
		})
	}
}
