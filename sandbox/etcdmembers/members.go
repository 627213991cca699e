package etcdmembers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

const headerTimeout = 10 * time.Second

// Config has the clients of the members. Every field is required.
type Config struct {
	Client   client.Client
	Reader   client.Reader // without a cache: each call must see the changes of the one before
	Clusters clustercache.ClusterCache
}

// Members are those of all workload clusters.
type Members struct {
	cfg      Config
	listener net.Listener
	calls    *inbox

	mutex sync.Mutex
	// leaders are the members to which the leadership was moved.
	leaders map[client.ObjectKey]string
}

// Listen opens a port on loopback. Nothing is answered before Start.
func Listen(ctx context.Context, cfg Config) (*Members, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a port for etcd members: %w", err)
	}
	return &Members{cfg: cfg, listener: listener, calls: newInbox(), leaders: map[client.ObjectKey]string{}}, nil
}

// Cache returns the connections to workload clusters for a KubeadmControlPlane's reconciler.
func (s *Members) Cache() clustercache.ClusterCache {
	return &cache{ClusterCache: s.cfg.Clusters, url: "http://" + s.listener.Addr().String()}
}

// Close closes members that were never started.
func (s *Members) Close() { _ = s.listener.Close() }

// Start serves until ctx ends.
func (s *Members) Start(ctx context.Context) error {
	protocol := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return s.identityOf(hello.Context(), hello.Conn.RemoteAddr())
		},
	})))
	pb.RegisterClusterServer(protocol, &membership{members: s})
	pb.RegisterMaintenanceServer(protocol, &maintenance{members: s})
	ports := http.NewServeMux()
	ports.HandleFunc("POST /{namespace}/{cluster}/api/v1/namespaces/kube-system/pods/{pod}/portforward", s.forward)
	server := &http.Server{Handler: ports, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() {
		protocol.Stop() // closes the inbox, too
		_ = server.Close()
	})
	defer stop()
	go func() { _ = protocol.Serve(s.calls) }()
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving etcd members: %w", err)
	}
	return nil
}

func (s *Members) machines(ctx context.Context, cluster client.ObjectKey) ([]providerv1.SandboxMachine, error) {
	list := &providerv1.SandboxMachineList{}
	err := s.cfg.Reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the machines of cluster %s: %w", cluster, err)
	}
	return list.Items, nil
}

func (s *Members) members(ctx context.Context, cluster client.ObjectKey) ([]member, error) {
	machines, err := s.machines(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return membersOf(machines), nil
}

func (s *Members) leader(cluster client.ObjectKey, members []member) *member {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	leader := leaderOf(members, s.leaders[cluster])
	if leader != nil {
		s.leaders[cluster] = leader.name
	}
	return leader
}

func (s *Members) moveLeader(cluster client.ObjectKey, to string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.leaders[cluster] = to
}
