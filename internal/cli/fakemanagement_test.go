package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// managementCluster is the API server of a management cluster that serves every kind: the machines of OpenShift, nodes, and the
// workload clusters east and west of Cluster API, each with an API server of its own.
type managementCluster struct {
	*fakeAPI

	scene    *scene
	clusters *clusterScene
	// items are objects as YAML or JSON, by the path of their list and their namespace/name.
	items map[string]map[string]string
	kinds map[string]string

	lock sync.Mutex
	// messages are those of refusals, by path.
	messages map[string]string
	// watched is called when a list is watched.
	watched func()
	// now is the time of the commands.
	now time.Time
}

// These are lists of the API server.
const (
	machinesList    = "/apis/machine.openshift.io/v1beta1/machines"
	checksList      = "/apis/machine.openshift.io/v1beta1/machinehealthchecks"
	nodeChecksList  = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
	nodesList       = "/api/v1/nodes"
	repairsList     = fettleAPI + "/repairs"
	rebootsList     = "/apis/fix.example/v1/reboots"
	templatesList   = "/apis/fix.example/v1/reboottemplates"
	versionsList    = "/apis/config.openshift.io/v1/clusterversions"
	nodeLeasesList  = "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases"
	controllerLease = "/apis/coordination.k8s.io/v1/namespaces/fettle-system/leases/fettle"
	clusterAPIGroup = "/apis/cluster.x-k8s.io/v1beta2/"
)

// startManagementCluster starts the API servers. The user's namespace is machines, where a node of a machine is not ready.
func startManagementCluster(t *testing.T) *managementCluster {
	t.Helper()
	f := &managementCluster{
		fakeAPI: startAPI(t), scene: newScene(), clusters: newClusterScene(t), now: noon, messages: map[string]string{},
		items: map[string]map[string]string{}, kinds: map[string]string{},
	}
	serve(t, f, "machines")
	f.discovery()
	f.scene.ready(0, "Unknown", 3*time.Minute)
	for name, path := range map[string]string{
		"Machine": machinesList, "MachineHealthCheck": checksList, "NodeHealthCheck": nodeChecksList, "Node": nodesList, "Repair": repairsList, "Reboot": rebootsList,
		"RebootTemplate": templatesList, "ClusterVersion": versionsList, "Lease": nodeLeasesList, "Namespace": "/api/v1/namespaces",
	} {
		f.items[path], f.kinds[path] = map[string]string{}, name
	}
	for i, name := range []string{"a", "b", "c"} {
		f.put(nodesList, `{metadata: {name: node-`+name+`, uid: node-uid-`+name+`}, status: {conditions: [{type: Ready, status: "`+f.scene.Targets[i].Node.Conditions[0].Status+
			`", lastTransitionTime: "`+f.scene.Targets[i].Node.Conditions[0].Since.Format(time.RFC3339)+`"}]}}`)
		f.machine("machines", "worker-"+name, "node-"+name)
	}
	f.put(nodesList, `{metadata: {name: node-infra, uid: node-uid-infra, labels: {role: infra}}, status: {conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-07-01T00:00:00Z"}]}}`)
	f.put(nodesList, `{metadata: {name: node-free, uid: node-uid-free}, status: {conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-07-01T00:00:00Z"}]}}`)
	f.machine("other", "worker-z", "node-z")
	f.check("machines")
	f.put(nodeChecksList, `{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: infra, uid: uid-infra, creationTimestamp: "2026-07-01T00:00:00Z"},
  spec: {selector: {matchLabels: {role: infra}}, minHealthy: 0, unhealthyConditions: [{type: Ready, status: Unknown, duration: 300s}],
  remediationTemplate: {apiVersion: fix.example/v1, kind: RebootTemplate, namespace: remediators, name: usual}}}`)
	f.put(templatesList, "{apiVersion: fix.example/v1, kind: RebootTemplate, metadata: {name: usual, namespace: remediators}, spec: {template: {spec: {}}}}")
	f.put(versionsList, `{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, status: {conditions: [{type: Progressing, status: "False"}]}}`)
	f.put("/api/v1/namespaces", "{metadata: {name: machines}}")
	f.put("/api/v1/namespaces", "{metadata: {name: other}}")
	f.lead("fettle-0", 2*time.Second)
	return f
}

