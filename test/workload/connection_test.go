package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/workload"
	"github.com/fettle-io/fettle/test/cluster"
)

const nodesPath = "/api/v1/nodes"

// TestConnection runs all parts on one API server, whose start takes longer than the rest.
func TestConnection(t *testing.T) {
	s := start(t)
	s.node("a", corev1.ConditionTrue, time.Now().Add(-time.Hour))
	for name, test := range map[string]func(*stage){
		"takes in nodes and wakes for what matters":      takesInNodes,
		"is not believed while a cluster is silent":      fallsSilent,
		"is not believed while a cluster is not ready":   isNotReady,
		"finds out about a lost watch":                   losesItsWatch,
		"says what is wrong with a Secret":               wrongSecrets,
		"reads what guards read":                         readsLive,
		"picks up a kubeconfig that works, at once":      rotated,
		"picks up a kubeconfig that has changed":         changed,
		"says what rights are missing":                   lacksRights,
		"drops an unused cluster":                        letsGo,
		"goes on with a namesake of an unused cluster":   namesakes,
		"carries credentials to no other server":         redirected,
		"is known by name, whichever cluster a node has": sameNames,
	} {
		t.Run(name, func(t *testing.T) {
			s.T = t
			s.connects(quick)
			test(s)
		})
	}
	s.T = t
	t.Run("is back when the API server is", func(t *testing.T) {
		s.T = t
		s.connects(quick)
		comesBack(s)
	})
}

func takesInNodes(s *stage) {
	t := s.T
	s.keeps("east", s.account("east"))
	c := s.Keep(named("east"))
	s.answers(c)
	s.knows(c, "a", corev1.ConditionTrue)
	since := time.Now().Add(-time.Hour)
	s.node("a", corev1.ConditionTrue, since)
	s.node("b", corev1.ConditionTrue, since)
	s.knows(c, "b", corev1.ConditionTrue)
	before := s.wakes("east")
	for range 3 {
		s.node("a", corev1.ConditionTrue, since)
	}
	s.node("b", corev1.ConditionFalse, time.Now())
	s.knows(c, "b", corev1.ConditionFalse)
	if woken := s.wakes("east") - before; woken > 2 {
		t.Errorf("three heartbeats, a new node and its condition have woken %d times", woken)
	}
	live, err := c.ReadNode(cluster.Context(t), "b")
	if err != nil || live.State != core.NodePresent || live.UID == "" || len(live.Conditions) != 1 {
		t.Errorf("b is read as %+v, %v", live, err)
	}
	var list slim.NodeList
	if err := c.Live().List(cluster.Context(t), &list); err != nil || len(list.Items) < 2 {
		t.Errorf("%d nodes are read live, %v", len(list.Items), err)
	}
	before = s.wakes("east")
	if err := s.Delete(cluster.Context(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}); err != nil {
		t.Fatalf("deleting b: %v", err)
	}
	s.Eventually(t, "b is gone", func(context.Context) error {
		if _, err := ready(c, "b"); !errors.Is(err, errMissing) || s.wakes("east") == before {
			return fmt.Errorf("it is there (%w), woken: %t", err, s.wakes("east") > before)
		}
		return nil
	})
	if live, err = c.ReadNode(cluster.Context(t), "b"); err != nil || live.State != core.NodeGone {
		t.Errorf("what is gone is read as %+v, %v", live, err)
	}
	wantSeries(t, s.Connections, "fettle_workload_cluster_up east: 1", "fettle_workload_cluster_connects_total east error: 0", "fettle_workload_cluster_connects_total east ok: 1")
}

// fallsSilent: an API server keeps all connections open and sends nothing. The connection notices, and believes the
// server again only after a new list.
func fallsSilent(s *stage) {
	t := s.T
	proxy, kubeconfig := s.behindProxy("silent")
	s.keeps("silent", kubeconfig)
	c := s.Keep(named("silent"))
	s.answers(c)
	watches := proxy.Inject(t, cluster.Fault{Path: nodesPath, Watch: true, Stall: true})
	calls := proxy.Inject(t, cluster.Fault{Path: ".*", Stall: true})
	before := s.wakes("silent")
	s.isUnknown(c, "it takes too long")
	if s.wakes("silent") == before {
		t.Error("no wake-up came")
	}
	s.node("a", corev1.ConditionFalse, time.Now())
	if _, err := c.ReadNode(shortly(t), "a"); err == nil {
		t.Error("a node was read of a cluster that says nothing")
	}
	calls.End()
	watches.End()
	s.Eventually(t, "it answers", func(context.Context) error {
		if got, why := c.Answers(); got != core.Yes {
			return errors.New(why)
		}
		// From the first moment in which the connection is believed, its facts are new.
		if got, err := ready(c, "a"); got != string(corev1.ConditionFalse) || err != nil {
			t.Errorf("it is believed while a is known as %q (%v)", got, err)
		}
		return nil
	})
	s.node("a", corev1.ConditionTrue, time.Now())
}

