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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// pageSize is the number of objects in a page of a list.
const pageSize = 500

// leaseName is the lease of the leading controller.
const leaseName = "fettle"

// scope is what to read.
type scope struct {
	// namespace is the user's, or empty for all.
	namespace string
	// controllerNamespace has the controllers, and the repairs of cluster-scoped targets.
	controllerNamespace string
	// bmcNamespace has the BMCs.
	bmcNamespace string
}

// view is what one command has read of a cluster.
type view struct {
	scope

	// parts were read as a whole, and incomplete ones were not.
	parts, incomplete []*part
	// repairDetails of repairs, by namespace/name.
	repairDetails map[string]ledger.Details
	external      externalFacts
	// at is the instant of the answer.
	at    time.Time
	lease *coordinationv1.Lease
	// leaseUnknown says why the lease is not known.
	leaseUnknown string
	notes        []string
	// concerns selects the workload clusters of the question.
	concerns clusterFilter
	// followed are all lists that were read.
	followed []followed
	// nodesRead are the workload clusters whose nodes were read. reached are those with an answer, and nodesUnread is
	// set when another gave none.
	nodesRead   map[core.ClusterKey]bool
	reached     map[core.ClusterKey]client.WithWatch
	nodesUnread bool
}

// followed is a list that was read, in a namespace or all, with its revision.
type followed struct {
	Source

	namespace, revision string
	// at is the client of the workload cluster that it was read from, or nil for the user's own cluster.
	at client.WithWatch
}

// part is what one dialect has read.
type part struct {
	Dialect
	Reading

	sources        []Source
	foreignWriters foreignWriters
	// unserved are the lists that the cluster does not serve, and err is why another could not be read. With either,
	// this dialect knows nothing.
	unserved []schema.GroupResource
	err      error
}

func (p *part) complete() bool { return p.err == nil && len(p.unserved) == 0 }

// policies returns those of all clusters.
func (p *part) policies(at time.Time) []core.Policy {
	var policies []core.Policy
	for _, f := range p.Observe(at) {
		policies = append(policies, f.Policies...)
	}
	return policies
}

// read reads the facts for a question: the whole cluster if the user may, since limits count across namespaces. It
// returns all missing rights at once.
func read(ctx context.Context, c client.Client, dialects []Dialect, where scope) (*view, error) {
	v := &view{
		scope: where, repairDetails: map[string]ledger.Details{}, external: newExternalFacts(),
		nodesRead: map[core.ClusterKey]bool{}, reached: map[core.ClusterKey]client.WithWatch{},
	}
	for _, d := range dialects {
		reading, found := d.Read(), foreignWriters{}
		v.parts = append(v.parts, &part{Dialect: d, Reading: reading, sources: found.watch(reading.Sources()), foreignWriters: found})
	}
	for _, l := range sharedLists(v.parts) {
		v.readShared(ctx, c, l)
	}
	if err := errors.Join(v.dropIncomplete(), v.readLedger(ctx, c)); err != nil {
		return nil, err
	}
	v.readExternal(ctx, c)
	return v, nil
}

// sharedList is one list, and the dialects that need it.
type sharedList struct {
	Source

	of []*part
}

// sharedLists returns each list once. A list comes as late as any of its dialects needs it.
func sharedLists(parts []*part) []*sharedList {
	var lots []*sharedList
	for _, p := range slices.Backward(parts) {
		for _, source := range slices.Backward(p.sources) {
			at := slices.IndexFunc(lots, func(l *sharedList) bool { return l.Resource == source.Resource })
			if at < 0 {
				lots = append(lots, &sharedList{Source: source, of: []*part{p}})
				continue
			}
			lots[at].addReader(p, source)
		}
	}
	slices.Reverse(lots)
	return lots
}

// addReader passes the objects of the list to another dialect too.
func (l *sharedList) addReader(with *part, source Source) {
	put, drop := l.Put, l.Drop
	l.of = append(l.of, with)
	l.Put = func(o client.Object) bool {
		changed := put(o)
		return source.Put(o) || changed
	}
	l.Drop = func(key string) {
		drop(key)
		source.Drop(key)
	}
}

// readShared reads one list. It skips a list whose dialects are all unserved. After a forbidden list it goes on, so
// that the user sees all missing rights.
func (v *view) readShared(ctx context.Context, c client.Reader, l *sharedList) {
	if !slices.ContainsFunc(l.of, func(p *part) bool { return len(p.unserved) == 0 && !failed(p.err) }) {
		return
	}
	err := v.listWide(ctx, c, l.Source)
	if l.Without != "" && isUnserved(err) {
		return
	}
	if l.Without != "" && apierrors.IsForbidden(err) {
		v.notes = append(v.notes, fmt.Sprintf("Can't tell %s: %s.", l.Without, failureText(err)))
		return
	}
	for _, p := range l.of {
		if isUnserved(err) {
			p.unserved = append(p.unserved, l.Resource)
		} else {
			p.err = errors.Join(p.err, err)
		}
	}
}

// failed reports whether an error is anything but a missing right.
func failed(err error) bool { return err != nil && !isForbidden(err) }

// isForbidden reports whether all parts of an error are missing rights.
func isForbidden(err error) bool {
	if several, are := err.(interface{ Unwrap() []error }); are {
		return !slices.ContainsFunc(several.Unwrap(), func(e error) bool { return !isForbidden(e) })
	}
	return apierrors.IsForbidden(err)
}