// discovery serves the groups whose kinds commands look up.
func (f *managementCluster) discovery() {
	var groups []any
	for group, names := range map[string]map[string]string{
		"fettle.io/v1alpha1": {}, "config.openshift.io/v1": {"clusterversions": "ClusterVersion"}, "fix.example/v1": {"reboots": "Reboot", "reboottemplates": "RebootTemplate"},
		"policy/v1":                             {"poddisruptionbudgets": "PodDisruptionBudget"},
		"controlplane.cluster.x-k8s.io/v1beta2": {"kubeadmcontrolplanes": "KubeadmControlPlane"},
		"cluster.x-k8s.io/v1beta2":              {"clusters": "Cluster", "machines": "Machine", "machinehealthchecks": "MachineHealthCheck"},
	} {
		name, number, _ := strings.Cut(group, "/")
		version := map[string]any{"groupVersion": group, "version": number}
		groups = append(groups, map[string]any{"name": name, "versions": []any{version}, "preferredVersion": version})
		var resources []any
		for plural, kind := range names {
			resources = append(resources, map[string]any{"name": plural, "kind": kind, "namespaced": kind != "ClusterVersion", "verbs": []string{"get", "list", "watch"}})
		}
		if len(resources) > 0 {
			f.set("/apis/"+group, map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": group, "resources": resources})
		}
	}
	f.set("/api/v1", map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
		map[string]any{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": []string{"get", "list", "watch"}},
	}})
	f.set("/apis", map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": groups})
}

// versionOf returns the API version of a list.
func versionOf(list string) string {
	version, _, _ := strings.Cut(list[:strings.LastIndex(list, "/")], "/namespaces/")
	return strings.TrimPrefix(strings.TrimPrefix(version, "/apis/"), "/api/")
}

// put adds an object to a list.
func (f *managementCluster) put(list, text string) {
	f.t.Helper()
	metadata, _ := object(f.t, text)["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	if !strings.Contains(text, "apiVersion") {
		text = "{apiVersion: " + versionOf(list) + ", kind: " + f.kinds[list] + ", " + text[1:]
	}
	f.items[list][namespace+"/"+name] = text
}

// machine adds a machine of OpenShift.
func (f *managementCluster) machine(namespace, name, node string) {
	f.t.Helper()
	f.put(machinesList, `{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {namespace: `+namespace+`, name: `+name+`, uid: `+strings.Replace(name, "worker", "uid", 1)+
		`, creationTimestamp: "2026-07-01T00:00:00Z", labels: {role: worker}, ownerReferences: [{apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: workers, uid: set, controller: true}]}, status: {nodeRef: {kind: Node, name: `+node+`}}}`)
}

// check adds the health check of a namespace.
func (f *managementCluster) check(namespace string) {
	f.t.Helper()
	f.put(checksList, `{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {namespace: `+namespace+`, name: example, uid: uid-example, creationTimestamp: "2026-07-01T00:00:00Z"},
  spec: {selector: {matchLabels: {role: worker}}, maxUnhealthy: 40%, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]}}`)
}

// lead has a controller hold the lease, which was renewed some time ago.
func (f *managementCluster) lead(holder string, ago time.Duration) {
	f.set(controllerLease, map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"namespace": "fettle-system", "name": "fettle"},
		"spec": map[string]any{"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": f.now.Add(-ago).Format(metav1.RFC3339Micro)}})
}

// ended records a repair of worker-b that has succeeded.
func (f *managementCluster) ended() *v1alpha1.Repair {
	return f.scene.repair(1, time.Hour, v1alpha1.RepairStatus{Phase: v1alpha1.RepairSucceeded, Message: "the target is gone", FinishedAt: &metav1.Time{Time: noon.Add(-50 * time.Minute)}})
}

