package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/test/cluster"
)

// named indexes objects by kind and name, without what only Helm adds.
func named(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, u := range objects {
		labels, annotations := u.GetLabels(), u.GetAnnotations()
		for _, key := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
			delete(labels, key)
		}
		if u.GetKind() == "CustomResourceDefinition" || u.GetName() == "medik8s-leases" {
			delete(annotations, "helm.sh/resource-policy")
		}
		if len(annotations) == 0 {
			annotations = nil
		}
		u.SetLabels(labels)
		u.SetAnnotations(annotations)
		key := u.GetKind() + " " + u.GetName()
		if ns := u.GetNamespace(); ns != "" && ns != namespace {
			key += " in " + ns
		}
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = u.Object
	}
	return all
}

// TestChartIsTheKustomization: what the chart renders is what config/ has, object by object.
func TestChartIsTheKustomization(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		args, dirs, without []string
	}{
		"with the default values, all but the namespace, which Helm needs before": {
			dirs: []string{"config"}, without: []string{"Namespace fettle-system"},
		},
		"with the namespace": {
			args: []string{"--set", "namespace.create=true"}, dirs: []string{"config"},
		},
		"with monitoring": {
			args: []string{"--set", "namespace.create=true", "--set", "monitoring.enabled=true"}, dirs: []string{"config", "config/monitoring"},
		},
		"on OpenShift": {
			args: []string{"--set", "namespace.create=true", "--set", "openshift=true"}, dirs: []string{"config", "config/openshift"},
		},
		"without Cluster API": {
			args: []string{"--set", "namespace.create=true", "--set", "clusterAPI=false"}, dirs: []string{"config"}, without: []string{
				"ClusterRole fettle-cluster-api", "ClusterRoleBinding fettle-cluster-api", "ClusterRole fettle-view-cluster-api",
				"ClusterRole fettle-cluster-api-remediation", "ClusterRoleBinding fettle-cluster-api-remediation",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			var want []*unstructured.Unstructured
			for _, dir := range c.dirs {
				want = append(want, cluster.Kustomization(t, dir)...)
			}
			wanted := named(t, want)
			for _, object := range c.without {
				if _, there := wanted[object]; !there {
					t.Errorf("the kustomization has no %s", object)
				}
				delete(wanted, object)
			}
			rendered := mustHelm(t, append([]string{"template", release, chartDir(), "--namespace", namespace}, c.args...)...)
			got := named(t, cluster.Decode(t, []byte(rendered)))
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("the chart (+) is not the kustomization (-):\n%s", diff)
			}
		})
	}
}

