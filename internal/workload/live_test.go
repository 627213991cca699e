package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apifields "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// reading calls read with a connected connection. Answer answers all requests but lists and watches of all nodes.
func reading(t *testing.T, answer http.HandlerFunc, read func(t *testing.T, s *server, c *Connection)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.other = answer
		c, end := s.connects()
		defer end()
		after(time.Second)
		read(t, s, c)
	})
}

// says answers with a body in JSON.
func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

const notFound = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`

func TestReadNode(t *testing.T) {
	cases := map[string]struct {
		answer http.HandlerFunc
		state  core.NodeState
		fails  string
	}{
		"it is there":                 {func(w http.ResponseWriter, _ *http.Request) { (&server{T: t}).sendsObject(w, nodeNamed("a")) }, core.NodePresent, ""},
		"it is not there":             {says(http.StatusNotFound, notFound), core.NodeGone, ""},
		"something else is not there": {says(http.StatusNotFound, "<html>"), 0, "getting node a: "},
		"it may not be read":          {says(http.StatusForbidden, ""), 0, "getting node a: "},
		"it comes in JSON":            {says(http.StatusOK, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}`), 0, "did not request"},
		"it is something else":        {func(w http.ResponseWriter, _ *http.Request) { (&server{T: t}).sendsObject(w, &corev1.Pod{}) }, 0, "where a node belongs"},
		"it is too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", protobuf)
			_, _ = w.Write(make([]byte, nodeBytes+1))
		}, 0, "more than 2048 KiB"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			reading(t, tc.answer, func(t *testing.T, s *server, c *Connection) {
				t.Helper()
				n, err := c.ReadNode(t.Context(), "a")
				if (err == nil) != (tc.fails == "") || (err != nil && !strings.Contains(err.Error(), tc.fails)) || n.State != tc.state || (err == nil && n.Name != "a") {
					t.Errorf("it is read as %+v, %v; want %s, %q", n, err, tc.state, tc.fails)
				}
				if got := s.requests("other"); len(got) != 1 || got[0] != "/api/v1/nodes/a" {
					t.Errorf("it requests %v", got)
				}
			})
		})
	}
}

// TestI15ReadsEndInTime, whatever time their callers have.
func TestI15ReadsEndInTime(t *testing.T) {
	pods := unstructuredList("v1", "PodList")
	namespace := metadataOf("", "v1", "Namespace")
	for sentence, read := range map[string]func(*Connection, context.Context) error{
		"a node": func(c *Connection, ctx context.Context) error {
			_, err := c.ReadNode(ctx, "a")
			return err
		},
		"nodes": func(c *Connection, ctx context.Context) error {
			return c.Live().List(ctx, &slim.NodeList{}, client.HasLabels{"x"})
		},
		"pods": func(c *Connection, ctx context.Context) error { return c.Live().List(ctx, pods) },
		"a namespace": func(c *Connection, ctx context.Context) error {
			return c.Live().Get(ctx, client.ObjectKey{Name: "n"}, namespace)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			drips := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", protobuf)
				for r.Context().Err() == nil {
					_, _ = w.Write([]byte{0})
					_ = http.NewResponseController(w).Flush()
					<-time.After(time.Second)
				}
				lingers(r)
			}
			reading(t, drips, func(t *testing.T, _ *server, c *Connection) {
				t.Helper()
				began := clock()
				if err := read(c, t.Context()); !errors.Is(err, context.DeadlineExceeded) || clock().Sub(began) != readTimeout {
					t.Errorf("after %s it fails with %v", clock().Sub(began), err)
				}
			})
		})
	}
}

func metadataOf(group, version, kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return m
}

func unstructuredList(apiVersion, kind string) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u
}

func TestLiveGet(t *testing.T) {
	named := client.ObjectKey{Namespace: "kube-system", Name: "x"}
	cases := map[string]struct {
		of     client.Object
		key    client.ObjectKey
		answer http.HandlerFunc
		path   string
		fails  error
	}{
		"a namespace": {metadataOf("", "v1", "Namespace"), client.ObjectKey{Name: "x"}, says(200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x"}}`), "/api/v1/namespaces/x", nil},
		"a lease": {metadataOf("coordination.k8s.io", "v1", "Lease"), named, says(200, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"x"}}`),
			"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", nil},
		"another kind than was requested": {metadataOf("", "v1", "Pod"), named, says(200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x"}}`), "/api/v1/namespaces/kube-system/pods/x", errNotObjects},
		"no object":                       {metadataOf("", "v1", "Pod"), named, says(200, `<html>`), "/api/v1/namespaces/kube-system/pods/x", errNotObjects},
		"more than is accepted":           {metadataOf("", "v1", "Pod"), named, says(200, strings.Repeat(" ", objectBytes+1)), "/api/v1/namespaces/kube-system/pods/x", errBound},
		"a kind that no guard reads":      {metadataOf("", "v1", "Secret"), named, nil, "", errKind},
		"an object that has a type":       {&corev1.Pod{}, named, nil, "", errKind},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			accepts := ""
			reading(t, func(w http.ResponseWriter, r *http.Request) {
				accepts = r.Header.Get("Accept")
				tc.answer(w, r)
			}, func(t *testing.T, s *server, c *Connection) {
				t.Helper()
				err := c.Live().Get(t.Context(), tc.key, tc.of)
				if !errors.Is(err, tc.fails) || (err == nil && tc.of.GetName() != "x") {
					t.Errorf("it is read as %v, %v; want %v", tc.of, err, tc.fails)
				}
				if got := strings.Join(s.requests("other"), ","); got != tc.path || (got != "" && accepts != "application/json") {
					t.Errorf("it requests %q as %q, want %q", got, accepts, tc.path)
				}
			})
		})
	}
	reading(t, says(http.StatusNotFound, notFound), func(t *testing.T, _ *server, c *Connection) {
		t.Helper()
		if err := c.Live().Get(t.Context(), named, metadataOf("", "v1", "Pod")); !apierrors.IsNotFound(err) {
			t.Errorf("what is not there is read with %v", err)
		}
	})
}