// workloads serves the kinds of Cluster API, and starts the API servers of the workload clusters.
func (f *managementCluster) workloads() {
	f.t.Helper()
	for kind, plural := range map[string]string{"Cluster": "clusters", "Machine": "machines", "MachineHealthCheck": "machinehealthchecks"} {
		list := clusterAPIGroup + plural
		f.items[list], f.kinds[list] = map[string]string{}, kind
	}
	for key, text := range f.clusters.objects {
		kind, _, _ := strings.Cut(key, "/")
		f.put(clusterAPIGroup+strings.ToLower(kind)+"s", text)
	}
	for cluster, nodes := range f.clusters.nodes {
		api := &fakeAPI{t: f.t, objects: map[string]any{}}
		server := httptest.NewTLSServer(api)
		f.t.Cleanup(server.Close)
		latest := map[string]string{}
		for _, text := range nodes {
			metadata, _ := object(f.t, text)["metadata"].(map[string]any)
			name, _ := metadata["name"].(string)
			latest[name] = text
		}
		api.list(nodesList, "v1", "NodeList", slices.Collect(maps.Values(latest))...)
		secret := kubeconfigOfEast(server.URL, server.Certificate())
		secret["metadata"] = map[string]any{"namespace": "fleets", "name": cluster + "-kubeconfig"}
		f.set("/api/v1/namespaces/fleets/secrets/"+cluster+"-kubeconfig", secret)
	}
}

// serve answers with the objects from now on.
func (f *managementCluster) serve() {
	f.t.Helper()
	for _, repairs := range []map[string]*v1alpha1.Repair{f.scene.repairs, f.clusters.repairs} {
		for _, r := range repairs {
			text, err := json.Marshal(r)
			if err != nil {
				f.t.Fatal(err)
			}
			f.put(repairsList, string(text))
		}
	}
	for list, items := range f.items {
		if f.refuses(list) {
			continue
		}
		cut, version := strings.LastIndex(list, "/"), versionOf(list)
		home := map[string][]string{}
		var all []string
		for _, key := range slices.Sorted(maps.Keys(items)) {
			text := items[key]
			namespace, name, _ := strings.Cut(key, "/")
			all, home[namespace] = append(all, text), append(home[namespace], text)
			path := list + "/" + name
			if namespace != "" {
				path = list[:cut] + "/namespaces/" + namespace + list[cut:] + "/" + name
			}
			f.set(path, object(f.t, text))
		}
		f.list(list, version, f.kinds[list]+"List", all...)
		for _, namespace := range []string{"machines", "other", "fleets", "fettle-system"} {
			if path := list[:cut] + "/namespaces/" + namespace + list[cut:]; !f.has(path) {
				f.list(path, version, f.kinds[list]+"List", home[namespace]...)
			}
		}
	}
}

// refuses reports whether a path has the code of a failure for an answer.
func (f *managementCluster) refuses(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, is := f.objects[path].(int)
	return is
}

// ServeHTTP is that of the API server, apart from refusals with a message.
func (f *managementCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	message := f.messages[r.URL.Path]
	if f.watched != nil && r.URL.Query().Get("watch") != "" {
		f.watched()
	}
	f.lock.Unlock()
	if message != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		f.write(w, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": http.StatusForbidden, "reason": "Forbidden", "message": message})
		return
	}
	f.fakeAPI.ServeHTTP(w, r)
}

// run runs a command line, and returns what it prints and its error.
func (f *managementCluster) run(line string) string {
	f.t.Helper()
	return runFettle(f.t, f.now, strings.Fields(line)...) + "\n"
}

// transcript runs command lines, and compares what they print with a golden file.
func (f *managementCluster) transcript(t *testing.T, name string, lines ...string) {
	t.Helper()
	f.serve()
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(f.run(line))
	}
	golden(t, name+".txt", text.String())
}
