package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/guard/quorum"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/internal/remedy/template"
)

// externalFacts are the facts that come from no dialect: remediation requests, node leases, and upgrades of the
// cluster. A fact that could not be read is unknown, with the reason.
type externalFacts struct {
	templates *template.Reading
	leases    *lease.Reading
	// bmcs are nil until they are needed, and fencings are by the kind and the namespace/name of a remediation.
	bmcs     *bmcReading
	fencings map[string]Fencing
	// promises are nil until they are needed.
	promises *promiseReading
	// versions has, by the name of each ClusterVersion, whether it progresses.
	versions map[string]bool
	// openshift is Yes if the cluster serves ClusterVersions.
	openshift core.Tri
	// leasesRead and versionsRead are set after the attempt.
	leasesRead, versionsRead bool
	unread                   unreadReasons
}

// unreadReasons say why facts are unknown here that the controller may know. An empty reason means that they are known.
type unreadReasons struct {
	leases, upgrade string
	// quorum is by the UID of the target.
	quorum map[string]string
	// requests returns the reason for a step's template and its requests.
	requests func(core.Step) (string, bool)
}

func newExternalFacts() externalFacts {
	s := externalFacts{templates: template.NewReading(), leases: lease.NewReading(), versions: map[string]bool{}, fencings: map[string]Fencing{}}
	s.templates.BuiltIn = builtInTemplate
	s.unread = unreadReasons{quorum: map[string]string{}, requests: s.templates.Hidden}
	return s
}

// needs returns the policies, and the running repairs, that need facts.
func (v *view) needs() ([]core.Policy, []core.Repair) {
	var policies []core.Policy
	for _, p := range v.parts {
		policies = append(policies, p.policies(v.at)...)
	}
	repairs := make([]core.Repair, 0, len(v.repairDetails))
	for _, k := range slices.Sorted(maps.Keys(v.repairDetails)) {
		repairs = append(repairs, v.repairDetails[k].Repair)
	}
	return policies, repairs
}

// needsMore reports whether a policy or a repair needs facts that were not read.
func (v *view) needsMore() bool {
	policies, repairs := v.needs()
	return len(v.external.templates.Needs(policies, repairs)) > 0 || v.needsLeases(policies) || v.needsVersions(policies) || v.needsBMCs(policies, repairs) ||
		v.needsPromises(policies, repairs) || v.needsPowerPromises(policies, repairs)
}

func (v *view) needsLeases(policies []core.Policy) bool {
	return !v.external.leasesRead && slices.ContainsFunc(policies, func(p core.Policy) bool { return p.Holder != "" })
}

// needsVersions reports whether ClusterVersions must be read. They also say whether OpenShift's guard keeps quorum.
func (v *view) needsVersions(policies []core.Policy) bool {
	return !v.external.versionsRead && len(policies) > 0
}

// readExternal reads the facts that are needed and were not read. It never fails: a fact that can't be read is unknown.
func (v *view) readExternal(ctx context.Context, c client.Client) {
	policies, repairs := v.needs()
	for _, gvk := range v.external.templates.Needs(policies, repairs) {
		v.readKind(ctx, c, gvk)
	}
	if v.needsLeases(policies) {
		v.readLeases(ctx, c)
	}
	if v.needsVersions(policies) {
		v.readVersions(ctx, c)
	}
	if v.needsBMCs(policies, repairs) {
		v.external.bmcs = readBMCs(c, v.bmcNamespace, func(source Source, namespace string) error {
			return v.list(ctx, c, source, namespace)
		})
	}
	switch {
	case v.needsPromises(policies, repairs):
		v.external.promises = readPromises(ctx, c)
	case v.needsPowerPromises(policies, repairs):
		v.external.promises = readPowerPromises(ctx, c)
	}
}

// readKind reads a kind of templates or of requests.
func (v *view) readKind(ctx context.Context, c client.Client, gvk schema.GroupVersionKind) {
	templates := v.external.templates
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil && !isUnserved(err) {
		templates.Hide(gvk, fmt.Sprintf("the cluster does not say whether it serves %s (%s)", gvk.Kind, failureText(err)))
		return
	}
	if err == nil {
		templates.Begin(gvk, mapping.Scope.Name() == meta.RESTScopeNameNamespace)
		err = v.list(ctx, c, unstructuredSource(gvk, mapping.Resource.GroupResource(),
			func(u *unstructured.Unstructured) bool {
				changed := v.external.putFencing(gvk, u)
				return templates.Put(gvk, u) || changed
			},
			func(key string) { templates.Drop(gvk, nameOfKey(key)) }), "")
	}
	switch {
	case isUnserved(err):
		templates.Unserved(gvk)
	case err != nil:
		templates.Hide(gvk, whyUnread(mapping.Resource.GroupResource().String(), err))
	}
}

