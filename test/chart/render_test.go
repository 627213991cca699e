package chart

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/test/cluster"
)

// ofAgents are the names of objects of agents that Helm keeps.
var ofAgents = []string{"fettle-agents", "fettle-agent", "fettle-agent-authorities"}

// named indexes objects by kind and name, without the fields that only Helm adds.
func named(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, u := range objects {
		labels, annotations := u.GetLabels(), u.GetAnnotations()
		for _, key := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
			delete(labels, key)
		}
		if u.GetKind() == "CustomResourceDefinition" || u.GetName() == "medik8s-leases" || slices.Contains(ofAgents, u.GetName()) {
			delete(annotations, "helm.sh/resource-policy")
		}
		if u.GetKind() == "SelfFenceRemediationTemplate" {
			annotations = nil // it is created once its kind is served
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

// TestChartIsTheKustomization: the chart renders the objects of config/, one by one.
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
		"with Cluster API": {
			args: []string{"--set", "namespace.create=true", "--set", "clusterAPI.enabled=true"}, dirs: []string{"config", "config/cluster_api"},
		},
		"with the power of hosts": {
			args: []string{"--set", "namespace.create=true", "--set", "power.enabled=true"}, dirs: []string{"config", "config/power"},
		},
		"with the power of hosts by Metal3": {
			args: []string{"--set", "namespace.create=true", "--set", "power.enabled=true,power.bareMetalHosts=true"},
			dirs: []string{"config", "config/power", "config/metal3"},
		},
		"with nodes that fence themselves": {
			args: []string{"--set", "namespace.create=true", "--set", "selfFence.enabled=true"}, dirs: []string{"config", "config/selffence"},
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
			rendered := mustHelm(t, append([]string{"template", release, chartDir(), "--namespace", namespace, "--set", imageSet}, c.args...)...)
			got := named(t, cluster.Decode(t, []byte(rendered)))
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("the chart (+) is not the kustomization (-):\n%s", diff)
			}
		})
	}
}

// digest is not the digest of any image.
var digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)

// TestValuesTakeEffect: each value changes what it is for and nothing else.
func TestValuesTakeEffect(t *testing.T) {
	t.Parallel()
	render := func(t *testing.T, args ...string) map[string]any {
		t.Helper()
		return named(t, cluster.Decode(t, []byte(mustHelm(t, append([]string{"template", release, chartDir(), "--namespace", namespace, "--set", imageSet}, args...)...))))
	}
	plain := render(t)
	everything := slices.Sorted(maps.Keys(plain))
	for value, c := range map[string]struct {
		changed []string
		shows   string
	}{
		"image.repository=mirror/fettle":       {[]string{"Deployment fettle"}, "mirror/fettle:v"},
		"image.tag=v9":                         {[]string{"Deployment fettle"}, "fettle.invalid/fettle:v9"},
		"image.digest=" + digest:               {[]string{"Deployment fettle"}, "fettle.invalid/fettle@" + digest},
		"imagePullSecrets[0].name=key":         {[]string{"Deployment fettle"}, "imagePullSecrets"},
		"replicas=3":                           {[]string{"Deployment fettle"}, "replicas:3"},
		"replicas=1":                           {[]string{"Deployment fettle", "PodDisruptionBudget fettle"}, "replicas:1"},
		"logLevel=debug":                       {[]string{"Deployment fettle"}, "--log-level=debug"},
		"dialects={nhc,cluster-api,openshift}": {nil, ""},
		"dialects={openshift,nhc}":             {[]string{"Deployment fettle"}, "--dialects=openshift,nhc"},
		"dialects={openshift}": {[]string{
			"ClusterRole fettle", "Deployment fettle", "Namespace medik8s-leases", "Role fettle in medik8s-leases", "Role fettle-view in medik8s-leases", "RoleBinding fettle in medik8s-leases",
		}, "--dialects=openshift"},
		"dialects={nhc}":                  {[]string{"ClusterRole fettle", "Deployment fettle"}, "--dialects=nhc"},
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
			"CustomResourceDefinition bmcs.fettle.io", "CustomResourceDefinition fencepolicies.fettle.io",
			"CustomResourceDefinition machinedeletionremediations.fettle.io", "CustomResourceDefinition machinedeletionremediationtemplates.fettle.io",
			"CustomResourceDefinition powerremediations.fettle.io", "CustomResourceDefinition powerremediationtemplates.fettle.io",
			"CustomResourceDefinition repairs.fettle.io",
			"CustomResourceDefinition selffenceremediations.fettle.io", "CustomResourceDefinition selffenceremediationtemplates.fettle.io",
		}, ""},
		"crds.openshift=Never":    {nil, ""},
		"crds.medik8s=Never":      {nil, ""},
		"admission.enabled=false": {admission(t), ""},
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