func TestLiveList(t *testing.T) {
	list := func(next string, items ...string) http.HandlerFunc {
		body := fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
		return says(200, body)
	}
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`
	some := []client.ListOption{
		client.InNamespace("n"), client.MatchingLabels{"a": "b"}, client.MatchingFieldsSelector{Selector: apifields.OneTermEqualSelector("c", "d")}, client.Limit(1), client.Continue("t"),
	}
	cases := map[string]struct {
		into    client.ObjectList
		options []client.ListOption
		answer  http.HandlerFunc
		path    string
		fails   error
		items   int
	}{
		"all":                      {unstructuredList("v1", "PodList"), nil, list("", pod, pod), "/api/v1/pods", nil, 2},
		"some":                     {unstructuredList("v1", "PodList"), some, list("more", pod), "/api/v1/namespaces/n/pods?continue=t&fieldSelector=c%3Dd&labelSelector=a%3Db&limit=1", nil, 1},
		"budgets":                  {unstructuredList("policy/v1", "PodDisruptionBudgetList"), nil, says(200, `{"kind":"PodDisruptionBudgetList","apiVersion":"policy/v1","items":[]}`), "/apis/policy/v1/poddisruptionbudgets", nil, 0},
		"a long token":             {unstructuredList("v1", "PodList"), nil, list(strings.Repeat("t", tokenBytes), pod), "/api/v1/pods", nil, 1},
		"a token that is too long": {unstructuredList("v1", "PodList"), nil, list(strings.Repeat("t", tokenBytes+1), pod), "/api/v1/pods", errEndless, 1},
		"a page without items that is not the last": {unstructuredList("v1", "PodList"), nil, list("more"), "/api/v1/pods", errEndless, 0},
		"more than is accepted":                     {unstructuredList("v1", "PodList"), nil, says(200, strings.Repeat(" ", objectBytes+1)), "/api/v1/pods", errBound, 0},
		"a kind that no guard reads":                {unstructuredList("v1", "SecretList"), nil, nil, "", errKind, 0},
		"a kind that has no name":                   {unstructuredList("v1", "Li"), nil, nil, "", errKind, 0},
		"a list that has a type":                    {&corev1.PodList{}, nil, nil, "", errKind, 0},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			reading(t, tc.answer, func(t *testing.T, s *server, c *Connection) {
				t.Helper()
				err := c.Live().List(t.Context(), tc.into, tc.options...)
				u, _ := tc.into.(*unstructured.UnstructuredList)
				if !errors.Is(err, tc.fails) || (u != nil && len(u.Items) != tc.items) {
					t.Errorf("it is read as %v, %v; want %d items, %v", tc.into, err, tc.items, tc.fails)
				}
				if got := strings.Join(s.requests("other"), ","); got != tc.path {
					t.Errorf("it requests %q, want %q", got, tc.path)
				}
			})
		})
	}
}

// TestLiveListOfNodes: lists of nodes are decoded to slim nodes, up to the number that the cluster may have.
func TestLiveListOfNodes(t *testing.T) {
	named := func(names ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { (&server{T: t}).sendsPage(w, "", names...) }
	}
	cases := map[string]struct {
		answer http.HandlerFunc
		fails  string
		nodes  int
	}{
		"some":                  {named("a", "b"), "", 2},
		"none":                  {named(), "", 0},
		"more than it may have": {named("a", "b", "c"), "more than 2 nodes", 0},
		"in JSON":               {says(200, `{"kind":"NodeList","apiVersion":"v1"}`), "did not request", 0},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", protobuf)
			_, _ = w.Write(make([]byte, pageBytes+1))
		}, "more than 4096 KiB", 0},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			reading(t, tc.answer, func(t *testing.T, s *server, c *Connection) {
				t.Helper()
				c.Bounds.Nodes = 2
				into := &slim.NodeList{}
				err := c.Live().List(t.Context(), into, client.HasLabels{"role"})
				if (err == nil) != (tc.fails == "") || (err != nil && !strings.Contains(err.Error(), tc.fails)) || len(into.Items) != tc.nodes {
					t.Errorf("%d are read, %v; want %d, %q", len(into.Items), err, tc.nodes, tc.fails)
				}
				if diff := cmp.Diff([]string{"/api/v1/nodes?labelSelector=role"}, s.requests("other")); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestNothingIsReadWithoutAConnection, be it before the first or after it was dropped.
func TestNothingIsReadWithoutAConnection(t *testing.T) {
	c := New(Config{Now: clock}).Keep(types.NamespacedName{Name: "east"})
	if _, err := c.ReadNode(t.Context(), "a"); !errors.Is(err, errNotConnected) {
		t.Errorf("a node is read with %v", err)
	}
	if err := c.Live().Get(t.Context(), client.ObjectKey{Name: "x"}, metadataOf("", "v1", "Namespace")); !errors.Is(err, errNotConnected) {
		t.Errorf("an object is read with %v", err)
	}
	if err := c.Live().List(t.Context(), &slim.NodeList{}); !errors.Is(err, errNotConnected) {
		t.Errorf("a list is read with %v", err)
	}
}
