package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

var xResource = schema.GroupResource{Group: "x.example", Resource: "xs"}

// answers has the results of calls to the API server, and records the calls.
type answers struct {
	client.WithWatch

	create, get, write error
	// stored is the object that a read returns, in the place of that of the name.
	stored *unstructured.Unstructured
	// created is the object that was created last.
	created client.Object
	calls   []string
}

func (a *answers) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	a.created = o
	a.calls = append(a.calls, "create "+o.GetNamespace()+"/"+o.GetName())
	return a.create
}

func (a *answers) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	a.calls = append(a.calls, "get "+o.GetObjectKind().GroupVersionKind().Kind+" "+key.String())
	if a.get != nil {
		return a.get
	}
	if u, whole := o.(*unstructured.Unstructured); whole && a.stored != nil {
		u.Object = a.stored.DeepCopy().Object
	}
	return nil
}

func (a *answers) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	body, err := patch.Data(o)
	a.calls = append(a.calls, "patch "+o.GetObjectKind().GroupVersionKind().String()+" "+o.GetNamespace()+"/"+o.GetName()+" "+string(patch.Type())+" "+string(body))
	return errors.Join(err, a.write)
}

func (a *answers) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	all := (&client.DeleteOptions{}).ApplyOptions(options)
	body, err := json.Marshal(all.AsDeleteOptions())
	a.calls = append(a.calls, "delete "+o.GetObjectKind().GroupVersionKind().String()+" "+o.GetNamespace()+"/"+o.GetName()+" "+string(body))
	return errors.Join(err, a.write)
}

// refusals are errors of the API server, and what a user is told to do about each.
func refusals() map[string]struct {
	err    error
	advice string
} {
	terminating := apierrors.NewForbidden(xResource, "w", errDown)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return map[string]struct {
		err    error
		advice string
	}{
		"the namespace ends": {terminating, "; use a template in another namespace"},
		"it is forbidden": {
			apierrors.NewForbidden(xResource, "w", errDown),
			"; create a ClusterRole with the label fettle.io/aggregate-to-fettle=true that grants get, list, watch, create, patch and delete of this kind, as docs/contract.md shows",
		},
		"there is no namespace":    {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "remediators"), "; create the namespace"},
		"another thing is missing": {apierrors.NewNotFound(xResource, "w"), ""},
		"it is down":               {errDown, ""},
	}
}

// TestRefusedRequests are errors, with advice, or say that the facts are out of date.
func TestRefusedRequests(t *testing.T) {
	for sentence, tc := range refusals() {
		d := knows(t, namespaced(synced), namespaced(synced), plainTemplate)
		d.API = &answers{create: tc.err}
		result, err := d.Start(t.Context(), nodeCall())
		if result != 0 || !errors.Is(err, tc.err) {
			t.Fatalf("%s: the result is %s, %v", sentence, result, err)
		}
		if want := "creating X remediators/w for Node w: " + tc.err.Error() + tc.advice; err.Error() != want {
			t.Errorf("%s: %v, want %s", sentence, err, want)
		}
	}
	exists := apierrors.NewAlreadyExists(xResource, "w")
	for sentence, tc := range map[string]struct {
		api    *answers
		result core.RemedyResult
		says   string
	}{
		"the kind is gone":             {&answers{create: &meta.NoKindMatchError{}}, core.Stale, ""},
		"it exists, and is gone now":   {&answers{create: exists, get: apierrors.NewNotFound(xResource, "w")}, core.Stale, ""},
		"it exists, and can't be read": {&answers{create: exists, get: errDown}, 0, "reading X remediators/w, which exists already: " + errDown.Error()},
		"it exists, and is not ours":   {&answers{create: exists}, 0, "X  exists already and has no owner"},
	} {
		d := knows(t, namespaced(synced), namespaced(synced), plainTemplate)
		d.API = tc.api
		result, err := d.Start(t.Context(), nodeCall())
		if result != tc.result || (err != nil) != (tc.says != "") || (err != nil && !strings.HasPrefix(err.Error(), tc.says)) {
			t.Errorf("%s: the result is %s, %v", sentence, result, err)
		}
	}
}

