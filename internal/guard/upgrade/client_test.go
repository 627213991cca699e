package upgrade

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

// version returns a ClusterVersion that progresses or doesn't.
func version(name, progressing string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"conditions": []any{map[string]any{"type": "Progressing", "status": progressing}},
	}}}
	u.SetGroupVersionKind(VersionKind)
	u.SetName(name)
	return u
}

// watched returns a client with a watch, its informers, and how often it woke.
func watched(t *testing.T) (*Client, *informertest.Informers, *int) {
	t.Helper()
	in, woken := informertest.New(), 0
	c := NewClient(Config{Informers: in, Served: func() core.Tri { return core.Yes }, Wake: func() { woken++ }})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, in, &woken
}

// surveyed returns the state of upgrades as a fact.
func surveyed(c *Client) core.Tri {
	var cluster core.Cluster
	c.AddFacts(nil, &cluster)
	return cluster.Upgrading
}

// TestUpgradesAreSeen from their beginning to their end. Each change wakes once.
func TestUpgradesAreSeen(t *testing.T) {
	c, in, woken := watched(t)
	if got := in.Of(VersionKind.Kind).Kind; got != VersionKind {
		t.Errorf("it watches %s, want %s", got, VersionKind)
	}
	in.SetSynced(true)
	steps := []struct {
		sentence string
		do       func()
		want     core.Tri
		wakes    int
	}{
		{"nothing is there", func() {}, core.No, 0},
		{"a version that doesn't progress", func() { in.Of(VersionKind.Kind).Handler.OnAdd(version("version", "False"), true) }, core.No, 0},
		{"an upgrade begins", func() {
			in.Of(VersionKind.Kind).Handler.OnUpdate(version("version", "False"), version("version", "True"))
		}, core.Yes, 1},
		{"it goes on", func() {
			in.Of(VersionKind.Kind).Handler.OnUpdate(version("version", "True"), version("version", "True"))
		}, core.Yes, 0},
		{"another version doesn't progress", func() { in.Of(VersionKind.Kind).Handler.OnAdd(version("other", "False"), false) }, core.Yes, 0},
		{"it ends", func() {
			in.Of(VersionKind.Kind).Handler.OnUpdate(version("version", "True"), version("version", "False"))
		}, core.No, 1},
		{"a version that progresses is added", func() { in.Of(VersionKind.Kind).Handler.OnAdd(version("third", "True"), false) }, core.Yes, 1},
		{"an object of another type", func() { in.Of(VersionKind.Kind).Handler.OnAdd("an object", false) }, core.Yes, 0},
		{"the deletion of what has no name", func() { in.Of(VersionKind.Kind).Handler.OnDelete(7) }, core.Yes, 0},
		{"it is deleted", func() { in.Of(VersionKind.Kind).Handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "third"}) }, core.No, 1},
	}
	for _, step := range steps {
		before := *woken
		step.do()
		if got := surveyed(c); got != step.want || *woken-before != step.wakes {
			t.Errorf("%s: upgrading %s after %d wakes, want %s after %d", step.sentence, got, *woken-before, step.want, step.wakes)
		}
	}
}

// TestI01UpgradesThatAreNotKnown, before the watch has synced, and while it is unknown whether the
// cluster serves versions.
func TestI01UpgradesThatAreNotKnown(t *testing.T) {
	c, in, _ := watched(t)
	if c.HasSynced() || surveyed(c) != core.Unknown {
		t.Errorf("before its versions have been taken in: upgrading %s", surveyed(c))
	}
	in.SetSynced(true)
	if !c.HasSynced() || surveyed(c) != core.No {
		t.Errorf("once they have been taken in: upgrading %s", surveyed(c))
	}
	in.Of(VersionKind.Kind).Handler.OnAdd(version("version", "True"), false)
	for _, served := range []core.Tri{core.Unknown, core.No} {
		c.Served = func() core.Tri { return served }
		if got := surveyed(c); got != served {
			t.Errorf("where the API is served: %s, upgrading %s", served, got)
		}
	}
}

// TestTrimLeavesOtherKinds unchanged.
func TestTrimLeavesOtherKinds(t *testing.T) {
	u := version("version", "True")
	u.SetKind("ClusterOperator")
	u.Object["spec"] = map[string]any{}
	Trim(u)
	if _, has := u.Object["spec"]; !has {
		t.Error("the spec of another kind is dropped")
	}
}