func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// isNotReady: an API server without its etcd answers lists and watches from memory.
func isNotReady(s *stage) {
	t := s.T
	proxy, kubeconfig := s.behindProxy("unready")
	s.keeps("unready", kubeconfig)
	c := s.Keep(named("unready"))
	s.answers(c)
	fault := proxy.Inject(t, cluster.Fault{Path: "/readyz", Status: http.StatusInternalServerError})
	s.isUnknown(c, "says that it is not ready (500)")
	fault.End()
	s.answers(c)
	fault = proxy.Inject(t, cluster.Fault{Path: "/readyz", Status: http.StatusForbidden})
	s.Eventually(t, "some probes", func(context.Context) error {
		if len(fault.Hits()) < 3 {
			return fmt.Errorf("%d probes", len(fault.Hits()))
		}
		return nil
	})
	s.answers(c)
}

// losesItsWatch: a list does not suffice if later changes can't be seen.
func losesItsWatch(s *stage) {
	t := s.T
	proxy, kubeconfig := s.behindProxy("unwatched")
	s.keeps("unwatched", kubeconfig)
	fault := proxy.Inject(t, cluster.Fault{Path: nodesPath, Watch: true, Status: http.StatusTooManyRequests})
	c := s.Keep(named("unwatched"))
	s.isUnknown(c, "does not answer")
	fault.End()
	s.answers(c)
	if !s.isWatching(proxy) {
		t.Error("it answers, and nothing is watched")
	}
}

func (s *stage) isWatching(proxy *cluster.Proxy) bool {
	for _, r := range proxy.Requests(nodesPath) {
		if r.URL.Query().Get("watch") == "true" {
			return true
		}
	}
	return false
}

func wrongSecrets(s *stage) {
	c := s.Keep(named("wrong"))
	s.isUnknown(c, "there is no Secret default/wrong-kubeconfig")
	s.keepsText("wrong", nil)
	s.isUnknown(c, `has no kubeconfig under the key "value"`)
	s.keepsText("wrong", []byte("nonsense"))
	s.isUnknown(c, "it is no kubeconfig")
	s.keepsText("wrong", []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}}}]\n"))
	s.isUnknown(c, "field exec: it is refused")
	s.keepsText("wrong", []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n"))
	s.isUnknown(c, "connection refused")
	s.keeps("wrong", s.account("right"))
	s.answers(c)
}

// readsLive: guards read more than nodes, as objects of any kind.
func readsLive(s *stage) {
	t := s.T
	s.keeps("live", s.Kubeconfig())
	c := s.Keep(named("live"))
	s.answers(c)
	ctx := cluster.Context(t)
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Live().Get(ctx, client.ObjectKey{Name: "kube-system"}, namespace); err != nil || namespace.Name != "kube-system" {
		t.Errorf("a namespace is read as %+v, %v", namespace, err)
	}
	if err := c.Live().Get(ctx, client.ObjectKey{Name: "missing"}, namespace); !apierrors.IsNotFound(err) {
		t.Errorf("what is not there is read with %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "etcd-a", Labels: map[string]string{"component": "etcd"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "etcd", Image: "etcd"}}
	if err := s.Create(ctx, pod); err != nil {
		t.Fatalf("creating a pod: %v", err)
	}
	for value, want := range map[string]int{"etcd": 1, "other": 0} {
		pods := &unstructured.UnstructuredList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := c.Live().List(ctx, pods, client.InNamespace("kube-system"), client.MatchingLabels{"component": value})
		if err != nil || len(pods.Items) != want {
			t.Errorf("%d pods %s are read, %v; want %d", len(pods.Items), value, err, want)
		}
	}
	pods := &unstructured.UnstructuredList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := c.Live().List(ctx, pods, client.Limit(20), client.Continue("nonsense")); err == nil {
		t.Error("a page is read by a token that is none")
	}
	leases := &unstructured.UnstructuredList{}
	leases.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "LeaseList"})
	if err := c.Live().List(ctx, leases, client.InNamespace("kube-system")); err != nil || len(leases.Items) == 0 || leases.Items[0].GetKind() != "Lease" {
		t.Errorf("%d leases are read, %v", len(leases.Items), err)
	}
	var nodes slim.NodeList
	if err := c.Live().List(ctx, &nodes, client.HasLabels{"no-node-has-this"}); err != nil || len(nodes.Items) > 0 {
		t.Errorf("%d nodes are read by a label that none has, %v", len(nodes.Items), err)
	}
}