// isUnserved reports whether the cluster does not serve a kind. Among several errors, each must say so: a mapper that
// does not know a kind says nothing of a discovery that has failed.
func isUnserved(err error) bool {
	if several, are := errors.AsType[utilerrors.Aggregate](err); are {
		return !slices.ContainsFunc(several.Errors(), func(e error) bool { return !isUnserved(e) })
	}
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
}

// nameOfKey splits namespace/name, or returns a cluster-scoped name.
func nameOfKey(key string) types.NamespacedName {
	if namespace, name, both := strings.Cut(key, "/"); both {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: key}
}

func unstructuredSource(gvk schema.GroupVersionKind, resource schema.GroupResource, put func(*unstructured.Unstructured) bool, drop func(string)) Source {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return Source{
		Resource: resource, List: list, Drop: drop,
		Put: func(o client.Object) bool {
			u, ok := o.(*unstructured.Unstructured)
			return ok && put(u)
		},
	}
}

// whyUnread says why a list could not be read.
func whyUnread(what string, err error) string {
	if apierrors.IsForbidden(err) {
		return "you may not list " + what
	}
	return fmt.Sprintf("listing %s failed (%s)", what, failureText(err))
}

func (v *view) readLeases(ctx context.Context, c client.Reader) {
	v.external.leasesRead = true
	gvk := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	resource := schema.GroupResource{Group: gvk.Group, Resource: "leases"}
	source := unstructuredSource(gvk, resource, v.external.leases.Put, v.external.leases.Drop)
	if err := v.list(ctx, c, source, lease.Namespace); err != nil {
		v.external.unread.leases = whyUnread("leases in namespace "+lease.Namespace, err)
	}
}

func (v *view) readVersions(ctx context.Context, c client.Client) {
	v.external.versionsRead = true
	gvk := upgrade.VersionKind
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err == nil {
		v.external.openshift = core.Yes
		err = v.list(ctx, c, unstructuredSource(gvk, mapping.Resource.GroupResource(), v.putVersion, v.dropVersion), "")
	}
	switch {
	case isUnserved(err):
		v.external.openshift = core.No
	case err != nil:
		v.external.unread.upgrade = whyUnread("clusterversions.config.openshift.io", err)
	}
}

func (v *view) putVersion(u *unstructured.Unstructured) bool {
	old, known := v.external.versions[u.GetName()]
	fresh := upgrade.Progressing(u)
	v.external.versions[u.GetName()] = fresh
	return !known || old != fresh
}

func (v *view) dropVersion(name string) { delete(v.external.versions, name) }

// hiddenHolder holds the leases that could not be read. The core must not take them for free.
const hiddenHolder = "a holder that you may not see"

// addTo adds the facts to a cluster. Leases and ClusterVersions are those of the user's own cluster.
func (s *externalFacts) addTo(policies []core.Policy, cluster *core.Cluster, of core.ClusterKey, at time.Time) {
	s.templates.Cluster = of
	s.templates.AddFacts(policies, cluster)
	if of != (core.ClusterKey{}) {
		return // its Cluster object tells of upgrades
	}
	s.leases.AddFacts(cluster, at)
	if s.unread.leases != "" {
		for i := range cluster.Targets {
			cluster.Targets[i].Lease = core.Lease{Holder: hiddenHolder, Until: at.Add(forever)}
		}
	}
	switch {
	case s.unread.upgrade != "":
		cluster.Upgrading = core.Unknown
	case slices.Contains(slices.Collect(maps.Values(s.versions)), true):
		cluster.Upgrading = core.Yes
	default:
		cluster.Upgrading = core.No
	}
}

// forever is longer than any question looks ahead.
const forever = 100 * 365 * 24 * time.Hour

