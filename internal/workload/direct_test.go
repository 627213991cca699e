package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var east = types.NamespacedName{Namespace: "fleet", Name: "east"}

// directly calls do with the client of a cluster whose API server answers all requests with answer.
func directly(t *testing.T, answer http.HandlerFunc, do func(t *testing.T, s *server, d *Direct)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.other, s.list = answer, answer
		do(t, s, NewDirect(Config{Secrets: s, Now: clock, dial: s.network.dial, UserAgent: "fettle/test"}))
		s.CloseClientConnections()
		s.Close()
		after(2 * time.Second)
	})
}

const nodeOfEast = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{"l":"1"},"managedFields":[{"manager":"m"}]},` +
	`"spec":{"unschedulable":true,"providerID":"p","taints":[{"key":"k","effect":"NoExecute"}]},` +
	`"status":{"conditions":[{"type":"Ready","status":"False"}],"nodeInfo":{"bootID":"b"},"images":[{"names":["i"]}]}}`

func TestDirectGet(t *testing.T) {
	taints := strings.Repeat(`{"key":"k"},`, mostParts) + `{"key":"k"}`
	for sentence, tc := range map[string]struct {
		answer http.HandlerFunc
		is     func(error) bool
		says   string
	}{
		"it is there":               {says(http.StatusOK, nodeOfEast), func(err error) bool { return err == nil }, ""},
		"it is not there":           {says(http.StatusNotFound, notFound), apierrors.IsNotFound, ""},
		"something else is missing": {says(http.StatusNotFound, "<html>"), func(err error) bool { return !apierrors.IsNotFound(err) }, "HTTP status 404"},
		"it may not be read":        {says(http.StatusForbidden, strings.NewReplacer("NotFound", "Forbidden", "404", "403").Replace(notFound)), apierrors.IsForbidden, "the user in Secret fleet/east-kubeconfig may not get nodes"},
		"no credentials":            {says(http.StatusUnauthorized, strings.NewReplacer("NotFound", "Unauthorized", "404", "401").Replace(notFound)), apierrors.IsUnauthorized, "does not accept the credentials"},
		"it is another":             {says(http.StatusOK, strings.Replace(nodeOfEast, `"a"`, `"b"`, 1)), nil, "something else"},
		"it is a pod":               {says(http.StatusOK, strings.Replace(nodeOfEast, `"Node"`, `"Pod"`, 1)), nil, "something else"},
		"it is of another version":  {says(http.StatusOK, strings.Replace(nodeOfEast, `"v1"`, `"v2"`, 1)), nil, "something else"},
		"it is no JSON":             {says(http.StatusOK, "{"), nil, "something else"},
		"it has too many taints":    {says(http.StatusOK, strings.Replace(nodeOfEast, `{"key":"k","effect":"NoExecute"}`, taints, 1)), nil, "something else"},
		"it has many taints":        {says(http.StatusOK, strings.Replace(nodeOfEast, `{"key":"k","effect":"NoExecute"}`, taints[:len(taints)-len(`,{"key":"k"}`)], 1)), func(err error) bool { return err == nil }, ""},
		"it has many conditions": {says(http.StatusOK, strings.Replace(nodeOfEast, `{"type":"Ready","status":"False"}`, strings.ReplaceAll(taints[:len(taints)-len(`,{"key":"k"}`)], "key", "type"), 1)),
			func(err error) bool { return err == nil }, ""},
		"it is busy": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			says(http.StatusTooManyRequests, strings.NewReplacer("NotFound", "TooManyRequests", "404", "429").Replace(notFound))(w, r)
		}, apierrors.IsTooManyRequests, "does not answer"},
		"it has too many conditions": {says(http.StatusOK, strings.Replace(nodeOfEast, `{"type":"Ready","status":"False"}`, strings.ReplaceAll(taints, "key", "type"), 1)),
			nil, "something else"},
		"its boot ID is long":      {says(http.StatusOK, strings.Replace(nodeOfEast, `"bootID":"b"`, `"bootID":"`+strings.Repeat("b", mostText+1)+`"`, 1)), nil, "something else"},
		"its UUID is long":         {says(http.StatusOK, strings.Replace(nodeOfEast, `"bootID":"b"`, `"bootID":"b","systemUUID":"`+strings.Repeat("b", mostText+1)+`"`, 1)), nil, "something else"},
		"its UID is long":          {says(http.StatusOK, strings.Replace(nodeOfEast, `"uid":"u"`, `"uid":"`+strings.Repeat("u", mostText+1)+`"`, 1)), nil, "something else"},
		"its revision is long":     {says(http.StatusOK, strings.Replace(nodeOfEast, `"7"`, `"`+strings.Repeat("7", mostText+1)+`"`, 1)), nil, "something else"},
		"its labels are large":     {says(http.StatusOK, strings.Replace(nodeOfEast, `"l":"1"`, `"l":"1","m":"`+strings.Repeat("m", mostMetadata)+`"`, 1)), nil, "something else"},
		"its label has a long key": {says(http.StatusOK, strings.Replace(nodeOfEast, `"l":"1"`, `"l":"1","`+strings.Repeat("m", mostMetadata)+`":""`, 1)), nil, "something else"},
		"its labels are at the bound": {says(http.StatusOK, strings.Replace(nodeOfEast, `"l":"1"`, `"l":"1","m":"`+strings.Repeat("m", mostMetadata-len("l1mkNoExecute"))+`"`, 1)),
			func(err error) bool { return err == nil }, ""},
		"its labels are beyond it": {says(http.StatusOK, strings.Replace(nodeOfEast, `"l":"1"`, `"l":"1","m":"`+strings.Repeat("m", mostMetadata-len("l1mkNoExecute")+1)+`"`, 1)), nil, "something else"},
		"its UUID is at the bound": {says(http.StatusOK, strings.Replace(nodeOfEast, `"bootID":"b"`, `"bootID":"b","systemUUID":"`+strings.Repeat("b", mostText)+`"`, 1)),
			func(err error) bool { return err == nil }, ""},
		"its annotations are large": {says(http.StatusOK, strings.Replace(nodeOfEast, `"labels"`, `"annotations":{"a":"`+strings.Repeat("m", mostMetadata)+`"},"labels"`, 1)), nil, "something else"},
		"its taint is large":        {says(http.StatusOK, strings.Replace(nodeOfEast, `"key":"k"`, `"key":"k","value":"`+strings.Repeat("m", mostMetadata)+`"`, 1)), nil, "something else"},
		"it is too large":           {says(http.StatusOK, strings.Repeat(" ", objectBytes+1)+nodeOfEast), nil, "more than 512 KiB"},
		"it never comes":            {func(_ http.ResponseWriter, r *http.Request) { lingers(r) }, nil, "it takes too long"},
	} {
		t.Run(sentence, func(t *testing.T) {
			directly(t, tc.answer, func(t *testing.T, s *server, d *Direct) {
				t.Helper()
				var n corev1.Node
				begun := clock()
				err := d.Client(east).Get(t.Context(), client.ObjectKey{Name: "a"}, &n)
				if tc.is == nil && err == nil || tc.is != nil && !tc.is(err) || tc.says != "" && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("the error is %v, want %q", err, tc.says)
				}
				if took := clock().Sub(begun); took != 0 && (tc.says != "it takes too long" || took != directTimeout) {
					t.Errorf("it took %s", took)
				}
				if apierrors.IsNotFound(err) && strings.Contains(err.Error(), "does not answer") {
					t.Errorf("a cluster that answered: %v", err)
				}
				if err != nil && n.UID != "" {
					t.Errorf("it is %+v", n)
				}
				if err == nil && (n.UID != "u" || n.ResourceVersion != "7" || n.Labels["l"] != "1" || !n.Spec.Unschedulable || len(n.Spec.Taints) == 0 || len(n.Status.Conditions) == 0 ||
					n.Status.NodeInfo.BootID != "b" || n.Spec.ProviderID != "" || n.Status.Images != nil || n.ManagedFields != nil) {
					t.Errorf("it is %+v", n)
				}
				if requests := s.requests("other"); len(requests) != 1 || requests[0] != "/api/v1/nodes/a" {
					t.Errorf("it requested %v", requests)
				}
			})
		})
	}
}

// TestDirectOtherKinds: nothing is requested for a kind that remediators don't use.
func TestDirectOtherKinds(t *testing.T) {
	directly(t, says(http.StatusOK, "{}"), func(t *testing.T, s *server, d *Direct) {
		t.Helper()
		c := d.Client(east)
		err, listing := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.Secret{}), c.List(t.Context(), &corev1.SecretList{})
		patching := c.Patch(t.Context(), &corev1.Secret{}, client.RawPatch(types.MergePatchType, nil))
		if !errors.Is(err, errOther) || !errors.Is(listing, errOther) || !errors.Is(patching, errOther) || len(s.requests("other")) != 0 {
			t.Errorf("%v, %v, after %v", err, listing, s.requests("other"))
		}
	})
}

func TestDirectLists(t *testing.T) {
	const podList, volumeList = `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"%s"},"items":[%s]}`,
		`{"kind":"VolumeAttachmentList","apiVersion":"storage.k8s.io/v1","metadata":{"continue":"%s"},"items":[%s]}`
	pods := `{"metadata":{"deletionTimestamp":"2026-08-03T12:00:00Z"},"spec":{"tolerations":[{"key":"k"}]}},{}`
	many := strings.TrimSuffix(strings.Repeat("{},", podPage), ",")
	for sentence, tc := range map[string]struct {
		list   client.ObjectList
		answer func(limit string) string
		limits string
		says   string
	}{
		"pods":                     {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, "next", pods) }, "64", ""},
		"volumes":                  {&storagev1.VolumeAttachmentList{}, func(string) string { return fmt.Sprintf(volumeList, "next", `{"spec":{"nodeName":"a"}},{}`) }, "256", ""},
		"nothing":                  {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, "", "") }, "64", ""},
		"a token of some length":   {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, strings.Repeat("x", tokenBytes), pods) }, "64", ""},
		"a part of another type":   {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, "next", pods+`,{"spec":5}`) }, "64", "something else"},
		"a full page":              {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, "", many) }, "64", ""},
		"more than were requested": {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, "", many+",{}") }, "64", "something else"},
		"large pods": {&corev1.PodList{}, func(limit string) string {
			if len(limit) > 1 {
				return strings.Repeat(" ", objectBytes+1)
			}
			return fmt.Sprintf(podList, "next", pods)
		}, "64 32 16 8", ""},
		"a pod that is too large": {&corev1.PodList{}, func(string) string { return strings.Repeat(" ", objectBytes+1) }, "64 32 16 8 4 2 1", "more than 512 KiB"},
		"no items, and a next":    {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, "next", "") }, "64", "something else"},
		"the same page again":     {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, "now", pods) }, "64", "something else"},
		"a long token":            {&corev1.PodList{}, func(string) string { return fmt.Sprintf(podList, strings.Repeat("x", tokenBytes+1), pods) }, "64", "something else"},
		"another kind":            {&corev1.PodList{}, func(string) string { return fmt.Sprintf(volumeList, "", "") }, "64", "something else"},
		"no JSON":                 {&storagev1.VolumeAttachmentList{}, func(string) string { return "{" }, "256", "something else"},
	} {
		t.Run(sentence, func(t *testing.T) {
			var limits []string
			directly(t, func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				limits = append(limits, q.Get("limit"))
				if q.Get("continue") != "now" || q.Get("fieldSelector") != "spec.nodeName=a" {
					t.Errorf("it requested %s", r.URL)
				}
				says(http.StatusOK, tc.answer(q.Get("limit")))(w, r)
			}, func(t *testing.T, _ *server, d *Direct) {
				t.Helper()
				err := d.Client(east).List(t.Context(), tc.list, client.Limit(500), client.Continue("now"), client.MatchingFields{"spec.nodeName": "a"})
				if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) || strings.Join(limits, " ") != tc.limits {
					t.Errorf("%v after pages of %v", err, limits)
				}
			})
			switch list := tc.list.(type) {
			case *corev1.PodList:
				if tc.says != "" && (len(list.Items) != 0 || list.Continue != "") {
					t.Errorf("there are pods: %+v", list)
				}
				if strings.HasSuffix(sentence, "pods") && (len(list.Items) != 2 || list.Continue != "next" || list.Items[0].DeletionTimestamp == nil || list.Items[0].Spec.Tolerations[0].Key != "k") {
					t.Errorf("the pods are %+v", list)
				}
			case *storagev1.VolumeAttachmentList:
				if tc.says == "" && (len(list.Items) != 2 || list.Continue != "next" || list.Items[0].Spec.NodeName != "a") {
					t.Errorf("the volumes are %+v", list)
				}
			}
		})
	}
}

// TestDirectWrites: an object is sent as it was given, and a conflict is recognized.
func TestDirectWrites(t *testing.T) {
	uid := types.UID("u")
	var node *corev1.Node
	patch := client.RawPatch(types.MergePatchType, []byte(`{"x":1}`))
	conflict := says(http.StatusConflict, strings.NewReplacer("NotFound", "Conflict", "404", "409").Replace(notFound))
	for sentence, tc := range map[string]struct {
		do   func(context.Context, *DirectClient) error
		want string
	}{
		"a patch": {func(ctx context.Context, c *DirectClient) error { return c.Patch(ctx, node, patch) }, `PATCH /api/v1/nodes/a application/merge-patch+json {"x":1}`},
		"a deletion": {func(ctx context.Context, c *DirectClient) error {
			return c.Delete(ctx, node, client.Preconditions{UID: &uid})
		}, `DELETE /api/v1/nodes/a application/json {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"}}`},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got []string
			directly(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.UserAgent() != "fettle/test" {
					t.Errorf("it is called %q", r.UserAgent())
				}
				got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
				if len(got) == 1 {
					says(http.StatusOK, nodeOfEast)(w, r)
					return
				}
				conflict(w, r)
			}, func(t *testing.T, _ *server, d *Direct) {
				t.Helper()
				node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
				first, second := tc.do(t.Context(), d.Client(east)), tc.do(t.Context(), d.Client(east))
				if first != nil || !apierrors.IsConflict(second) || len(got) != 2 || got[0] != tc.want {
					t.Errorf("%v, %v after %v", first, second, got)
				}
				if patches := strings.HasPrefix(tc.want, "PATCH"); patches != (node.ResourceVersion == "7") {
					t.Errorf("the node is %+v", node)
				}
			})
		})
	}
}

