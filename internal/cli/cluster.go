package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// pageSize is how many objects are asked for at a time.
const pageSize = 500

// leaseName is the lease that the leading controller holds.
const leaseName = "fettle"

// view is what was read of a cluster for one question.
type view struct {
	readings []Reading
	// repairs by namespace/name.
	repairs map[string]*v1alpha1.Repair
	// at is the instant that it is taken to show.
	at    time.Time
	lease *coordinationv1.Lease
	// leaseUnknown says why the lease is not known.
	leaseUnknown string
	notes        []string
	// sources are all lists that were read, each with the revision that it was read at.
	sources   []Source
	revisions []string
}

// read reads what a question needs. Whatever the person may not read is told at once.
func read(ctx context.Context, c client.Reader, dialects []Dialect, namespace string) (*view, error) {
	v := &view{repairs: map[string]*v1alpha1.Repair{}}
	var errs []error
	for _, d := range dialects {
		errs = append(errs, v.readDialect(ctx, c, d.Read(), namespace))
	}
	err := v.list(ctx, c, v.ledger(), namespace)
	if apierrors.IsNotFound(err) {
		v.notes = append(v.notes, "This cluster has no Repairs ("+ledgerResource().String()+"): Fettle is not installed in it, and nothing will be repaired.")
		err = nil
	}
	return v, errors.Join(append(errs, err)...)
}

// readDialect reads the lists of one dialect. One that the cluster doesn't serve has no health checks.
func (v *view) readDialect(ctx context.Context, c client.Reader, r Reading, namespace string) error {
	var errs []error
	for _, source := range r.Sources() {
		err := v.list(ctx, c, source, namespace)
		if apierrors.IsNotFound(err) {
			v.notes = append(v.notes, "This cluster does not serve "+source.Resource.String()+".")
			return nil
		}
		errs = append(errs, err)
		if err != nil && !apierrors.IsForbidden(err) {
			break
		}
	}
	v.readings = append(v.readings, r)
	return errors.Join(errs...)
}

func ledgerResource() schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "repairs"}
}

func (v *view) ledger() Source {
	return Source{
		Resource: ledgerResource(), List: &v1alpha1.RepairList{}, Namespaced: true,
		Put: func(o client.Object) bool {
			r, ok := o.(*v1alpha1.Repair)
			if ok {
				r.ManagedFields = nil
				v.repairs[r.Namespace+"/"+r.Name] = r
			}
			return ok
		},
		Drop: func(key string) { delete(v.repairs, key) },
	}
}

// list reads one list page by page, and lets go of each page.
func (v *view) list(ctx context.Context, c client.Reader, s Source, namespace string) error {
	if !s.Namespaced {
		namespace = ""
	}
	revision := ""
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page, _ := s.List.DeepCopyObject().(client.ObjectList)
		if err := c.List(ctx, page, &client.ListOptions{Namespace: namespace, Limit: o.Limit, Continue: o.Continue}); err != nil {
			return nil, err //nolint:wrapcheck // the pager looks at its kind, and the caller wraps it
		}
		revision = page.GetResourceVersion()
		return page, nil
	})
	pages.PageSize = pageSize
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if object, ok := o.(client.Object); ok {
			s.Put(object)
		}
		return nil
	})
	if err != nil {
		return explainFailure("list", s.Resource, namespace, err)
	}
	v.sources, v.revisions = append(v.sources, s), append(v.revisions, revision)
	return nil
}

// readLease reads who leads. That it can't be known is an answer.
func (v *view) readLease(ctx context.Context, c client.Reader, namespace string) {
	var lease coordinationv1.Lease
	err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: leaseName}, &lease)
	switch {
	case err == nil:
		v.lease = &lease
	case apierrors.IsNotFound(err):
		v.leaseUnknown = fmt.Sprintf("there is no lease %s/%s; one may run with --leader-elect=false, or have its lease in another namespace (--controller-namespace)", namespace, leaseName)
	case apierrors.IsForbidden(err):
		v.leaseUnknown = fmt.Sprintf("you may not get lease %s/%s", namespace, leaseName)
	default:
		v.leaseUnknown = fmt.Sprintf("reading lease %s/%s: %v", namespace, leaseName, err)
	}
}

// explainFailure wraps what the API server answered in what the person can do about it.
func explainFailure(verb string, resource schema.GroupResource, namespace string, err error) error {
	where := " in all namespaces"
	if namespace != "" {
		where = " in namespace " + namespace
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you lack the permission to %s %s%s; an administrator can give it with the ClusterRole fettle-view (docs/cli.md): %w", verb, resource, where, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept your credentials; log in anew, or give another --context: %w", err)
	}
	return fmt.Errorf("%sing %s%s: %w", strings.TrimSuffix(verb, "e"), resource, where, err)
}

// named gives the names of the objects of a kind, without reading the rest of them.
func named(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, namespace string) ([]types.NamespacedName, error) {
	var names []types.NamespacedName
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind)
		err := c.List(ctx, page, &client.ListOptions{Namespace: namespace, Limit: o.Limit, Continue: o.Continue})
		return page, err //nolint:wrapcheck // the pager looks at its kind
	})
	pages.PageSize = pageSize
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			names = append(names, types.NamespacedName{Namespace: m.Namespace, Name: m.Name})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the names of %s: %w", kind.Kind, err)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return names, nil
}