// admission returns all objects of config/admission, sorted, by kind and name.
func admission(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config", "admission", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no files in config/admission (%v)", err)
	}
	var all []string
	for _, file := range files {
		for _, u := range cluster.Manifest(t, filepath.Join("config", "admission", filepath.Base(file))) {
			all = append(all, u.GetKind()+" "+u.GetName())
		}
	}
	slices.Sort(all)
	return all
}

// shared are the namespaces in which Fettle has rights wherever it runs.
var shared = []string{"fettle-agents", "kube-system", "medik8s-leases", "openshift-etcd"}

// TestSecretsByNamespace: with a list of namespaces, the chart renders the kustomization in the documentation, and no right to read
// Secrets elsewhere.
func TestSecretsByNamespace(t *testing.T) {
	t.Parallel()
	rendered := mustHelm(t, "template", release, chartDir(), "--namespace", namespace, "--set", imageSet,
		"--set", "clusterAPI.enabled=true,clusterAPI.namespaces={clusters}", "--show-only", "templates/rbac.yaml")
	of := func(objects []*unstructured.Unstructured) map[string]any {
		objects = slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool { return !strings.Contains(u.GetName(), "cluster-api") })
		for _, u := range objects {
			u.SetLabels(nil)
		}
		return named(t, objects)
	}
	want, got := of(cluster.Documented(t, "docs/install.md", "config/cluster_api")), of(cluster.Decode(t, []byte(rendered)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the chart (+) is not the documented kustomization (-):\n%s", diff)
	}
	const kubeconfigs = "fettle-cluster-api-kubeconfigs"
	if got["RoleBinding "+kubeconfigs+" in clusters"] == nil || got["ClusterRoleBinding "+kubeconfigs] != nil {
		t.Errorf("the Secrets are not bound in the namespace alone: %v", slices.Sorted(maps.Keys(got)))
	}
}

// TestRightsOfDialects: the chart grants no rights to health checks and remediations that Fettle does not follow.
func TestRightsOfDialects(t *testing.T) {
	t.Parallel()
	for set, c := range map[string]struct{ has, lacks []string }{
		`dialects=["openshift","cluster-api","nhc"]`: {[]string{"machinehealthchecks", "nodehealthchecks", "machinedeletionremediations", "machines"}, nil},
		`dialects=["openshift"]`:                     {[]string{"machinehealthchecks", "machines", "machinesets", "machinedeletionremediations"}, []string{"nodehealthchecks"}},
		`dialects=["nhc"],remediators=[]`:            {[]string{"nodehealthchecks", "repairs", "machines"}, []string{"machinehealthchecks", "machinesets", "machinedeletionremediations"}},
		`dialects=["nhc"]`:                           {[]string{"nodehealthchecks", "machines"}, []string{"machinehealthchecks"}},
		`dialects=[]`:                                {[]string{"machines", "machinesets"}, []string{"machinehealthchecks", "nodehealthchecks"}},
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			rendered := mustHelm(t, "template", release, chartDir(), "--namespace", namespace, "--set", imageSet, "--set-json", set, "--show-only", "templates/rbac.yaml")
			role := fmt.Sprint(named(t, cluster.Decode(t, []byte(rendered)))["ClusterRole fettle"])
			for _, resource := range c.has {
				if !regexp.MustCompile(`[\[ ]` + resource + `[\] ]`).MatchString(role) { // beside other resources with the same verbs
					t.Errorf("there is no right to %s: %s", resource, role)
				}
			}
			for _, resource := range c.lacks {
				if strings.Contains(role, resource) {
					t.Errorf("there is a right to %s: %s", resource, role)
				}
			}
		})
	}
}

