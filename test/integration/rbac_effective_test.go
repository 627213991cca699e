package integration

import (
	"slices"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

// unusedRights are the only rights of Fettle that a story of these tests need not use.
var unusedRights = []struct {
	why    string
	group  string
	kinds  []string
	grants []string
}{
	{
		"the remediators of the sandbox grant what any health checker may ask of them; asksNoMoreOfRemediators checks what Fettle uses of it",
		"sandbox.fettle.io", []string{"rebootremediations", "reprovisionremediations"},
		[]string{"get", "list", "watch", "create", "update", "patch", "delete"},
	},
	{"the same for their templates", "sandbox.fettle.io", []string{"rebootremediationtemplates", "reprovisionremediationtemplates"}, []string{"get", "list", "watch"}},
	{
		"Fettle's own remediator grants the same to any health checker, Fettle among them, and no health check of these tests names its template",
		"fettle.io", []string{"machinedeletionremediations"}, []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	},
	{"the same for its template", "fettle.io", []string{"machinedeletionremediationtemplates"}, []string{"get", "list", "watch"}},
	{
		"the same for the remediator of bare metal, which test/metal has do all that it can", "fettle.io",
		[]string{"powerremediations"}, []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	},
	{"the same for its template", "fettle.io", []string{"powerremediationtemplates"}, []string{"get", "list", "watch"}},
	{"test/metal has BMCs and remediations with a status", "fettle.io", []string{"powerremediations/status", "bmcs/status"}, []string{"patch"}},
	{
		"the same for the remediator of nodes that fence themselves, which TestSelfFencing has do all that it can", "fettle.io",
		[]string{"selffenceremediations"}, []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	},
	{"the same for its template", "fettle.io", []string{"selffenceremediationtemplates"}, []string{"get", "list", "watch"}},
	{"TestSelfFencing has remediations with a status", "fettle.io", []string{"selffenceremediations/status"}, []string{"patch"}},
}

func mayBeUnused(r cluster.Right) bool {
	for _, e := range unusedRights {
		if r.Group == e.group && slices.Contains(e.kinds, r.Resource) && slices.Contains(e.grants, r.Verb) {
			return true
		}
	}
	return false
}

// wantAllUsed fails the test for each effective right that Fettle has not used, unless it is one of unusedRights or
// tested elsewhere.
func wantAllUsed(t *testing.T, effective []cluster.Right, uses []cluster.Use, elsewhere func(cluster.Right) bool) {
	t.Helper()
	if len(effective) == 0 {
		t.Fatal("Fettle has no rights")
	}
	for _, r := range effective {
		used := slices.ContainsFunc(uses, func(u cluster.Use) bool { return r.Covers(u.Right) })
		if !used && !mayBeUnused(r) && !elsewhere(r) {
			t.Errorf("idle: Fettle may do %+v, and never needed it", r)
		}
	}
}

// wantAllAllowed fails the test for each request that Fettle made or tried without the right.
func wantAllAllowed(t *testing.T, effective []cluster.Right, uses []cluster.Use) {
	t.Helper()
	for _, u := range uses {
		covers := func(r cluster.Right) bool { return r.Covers(u.Right) }
		everyones := u.Right.Resource == "selfsubjectaccessreviews" // Kubernetes grants it to all users, so it isn't effective by a role
		if !u.Allowed || !everyones && !slices.ContainsFunc(effective, covers) {
			t.Errorf("missing: Fettle did %+v, which it may not do (allowed: %t)", u.Right, u.Allowed)
		}
	}
}
