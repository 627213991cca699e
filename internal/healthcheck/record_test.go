package healthcheck

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Check"}

func report(name string) core.PolicyReport {
	return core.PolicyReport{Policy: core.Policy{ID: core.ID{Name: name}}}
}

// TestRecord: an error or a panic fails one health check, and the others are written.
func TestRecord(t *testing.T) {
	written := make(chan string, 4)
	failed := Record([]core.PolicyReport{report("a"), report("unchanged"), report("b"), report("panics"), report("c")}, func(r *core.PolicyReport) func() error {
		name := r.Policy.ID.Name
		if name == "unchanged" {
			return nil
		}
		return func() error {
			switch name {
			case "b":
				return errors.New("refused")
			case "panics":
				panic("a bug")
			}
			written <- name
			return nil
		}
	})
	close(written)
	var names []string
	for name := range written {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("written are %q, want a and c", names)
	}
	got := map[string]string{}
	for id, err := range failed {
		got[id.Name], _, _ = strings.Cut(err.Error(), "\n")
	}
	if len(got) != 2 || got["b"] != "refused" || !strings.Contains(got["panics"], "a bug") {
		t.Errorf("failed are %q, want b and panics", slices.Sorted(maps.Keys(got)))
	}
}

// TestRecordIsBounded: health checks are written in parallel, but only so many at a time.
func TestRecordIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := make([]core.PolicyReport, 3*parallelWrites)
		var begun atomic.Int32
		goOn, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			Record(reports, func(*core.PolicyReport) func() error {
				return func() error {
					begun.Add(1)
					<-goOn
					return nil
				}
			})
		}()
		synctest.Wait()
		if n := begun.Load(); n != parallelWrites {
			t.Errorf("%d are written at a time, want %d", n, parallelWrites)
		}
		close(goOn)
		<-done
		if n := begun.Load(); int(n) != len(reports) {
			t.Errorf("%d are written, want %d", n, len(reports))
		}
	})
}

// TestWrite: a status that is refused as too large is written briefly.
func TestWrite(t *testing.T) {
	tooLarge, other := apierrors.NewRequestEntityTooLargeError("limit is 3145728"), errors.New("refused")
	for name, c := range map[string]struct {
		errs []error
		want []string
		err  error
	}{
		"it fits":             {[]error{nil}, []string{"long"}, nil},
		"it is too large":     {[]error{tooLarge, nil}, []string{"long", "brief"}, nil},
		"both are refused":    {[]error{tooLarge, other}, []string{"long", "brief"}, other},
		"another is an error": {[]error{other}, []string{"long"}, other},
	} {
		t.Run(name, func(t *testing.T) {
			var written []string
			err := Write("long", func(s string) error {
				written = append(written, s)
				return c.errs[len(written)-1]
			}, func(string) string { return "brief" })
			if !slices.Equal(written, c.want) || !errors.Is(err, c.err) {
				t.Errorf("written are %q and the error is %v, want %q and %v", written, err, c.want, c.err)
			}
		})
	}
}

// server answers reads and writes of one health check.
type server struct {
	client.Reader
	client.SubResourceWriter

	stored *unstructured.Unstructured
	err    error
	owner  string
}

func (s *server) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if s.stored != nil {
		s.stored.DeepCopyInto(obj.(*unstructured.Unstructured))
	}
	return s.err
}

func (s *server) Status() client.SubResourceWriter { return s }

func (s *server) Patch(_ context.Context, obj client.Object, _ client.Patch, opts ...client.SubResourcePatchOption) error {
	var o client.SubResourcePatchOptions
	o.ApplyOptions(opts)
	s.owner = o.FieldManager
	obj.SetResourceVersion("2")
	return s.err
}

var gone = apierrors.NewNotFound(schema.GroupResource{Resource: "checks"}, "w")

func TestReadLive(t *testing.T) {
	stored := Object(kind, core.ID{Namespace: "n", Name: "w"})
	stored.SetAnnotations(map[string]string{"long": strings.Repeat("x", 1<<20)})
	leaving := stored.DeepCopy()
	leaving.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(0, 0)})
	for name, c := range map[string]struct {
		server server
		found  bool
		fails  bool
	}{
		"it is there":         {server{stored: stored}, true, false},
		"it is gone":          {server{err: gone}, false, false},
		"it is being deleted": {server{stored: leaving}, false, false},
		"nothing is known":    {server{err: errors.New("refused")}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := ReadLive(t.Context(), &c.server, kind, core.ID{Namespace: "n", Name: "w"})
			if (u != nil) != c.found || (err != nil) != c.fails {
				t.Fatalf("ReadLive returns %v, %v", u, err)
			}
			if u != nil && len(u.GetAnnotations()["long"]) > 1<<16 {
				t.Error("it is not bounded as in the cache")
			}
			if u != nil && (u.GetName() != "w" || u.GetNamespace() != "n" || u.GroupVersionKind() != kind) {
				t.Errorf("it returns another object: %v", u)
			}
		})
	}
}

func TestPatchStatus(t *testing.T) {
	for name, c := range map[string]struct {
		err          error
		there, fails bool
	}{
		"it is written": {nil, true, false},
		"it is gone":    {gone, false, false},
		"it is refused": {errors.New("refused"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := &server{err: c.err}, Object(kind, core.ID{Name: "w"})
			there, err := PatchStatus(t.Context(), s, u, types.MergePatchType, nil)
			if there != c.there || (err != nil) != c.fails || s.owner != "fettle" || u.GetResourceVersion() != "2" {
				t.Errorf("PatchStatus returns %t, %v, as %q", there, err, s.owner)
			}
		})
	}
}

func TestIsOlder(t *testing.T) {
	for _, c := range []struct {
		version, than string
		want          bool
	}{
		{"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"", "1", false}, {"1", "x", false}, {"1", "99999999999999999999999", false}, {"18446744073709551614", "18446744073709551615", true},
	} {
		if got := IsOlder(c.version, c.than); got != c.want {
			t.Errorf("%q is older than %q: %t", c.version, c.than, got)
		}
	}
}

func TestWhenSynced(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	for name, c := range map[string]struct {
		served func() core.Tri
		synced func() bool
		is     func() bool
		want   core.Tri
	}{
		"it is not served":     {func() core.Tri { return core.No }, no, yes, core.No},
		"it is not in sync":    {func() core.Tri { return core.Yes }, no, yes, core.Unknown},
		"it is so":             {nil, yes, yes, core.Yes},
		"it is not so":         {nil, yes, no, core.No},
		"serving is not known": {func() core.Tri { return core.Unknown }, yes, yes, core.Yes},
		"nothing is known":     {nil, no, no, core.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WhenSynced(c.served, c.synced, c.is); got != c.want {
				t.Errorf("WhenSynced returns %v, want %v", got, c.want)
			}
		})
	}
}