// TestRightsToMachines: NodeHealthChecks and the remediator read the machines of nodes; each dialect and remediator has the verbs that
// it uses.
func TestRightsToMachines(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]map[string][]string{
		`dialects=["openshift"],remediators=[]`:             {"machines": {"delete", "get", "list", "patch", "watch"}, "machinesets": {"get", "list", "watch"}},
		`dialects=["nhc"]`:                                  {"machines": {"delete", "get", "list", "patch", "watch"}, "machinesets": {"get"}},
		`dialects=["nhc"],remediators=["machine-deletion"]`: {"machines": {"delete", "get", "list", "watch"}, "machinesets": {"get"}},
		`dialects=["nhc"],remediators=["power"]`:            {"machines": {"delete", "get", "list", "patch", "watch"}, "machinesets": nil},
		`dialects=["nhc"],remediators=["self-fence"]`:       {"machines": {"get", "list", "patch", "watch"}, "machinesets": nil},
		`dialects=["nhc"],remediators=[]`:                   {"machines": {"get", "list", "watch"}, "machinesets": nil},
		`dialects=["cluster-api"],remediators=[]`:           {"machines": nil, "machinesets": nil},
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			rendered := mustHelm(t, "template", release, chartDir(), "--namespace", namespace, "--set", imageSet, "--set-json", set, "--show-only", "templates/rbac.yaml")
			role, _ := named(t, cluster.Decode(t, []byte(rendered)))["ClusterRole fettle"].(map[string]any)
			for resource, verbs := range want {
				if diff := cmp.Diff(verbs, verbsOn(t, role, resource)); diff != "" {
					t.Errorf("the verbs on %s are others: %s", resource, diff)
				}
			}
		})
	}
}

// TestRightsToCondemn: each remediator that condemns nodes reads their policies, and lists the remediations that may have condemned them too.
func TestRightsToCondemn(t *testing.T) {
	t.Parallel()
	all, look, none := []string{"get", "list", "patch", "watch"}, []string{"list", "watch"}, []string(nil)
	for set, want := range map[string]map[string][]string{
		`["power","self-fence"]`: {"fencepolicies": look, "powerremediations": all, "selffenceremediations": all},
		`["power"]`:              {"fencepolicies": look, "powerremediations": all, "selffenceremediations": {"list"}},
		`["self-fence"]`:         {"fencepolicies": look, "powerremediations": {"list"}, "selffenceremediations": all},
		`["machine-deletion"]`:   {"fencepolicies": none, "powerremediations": none, "selffenceremediations": none},
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			rendered := mustHelm(t, "template", release, chartDir(), "--namespace", namespace, "--set", imageSet, "--set-json", `dialects=["nhc"],remediators=`+set, "--show-only", "templates/rbac.yaml")
			role, _ := named(t, cluster.Decode(t, []byte(rendered)))["ClusterRole fettle"].(map[string]any)
			for resource, verbs := range want {
				if diff := cmp.Diff(verbs, verbsOn(t, role, resource)); diff != "" {
					t.Errorf("the verbs on %s are others: %s", resource, diff)
				}
			}
		})
	}
}

func verbsOn(t *testing.T, role map[string]any, resource string) []string {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(role, "rules")
	if err != nil {
		t.Fatalf("reading the rules: %v", err)
	}
	var verbs []string
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		if resources, _, _ := unstructured.NestedStringSlice(rule, "resources"); slices.Contains(resources, resource) {
			verbs, _, _ = unstructured.NestedStringSlice(rule, "verbs")
		}
	}
	return verbs
}

// TestNothingToRun: the chart refuses values with which the controller does not start.
func TestNothingToRun(t *testing.T) {
	t.Parallel()
	out, err := helm(t, "template", release, chartDir(), "--set", imageSet, "--set-json", `dialects=[],remediators=[]`)
	if err == nil || !strings.Contains(err.Error(), "dialects and remediators are both empty") {
		t.Errorf("the complaint does not name both: %v\n%s", err, out)
	}
}

// TestExternalBaremetal: with the rights to power hosts, the controller gets the flag.
func TestExternalBaremetal(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]bool{"Mark": false, "PowerRemediation": true} {
		rendered := mustHelm(t, "template", release, chartDir(), "--set", imageSet, "--set", "power.enabled=true,externalBaremetal="+way)
		if got := strings.Contains(rendered, "- --external-baremetal="+way+"\n"); got != want {
			t.Errorf("%s: there is a flag: %t", way, got)
		}
	}
}

// TestShortNames: no definition of Fettle's group takes a short name that a cluster may know for a kind of medik8s.
func TestShortNames(t *testing.T) {
	t.Parallel()
	taken := []string{"nhc", "mdr", "mdrt", "snr", "snrt", "snrc", "far", "fart", "nm", "sbr", "sbrt"}
	rendered := mustHelm(t, "template", release, chartDir(), "--namespace", namespace, "--set", imageSet, "--show-only", "templates/crds.yaml")
	found := 0
	for _, u := range cluster.Decode(t, []byte(rendered)) {
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		names, _, err := unstructured.NestedStringSlice(u.Object, "spec", "names", "shortNames")
		if err != nil || group != "fettle.io" {
			t.Errorf("%s is of group %q (%v)", u.GetName(), group, err)
		}
		for _, name := range names {
			found++
			if slices.Contains(taken, name) {
				t.Errorf("%s has the short name %s", u.GetName(), name)
			}
			taken = append(taken, name)
		}
	}
	if found == 0 {
		t.Error("no definition has a short name, so this shows nothing")
	}
}