type brokenPatch struct{ client.Patch }

func (brokenPatch) Data(client.Object) ([]byte, error) { return nil, io.ErrUnexpectedEOF }

// TestDirectBrokenPatch: nothing is sent of a patch that can't be encoded.
func TestDirectBrokenPatch(t *testing.T) {
	directly(t, says(http.StatusOK, "{}"), func(t *testing.T, s *server, d *Direct) {
		t.Helper()
		err := d.Client(east).Patch(t.Context(), &corev1.Node{}, brokenPatch{client.RawPatch(types.MergePatchType, nil)})
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(s.requests("other"))+len(s.requests("list")) != 0 {
			t.Errorf("%v after %v", err, s.requests("other"))
		}
	})
}

// TestDirectListRedirected: a smaller page is requested for no other bound than that of the size.
func TestDirectListRedirected(t *testing.T) {
	directly(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, func(t *testing.T, s *server, d *Direct) {
		t.Helper()
		err := d.Client(east).List(t.Context(), &corev1.PodList{})
		if err == nil || !strings.Contains(err.Error(), "redirects") || len(s.requests("other")) != 1 {
			t.Errorf("%v after %v", err, s.requests("other"))
		}
	})
}

// TestDirectSecret: a kubeconfig is used for a while, and not once it was taken away or replaced.
func TestDirectSecret(t *testing.T) {
	directly(t, says(http.StatusOK, nodeOfEast), func(t *testing.T, s *server, d *Direct) {
		t.Helper()
		read := func() error { return d.Client(east).Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.Node{}) }
		want := func(what string, err error, text string, secrets int) {
			t.Helper()
			if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) || len(s.times("secret")) != secrets {
				t.Errorf("%s: %v after %d reads of the Secret, want %d", what, err, len(s.times("secret")), secrets)
			}
		}
		want("first", read(), "", 1)
		after(secretAge - time.Second)
		want("soon", read(), "", 1)
		kept := d.Client(east).api
		after(time.Second)
		want("later", read(), "", 2)
		if d.Client(east).api != kept {
			t.Error("the same kubeconfig makes another connection")
		}
		s.secret = append(s.secret, '\n')
		after(secretAge)
		want("another kubeconfig", read(), "", 3)
		if d.Client(east).api == kept {
			t.Error("another kubeconfig makes no other connection")
		}
		s.secret = []byte("{")
		after(secretAge)
		want("no kubeconfig", read(), "can't be used", 4)
		s.secret = []byte(kubeconfigOf("server: '"+s.URL+"', certificate-authority-data: YQ==", "token: t"))
		want("no certificate", read(), "can't be used", 5)
		s.secretErr = apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "east-kubeconfig")
		want("no Secret", read(), "there is no Secret fleet/east-kubeconfig", 6)
	})
}

