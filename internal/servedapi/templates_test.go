package servedapi

import (
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

	mu      sync.Mutex
	serves  bool
	lookups int
}

func (m *lateMapper) serve(serves bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serves = serves
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
		if mapper.lookups > 0 {
			t.Errorf("of what is no template, %d were looked up", mapper.lookups)
		}
		m.defines(reboots)
		wants("it is not served yet", nil)
		mapper.serve(true)
		m.wantDid("it is looked up again, and a pass is due", 2*servedCheck, "awake")
		wants("it is served", []TemplateKind{{kind, reboots, true}})
		lookups := mapper.lookups
		<-time.After(time.Hour)
		if mapper.lookups != lookups {
			t.Errorf("it was looked up %d times more without need", mapper.lookups-lookups)
		}
		m.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: reboots, Obj: definition(reboots)})
		wants("it is gone", nil)
		m.wantDid("a pass is due", 0, "awake")
	})
	if got := (&Starter{}).Templates(); got != nil {
		t.Errorf("before anything was read: %v", got)
	}
}
