package nodepromise

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// lister answers lists by pages, which it counts by kind.
type lister struct {
	client.Client

	pages       map[string]int
	self, power func(page int) (uid types.UID, next string, err error)
}

func (l *lister) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *v1alpha1.SelfFenceRemediationList:
		l.pages["self"]++
		uid, next, err := l.self(l.pages["self"])
		list.Continue, list.Items = next, []v1alpha1.SelfFenceRemediation{{ObjectMeta: metav1.ObjectMeta{UID: uid}}}
		return err
	case *v1alpha1.PowerRemediationList:
		l.pages["power"]++
		uid, next, err := l.power(l.pages["power"])
		list.Continue, list.Items = next, []v1alpha1.PowerRemediation{{ObjectMeta: metav1.ObjectMeta{UID: uid}}}
		return err
	}
	return errors.New("another kind")
}

// TestCondemners: the remediations of both kinds are listed, page by page. A remediation that can't be listed may exist. A kind that is not served has
// none.
func TestCondemners(t *testing.T) {
	once := func(uid types.UID) func(int) (types.UID, string, error) {
		return func(int) (types.UID, string, error) { return uid, "", nil }
	}
	twice := func(page int) (types.UID, string, error) {
		return types.UID("p" + strconv.Itoa(page)), []string{"", "more", ""}[page], nil
	}
	endless := func(int) (types.UID, string, error) { return "e", "more", nil }
	failing := func(err error) func(int) (types.UID, string, error) {
		return func(int) (types.UID, string, error) { return "", "", err }
	}
	unserved := &meta.NoKindMatchError{}
	for sentence, tc := range map[string]struct {
		self, power     func(int) (types.UID, string, error)
		want            []types.UID
		complete, fails bool
	}{
		"both kinds":               {once("a"), once("b"), []types.UID{"a", "b"}, true, false},
		"two pages":                {once("a"), twice, []types.UID{"a", "p1", "p2"}, true, false},
		"two pages of the first":   {twice, once("b"), []types.UID{"b", "p1", "p2"}, true, false},
		"too many":                 {once("a"), endless, []types.UID{"a", "e"}, false, false},
		"too many of the first":    {endless, once("b"), []types.UID{"e"}, false, false},
		"no answer":                {once("a"), failing(errors.New("no")), []types.UID{"a"}, false, true},
		"no answer to the first":   {failing(errors.New("no")), once("b"), nil, false, true},
		"a kind is not served":     {once("a"), failing(unserved), []types.UID{"a"}, true, false},
		"the first is not served":  {failing(unserved), once("b"), []types.UID{"b"}, true, false},
		"neither kind is served":   {failing(unserved), failing(unserved), nil, true, false},
		"not served and no answer": {failing(unserved), failing(errors.New("no")), nil, false, true},
	} {
		fresh := func() *Promises {
			return New(&lister{pages: map[string]int{}, self: tc.self, power: tc.power}, func() time.Time { return noon })
		}
		exist, complete, err := fresh().Condemners(t.Context())
		if got := slices.Sorted(maps.Keys(exist)); !slices.Equal(got, tc.want) || complete != tc.complete || (err != nil) != tc.fails {
			t.Errorf("%s: they are %v, complete %t, %v", sentence, got, complete, err)
		}
		other, err := fresh().exists(t.Context(), "another")
		if (err != nil) != tc.fails || err == nil && other == tc.complete {
			t.Errorf("%s: another one exists: %t, %v", sentence, other, err)
		}
	}
}