// TestDirectCrowd: a cluster has a number of requests at a time, and the others end in time.
func TestDirectCrowd(t *testing.T) {
	directly(t, func(_ http.ResponseWriter, r *http.Request) { lingers(r) }, func(t *testing.T, s *server, d *Direct) {
		t.Helper()
		begun := clock()
		var group sync.WaitGroup
		crowded := make(chan time.Duration, directRequests+1)
		for range directRequests + 1 {
			group.Go(func() {
				err := d.Client(east).Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.Node{})
				if err == nil || strings.Contains(err.Error(), errCrowded.Error()) {
					crowded <- clock().Sub(begun)
				}
			})
		}
		group.Wait()
		if took := clock().Sub(begun); took != directTimeout || len(crowded) != 1 || <-crowded != directWait || len(s.requests("other")) != directRequests || len(d.Client(east).slots) != 0 {
			t.Errorf("after %s and %d requests %d found no room", took, len(s.requests("other")), len(crowded))
		}
	})
}

// TestDirectForgets the clusters that were not used for a while, and no other.
func TestDirectForgets(t *testing.T) {
	directly(t, says(http.StatusOK, nodeOfEast), func(t *testing.T, _ *server, d *Direct) {
		t.Helper()
		west := types.NamespacedName{Namespace: "fleet", Name: "west"}
		first := d.Client(east)
		after(unusedAge)
		d.Client(west)
		if d.Client(east) != first {
			t.Error("it is forgotten too soon")
		}
		after(unusedAge + 1)
		first.slots <- struct{}{}
		d.Client(west)
		if len(d.byCluster) != 2 {
			t.Error("a cluster with a request under way is forgotten")
		}
		<-first.slots
		d.Client(west)
		if len(d.byCluster) != 1 {
			t.Error("it is not forgotten")
		}
	})
}
