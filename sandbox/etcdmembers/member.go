package etcdmembers

import (
	"cmp"
	"hash/fnv"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

// member is the etcd member on one machine. Like kubeadm's, it has the name of the machine's node.
type member struct {
	name  string
	id    uint64
	works bool
	alarm pb.AlarmType
}

// membersOf returns the members on the machines, the oldest first.
func membersOf(machines []providerv1.SandboxMachine) []member {
	machines = slices.DeleteFunc(slices.Clone(machines), func(m providerv1.SandboxMachine) bool { return !hasMember(&m) })
	slices.SortFunc(machines, func(a, b providerv1.SandboxMachine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var members []member
	for i := range machines {
		m := &machines[i]
		members = append(members, member{
			name:  m.Name,
			id:    identity(string(m.UID)),
			works: m.Status.State == cloudv1.StateRunning && m.Status.Kubelet == cloudv1.KubeletRunning && m.Spec.Fault == "",
			alarm: pb.AlarmType(pb.AlarmType_value[m.Annotations[providerv1.EtcdAnnotation]]),
		})
	}
	return members
}

// hasMember reports whether the machine belongs to a control plane, has started its kubelet once, and keeps its member.
func hasMember(m *providerv1.SandboxMachine) bool {
	_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
	return controlPlane && m.Status.Kubelet != "" && m.Annotations[providerv1.EtcdAnnotation] != providerv1.EtcdRemoved
}

func identity(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return h.Sum64()
}

// leaderOf returns the leader: the preferred member if it works, else the oldest that does. It returns nil without a
// working majority.
func leaderOf(members []member, preferred string) *member {
	var leader *member
	working := 0
	for i := range members {
		m := &members[i]
		if !m.works {
			continue
		}
		working++
		if leader == nil || m.name == preferred {
			leader = m
		}
	}
	if working <= len(members)/2 {
		return nil
	}
	return leader
}

func find(members []member, is func(member) bool) *member {
	i := slices.IndexFunc(members, is)
	if i < 0 {
		return nil
	}
	return &members[i]
}
