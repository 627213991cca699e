package annotate

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

// marks are the annotations of OpenShift's bare-metal platform.
var marks = map[string]string{"host.metal3.io/external-remediation": "", "machine.openshift.io/remediation-strategy": "external-baremetal"}

func target(uid, revision string) core.Target {
	return core.Target{ID: core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: uid}, Revision: revision}
}

// patcher answers patches; nothing else is ever called.
type patcher func(obj client.Object, patch client.Patch, opts *client.PatchOptions) error

func (p patcher) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return p(obj, patch, (&client.PatchOptions{}).ApplyOptions(opts))
}

func (patcher) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errUncalled
}

func (patcher) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errUncalled
}

func (patcher) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errUncalled
}

func (patcher) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errUncalled
}

func (patcher) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errUncalled
}

var (
	errUncalled = errors.New("a machine is annotated, and nothing else is done")
	errDown     = errors.New("the API server is down")
)

// TestI11MarkInsistsOnWhatWasJudged: a namesake is never marked, nor a machine that has changed, and
// nothing else about the machine is touched.
func TestI11MarkInsistsOnWhatWasJudged(t *testing.T) {
	calls := 0
	c := NewClient(machines, marks, patcher(func(obj client.Object, patch client.Patch, opts *client.PatchOptions) error {
		calls++
		m := obj.(*metav1.PartialObjectMetadata)
		if got := m.GroupVersionKind(); got != machines || m.Namespace != "machines" || m.Name != "m" {
			t.Errorf("it patches %s %s/%s", got, m.Namespace, m.Name)
		}
		body, err := patch.Data(obj)
		want := `{"metadata":{"annotations":{"host.metal3.io/external-remediation":"","machine.openshift.io/remediation-strategy":"external-baremetal"},"resourceVersion":"7","uid":"m-uid"}}`
		if err != nil || patch.Type() != types.MergePatchType || string(body) != want {
			t.Errorf("the patch is %s %s (%v), want %s", patch.Type(), body, err, want)
		}
		if diff := cmp.Diff(&client.PatchOptions{}, opts); diff != "" {
			t.Errorf("options (-want +got):\n%s", diff)
		}
		return nil
	}))
	if answer, err := c.Start(t.Context(), core.RemedyCall{Target: target("m-uid", "7")}); answer != core.Accepted || err != nil || calls != 1 {
		t.Errorf("got %s, %v after %d calls", answer, err, calls)
	}
}

func TestI11NothingIsMarkedWithoutUIDAndRevision(t *testing.T) {
	for sentence, unknown := range map[string]core.Target{
		"no UID": target("", "7"), "no revision": target("m-uid", ""), "neither": target("", ""), "no target": {},
	} {
		c := NewClient(machines, marks, patcher(func(client.Object, client.Patch, *client.PatchOptions) error {
			t.Errorf("%s: it was patched", sentence)
			return nil
		}))
		if answer, err := c.Start(t.Context(), core.RemedyCall{Target: unknown}); err == nil || answer != 0 {
			t.Errorf("%s gives %s, %v", sentence, answer, err)
		}
	}
}

// TestWhatIsMarkedStaysAsItIs: its mark may have been made by hand, and have a value.
func TestWhatIsMarkedStaysAsItIs(t *testing.T) {
	c := NewClient(machines, marks, patcher(func(client.Object, client.Patch, *client.PatchOptions) error {
		t.Error("it was patched")
		return nil
	}))
	marked := target("m-uid", "7")
	marked.ExternallyRemediated = true
	if answer, err := c.Start(t.Context(), core.RemedyCall{Target: marked}); answer != core.Accepted || err != nil {
		t.Errorf("got %s, %v", answer, err)
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
		"accepted":  {"it is marked", nil, core.Accepted, false},
		"not found": {"there is no machine to repair", apierrors.NewNotFound(resource, "m"), core.Vanished, false},
		"conflict":  {"it must be judged again", apierrors.NewConflict(resource, "m", errors.New("precondition failed")), core.Stale, false},
		"forbidden": {"an administrator must grant the right", apierrors.NewForbidden(resource, "m", errors.New("no")), 0, true},
		"refused by a webhook": {
			"the API server says why", apierrors.NewInvalid(machines.GroupKind(), "m", nil), 0, true,
		},
		"no answer": {"the result is unknown", errDown, 0, true},
		"cancelled": {"the result is unknown", context.DeadlineExceeded, 0, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c := NewClient(machines, marks, patcher(func(client.Object, client.Patch, *client.PatchOptions) error { return tc.answer }))
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
