package quorum

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/slim"
)

// hostnameLabel is a label of nodes, and of the leases of API servers.
const hostnameLabel = "kubernetes.io/hostname"

// mirrorAnnotation marks the pods that a kubelet makes for its static pods.
const mirrorAnnotation = "kubernetes.io/config.mirror"

const ready = "Ready"

// pod has the fields of a pod that are read.
type pod struct {
	Node       string
	Conditions []condition
	// Mirror is set for a pod that a kubelet may have made. A kubelet can make no other, and only
	// on its own node.
	Mirror bool
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// readPod reads a pod. A pod with unreadable conditions is not ready.
func readPod(u *unstructured.Unstructured) pod {
	spec, _ := lenient.Part[struct {
		NodeName string `json:"nodeName"`
	}](u.Object, "spec")
	status, _ := lenient.Part[struct {
		Conditions []condition `json:"conditions"`
	}](u.Object, "status")
	_, mirror := u.GetAnnotations()[mirrorAnnotation]
	return pod{Node: spec.NodeName, Conditions: status.Conditions, Mirror: mirror}
}

// ready reports whether the pod is ready. A pod without the condition is not.
func (p *pod) ready() core.Tri {
	for _, c := range p.Conditions {
		if c.Type == ready {
			return triOf(c.Status)
		}
	}
	return core.No
}

func triOf(status string) core.Tri {
	switch status {
	case "True":
		return core.Yes
	case "False":
		return core.No
	}
	return core.Unknown
}

// readBudget returns a PodDisruptionBudget and the selector of its pods.
func readBudget(u *unstructured.Unstructured) (budget, labels.Selector, error) {
	spec, wrong := lenient.Part[struct {
		Selector *metav1.LabelSelector `json:"selector"`
	}](u.Object, "spec")
	status, alsoWrong := lenient.Part[struct {
		DisruptionsAllowed int64 `json:"disruptionsAllowed"`
		ObservedGeneration int64 `json:"observedGeneration"`
	}](u.Object, "status")
	if problems := slices.Concat(wrong, alsoWrong); len(problems) > 0 {
		return budget{}, nil, fmt.Errorf("%s is %s and can't be read", problems[0].Field, problems[0].Value)
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return budget{}, nil, fmt.Errorf("reading spec.selector: %w", err)
	}
	return budget{counted: status.ObservedGeneration >= u.GetGeneration(), allowed: status.DisruptionsAllowed}, selector, nil
}

// renewedWithin bounds the age of a living API server's renewal, and how far its clock may be
// ahead. An API server renews its lease every ten seconds, for an hour.
const renewedWithin = time.Minute

// livingHost returns the host of an API server by its Lease. It is empty if the API server no
// longer renews the Lease.
func livingHost(u *unstructured.Unstructured, now time.Time) string {
	spec, _ := lenient.Part[struct {
		LeaseDurationSeconds int64             `json:"leaseDurationSeconds"`
		RenewTime            *metav1.MicroTime `json:"renewTime"`
	}](u.Object, "spec")
	if spec.RenewTime == nil {
		return ""
	}
	holds := min(renewedWithin, time.Duration(spec.LeaseDurationSeconds)*time.Second)
	if age := now.Sub(spec.RenewTime.Time); age >= holds || age <= -renewedWithin {
		return ""
	}
	return u.GetLabels()[hostnameLabel]
}

// membersOf combines the nodes of the control plane, the etcd pods and the hosts of living API
// servers. A node with an etcd pod and without a label is a member of unknown state. A mirror pod
// on such a node is no evidence, since the kubelet of any worker can make one.
func membersOf(nodes []*slim.Node, pods []pod, hosts []string) []member {
	trusted := map[string]bool{}
	for _, n := range nodes {
		trusted[n.Name] = true
	}
	podsAt := map[string]podState{}
	for i := range pods {
		if at := pods[i].Node; at != "" && (trusted[at] || !pods[i].Mirror) {
			podsAt[at] = podsAt[at].with(&pods[i])
		}
	}
	members := make([]member, 0, len(nodes))
	for _, n := range nodes {
		serves := func(host string) bool { return sameHost(host, n.Name) || sameHost(host, n.Labels.Get(hostnameLabel)) }
		members = append(members, member{
			name: n.Name, ready: isReady(n), labelled: n.Labels.Has(slim.EtcdLabel),
			pods: podsAt[n.Name], serves: slices.ContainsFunc(hosts, serves),
		})
		delete(podsAt, n.Name)
	}
	for at := range podsAt {
		members = append(members, member{name: at, pods: podsAt[at]})
	}
	return members
}

// with adds a pod. All pods of a node must be ready.
func (p podState) with(another *pod) podState {
	if p == podsNotReady || another.ready() != core.Yes {
		return podsNotReady
	}
	return podsReady
}

func isReady(n *slim.Node) bool {
	for _, c := range n.Conditions {
		if c.Type == ready {
			return c.Status == "True"
		}
	}
	return false
}

func sameHost(host, name string) bool { return host != "" && strings.EqualFold(host, name) }
