package cli

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// These are collections of the API server.
const (
	machinesPath = "/apis/machine.openshift.io/v1beta1/machines"
	setsPath     = "/apis/machine.openshift.io/v1beta1/machinesets"
	checksPath   = "/apis/machine.openshift.io/v1beta1/machinehealthchecks"
	nodeChecks   = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
	nodesPath    = "/api/v1/nodes"
	repairsPath  = fettleAPI + "/repairs"
	leasesPath   = "/apis/coordination.k8s.io/v1/leases"
)

// fleet is an API server with machines worker-a to worker-e and their nodes, which one health check selects.
type fleet struct {
	*fakeAPI

	// objects are by their collections, and then by namespace/name. A collection that is not there is not served.
	objects map[string]map[string]map[string]any
	// gets counts the reads by their paths, and refused are the codes of failures by method and path.
	gets    map[string]int
	refused map[string]int
	// written are the requests that may write, with their bodies.
	written []string
	// watches are the open ones by their paths.
	watches map[string]*io.PipeWriter
	// watched are the addresses of all watches.
	watched []string
	// groups are the API groups of discovery.
	groups []any
	// workloads are the API servers of workload clusters.
	workloads map[string]*fleet
	// page is how many objects a page of a list has, or 0 for all.
	page int
}

// startFleet starts the API server, and has KUBECONFIG name it, with the namespace machines.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, noon)
	serve(t, f, "machines")
	return f
}

// newFleet returns the API server without a listener. The nodes have been Ready for a day.
func newFleet(t *testing.T, now time.Time) *fleet {
	t.Helper()
	f := &fleet{fakeAPI: &fakeAPI{t: t, objects: map[string]any{}}, objects: map[string]map[string]map[string]any{}, gets: map[string]int{}, refused: map[string]int{}, watches: map[string]*io.PipeWriter{}, workloads: map[string]*fleet{}}
	for _, path := range []string{machinesPath, setsPath, checksPath, nodeChecks, nodesPath, repairsPath, leasesPath} {
		f.objects[path] = map[string]map[string]any{}
	}
	f.discover("machine.openshift.io/v1beta1", "Machine", "MachineSet", "MachineHealthCheck")
	day := now.Add(-24 * time.Hour)
	f.put("{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {namespace: machines, name: workers, uid: check, creationTimestamp: '" + stamp(day) + "'}, " +
		"spec: {selector: {matchLabels: {role: worker}}, maxUnhealthy: 40%, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]}}")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		f.machine("machines", name, "worker")
		f.node(name, "True", day)
	}
	f.put("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: fettle-system, name: fettle}, " +
		"spec: {holderIdentity: fettle-0, leaseDurationSeconds: 15, renewTime: '" + now.Format("2006-01-02T15:04:05.000000Z07:00") + "'}}")
	return f
}

// lead has a controller lead for some time.
func (f *fleet) lead(during time.Duration) {
	f.put("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: fettle-system, name: fettle}, " +
		"spec: {holderIdentity: fettle-0, leaseDurationSeconds: " + strconv.Itoa(int(during.Seconds())) + ", renewTime: '" + clock().UTC().Format(metav1.RFC3339Micro) + "'}}")
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// machine puts the machine of node-NAME, with a role.
func (f *fleet) machine(namespace, name, role string) {
	f.put("{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {namespace: " + namespace + ", name: worker-" + name + ", uid: " + namespace + "-" + name +
		", creationTimestamp: '2026-07-01T00:00:00Z', labels: {role: " + role + "}, " +
		"ownerReferences: [{apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: workers, uid: set, controller: true}]}, " +
		"status: {phase: Running, nodeRef: {kind: Node, name: node-" + name + "}}}")
}

// node puts a node whose Ready condition has a status since a time.
func (f *fleet) node(name, ready string, since time.Time) {
	f.put("{apiVersion: v1, kind: Node, metadata: {name: node-" + name + ", uid: node-" + name + ", labels: {role: worker}}, " +
		"status: {conditions: [{type: Ready, status: '" + ready + "', lastTransitionTime: '" + stamp(since) + "'}]}}")
}

// put stores an object that is given as YAML, and returns it. Who watches its collection gets it.
func (f *fleet) put(text string) *unstructured.Unstructured {
	f.t.Helper()
	u := &unstructured.Unstructured{Object: object(f.t, text)}
	collection := collectionOf(u)
	f.mu.Lock()
	if f.objects[collection] == nil {
		f.objects[collection] = map[string]map[string]any{}
	}
	f.objects[collection][key(u)] = u.Object
	f.mu.Unlock()
	f.tell(collection, "MODIFIED", u.Object)
	return u
}

// drop deletes an object.
func (f *fleet) drop(collection, key string) {
	f.mu.Lock()
	gone := f.objects[collection][key]
	delete(f.objects[collection], key)
	f.mu.Unlock()
	f.tell(collection, "DELETED", gone)
}

// refuse has a request fail with a code, or not any more with 0.
func (f *fleet) refuse(request string, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused[request] = code
}

// refusal counts a request, and returns the code with which it fails, or 0.
func (f *fleet) refusal(r *http.Request) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodGet {
		f.gets[r.URL.Path]++
	}
	return f.refused[r.Method+" "+r.URL.Path]
}