// dropIncomplete drops the dialects that were not read as a whole, with a note for each. It returns an error when none
// is left, unless the cluster just doesn't serve them.
func (v *view) dropIncomplete() error {
	var errs []error
	complete := slices.ContainsFunc(v.parts, (*part).complete)
	for _, p := range v.parts {
		switch {
		case failed(p.err), p.err != nil && !complete:
			errs = append(errs, p.err)
		case p.err != nil:
			v.notes = append(v.notes, fmt.Sprintf("Can't tell what %s do, so this answer leaves them out: %s.", p.sources[0].Resource, failureText(p.err)))
		case len(p.unserved) > 0 && (!complete || len(p.policies(v.at)) > 0):
			v.notes = append(v.notes, "This cluster does not serve "+p.unserved[0].String()+".")
		}
	}
	v.incomplete = slices.DeleteFunc(slices.Clone(v.parts), (*part).complete)
	v.parts = slices.DeleteFunc(v.parts, func(p *part) bool { return !p.complete() })
	return errors.Join(errs...)
}

// listWide reads a list in all namespaces. If that is forbidden, it reads the user's namespace alone.
func (v *view) listWide(ctx context.Context, c client.Reader, s Source) error {
	err := v.list(ctx, c, s, "")
	if s.Namespaced && v.namespace != "" && apierrors.IsForbidden(err) {
		return v.list(ctx, c, s, v.namespace)
	}
	return err
}

func ledgerResource() schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "repairs"}
}

// readLedger reads the repairs. Those of nodes are in the controllers' namespace.
func (v *view) readLedger(ctx context.Context, c client.Reader) error {
	err := v.listWide(ctx, c, v.ledger())
	if apierrors.IsNotFound(err) {
		v.notes = append(v.notes, "This cluster has no Repairs ("+ledgerResource().String()+"): Fettle is not installed in it, and nothing will be repaired.")
		return nil
	}
	narrow := slices.ContainsFunc(v.followed, func(f followed) bool { return f.Resource == ledgerResource() && f.namespace != "" })
	if err != nil || !narrow || v.namespace == v.controllerNamespace {
		return err
	}
	if err := v.list(ctx, c, v.ledger(), v.controllerNamespace); err != nil {
		v.notes = append(v.notes, fmt.Sprintf("The repairs of nodes are not known: %s.", failureText(err)))
	}
	return nil
}

// ledger is the list of repairs. Any user may have written one, so a Repair that can't be read hides no other.
func (v *view) ledger() Source {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RepairList"))
	return Source{
		Resource: ledgerResource(), List: list, Namespaced: true,
		Put: func(o client.Object) bool {
			u, ok := o.(*unstructured.Unstructured)
			if ok {
				v.repairDetails[key(u)] = ledger.ReadDetails(u, v.controllerNamespace)
			}
			return ok
		},
		Drop: func(key string) { delete(v.repairDetails, key) },
	}
}

// list reads one list, which the view follows from then on.
func (v *view) list(ctx context.Context, c client.Reader, s Source, namespace string) error {
	revision, err := list(ctx, c, s, namespace)
	if err != nil {
		return explainFailure("list", s, namespace, err)
	}
	v.followed = append(v.followed, followed{Source: s, namespace: namespace, revision: revision})
	return nil
}

// list reads one list page by page, keeps no page, and returns the revision.
func list(ctx context.Context, c client.Reader, s Source, namespace string) (revision string, err error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page, _ := s.List.DeepCopyObject().(client.ObjectList)
		if err := c.List(ctx, page, &client.ListOptions{Namespace: namespace, Limit: o.Limit, Continue: o.Continue}); err != nil {
			return nil, err //nolint:wrapcheck // the pager looks at its kind, and the caller wraps it
		}
		revision = page.GetResourceVersion()
		return page, nil
	})
	pages.PageSize = pageSize
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if object, ok := o.(client.Object); ok {
			s.Put(object)
		}
		return nil
	})
	return revision, err //nolint:wrapcheck // the caller says what was being read
}

// sources returns the lists that were read.
func (v *view) sources() []Source {
	sources := make([]Source, len(v.followed))
	for i := range v.followed {
		sources[i] = v.followed[i].Source
	}
	return sources
}

// reads reports whether targets of a kind were read.
func (v *view) reads(kind string) bool {
	return slices.ContainsFunc(v.parts, func(p *part) bool {
		return slices.ContainsFunc(p.Observe(v.at), func(f ClusterObservation) bool { return f.Kind == kind })
	})
}

// readLease reads the lease of the leader. An unknown leader is an answer too.
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
		v.leaseUnknown = fmt.Sprintf("reading lease %s/%s: %s", namespace, leaseName, failureText(err))
	}
}

// explainFailure adds to an error of the API server what the user can do about it.
func explainFailure(verb string, s Source, namespace string, err error) error {
	where := ""
	switch {
	case namespace != "":
		where = " in namespace " + namespace
	case s.Namespaced:
		where = " in all namespaces"
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you lack the permission to %s %s%s; an administrator can grant it with the ClusterRole %s (docs/cli.md): %w", verb, s.Resource, where, roleFor(s.Resource), err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept your credentials; log in anew, or give another --context: %w", err)
	}
	if verb == "get" {
		verb = "gett"
	}
	return fmt.Errorf("%sing %s%s: %w", verb, s.Resource, where, err)
}

// roleFor returns the ClusterRole that lets a user read a resource.
func roleFor(r schema.GroupResource) string {
	if r.Group == clusterv1.GroupVersion.Group {
		return "fettle-view-cluster-api"
	}
	return "fettle-view"
}

// named returns the names of the objects of a kind, by their metadata alone.
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