// TestValuesTakeEffect: each value changes what it is for and nothing else.
func TestValuesTakeEffect(t *testing.T) {
	t.Parallel()
	render := func(t *testing.T, args ...string) map[string]any {
		t.Helper()
		return named(t, cluster.Decode(t, []byte(mustHelm(t, append([]string{"template", release, chartDir(), "--namespace", namespace}, args...)...))))
	}
	plain := render(t)
	everything := slices.Sorted(maps.Keys(plain))
	for value, c := range map[string]struct {
		changed []string
		shows   string
	}{
		"image.repository=mirror/fettle":  {[]string{"Deployment fettle"}, "mirror/fettle:v"},
		"image.tag=v9":                    {[]string{"Deployment fettle"}, "fettle-io/fettle:v9"},
		"imagePullSecrets[0].name=key":    {[]string{"Deployment fettle"}, "imagePullSecrets"},
		"replicas=3":                      {[]string{"Deployment fettle"}, "replicas:3"},
		"replicas=1":                      {[]string{"Deployment fettle", "PodDisruptionBudget fettle"}, "replicas:1"},
		"logLevel=debug":                  {[]string{"Deployment fettle"}, "--log-level=debug"},
		"extraArgs[0]=--log-format=text":  {[]string{"Deployment fettle"}, "--log-format=text"},
		"resources.limits.memory=2Gi":     {[]string{"Deployment fettle"}, "memory:2Gi"},
		"priorityClassName=mine":          {[]string{"Deployment fettle"}, "priorityClassName:mine"},
		"nodeSelector.disk=ssd":           {[]string{"Deployment fettle"}, "disk:ssd"},
		"tolerations[0].key=mine":         {[]string{"Deployment fettle"}, "key:mine"},
		"affinity.podAffinity.x=y":        {[]string{"Deployment fettle"}, "x:y"},
		"metrics.certificateSecret=certs": {[]string{"Deployment fettle"}, "secretName:certs"},
		"metrics.enabled=false":           {[]string{"Deployment fettle", "Service fettle-metrics"}, "--metrics-bind-address=0"},
		"networkPolicy.enabled=false":     {[]string{"NetworkPolicy fettle"}, ""},
		"crds.install=false": {[]string{
			"CustomResourceDefinition machinedeletionremediations.fettle.io", "CustomResourceDefinition machinedeletionremediationtemplates.fettle.io",
			"CustomResourceDefinition repairs.fettle.io",
		}, ""},
		"crds.openshift=Never": {nil, ""},
		"crds.medik8s=Never":   {nil, ""},
		"admission.enabled=false": {[]string{
			"ValidatingAdmissionPolicy node-health-check.fettle.io", "ValidatingAdmissionPolicyBinding node-health-check.fettle.io",
		}, ""},
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			got := render(t, "--set", value)
			var changed []string
			for _, key := range everything {
				if !cmp.Equal(plain[key], got[key]) {
					changed = append(changed, key)
				}
			}
			if diff := cmp.Diff(c.changed, changed); diff != "" || len(got) > len(plain) {
				t.Errorf("other objects are changed than should be:\n%s", diff)
			}
			if text := fmt.Sprint(got); c.shows != "" && !strings.Contains(text, c.shows) {
				t.Errorf("%s is nowhere in %s", c.shows, text)
			}
		})
	}
}

// shared are namespaces that Fettle has rights in wherever it runs itself.
var shared = []string{"kube-system", "medik8s-leases", "openshift-etcd"}

// TestAnotherNamespace: everything follows the release, also the subjects of bindings.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	rendered := mustHelm(t, "template", release, chartDir(), "--namespace", "elsewhere", "--set", "namespace.create=true", "--set", "monitoring.enabled=true", "--set", "openshift=true", "--set", "clusterAPI=true")
	if strings.Contains(rendered, "fettle-system") {
		t.Errorf("something stays behind in fettle-system:\n%s", rendered)
	}
	for _, u := range cluster.Decode(t, []byte(rendered)) {
		if ns := u.GetNamespace(); ns != "" && ns != "elsewhere" && !slices.Contains(shared, ns) {
			t.Errorf("%s %s is in %s", u.GetKind(), u.GetName(), ns)
		}
	}
}

// TestBadValues: what is misspelt or nonsense is refused, by its name.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for value, complaint := range map[string]string{
		"replica=2":                                     "replica",
		"replicas=0":                                    "replicas",
		"replicas=many":                                 "replicas",
		"image.tagg=v1":                                 "tagg",
		"image.repository=":                             "repository",
		"image.pullPolicy=Sometimes":                    "pullPolicy",
		"logLevel=loud":                                 "logLevel",
		"extraArgs=--log-level=debug":                   "extraArgs",
		"extraArgs[0]=log-level":                        "extraArgs",
		"crds.openshift=Always":                         "openshift",
		"crds.medik8s=Always":                           "medik8s",
		"admission=true":                                "admission",
		"crds.install=perhaps":                          "install",
		"monitoring.interval=often":                     "interval",
		"monitoring.readers[0].name=alone":              "readers",
		"resources.limit.memory=1Gi":                    "limit",
		"networkPolicy=false":                           "networkPolicy",
		"namespace.create=sure":                         "create",
		"openshift=perhaps":                             "openshift",
		"clusterAPI=perhaps":                            "clusterAPI",
		"nodeSelector[0]=a":                             "nodeSelector",
		"tolerations.key=a":                             "tolerations",
		"affinity.nodeAfinity.x=1":                      "nodeAfinity",
		"monitoring.enabled=true,metrics.enabled=false": "needs metrics.enabled",
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, "template", release, chartDir(), "--set", value)
			if err == nil || !strings.Contains(err.Error(), complaint) {
				t.Errorf("the complaint does not name %s: %v\n%s", complaint, err, out)
			}
		})
	}
}