// TestMachineThatCantBeRead: no request is made for it.
func TestMachineThatCantBeRead(t *testing.T) {
	d := knows(t, namespaced(synced), namespaced(synced), "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: machines}, spec: {template: {spec: {}}}}")
	api := &answers{get: errDown}
	d.API = api
	result, err := d.Start(t.Context(), machineCall())
	if result != 0 || !errors.Is(err, errDown) || !strings.HasPrefix(err.Error(), "reading Machine machines/m before ") {
		t.Errorf("the result is %s, %v", result, err)
	}
	if diff := cmp.Diff([]string{"get Machine machines/m"}, api.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestStepsOfNothingAreStale: without its kinds, or without a template, there is nothing to create.
func TestStepsOfNothingAreStale(t *testing.T) {
	d := knows(t, namespaced(synced), namespaced(synced))
	d.API = &answers{}
	odd := nodeCall()
	odd.Step.Template.Kind = "X"
	other := nodeCall()
	other.Step.Template.Kind = "YTemplate"
	for sentence, call := range map[string]core.RemedyCall{"no template": nodeCall(), "a kind of no template": odd, "an unknown kind": other} {
		if result, err := d.Start(t.Context(), call); result != core.Stale || err != nil {
			t.Errorf("%s: the result is %s, %v", sentence, result, err)
		}
	}
	for _, unknown := range []schema.GroupVersionKind{xTemplates, xs} {
		d := knows(t, namespaced(synced), namespaced(synced), plainTemplate)
		d.API = &answers{}
		delete(d.kinds, unknown)
		if result, err := d.Start(t.Context(), nodeCall()); result != core.Stale || err != nil {
			t.Errorf("%s is not known: the result is %s, %v", unknown.Kind, result, err)
		}
	}
}

// TestCreatedRequestIsNotRead: the creation is the only call.
func TestCreatedRequestIsNotRead(t *testing.T) {
	d, api := knows(t, namespaced(synced), namespaced(synced), plainTemplate), &answers{}
	d.API = api
	if result, err := d.Start(t.Context(), nodeCall()); result != core.Accepted || err != nil {
		t.Errorf("the result is %s, %v", result, err)
	}
	if diff := cmp.Diff([]string{"create remediators/w"}, api.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// ownRequest is a request that Fettle has made.
func ownRequest() core.Request {
	return core.Request{ID: core.ID{Kind: "X", Namespace: "remediators", Name: "w", UID: "x-uid"}, APIVersion: "x.example/v1", Own: true}
}

// TestRequestsAreStoppedAndWithdrawn by calls that hit no namesake.
func TestRequestsAreStoppedAndWithdrawn(t *testing.T) {
	conflict, invalid := apierrors.NewConflict(xResource, "w", errDown), apierrors.NewInvalid(xs.GroupKind(), "w", nil)
	gone := apierrors.NewNotFound(xResource, "w")
	with := func(uid string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetUID(types.UID(uid))
		return u
	}
	const get = "get X remediators/w"
	for call, do := range map[string]struct {
		run   func(c *Client, r core.Request) error
		sends string
		says  string
	}{
		"Stop": {
			func(c *Client, r core.Request) error {
				return c.Stop(t.Context(), r, noon.In(time.FixedZone("", 3600)))
			},
			`patch x.example/v1, Kind=X remediators/w application/merge-patch+json {"metadata":{"annotations":{"remediation.medik8s.io/nhc-timed-out":"2026-08-03T12:00:00Z"},"uid":"x-uid"}}`,
			"telling X remediators/w to stop: ",
		},
		"Withdraw": {
			func(c *Client, r core.Request) error {
				_, err := c.Withdraw(t.Context(), r)
				return err
			},
			`delete x.example/v1, Kind=X remediators/w {"preconditions":{"uid":"x-uid"},"propagationPolicy":"Background"}`,
			"withdrawing X remediators/w: ",
		},
	} {
		for sentence, tc := range map[string]struct {
			api   answers
			fails error
			reads bool
		}{
			"it is there":                   {answers{}, nil, false},
			"it is gone":                    {answers{write: gone}, nil, false},
			"its kind is gone":              {answers{write: &meta.NoKindMatchError{}}, nil, false},
			"it was replaced":               {answers{write: conflict, stored: with("another")}, nil, true},
			"it was replaced, says another": {answers{write: invalid, stored: with("another")}, nil, true},
			"it went meanwhile":             {answers{write: conflict, get: gone}, nil, true},
			"it is refused":                 {answers{write: conflict, stored: with("x-uid")}, conflict, true},
			"it is invalid":                 {answers{write: invalid, stored: with("x-uid")}, invalid, true},
			"it can't be read":              {answers{write: conflict, get: errDown, stored: with("another")}, conflict, true},
			"the API server is down":        {answers{write: errDown, stored: with("another")}, errDown, false},
		} {
			api := tc.api
			err := do.run(NewClient(Config{API: &api}), ownRequest())
			if !errors.Is(err, tc.fails) || (err != nil && err.Error() != do.says+tc.fails.Error()) {
				t.Errorf("%s, %s: %v", call, sentence, err)
			}
			want := []string{do.sends}
			if tc.reads {
				want = append(want, get)
			}
			if diff := cmp.Diff(want, api.calls); diff != "" {
				t.Errorf("%s, %s: calls (-want +got):\n%s", call, sentence, diff)
			}
		}
		forbidden := apierrors.NewForbidden(xResource, "w", errDown)
		err := do.run(NewClient(Config{API: &answers{write: forbidden}}), ownRequest())
		if !errors.Is(err, forbidden) || !strings.Contains(err.Error(), "; create a ClusterRole ") {
			t.Errorf("%s, forbidden: %v", call, err)
		}
	}
}

// TestRequestsThatNeedNoCall: some requests need no call, and others must get none.
func TestRequestsThatNeedNoCall(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change          func(*core.Request)
		stops, withdraw string
	}{
		"stopped already": {func(r *core.Request) { r.Stopped, r.Leaving = noon, true }, "", ""},
		"of another":      {func(r *core.Request) { r.Own = false }, "telling X remediators/w to stop: " + errForeign.Error(), "withdrawing X remediators/w: " + errForeign.Error()},
		"without a UID":   {func(r *core.Request) { r.ID.UID = "" }, "telling X remediators/w to stop: " + errNoUID.Error(), "withdrawing X remediators/w: " + errNoUID.Error()},
	} {
		r := ownRequest()
		tc.change(&r)
		api := &answers{}
		c := NewClient(Config{API: api})
		_, withdrawn := c.Withdraw(t.Context(), r)
		for i, err := range []error{c.Stop(t.Context(), r, noon), withdrawn} {
			want, got := []string{tc.stops, tc.withdraw}[i], ""
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: %q, want %q", sentence, got, want)
			}
		}
		if len(api.calls) > 0 {
			t.Errorf("%s: calls %q", sentence, api.calls)
		}
	}
}

// TestReplicasThatDoNotLeadWatch too, so that they know all kinds when they lead.
func TestReplicasThatDoNotLeadWatch(t *testing.T) {
	if NewClient(Config{}).NeedLeaderElection() {
		t.Error("watching waits for the lead")
	}
}

// TestFinalizersOfRequests are those of their kind, if there are any.
func TestFinalizersOfRequests(t *testing.T) {
	for want, of := range map[string]func(schema.GroupKind) []string{
		"[]":    nil,
		"[X/f]": func(kind schema.GroupKind) []string { return []string{kind.Kind + "/f"} },
	} {
		api := &answers{}
		d := knows(t, namespaced(synced), namespaced(synced), plainTemplate)
		d.API, d.Finalizers = api, of
		if result, err := d.Start(t.Context(), nodeCall()); result != core.Accepted || err != nil {
			t.Fatalf("the result is %s, %v", result, err)
		}
		if got := fmt.Sprint(api.created.GetFinalizers()); got != want {
			t.Errorf("the request has the finalizers %s, want %s", got, want)
		}
	}
}
