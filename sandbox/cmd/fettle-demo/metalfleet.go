package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/metal"
)

const (
	fettles       = "fettle.io/v1alpha1"
	fettleSystem  = "fettle-system"
	fencingTaint  = "fettle.io/fencing"
	databasePod   = "database-0"
	ofTheSandbox  = "sandbox.fettle.io/"
	controlPlanes = "node-role.kubernetes.io/control-plane"
)

// metalNode is what the timeline shows of a node and its host.
type metalNode struct {
	name, ready, boot, power     string
	uid                          types.UID
	controlPlane                 bool
	fenced, outOfService, hasBMC bool
	// belongings are the labels, annotations and taints that others than the sandbox gave it.
	belongings string
}

// fencing is what a PowerRemediation says.
type fencing struct {
	uid types.UID
	// waits is the reason of a wait, result that of a failure, and proof the kind of the proof.
	phase, waits, result, proof string
	withdrawn                   bool
}

// metalMachine is what the timeline shows of a machine.
type metalMachine struct {
	uid      types.UID
	phase    string
	deleting bool
}

// metals is the state of all hosts, nodes and machines at one instant.
type metals struct {
	nodes    map[string]metalNode
	machines map[string]metalMachine
	// fencings are by the name of the node.
	fencings map[string]fencing
	repairs  map[string]string
	// database is the node on which the pod of the database is, or "". running is set once it runs there.
	database string
	running  bool
}

// lookAtMetal reads the state.
func (s *demo) lookAtMetal(ctx context.Context) (metals, error) {
	shot := metals{machines: map[string]metalMachine{}, fencings: map[string]fencing{}}
	var err error
	if shot.nodes, err = s.metalNodes(ctx); err != nil {
		return shot, err
	}
	objects, err := s.list(ctx, "machine.openshift.io/v1beta1", "MachineList")
	if err != nil {
		return shot, err
	}
	for i := range objects {
		phase, _, _ := unstructured.NestedString(objects[i].Object, "status", "phase")
		shot.machines[objects[i].GetName()] = metalMachine{uid: objects[i].GetUID(), phase: phase, deleting: objects[i].GetDeletionTimestamp() != nil}
	}
	if objects, err = s.list(ctx, fettles, "PowerRemediationList"); err != nil {
		return shot, err
	}
	for i := range objects { // a machine and its node have the same name here
		shot.fencings[objects[i].GetName()] = readFencing(&objects[i])
	}
	if shot.repairs, err = s.repairs(ctx); err != nil {
		return shot, err
	}
	shot.database, shot.running, err = s.databaseAt(ctx)
	return shot, err
}

// metalNodes reads all nodes, by their names.
func (s *demo) metalNodes(ctx context.Context) (map[string]metalNode, error) {
	var list corev1.NodeList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := map[string]metalNode{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = readMetalNode(&list.Items[i])
	}
	return nodes, nil
}

// databaseAt returns the node on which the pod of the database is, or "", and whether it runs there.
func (s *demo) databaseAt(ctx context.Context) (node string, runs bool, err error) {
	var pod corev1.Pod
	if err := s.Client.Get(ctx, types.NamespacedName{Namespace: "default", Name: databasePod}, &pod); client.IgnoreNotFound(err) != nil {
		return "", false, fmt.Errorf("reading pod %s: %w", databasePod, err)
	}
	return pod.Spec.NodeName, pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil, nil
}

func readMetalNode(n *corev1.Node) metalNode {
	_, controlPlane := n.Labels[controlPlanes]
	read := metalNode{
		name: n.Name, uid: n.UID, ready: readyText(n), boot: n.Status.NodeInfo.BootID, controlPlane: controlPlane,
		power: n.Annotations[metal.AnnotationHostPower], hasBMC: n.Annotations[metal.AnnotationAddress] != "",
	}
	var own []string
	for kind, values := range map[string]map[string]string{"label": n.Labels, "annotation": n.Annotations} {
		for key, value := range values {
			if !strings.HasPrefix(key, ofTheSandbox) {
				own = append(own, kind+" "+key+"="+value)
			}
		}
	}
	for _, taint := range n.Spec.Taints {
		read.fenced = read.fenced || taint.Key == fencingTaint
		read.outOfService = read.outOfService || taint.Key == corev1.TaintNodeOutOfService
		own = append(own, "taint "+taint.ToString())
	}
	slices.Sort(own)
	read.belongings = strings.Join(own, "\n")
	return read
}

func readFencing(u *unstructured.Unstructured) fencing {
	f := fencing{uid: u.GetUID(), withdrawn: u.GetDeletionTimestamp() != nil}
	f.phase, _, _ = unstructured.NestedString(u.Object, "status", "phase")
	f.proof, _, _ = unstructured.NestedString(u.Object, "status", "proof", "kind")
	if status, reason, _ := conditionOf(u, "Processing"); status == "True" && reason != f.phase {
		f.waits = reason
	}
	if status, reason, _ := conditionOf(u, "Succeeded"); status == "False" {
		f.result = reason
	}
	return f
}

// workers returns the nodes of workers by name, and masters those of the control plane.
func (s metals) workers() []metalNode { return s.ofControlPlane(false) }
func (s metals) masters() []metalNode { return s.ofControlPlane(true) }

func (s metals) ofControlPlane(wanted bool) []metalNode {
	var found []metalNode
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		if n := s.nodes[name]; n.controlPlane == wanted {
			found = append(found, n)
		}
	}
	return found
}

// wellOff reports whether all nodes are ready, each machine runs with a node of its name, and nothing is being repaired.
func (s metals) wellOff() bool {
	for name, m := range s.machines {
		n := s.nodes[name]
		if m.deleting || m.phase != "Running" || n.ready != "True" || !n.hasBMC || n.fenced || n.outOfService {
			return false
		}
	}
	return len(s.machines) == hostsInAll && len(s.nodes) == hostsInAll && len(s.fencings) == 0
}

// repaired reports whether a repair of the machine has ended well.
func (s metals) repaired(name string) bool {
	for repair, text := range s.repairs {
		if strings.HasPrefix(repair, name+"-") && strings.HasPrefix(text, "Succeeded") {
			return true
		}
	}
	return false
}

// only returns an error if anything is done to another machine or its node.
func (s metals) only(expected string) error {
	for name := range s.fencings {
		if name != expected {
			return fmt.Errorf("node %s is being fenced, and should not be", name)
		}
	}
	for name, m := range s.machines {
		if m.deleting && name != expected {
			return fmt.Errorf("machine %s is being deleted, and should not be", name)
		}
	}
	for name, n := range s.nodes {
		if (n.fenced || n.outOfService || n.power == metal.PowerOff) && name != expected {
			return fmt.Errorf("node %s has a taint of a fencing or its host is off, and should not", name)
		}
	}
	return nil
}
