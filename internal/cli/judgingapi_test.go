package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// judgingAPI is an API server that reviews access and judges dry runs too. All rights are granted, and all objects are accepted, that no test
// says otherwise of.
type judgingAPI struct {
	*fakeAPI

	url    string
	groups []any
	// lacks are the rights that reviews deny: the kind of review, the verb and the resource.
	lacks []string
	// refusals are answers to dry runs, by path.
	refusals map[string]metav1.Status
	// sent are the reviews and the dry runs.
	sent []string
}

// machineAPI is the path of the machines of OpenShift.
const machineAPI = "/apis/machine.openshift.io/v1beta1/"

// startJudge starts an API server with three nodes, of which node-a is unhealthy and node-b is suspect, with the same machines of
// OpenShift, and with the kinds of a remediator.
func startJudge(t *testing.T) *judgingAPI {
	t.Helper()
	a := &judgingAPI{fakeAPI: startAPI(t), refusals: map[string]metav1.Status{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	nodesAndCheck(a.fakeAPI)
	a.bmcs()
	a.serve("fettle.io", "v1alpha1", nil)
	a.serve("authorization.k8s.io", "v1", map[string]string{"subjectaccessreviews": "SubjectAccessReview", "selfsubjectaccessreviews": "SelfSubjectAccessReview"})
	a.remediators("fix.example", "Reboot", "Halt")
	a.list("/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases", "coordination.k8s.io/v1", "LeaseList")
	var nodes, machines []string
	for name, condition := range map[string]string{"a": "status: Unknown, lastTransitionTime: '2026-08-01T11:52:00Z'", "b": "status: Unknown, lastTransitionTime: '2026-08-01T11:57:00Z'", "c": "status: 'True', lastTransitionTime: '2026-08-01T11:00:00Z'"} {
		nodes = append(nodes, "{apiVersion: v1, kind: Node, metadata: {name: node-"+name+", uid: node-"+name+", labels: {role: worker}}, status: {conditions: [{type: Ready, "+condition+"}]}}")
		machines = append(machines, "{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {name: worker-"+name+", namespace: machines, uid: worker-"+name+", labels: {role: worker}, creationTimestamp: '2026-07-01T00:00:00Z',"+
			" ownerReferences: [{apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: workers, uid: set, controller: true}]}, status: {nodeRef: {kind: Node, name: node-"+name+"}}}")
	}
	a.list("/api/v1/nodes", "v1", "NodeList", nodes...)
	a.list(machineAPI+"machines", "machine.openshift.io/v1beta1", "MachineList", machines...)
	a.list(machineAPI+"machinehealthchecks", "machine.openshift.io/v1beta1", "MachineHealthCheckList")
	a.list(machineAPI+"machinesets", "machine.openshift.io/v1beta1", "MachineSetList")
	return a
}

// serve has discovery name a group with the resources of kinds that have no namespace. Without kinds, the group has the resources that it had.
func (a *judgingAPI) serve(group, version string, kinds map[string]string) {
	of := map[string]any{"groupVersion": group + "/" + version, "version": version}
	a.groups = append(a.groups, map[string]any{"name": group, "versions": []any{of}, "preferredVersion": of})
	a.set("/apis", map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": a.groups})
	if kinds == nil {
		return
	}
	var resources []any
	for name, kind := range kinds {
		resources = append(resources, map[string]any{"name": name, "kind": kind, "namespaced": group != "authorization.k8s.io", "verbs": []string{"get", "list", "watch", "create", "patch"}})
	}
	a.set("/apis/"+group+"/"+version, map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": group + "/" + version, "resources": resources})
}

// remediators serves the kinds of remediators, with one template each.
func (a *judgingAPI) remediators(group string, kinds ...string) {
	resources := map[string]string{}
	for _, kind := range kinds {
		name := strings.ToLower(kind)
		resources[name+"s"], resources[name+"templates"] = kind, kind+"Template"
		a.list("/apis/"+group+"/v1/"+name+"s", group+"/v1", kind+"List")
		a.list("/apis/"+group+"/v1/"+name+"templates", group+"/v1", kind+"TemplateList",
			"{apiVersion: "+group+"/v1, kind: "+kind+"Template, metadata: {name: usual, namespace: remediators}, spec: {template: {spec: {}}}}")
	}
	a.serve(group, "v1", resources)
}

func (a *judgingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refusal, refused := a.refusals[r.URL.Path]
	switch {
	case r.Method == http.MethodPost && !a.has(r.URL.Path):
		review := a.body(r)
		of, _ := review["spec"].(map[string]any)["resourceAttributes"].(map[string]any)
		right := fmt.Sprintf("%s %s %s.%s", review["kind"], of["verb"], of["resource"], of["group"])
		a.sent = append(a.sent, "POST "+path.Base(r.URL.Path)+" "+encode(review["spec"]))
		review["status"] = map[string]any{"allowed": !slices.Contains(a.lacks, right)}
		w.Header().Set("Content-Type", "application/json")
		a.write(w, review)
	case r.Method == http.MethodPatch:
		body := a.body(r)
		a.sent = append(a.sent, strings.Join([]string{"PATCH", r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), encode(body)}, " "))
		w.Header().Set("Content-Type", "application/json")
		if refused {
			refusal.TypeMeta, refusal.Status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, metav1.StatusFailure
			w.WriteHeader(int(refusal.Code))
			a.write(w, refusal)
			return
		}
		a.write(w, map[string]any{"apiVersion": "example/v1", "kind": "Accepted"})
	default:
		a.fakeAPI.ServeHTTP(w, r)
	}
}

func (a *judgingAPI) body(r *http.Request) map[string]any {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}
	return body
}

func encode(value any) string {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// check runs fettle check on a file of this content. It returns what that prints, the exit status, and the reviews and dry runs.
func (a *judgingAPI) check(content string, flags ...string) string {
	a.t.Helper()
	dir := a.t.TempDir()
	file := filepath.Join(dir, "file.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		a.t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := checkCommand(testOptions(noon))
	cmd.SetArgs(append([]string{file, "--server", a.url}, flags...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(a.t.Context())
	text := "$ fettle check " + strings.Join(append([]string{"file.yaml"}, flags...), " ") + "\n" + out.String() + fmt.Sprintf("exit status %d\n\n", ExitStatus(err))
	return strings.NewReplacer(dir+"/", "", a.url, "https://api.example").Replace(text) + strings.Join(a.sent, "\n") + "\n"
}

const reviewsPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

// swapped is a text with one part in place of another.
func swapped(text, old, with string) string {
	if !strings.Contains(text, old) {
		panic(old)
	}
	return strings.Replace(text, old, with, 1)
}

// only lets the user list the machines of one namespace alone.
func (a *judgingAPI) only(namespace string) {
	for _, resource := range []string{"machinehealthchecks", "machines", "machinesets"} {
		a.objects[machineAPI+"namespaces/"+namespace+"/"+resource] = a.objects[machineAPI+resource]
		a.set(machineAPI+resource, http.StatusForbidden)
	}
}

// clusterAPI serves the kinds of Cluster API, and one cluster whose nodes can't be seen.
func (a *judgingAPI) clusterAPI() {
	const group = "cluster.x-k8s.io"
	for _, version := range []string{"v1beta1", "v1beta2"} {
		a.serve(group, version, map[string]string{"machinehealthchecks": "MachineHealthCheck", "clusters": "Cluster", "machines": "Machine"})
	}
	of := func(version string) map[string]any {
		return map[string]any{"groupVersion": group + "/" + version, "version": version}
	}
	a.groups = append(a.groups[:len(a.groups)-2], map[string]any{"name": group, "versions": []any{of("v1beta2"), of("v1beta1")}, "preferredVersion": of("v1beta2")})
	a.set("/apis", map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": a.groups})
	a.list("/apis/cluster.x-k8s.io/v1beta2/machinehealthchecks", group+"/v1beta2", "MachineHealthCheckList")
	a.list("/apis/cluster.x-k8s.io/v1beta2/machines", group+"/v1beta2", "MachineList", "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {namespace: fleets, name: east-a, uid: east-a, labels: {cluster.x-k8s.io/cluster-name: east, pool: workers}}, status: {nodeRef: {name: node-a}}}")
	a.list("/apis/cluster.x-k8s.io/v1beta2/clusters", group+"/v1beta2", "ClusterList",
		"{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {namespace: fleets, name: east, uid: east}, spec: {}, status: {conditions: ["+
			"{type: InfrastructureReady, status: 'True', lastTransitionTime: '2026-07-01T00:00:00Z'}, {type: ControlPlaneInitialized, status: 'True', lastTransitionTime: '2026-07-01T00:00:00Z'}]}}")
}