// readQuorum checks whether quorum survives without each control plane member that may be repaired. It reports whether
// there are any.
func (v *view) readQuorum(ctx context.Context, c client.Reader, w *assessment) bool {
	openshift := v.external.openshift
	if w.key != (core.ClusterKey{}) {
		if w.blocked != nil || v.reached[w.key] == nil {
			return false
		}
		c, openshift = v.reached[w.key], core.No
	}
	guard := quorum.NewClient(quorum.Config{Live: c, OpenShift: func() core.Tri { return openshift }, Now: func() time.Time { return v.at }})
	requested := false
	for i := range w.cluster.Targets {
		t := &w.cluster.Targets[i]
		if !t.MaybeControlPlane() || !w.isDoubted(i) || w.isLeftToOwner(i) {
			continue
		}
		requested = true
		survives, err := guard.Survives(ctx, *t)
		if err != nil {
			survives = core.Unknown
			v.external.unread.quorum[t.ID.UID] = whyUnsure(err)
		}
		t.QuorumSurvives, t.QuorumReadAt = survives, v.at
	}
	return requested
}

// isLeftToOwner reports whether the owner of a target decides in every step. Owners mind quorum themselves.
func (w *assessment) isLeftToOwner(target int) bool {
	return !slices.ContainsFunc(w.verdictsOf[target], func(v core.Verdict) bool {
		return slices.ContainsFunc(w.policySteps(v.Policy, target), func(s core.Step) bool { return !s.Nature.Effect().OwnerDecides })
	})
}

// whyUnsure says why quorum is unknown: the user lacks a right, or the API server did not answer.
func whyUnsure(err error) string {
	var status apierrors.APIStatus
	if apierrors.IsForbidden(err) && errors.As(err, &status) {
		if _, what, found := strings.Cut(status.Status().Message, "cannot "); found { // a text of texts
			return "you may not " + what
		}
	}
	return failureText(err)
}

// mostIgnored bounds the ignored Repairs that are named. A user who may write in one namespace can create very many.
const mostIgnored = 10

// allNotes returns sentences about unknown facts.
func (v *view) allNotes() []string {
	notes := slices.Clone(v.notes)
	policies, _ := v.needs()
	note := func(text string) {
		if !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	for i := range policies {
		p := &policies[i]
		for _, step := range p.Steps {
			if why, hidden := v.external.templates.Hidden(step); hidden {
				note("The state of remediation objects is not known: " + why + ".")
			}
		}
		if why := v.external.unread.leases; p.Holder != "" && why != "" {
			note("The holders of the leases of nodes are not known: " + why + ".")
		}
	}
	for _, f := range v.observations() {
		if why := v.external.unread.upgrade; why != "" && f.Cluster == (core.ClusterKey{}) && slices.ContainsFunc(f.Policies, waitsForUpgrades) {
			note("It is not known whether the cluster is being upgraded: " + why + ".")
		}
		if f.Blocked != nil && !f.Blocked.Halted {
			note(strings.ToUpper(f.Blocked.Message[:1]) + f.Blocked.Message[1:] + ". Its status is as a controller has written it last.")
		}
	}
	for _, text := range slices.Concat(v.notesOnRepairs(), v.external.bmcs.notes(), v.external.promises.notes()) {
		note(text)
	}
	return notes
}

func waitsForUpgrades(p core.Policy) bool { return p.WaitsForUpgrades }

// notesOnRepairs returns sentences about Repairs that can't be read, or are ignored.
func (v *view) notesOnRepairs() []string {
	var notes []string
	ignored := 0
	for _, k := range slices.Sorted(maps.Keys(v.repairDetails)) {
		a := v.repairDetails[k]
		switch {
		case a.Ignored:
			ignored++
			if ignored <= mostIgnored {
				notes = append(notes, "Repair "+k+" is ignored: "+a.Problem+". Only Fettle makes Repairs. Delete it.")
			}
		case a.Problem != "":
			notes = append(notes, "Repair "+k+" can't be read as a whole, and counts as far as it can: "+a.Problem+".")
		}
	}
	if ignored > mostIgnored {
		notes = append(notes, fmt.Sprintf("%d more Repairs are ignored. Their events say why.", ignored-mostIgnored))
	}
	return notes
}

// ignored says why the controller ignores a Repair of a name, in a namespace or in any. The text is empty when there is
// no ignored Repair of that name.
func (v *view) ignored(namespace, name string) string {
	for _, k := range slices.Sorted(maps.Keys(v.repairDetails)) {
		home, called, _ := strings.Cut(k, "/")
		if a := v.repairDetails[k]; a.Ignored && called == name && (namespace == "" || home == namespace) {
			return "repair " + k + " is ignored: " + a.Problem + "; only Fettle makes Repairs, so delete it: kubectl delete repair " + name + inNamespace(home)
		}
	}
	return ""
}
