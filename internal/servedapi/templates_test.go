package servedapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

const reboots = "rebootremediationtemplates.reboot.example"

// lateMapper serves a kind once it is told to.
type lateMapper struct {
	meta.RESTMapper

	mu             sync.Mutex
	serves, mapped bool
	lookups        int
	kinds          []schema.GroupKind // whose mappings were looked up
}

func (m *lateMapper) serve(serves, mapped bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serves, m.mapped = serves, mapped
}

// looked returns how often a kind was looked up, and which mappings were.
func (m *lateMapper) looked() (int, []schema.GroupKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lookups, m.kinds
}

func (m *lateMapper) RESTMapping(of schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kinds = append(m.kinds, of)
	if !m.mapped {
		return nil, &meta.NoKindMatchError{GroupKind: of, SearchedVersions: versions}
	}
	return m.RESTMapper.RESTMapping(of, versions...)
}

func (m *lateMapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookups++
	if !m.serves {
		return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: r}
	}
	return m.RESTMapper.KindFor(r)
}

// TestTemplatesThatAreServed: kinds of remediation templates are known once the cluster serves them, and no longer than they are
// defined.
func TestTemplatesThatAreServed(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "reboot.example", Version: "v1", Kind: "RebootRemediationTemplate"}
	known := meta.NewDefaultRESTMapper([]schema.GroupVersion{kind.GroupVersion()})
	known.Add(kind, meta.RESTScopeNamespace)
	synctest.Test(t, func(t *testing.T) {
		mapper := &lateMapper{RESTMapper: known}
		m := beginsWith(t, mapper, nil)
		defer m.stop()
		wants := func(sentence string, want []TemplateKind) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, m.waker.Templates()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", sentence, diff)
			}
		}
		m.defines("things.reboot.example")
		wants("no templates", nil)
		if lookups, _ := mapper.looked(); lookups > 0 {
			t.Errorf("of what is no template, %d were looked up", lookups)
		}
		m.defines(reboots)
		wants("it is not served yet", nil)
		if _, kinds := mapper.looked(); len(kinds) > 0 {
			t.Errorf("mappings of %v were looked up without a kind", kinds)
		}
		mapper.serve(true, false)
		m.wantDid("its kind has no mapping yet", servedCheck)
		wants("it is not served yet", nil)
		mapper.serve(true, true)
		seen := 0
		m.then(func() { seen = len(m.waker.Templates()) })
		m.wantDid("it is looked up again, and a pass is due", 2*servedCheck, "awake")
		if seen != 1 {
			t.Errorf("the pass that is due sees %d kinds", seen)
		}
		wants("it is served", []TemplateKind{{kind, reboots, true}})
		before, _ := mapper.looked()
		<-time.After(time.Hour)
		if after, _ := mapper.looked(); after != before {
			t.Errorf("it was looked up %d times more without need", after-before)
		}
		m.Of(crdKind).Handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: reboots, Obj: definition(reboots)})
		wants("it is gone", nil)
		m.wantDid("a pass is due", 0, "awake")
	})
	if got := (&Starter{}).Templates(); got != nil {
		t.Errorf("before anything was read: %v", got)
	}
}

// TestPausesBetweenLookups grow, and begin anew with another template.
func TestPausesBetweenLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mapper := &lateMapper{}
		m := beginsWith(t, mapper, nil)
		defer m.stop()
		seen := 0
		lookups := func(sentence string, later time.Duration, want int) {
			t.Helper()
			<-time.After(later)
			synctest.Wait()
			all, _ := mapper.looked()
			if got := all - seen; got != want {
				t.Errorf("%s: it was looked up %d times, want %d", sentence, got, want)
			}
			seen = all
		}
		m.defines(reboots)
		lookups("at once", 0, 1)
		for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
			lookups("before a pause is over", time.Duration(seconds)*time.Second-1, 0)
			lookups("after a pause", 1, 1)
		}
		m.defines("fenceremediationtemplates.fence.example")
		lookups("both, at once", 0, 2)
		lookups("the pause is the first again", time.Second, 2)
		lookups("the pauses grow again", 2*time.Second-1, 0)
		lookups("after the second pause", 1, 2)
	})
}

// TestI15TemplatesAreBounded: the first ones by name are known.
func TestI15TemplatesAreBounded(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	var names []string
	for i := range maxTemplateKinds + 5 {
		kind := fmt.Sprintf("T%02dRemediationTemplate", i)
		mapper.Add(schema.GroupVersionKind{Group: "t.example", Version: "v1", Kind: kind}, meta.RESTScopeRoot)
		names = append(names, strings.ToLower(kind)+"s.t.example")
	}
	synctest.Test(t, func(t *testing.T) {
		m := beginsWith(t, mapper, nil)
		defer m.stop()
		for _, name := range slices.Backward(names) {
			m.defines(name)
		}
		synctest.Wait()
		var got []string
		for _, kind := range m.waker.Templates() {
			if kind.Namespaced {
				t.Errorf("%s has namespaces", kind.Resource)
			}
			got = append(got, kind.Resource)
		}
		if diff := cmp.Diff(names[:maxTemplateKinds], got); diff != "" {
			t.Errorf("templates (-want +got):\n%s", diff)
		}
	})
}
