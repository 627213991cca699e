package etcdmembers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/pkg/proxy"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

var east = client.ObjectKey{Namespace: "default", Name: "east"}

// TestMembers connects to the members as a control plane does: by etcd's client, through a port that Cluster API's
// dialer forwards.
func TestMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, machine("a", ""), machine("b", ""), machine("c", cloudv1.FaultUnresponsive), worker("w"))
	a := w.connect("a")
	w.wantMembers(a, "a b c")
	if _, err := w.dial("c"); err == nil {
		t.Error("a member answers whose machine does not")
	}
	if _, err := w.dial("w"); err == nil {
		t.Error("a worker has a member")
	}

	w.wantLeader("a", "a")
	if _, err := a.MoveLeader(t.Context(), id("b")); err != nil {
		t.Error(err)
	}
	w.wantLeader("a", "b")
	if _, err := a.MoveLeader(t.Context(), id("b")); err == nil {
		t.Error("a member that does not lead moves the leadership")
	}
	if _, err := w.connect("b").MoveLeader(t.Context(), id("c")); err == nil {
		t.Error("the leadership moves to a member that does not work")
	}

	w.change("b", func(m *providerv1.SandboxMachine) {
		m.Annotations = map[string]string{providerv1.EtcdAnnotation: "NOSPACE"}
	})
	alarms, err := a.AlarmList(t.Context())
	if err != nil || len(alarms.Alarms) != 1 || alarms.Alarms[0].MemberID != id("b") || alarms.Alarms[0].Alarm != pb.AlarmType_NOSPACE {
		t.Errorf("the alarms are %+v (%v)", alarms, err)
	}

	if _, err := a.MemberRemove(t.Context(), id("c")); err != nil {
		t.Error(err)
	}
	w.wantMembers(a, "a b")
	w.change("b", func(m *providerv1.SandboxMachine) { m.Spec.Fault = cloudv1.FaultUnresponsive })
	ctx, cancel := w.soon()
	defer cancel()
	if members, err := a.MemberList(ctx); err == nil {
		t.Errorf("one of two members lists %v", members)
	}
	w.wantLeader("a", "")
}

// TestMembersWantACertificate: a client without a certificate of the cluster's own authority gets no answer.
func TestMembersWantACertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, machine("a", ""))
	w.connect("a")
	w.certificate = newAuthority(t).certificate
	if _, err := w.dial("a"); err == nil {
		t.Error("a stranger is answered")
	}
}

// world is a cluster whose members listen.
type world struct {
	t           *testing.T
	client      client.Client
	members     *Members
	certificate tls.Certificate
	roots       *x509.CertPool
}

func newWorld(t *testing.T, machines ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, providerv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	authority := newAuthority(t)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(machines, authority.secret)...).Build()
	members, err := Listen(t.Context(), Config{Client: c, Reader: c, Clusters: connected{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- members.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, client: c, members: members, certificate: authority.certificate, roots: authority.roots}
}

// connected is a cache with a connection to every cluster.
type connected struct{ clustercache.ClusterCache }

// GetRESTConfig returns a configuration without use.
func (connected) GetRESTConfig(context.Context, client.ObjectKey) (*rest.Config, error) {
	return &rest.Config{}, nil
}

type authority struct {
	secret      client.Object
	certificate tls.Certificate // a client's
	roots       *x509.CertPool
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	certificates := secret.NewCertificatesForInitialControlPlane(nil)
	if err := certificates.Generate(); err != nil {
		t.Fatal(err)
	}
	made := certificates.GetByPurpose(secret.EtcdCA).AsSecret(east, metav1.OwnerReference{})
	pair, err := tls.X509KeyPair(made.Data[secret.TLSCrtDataName], made.Data[secret.TLSKeyDataName])
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := issue(pair, "client", x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	return authority{secret: made, certificate: certificate, roots: roots}
}

// dial makes a dialer for each connection, since Cluster API's must not make two at once.
func (w *world) dial(node string) (*clientv3.Client, error) {
	w.t.Helper()
	forwarded := func(ctx context.Context, pod string) (net.Conn, error) {
		config, err := w.members.Cache().GetRESTConfig(ctx, east)
		if err != nil {
			return nil, err
		}
		dialer, err := proxy.NewDialer(proxy.Proxy{Kind: "pods", Namespace: metav1.NamespaceSystem, KubeConfig: config, Port: 2379})
		if err != nil {
			return nil, err
		}
		return dialer.DialContextWithAddr(ctx, pod)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{podPrefix + node}, TLS: w.trust(), Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(forwarded)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := w.soon()
	defer cancel()
	_, err = c.Status(ctx, podPrefix+node)
	return c, err
}

func (w *world) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.t.Context(), 2*time.Second)
}

// trust is like a control plane's: it checks the member's authority, and not its name, since the connection is to the
// name of its pod.
func (w *world) trust() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		Certificates:       []tls.Certificate{w.certificate},
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: w.roots})
			return err
		},
	}
}

func (w *world) connect(node string) *clientv3.Client {
	w.t.Helper()
	c, err := w.dial(node)
	if err != nil {
		w.t.Fatalf("connecting to the member on %s: %v", node, err)
	}
	return c
}

func (w *world) wantMembers(of *clientv3.Client, want string) {
	w.t.Helper()
	listed, err := of.MemberList(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, m := range listed.Members {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != want {
		w.t.Errorf("the members are %s, want %s", got, want)
	}
}

// wantLeader asks a working member for the leader, which is "" for none.
func (w *world) wantLeader(asked, want string) {
	w.t.Helper()
	leader := uint64(0)
	if want != "" {
		leader = id(want)
	}
	status, err := w.connect(asked).Status(w.t.Context(), podPrefix+asked)
	if err != nil || status.Leader != leader {
		w.t.Errorf("the leader is %+v, want %s (%v)", status, want, err)
	}
}

func (w *world) change(name string, change func(*providerv1.SandboxMachine)) {
	w.t.Helper()
	m := &providerv1.SandboxMachine{}
	w.must(w.client.Get(w.t.Context(), client.ObjectKey{Namespace: east.Namespace, Name: name}, m))
	change(m)
	w.must(w.client.Update(w.t.Context(), m))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func id(name string) uint64 { return identity("uid of " + name) }

func worker(name string) client.Object {
	return &providerv1.SandboxMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: east.Namespace, Name: name, UID: types.UID("uid of " + name), Labels: map[string]string{clusterv1.ClusterNameLabel: east.Name},
		},
		Status: providerv1.SandboxMachineStatus{InstanceStatus: cloudv1.InstanceStatus{State: cloudv1.StateRunning, Kubelet: cloudv1.KubeletRunning}},
	}
}

func machine(name string, fault cloudv1.Fault) client.Object {
	m := worker(name).(*providerv1.SandboxMachine)
	m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	m.Spec.Fault = fault
	return m
}