// TestAnotherNamespace: all objects follow the namespace of the release, and so do the subjects of bindings.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	rendered := mustHelm(t, "template", release, chartDir(), "--namespace", "elsewhere", "--set", imageSet,
		"--set", "namespace.create=true", "--set", "monitoring.enabled=true", "--set", "openshift=true,power.enabled=true,power.bareMetalHosts=true,selfFence.enabled=true", "--set", "clusterAPI.enabled=true,clusterAPI.namespaces={kube-system}")
	if strings.Contains(rendered, "fettle-system") {
		t.Errorf("something stays behind in fettle-system:\n%s", rendered)
	}
	for _, u := range cluster.Decode(t, []byte(rendered)) {
		if ns := u.GetNamespace(); ns != "" && ns != "elsewhere" && !slices.Contains(shared, ns) && u.GetName() != "fettle-agent-events" { // events of nodes are in default
			t.Errorf("%s %s is in %s", u.GetKind(), u.GetName(), ns)
		}
	}
}

// TestI14RightOnBareMetalHostsIsConfined: the policy comes with the right, also where the other policies are left out.
func TestI14RightOnBareMetalHostsIsConfined(t *testing.T) {
	t.Parallel()
	for _, admission := range []string{"true", "false"} {
		got := named(t, cluster.Decode(t, []byte(mustHelm(t, "template", release, chartDir(), "--namespace", namespace, "--set", imageSet,
			"--set", "power.enabled=true,power.bareMetalHosts=true,admission.enabled="+admission))))
		for _, object := range []string{
			"ClusterRole fettle-metal3", "ValidatingAdmissionPolicy bare-metal-host.fettle.io", "ValidatingAdmissionPolicyBinding bare-metal-host.fettle.io",
		} {
			if got[object] == nil {
				t.Errorf("with admission.enabled=%s there is no %s", admission, object)
			}
		}
	}
}

// TestI14RightOnBareMetalHostsIsConfinedInEachNamespace: a kustomization moves the service account, and the policy must apply to it there too.
func TestI14RightOnBareMetalHostsIsConfinedInEachNamespace(t *testing.T) {
	t.Parallel()
	for _, u := range cluster.Kustomization(t, "config/metal3") {
		if u.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		conditions, _, err := unstructured.NestedSlice(u.Object, "spec", "matchConditions")
		if text := fmt.Sprint(conditions); err != nil || len(conditions) != 1 || strings.Contains(text, namespace) || !strings.Contains(text, "endsWith(':fettle')") {
			t.Errorf("%s applies to %s (%v)", u.GetName(), text, err)
		}
	}
}

// TestBadValues: misspelt and senseless values are refused, and the error names them.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for value, complaint := range map[string]string{
		"replica=2":                          "replica",
		"replicas=0":                         "replicas",
		"replicas=many":                      "replicas",
		"image.tagg=v1":                      "tagg",
		"image.repository=":                  "make release",
		"image.repository=mirror/fettle:v1":  "repository",
		"image.digest=sha256:0":              "digest",
		"image.tag=sha256:0":                 "tag",
		"image.pullPolicy=Sometimes":         "pullPolicy",
		"logLevel=loud":                      "logLevel",
		"extraArgs=--log-level=debug":        "extraArgs",
		"externalBaremetal=mark":             "externalBaremetal",
		"externalBaremetal=PowerRemediation": "set power.enabled",
		"externalBaremetal=PowerRemediation,remediators={machine-deletion}": "name power in remediators",
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
		"clusterAPI=true":                               "clusterAPI",
		"clusterAPI.enabled=perhaps":                    "enabled",
		"clusterAPI.namespaces={all}":                   "needs clusterAPI.enabled",
		"clusterAPI.namespaces={*}":                     "namespaces",
		"power.bareMetalHosts=true":                     "needs power.enabled",
		"clusterAPI.enabled=true,dialects={nhc}":        "dialects has no cluster-api",
		"dialects={latin}":                              "dialects",
		"remediators={reboot}":                          "remediators",
		"nodeSelector[0]=a":                             "nodeSelector",
		"tolerations.key=a":                             "tolerations",
		"affinity.nodeAfinity.x=1":                      "nodeAfinity",
		"monitoring.enabled=true,metrics.enabled=false": "needs metrics.enabled",
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, "template", release, chartDir(), "--set", imageSet, "--set", value)
			if err == nil || !strings.Contains(err.Error(), complaint) {
				t.Errorf("the complaint does not name %s: %v\n%s", complaint, err, out)
			}
		})
	}
}