// reads returns how many reads of a path there were.
func (f *fleet) reads(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gets[path]
}

func collectionOf(u *unstructured.Unstructured) string {
	prefix := "/apis/"
	if !strings.Contains(u.GetAPIVersion(), "/") {
		prefix = "/api/"
	}
	return prefix + u.GetAPIVersion() + "/" + strings.ToLower(u.GetKind()) + "s"
}

// ofPath splits a path into the version, the namespace, the resource and the name.
var ofPath = regexp.MustCompile(`^(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?$`)

func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if code := f.refusal(r); code > 0 {
		f.fail(w, r, code)
		return
	}
	answer := f.answer(r)
	if answer == nil {
		f.fakeAPI.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	f.write(w, answer)
}

// fail answers that a request has failed.
func (f *fleet) fail(w http.ResponseWriter, r *http.Request, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	f.write(w, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reasons[code], "message": r.URL.Path + ": " + string(reasons[code])})
}

var reasons = map[int]metav1.StatusReason{
	http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

// answer returns an object or a list, or nil for what this API server does not know.
func (f *fleet) answer(r *http.Request) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.written = append(f.written, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	}
	parts := ofPath.FindStringSubmatch(r.URL.Path)
	if parts == nil {
		return nil
	}
	version, namespace, resource, name := parts[1], parts[2], parts[3], parts[4]
	objects, served := f.objects[version+"/"+resource]
	switch {
	case !served:
		return nil
	case name != "":
		return objects[strings.TrimPrefix(namespace+"/"+name, "/")]
	}
	items := []any{}
	for _, k := range slices.Sorted(maps.Keys(objects)) {
		if home, _, _ := strings.Cut(k, "/"); namespace == "" || home == namespace {
			items = append(items, objects[k])
		}
	}
	meta := map[string]any{"resourceVersion": "10"}
	if from := len(r.URL.Query().Get("continue")); f.page > 0 {
		items = items[from:]
		if len(items) > f.page {
			items, meta["continue"] = items[:f.page], strings.Repeat("x", from+f.page)
		}
	}
	return map[string]any{"apiVersion": strings.TrimPrefix(strings.TrimPrefix(version, "/apis/"), "/api/"), "kind": listKinds[resource], "metadata": meta, "items": items}
}

var listKinds = map[string]string{
	"machines": "MachineList", "machinesets": "MachineSetList", "machinehealthchecks": "MachineHealthCheckList", "nodes": "NodeList",
	"secrets": "SecretList", "kubeadmcontrolplanes": "KubeadmControlPlaneList", "machinedeployments": "MachineDeploymentList", "nodehealthchecks": "NodeHealthCheckList", "repairs": "RepairList", "leases": "LeaseList", "clusters": "ClusterList", "reboots": "RebootList", "reboottemplates": "RebootTemplateList",
}

// run runs a command of fettle, and returns what it prints, with its failure.
func (f *fleet) run(args ...string) string {
	f.t.Helper()
	return runFettle(f.t, noon, args...)
}

// transcript returns the output of a command, and its requests that write.
func (f *fleet) transcript(args ...string) string {
	f.t.Helper()
	f.written = nil
	return strings.Join(append([]string{f.run(args...)}, f.written...), "\n")
}
