package etcdmembers

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

var (
	errNoLeader = status.Error(codes.Unavailable, "etcdserver: no leader")
	errNoMember = status.Error(codes.NotFound, "etcdserver: member not found")
	errNotHere  = status.Error(codes.FailedPrecondition, "etcdserver: not leader")
)

// call is a call that reached a member.
type call struct {
	cluster      client.ObjectKey
	members      []member
	self, leader *member
}

func (s *Members) call(ctx context.Context) (call, error) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return call{}, status.Error(codes.Internal, "the call has no peer")
	}
	to, ok := from.Addr.(address)
	if !ok {
		return call{}, status.Error(codes.Internal, "the call reached no member")
	}
	members, err := s.members(ctx, to.cluster)
	if err != nil {
		return call{}, err
	}
	self := find(members, func(m member) bool { return m.name == to.node })
	if self == nil {
		return call{}, errNoMember
	}
	return call{cluster: to.cluster, members: members, self: self, leader: s.leader(to.cluster, members)}, nil
}

// agreed is a call that needs a majority.
func (s *Members) agreed(ctx context.Context) (call, error) {
	c, err := s.call(ctx)
	if err == nil && c.leader == nil {
		err = errNoLeader
	}
	return c, err
}

func (c *call) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: identity(c.cluster.String()), MemberId: c.self.id}
}

func (c *call) listed() []*pb.Member {
	var listed []*pb.Member
	for _, m := range c.members {
		listed = append(listed, &pb.Member{ID: m.id, Name: m.name, ClientURLs: []string{"https://" + m.name + ":2379"}})
	}
	return listed
}

// membership is etcd's service of that name.
type membership struct {
	pb.UnimplementedClusterServer

	members *Members
}

// MemberList lists all members, working or not.
func (s *membership) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	c, err := s.members.agreed(ctx)
	if err != nil {
		return nil, err
	}
	return &pb.MemberListResponse{Header: c.header(), Members: c.listed()}, nil
}

// MemberRemove removes the member for good: its machine never has another.
func (s *membership) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	c, err := s.members.agreed(ctx)
	if err != nil {
		return nil, err
	}
	gone := find(c.members, func(m member) bool { return m.id == r.ID })
	if gone == nil {
		return nil, errNoMember
	}
	if err := s.members.remove(ctx, c.cluster, gone.name); err != nil {
		return nil, err
	}
	return &pb.MemberRemoveResponse{Header: c.header(), Members: c.listed()}, nil
}

func (s *Members) remove(ctx context.Context, cluster client.ObjectKey, name string) error {
	machine := &providerv1.SandboxMachine{}
	machine.Namespace, machine.Name = cluster.Namespace, name
	before := machine.DeepCopy()
	machine.Annotations = map[string]string{providerv1.EtcdAnnotation: providerv1.EtcdRemoved}
	if err := s.cfg.Client.Patch(ctx, machine, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the etcd member of machine %s: %w", name, err)
	}
	return nil
}

// maintenance is etcd's service of that name.
type maintenance struct {
	pb.UnimplementedMaintenanceServer

	members *Members
}

// Status answers without a majority, too. Without a leader, the leader's ID is 0.
func (s *maintenance) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	c, err := s.members.call(ctx)
	if err != nil {
		return nil, err
	}
	answer := &pb.StatusResponse{Header: c.header(), Version: "3.6.8"}
	if c.leader != nil {
		answer.Leader = c.leader.id
	}
	return answer, nil
}

// Alarm lists the alarms of the annotations, whatever the request's action is.
func (s *maintenance) Alarm(ctx context.Context, _ *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	c, err := s.members.agreed(ctx)
	if err != nil {
		return nil, err
	}
	answer := &pb.AlarmResponse{Header: c.header()}
	for _, m := range c.members {
		if m.alarm != pb.AlarmType_NONE {
			answer.Alarms = append(answer.Alarms, &pb.AlarmMember{MemberID: m.id, Alarm: m.alarm})
		}
	}
	return answer, nil
}

// MoveLeader works at the leader alone, and for a working member.
func (s *maintenance) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	c, err := s.members.agreed(ctx)
	if err != nil {
		return nil, err
	}
	next := find(c.members, func(m member) bool { return m.id == r.TargetID })
	switch {
	case c.self.id != c.leader.id:
		return nil, errNotHere
	case next == nil:
		return nil, errNoMember
	case !next.works:
		return nil, errNoLeader
	}
	s.members.moveLeader(c.cluster, next.name)
	return &pb.MoveLeaderResponse{Header: c.header()}, nil
}
