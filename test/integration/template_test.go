package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/servedapi"
	"github.com/fettle-io/fettle/test/cluster"
)

// madeKinds are the kinds of two remediators. The kinds of the second are cluster-scoped.
const madeKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAMES.GROUP}
spec:
  group: GROUP
  scope: SCOPE
  names: {kind: KIND, plural: NAMES, singular: NAME}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// remediatorRole is the role that a remediator brings for its clients.
const remediatorRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: GROUP, labels: {rbac.ext-remediation/aggregate-to-ext-remediation: "true"}}
rules:
- {apiGroups: [GROUP], resources: [reboottemplates], verbs: [get, list, watch]}
- {apiGroups: [GROUP], resources: [reboots], verbs: [get, list, watch, create, patch, delete]}
`

// remediation is the remedy as Fettle's service account. The test plays the engine.
type remediation struct {
	*cluster.Cluster
	*template.ClusterClient

	t     *testing.T
	woken chan struct{}
}

// admin is the administrator's client.
func (r *remediation) admin() client.Client { return r.Cluster.Client }

func newRemediation(t *testing.T) *remediation {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallRights(t)
	for _, path := range []string{"config/crd/remediation.medik8s.io_nodehealthchecks.yaml", "sandbox/crd/machine.openshift.io_machines.yaml"} {
		for _, u := range cluster.Manifest(t, path) {
			if err := c.Create(cluster.Context(t), u); err != nil {
				t.Fatalf("creating %s: %v", u.GetName(), err)
			}
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.FettleKubeconfig(t))
	if err != nil {
		t.Fatalf("reading Fettle's kubeconfig: %v", err)
	}
	config.QPS = -1
	informers, err := cache.New(config, cache.Options{})
	if err != nil {
		t.Fatalf("making a cache: %v", err)
	}
	api, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	r := &remediation{Cluster: c, t: t, woken: make(chan struct{}, 1)}
	definitions := &servedapi.Starter{Informers: informers, Log: logr.Discard(), OnChange: func() {}}
	r.ClusterClient = template.NewClient(template.Config{
		Informers: informers, API: api, Served: definitions.Served, Changed: definitions.Changed, Log: logr.Discard(),
	}).ForCluster(core.ClusterKey{}, r.wake)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	parts := []func(context.Context) error{informers.Start, definitions.Start, r.ClusterClient.Client.Start}
	for _, start := range parts {
		go func() { ended <- start(ctx) }()
	}
	t.Cleanup(func() {
		stop()
		for range parts {
			if err := <-ended; err != nil {
				t.Errorf("a part ended with %v", err)
			}
		}
	})
	return r
}

func (r *remediation) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// serves defines both kinds of a remediator.
func (r *remediation) serves(group, scope string) {
	r.t.Helper()
	for kind, names := range map[string]string{"Reboot": "reboots", "RebootTemplate": "reboottemplates"} {
		r.Apply(r.t, strings.NewReplacer("GROUP", group, "SCOPE", scope, "KIND", kind, "NAMES", names, "NAME", strings.ToLower(kind)).Replace(madeKinds))
	}
}

func (r *remediation) grants(group string) {
	r.t.Helper()
	r.Apply(r.t, strings.ReplaceAll(remediatorRole, "GROUP", group))
}

// survey plays a pass of the engine over one policy, without a call.
func (r *remediation) survey(steps ...core.Step) ([]core.Step, core.Cluster) {
	policies := []core.Policy{{ID: core.ID{Kind: "NodeHealthCheck", Name: "check"}, Steps: steps}}
	var cluster core.Cluster
	r.AddFacts(policies, &cluster)
	return policies[0].Steps, cluster
}

// templatePatience is how long a test waits for a state. It is long, since the machines that run tests may be busy.
const templatePatience = 4 * time.Minute

// wantProblem waits until the first step has a problem with these words, or none for "". Like the engine, it looks only
// when it is woken. It returns how long that took.
func (r *remediation) wantProblem(words string, steps ...core.Step) time.Duration {
	r.t.Helper()
	began := time.Now()
	deadline := time.NewTimer(templatePatience)
	defer deadline.Stop()
	for {
		steps, _ := r.survey(steps...)
		got := steps[0].Problem
		if words == "" && got == "" || words != "" && strings.Contains(got, words) {
			return time.Since(began)
		}
		select {
		case <-r.woken:
		case <-deadline.C:
			r.t.Fatalf("the problem of the step is %q, want %q", got, words)
		}
	}
}

// wantUnseen waits until the requests of these templates, and no others, can't be seen.
func (r *remediation) wantUnseen(why string, s core.Step, want ...core.Reference) {
	r.t.Helper()
	deadline := time.NewTimer(templatePatience)
	defer deadline.Stop()
	for {
		_, cluster := r.survey(s)
		if slices.Equal(cluster.UnlistedTemplates, want) {
			return
		}
		select {
		case <-r.woken:
		case <-deadline.C:
			r.t.Fatalf("%s: the requests that can't be seen are %v, want %v", why, cluster.UnlistedTemplates, want)
		}
	}
}

// wantRequest waits for a request that matches.
func (r *remediation) wantRequest(what string, is func(core.Request) bool, steps ...core.Step) core.Request {
	r.t.Helper()
	deadline := time.NewTimer(templatePatience)
	defer deadline.Stop()
	for {
		_, cluster := r.survey(steps...)
		if i := slices.IndexFunc(cluster.Requests, is); i >= 0 {
			return cluster.Requests[i]
		}
		select {
		case <-r.woken:
		case <-deadline.C:
			r.t.Fatalf("no request is seen that %s, among %+v", what, cluster.Requests)
		}
	}
}

func (r *remediation) begins(want core.RemedyResult, o core.RemedyCall, says ...string) {
	r.t.Helper()
	got, err := r.Start(cluster.Context(r.t), o)
	if got != want || (err != nil) != (len(says) > 0) {
		r.t.Fatalf("asking for %s by %s: %s, %v", o.Target.ID, o.Step.Template, got, err)
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			r.t.Errorf("the message does not say %q: %v", words, err)
		}
	}
}

func (r *remediation) read(group, kind, namespace, name string) (*unstructured.Unstructured, error) {
	u := object(group+"/v1", kind, namespace, name)
	return u, r.admin().Get(cluster.Context(r.t), client.ObjectKeyFromObject(u), u)
}

// withdraw withdraws a request.
func (r *remediation) withdraw(ctx context.Context, q core.Request) error {
	_, err := r.Withdraw(ctx, q)
	return err
}

// order makes a node and its health check, and returns the call for the node's remediation.
func (r *remediation) order(node string, step core.Step) core.RemedyCall {
	r.t.Helper()
	check := object("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "", "check")
	check.Object["spec"] = map[string]any{"remediationTemplate": map[string]any{"apiVersion": "a.example/v1", "kind": "RebootTemplate", "name": "t", "namespace": "default"}}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"made": "by-hand"}}}
	for _, o := range []client.Object{check, n} {
		if err := r.admin().Create(cluster.Context(r.t), o); client.IgnoreAlreadyExists(err) != nil {
			r.t.Fatalf("creating %s: %v", o.GetName(), err)
		}
		if err := r.admin().Get(cluster.Context(r.t), client.ObjectKeyFromObject(o), o); err != nil {
			r.t.Fatalf("reading %s: %v", o.GetName(), err)
		}
	}
	return core.RemedyCall{
		Target: core.Target{ID: core.ID{Kind: "Node", Name: node, UID: string(n.UID)}},
		Policy: core.ID{Kind: "NodeHealthCheck", Name: "check", UID: string(check.GetUID())},
		Step:   step,
	}
}

func step(group, namespace, name string) core.Step {
	return core.Step{
		Remedy: template.NodeRemedy, Nature: core.CreateRequest,
		Template: core.Reference{APIVersion: group + "/v1", Kind: "RebootTemplate", Namespace: namespace, Name: name},
	}
}

const rebootTemplate = "{apiVersion: a.example/v1, kind: RebootTemplate, metadata: {name: t, namespace: default}, spec: {template: {spec: {hard: true}}}}"

// TestTemplatesComeLate: an unserved kind, an unreadable kind and a missing template each have their own message. The
// step can begin as soon as that is mended.
func TestTemplatesComeLate(t *testing.T) {
	t.Parallel()
	r := newRemediation(t)
	s := step("a.example", "default", "t")
	r.wantProblem("the cluster does not serve RebootTemplate (a.example/v1)", s)
	if steps, _ := r.survey(s); !steps[0].Missing {
		t.Error("the template is not missing")
	}
	r.wantUnseen("there can be none", s)
	r.serves("a.example", "Namespaced")
	t.Logf("that the kinds are served was seen after %s", r.wantProblem("create a ClusterRole with the label fettle.io/aggregate-to-fettle=true", s))
	r.wantUnseen("they may not be read", s, core.Reference{APIVersion: "a.example/v1", Kind: "RebootTemplate"})
	r.grants("a.example")
	t.Logf("that they may be read was seen after %s", r.wantProblem("RebootTemplate default/t does not exist", s))
	r.Apply(t, rebootTemplate)
	t.Logf("the template was seen after %s", r.wantProblem("", s))
	r.begins(core.Accepted, r.order("w", s))
	r.wantRequest("is about w", func(q core.Request) bool { return q.Target.Name == "w" }, s)

	if err := r.admin().Delete(cluster.Context(t), object("a.example/v1", "RebootTemplate", "default", "t")); err != nil {
		t.Fatalf("deleting the template: %v", err)
	}
	r.wantProblem("RebootTemplate default/t does not exist", s)
	r.begins(core.Stale, r.order("v", s))

	for _, name := range []string{"reboots.a.example", "reboottemplates.a.example"} {
		if err := r.admin().Delete(cluster.Context(t), object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)); err != nil {
			t.Fatalf("deleting a definition: %v", err)
		}
	}
	r.wantProblem("the cluster does not serve RebootTemplate (a.example/v1)", s)
	r.Eventually(t, "both definitions are gone", func(ctx context.Context) error {
		err := r.admin().Get(ctx, client.ObjectKey{Name: "reboots.a.example"}, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", ""))
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
	r.serves("a.example", "Namespaced")
	t.Logf("that the kinds are back was seen after %s", r.wantProblem("RebootTemplate default/t does not exist", s))
	r.Apply(t, rebootTemplate)
	r.wantProblem("", s)
}

// TestRequestsAreMadeOnceAndTakenBack: two requests make one object. Stopping and withdrawing hit that object and no
// other of its name. Foreign objects are left alone.
func TestRequestsAreMadeOnceAndTakenBack(t *testing.T) {
	t.Parallel()
	r := newRemediation(t)
	r.serves("a.example", "Namespaced")
	r.grants("a.example")
	r.Apply(t, rebootTemplate)
	s := step("a.example", "default", "t")
	r.wantProblem("", s)
	ctx := cluster.Context(t)

	w := r.order("w", s)
	r.begins(core.Accepted, w)
	r.begins(core.Accepted, w)
	q := r.wantRequest("is about w", func(q core.Request) bool { return q.Target.Name == "w" }, s)
	made, err := r.read("a.example", "Reboot", "default", "w")
	if err != nil {
		t.Fatalf("reading the request: %v", err)
	}
	want := core.Request{
		ID: core.ID{Kind: "Reboot", Namespace: "default", Name: "w", UID: string(made.GetUID())}, APIVersion: "a.example/v1",
		Remedy: template.NodeRemedy, Template: s.Template, Target: w.Target.ID, Policy: w.Policy, Created: made.GetCreationTimestamp().UTC(), Own: true,
	}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"hard": true}, made.Object["spec"]); diff != "" {
		t.Errorf("spec of the object (-want +got):\n%s", diff)
	}

	namesake := q
	namesake.ID.UID = "11111111-2222-3333-4444-555555555555"
	at := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.FixedZone("", 7200))
	if err := errors.Join(r.Stop(ctx, namesake, at), r.withdraw(ctx, namesake)); err != nil {
		t.Errorf("a request that is gone, and has a namesake: %v", err)
	}
	if u, err := r.read("a.example", "Reboot", "default", "w"); err != nil || u.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("the namesake was hit: %v, %v", u, err)
	}

	r.setStatus(made, "Processing", "True")
	r.wantRequest("is at work", func(q core.Request) bool { return q.Processing == core.Yes }, s)
	r.setStatus(made, "Succeeded", "False")
	r.wantRequest("has failed", func(q core.Request) bool { return q.Succeeded == core.No }, s)
	if err := r.Stop(ctx, q, at); err != nil {
		t.Fatalf("stopping: %v", err)
	}
	stopped := r.wantRequest("is told to stop", func(q core.Request) bool { return !q.Stopped.IsZero() }, s)
	u, err := r.read("a.example", "Reboot", "default", "w")
	if got := u.GetAnnotations()["remediation.medik8s.io/nhc-timed-out"]; err != nil || got != "2026-08-03T10:00:00Z" || !stopped.Stopped.Equal(at) {
		t.Errorf("told %q, and read as %s (%v)", got, stopped.Stopped, err)
	}
	if err := r.Stop(ctx, stopped, at.Add(time.Hour)); err != nil {
		t.Errorf("stopping again: %v", err)
	}
	if again, err := r.read("a.example", "Reboot", "default", "w"); err != nil || again.GetResourceVersion() != u.GetResourceVersion() {
		t.Errorf("a stopped request is stopped again (%v)", err)
	}

	r.change(u, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a.example/undo"}) })
	if err := r.withdraw(ctx, stopped); err != nil {
		t.Fatalf("withdrawing: %v", err)
	}
	leaving := r.wantRequest("is leaving", func(q core.Request) bool { return q.Leaving }, s)
	r.begins(core.Stale, w)
	if u, err = r.read("a.example", "Reboot", "default", "w"); err != nil {
		t.Fatalf("reading the request: %v", err)
	}
	r.change(u, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	r.Eventually(t, "it is gone", func(context.Context) error {
		if _, err := r.read("a.example", "Reboot", "default", "w"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
	if err := errors.Join(r.withdraw(ctx, leaving), r.withdraw(ctx, q), r.Stop(ctx, q, at)); err != nil {
		t.Errorf("a missing request: %v", err)
	}

	r.Apply(t, "{apiVersion: a.example/v1, kind: Reboot, metadata: {name: v, namespace: default}}")
	r.begins(0, r.order("v", s), "Reboot default/v", "has no owner", "nothing is done for Node v")
	r.Apply(t, "{apiVersion: a.example/v1, kind: RebootTemplate, metadata: {name: u, namespace: default}, spec: {template: {spec: {}}}}")
	other := step("a.example", "default", "u")
	r.wantProblem("", other)
	r.begins(core.Accepted, w)
	r.begins(0, r.order("w", other), "made from template t")
}

// TestFormsOfRequests: templates of one kind side by side, cluster-scoped kinds, and machines.
func TestFormsOfRequests(t *testing.T) {
	t.Parallel()
	r := newRemediation(t)
	r.serves("a.example", "Namespaced")
	r.serves("b.example", "Cluster")
	r.grants("a.example")
	r.grants("b.example")
	for _, name := range []string{"t", "u"} {
		r.Apply(t, "{apiVersion: a.example/v1, kind: RebootTemplate, spec: {template: {spec: {}}}, metadata: {name: "+name+
			`, namespace: default, annotations: {remediation.medik8s.io/multiple-templates-support: "true"}}}`)
	}
	r.Apply(t, "{apiVersion: b.example/v1, kind: RebootTemplate, metadata: {name: t}, spec: {template: {spec: {}}}}")
	steps := []core.Step{step("a.example", "default", "t"), step("a.example", "default", "u"), step("b.example", "elsewhere", "t")}
	for i := range steps {
		r.wantProblem("", append(steps[i:len(steps):len(steps)], steps[:i]...)...)
	}
	located, _ := r.survey(steps...)
	for _, s := range located {
		r.begins(core.Accepted, r.order("w", s))
		r.begins(core.Accepted, r.order("w", s))
		r.wantRequest("was made from "+s.Template.String(), func(q core.Request) bool { return q.Template == s.Template && q.Target.Name == "w" }, steps...)
	}
	if _, cluster := r.survey(steps...); len(cluster.Requests) != 3 {
		t.Errorf("%d requests stand: %+v", len(cluster.Requests), cluster.Requests)
	}

	machine := object("machine.openshift.io/v1beta1", "Machine", "default", "m")
	if err := r.admin().Create(cluster.Context(t), machine); err != nil {
		t.Fatalf("creating a machine: %v", err)
	}
	s := step("a.example", "default", "t")
	s.Remedy = template.MachineRemedy
	judged := core.Target{ID: core.ID{Kind: "Machine", Namespace: "default", Name: "m", UID: string(machine.GetUID())}, Revision: machine.GetResourceVersion()}
	o := core.RemedyCall{Target: judged, Step: s, Policy: core.ID{Kind: "MachineHealthCheck", Namespace: "default", Name: "check", UID: "check-uid"}}
	earlier := o
	earlier.Target.Revision = "1"
	r.begins(core.Stale, earlier)
	r.begins(core.Accepted, o)
	r.begins(core.Accepted, o)
	r.wantRequest("is about the machine", func(q core.Request) bool {
		return q.Target == o.Target.ID && q.Template == s.Template && q.Remedy == s.Remedy
	}, s)
	o.Target.ID.Namespace = "nowhere"
	r.begins(core.Stale, o)

	lost := step("a.example", "nowhere", "t")
	r.Namespace(t, "nowhere")
	r.Apply(t, "{apiVersion: a.example/v1, kind: RebootTemplate, spec: {template: {spec: {}}}, metadata: {name: t, namespace: nowhere}}")
	r.wantProblem("", lost)
	r.loses("nowhere")
	r.begins(0, r.order("w", lost), `"nowhere" not found`, "create the namespace")
}

// loses deletes a namespace at once, before its contents.
func (r *remediation) loses(namespace string) {
	r.t.Helper()
	ctx, n := cluster.Context(r.t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	err := r.admin().Delete(ctx, n)
	if err == nil {
		err = r.admin().Get(ctx, client.ObjectKeyFromObject(n), n)
	}
	if n.Spec.Finalizers = nil; err == nil {
		err = r.admin().SubResource("finalize").Update(ctx, n)
	}
	if err != nil {
		r.t.Fatalf("deleting namespace %s: %v", namespace, err)
	}
}

// TestWatchingSendsFewRequests: a synced kind costs no call at all. A kind that is not served costs a few, ever more rarely.
func TestWatchingSendsFewRequests(t *testing.T) {
	t.Parallel()
	r := newRemediation(t)
	r.serves("a.example", "Namespaced")
	r.grants("a.example")
	r.Apply(t, rebootTemplate)
	here, nowhere := step("a.example", "default", "t"), step("c.example", "default", "t")
	r.wantProblem("", here, nowhere)
	r.wantProblem("does not serve", nowhere, here)
	requestCount := func(resources ...string) (n int) {
		for _, q := range r.Requests(t) {
			if slices.Contains(resources, q.Resource) {
				n++
			}
		}
		return n
	}
	before := requestCount("reboots", "reboottemplates")
	if before > 10 {
		t.Errorf("it took %d requests to get two kinds in step", before)
	}
	began := time.Now()
	for time.Since(began) < quiet {
		r.survey(here, nowhere)
	}
	if after := requestCount("reboots", "reboottemplates"); after != before {
		t.Errorf("surveys made %d requests", after-before)
	}
	r.Never(t, "watches end", quiet, func(context.Context) error {
		if ended := r.EndedWatches(t); len(ended) > 6 {
			return fmt.Errorf("%d watches have ended", len(ended))
		}
		return nil
	})
}

// TestKindsAreLetGoOf: a kind is watched only while something needs it, and is watched again later.
func TestKindsAreLetGoOf(t *testing.T) {
	t.Parallel()
	r := newRemediation(t)
	r.serves("a.example", "Namespaced")
	r.grants("a.example")
	r.Apply(t, rebootTemplate)
	s := step("a.example", "default", "t")
	r.wantProblem("", s)
	released := time.Now() // the watches by which the kinds were first probed have ended by now
	r.survey()
	r.Eventually(t, "both kinds are let go of", func(context.Context) error {
		kinds := map[string]bool{}
		for _, q := range r.EndedWatches(t) {
			if q.Ended.After(released) && (q.Resource == "reboots" || q.Resource == "reboottemplates") {
				kinds[q.Resource] = true
			}
		}
		if len(kinds) < 2 {
			return fmt.Errorf("watches have ended of %v", kinds)
		}
		return nil
	})
	r.wantProblem("", s)
}

// TestListsAloneAreNotEnough: a role that lets Fettle list a kind and not watch it does not suffice, and Fettle says
// so.
func TestListsAloneAreNotEnough(t *testing.T) {
	t.Parallel()
	r := newRemediation(t)
	r.serves("a.example", "Namespaced")
	r.Apply(t, strings.NewReplacer("GROUP", "a.example", "[get, list, watch]", "[get, list]").Replace(remediatorRole))
	s := step("a.example", "default", "t")
	r.wantUnseen("requests are looked for once the template was found", s, core.Reference{APIVersion: "a.example/v1", Kind: "RebootTemplate"})
	r.wantProblem("may not list and watch RebootTemplate", s)
	r.Never(t, "another problem is told", quiet, func(context.Context) error {
		steps, _ := r.survey(s)
		if got := steps[0].Problem; !strings.Contains(got, "may not list and watch RebootTemplate") {
			return errors.New(got)
		}
		return nil
	})
}

func (r *remediation) setStatus(u *unstructured.Unstructured, kind, status string) {
	r.t.Helper()
	before := u.DeepCopy()
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status, "reason": "R"}}}
	if err := r.admin().Status().Patch(cluster.Context(r.t), u, client.MergeFrom(before)); err != nil {
		r.t.Fatalf("setting a status: %v", err)
	}
}

func (r *remediation) change(u *unstructured.Unstructured, how func(*unstructured.Unstructured)) {
	r.t.Helper()
	before := u.DeepCopy()
	how(u)
	if err := r.admin().Patch(cluster.Context(r.t), u, client.MergeFrom(before)); err != nil {
		r.t.Fatalf("changing %s: %v", u.GetName(), err)
	}
}