func rotated(s *stage) {
	t := s.T
	s.keeps("rotated", s.account("old"))
	pace := quick
	pace.SecretCheck = time.Hour
	s.connects(pace)
	c := s.Keep(named("rotated"))
	s.answers(c)
	s.RemoveServiceAccount(t, "default", "old")
	s.isUnknown(c, "does not accept the credentials in Secret default/rotated-kubeconfig")
	s.keeps("rotated", s.account("new"))
	s.answers(c)
}

// changed: nothing says that the old kubeconfig, which still works, has been replaced.
func changed(s *stage) {
	t := s.T
	s.keeps("changed", s.account("first"))
	c := s.Keep(named("changed"))
	s.answers(c)
	proxy, kubeconfig := s.behindProxy("second")
	s.keeps("changed", kubeconfig)
	s.Eventually(t, "it goes by the new one", func(context.Context) error {
		if !s.isWatching(proxy) {
			return errors.New("it goes by the old one")
		}
		return nil
	})
	s.answers(c)
}

func lacksRights(s *stage) {
	t := s.T
	s.Cluster.Namespace(t, "others")
	s.ServiceAccount(t, "others", "stranger")
	s.keeps("stranger", s.KubeconfigOf(t, "others", "stranger"))
	s.isUnknown(s.Keep(named("stranger")), "the user in Secret default/stranger-kubeconfig may not read the nodes")
}

// letsGo: a connection frees all that it took, whether it worked or not.
func letsGo(s *stage) {
	t := s.T
	_, kubeconfig := s.behindProxy("many")
	const n = 20
	before := runtime.NumGoroutine()
	for i := range n {
		of := fmt.Sprintf("many-%d", i)
		s.keeps(of, kubeconfig)
		s.answers(s.Keep(named(of)))
	}
	for i := range n {
		s.Keep(named(fmt.Sprintf("missing-%d", i)))
	}
	for i := range n {
		s.Drop(named(fmt.Sprintf("many-%d", i)))
		s.Drop(named(fmt.Sprintf("missing-%d", i)))
	}
	s.Eventually(t, "all is given back", func(context.Context) error {
		if now := runtime.NumGoroutine(); now > before+n/4 { // servers end theirs later
			return fmt.Errorf("there were %d goroutines before, and are %d", before, now)
		}
		return nil
	})
	wantSeries(t, s.Connections)
}

func namesakes(s *stage) {
	t := s.T
	s.keeps("again", s.account("again"))
	first := s.Keep(named("again"))
	if s.Keep(named("again")) != first {
		t.Error("a cluster has two connections")
	}
	s.answers(first)
	s.Drop(named("again"))
	second := s.Keep(named("again"))
	s.answers(second)
	s.Eventually(t, "the first ends", func(context.Context) error {
		if got, _ := first.Answers(); got != core.Unknown {
			return errors.New("it still answers")
		}
		return nil
	})
	s.answers(second)
}

// redirected: the connection does not follow a redirect to another server.
func redirected(s *stage) {
	t := s.T
	proxy, kubeconfig := s.behindProxy("redirected")
	other, elsewhere := s.StartProxy(t)
	for _, watch := range []bool{false, true} {
		proxy.Inject(t, cluster.Fault{Path: ".*", Watch: watch, Status: http.StatusTemporaryRedirect, Header: http.Header{"Location": {elsewhere + "/readyz"}}})
	}
	s.keeps("redirected", kubeconfig)
	c := s.Keep(named("redirected"))
	s.isUnknown(c, "redirects to another address, which is not followed")
	if requests := other.Requests("/readyz"); len(requests) > 0 {
		t.Errorf("it has followed with %d requests", len(requests))
	}
}

func sameNames(s *stage) {
	t := s.T
	kubeconfig := s.account("twins")
	s.keeps("twin-a", kubeconfig)
	s.keeps("twin-b", kubeconfig)
	for _, of := range []string{"twin-a", "twin-b"} {
		c := s.Keep(named(of))
		s.answers(c)
		if _, err := ready(c, "a"); err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
}

// comesBack: the Secret is on the same API server, so either may be unreadable at any moment.
func comesBack(s *stage) {
	t := s.T
	s.keeps("back", s.account("back"))
	c := s.Keep(named("back"))
	s.answers(c)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		lost := make(chan struct{})
		go func() {
			defer close(lost)
			s.isUnknown(c, "")
		}()
		s.Restart(t, signal)
		<-lost
		s.answers(c)
	}
}

// wantSeries checks all series of the connections, by name and by the labels other than their namespace.
func wantSeries(t *testing.T, c *workload.Connections, want ...string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				if l.GetName() != "namespace" {
					line += " " + l.GetValue()
				}
			}
			got = append(got, fmt.Sprintf("%s: %g", line, m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	for _, line := range want {
		if !strings.Contains(strings.Join(got, "\n")+"\n", line+"\n") {
			t.Errorf("there is no %q, but %q", line, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}
