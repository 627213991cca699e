package etcdmembers

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podPrefix begins the name of the pod in which kubeadm runs a member; the name of its node follows.
const podPrefix = "etcd-"

// address is the address of a connection: the member on a node.
type address struct {
	cluster client.ObjectKey
	node    string
}

// Network names the protocol that carries the connection.
func (a address) Network() string { return portforward.PortForwardProtocolV1Name }

func (a address) String() string { return a.cluster.String() + "/" + a.node }

// forward answers a request to forward a port of a member's pod, as an API server and a kubelet do together.
func (s *Members) forward(w http.ResponseWriter, r *http.Request) {
	node, ok := strings.CutPrefix(r.PathValue("pod"), podPrefix)
	if !ok {
		http.Error(w, "only the pods of etcd forward ports here", http.StatusNotFound)
		return
	}
	to := address{cluster: client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("cluster")}, node: node}
	if err := s.reachable(r, to); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return // it has answered
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		if stream.Headers().Get(corev1.StreamType) != corev1.StreamTypeData {
			return nil
		}
		return s.calls.deliver(&conn{Stream: stream, to: to})
	})
	if connection == nil {
		return // it has answered
	}
	defer func() { _ = connection.Close() }()
	select {
	case <-connection.CloseChan():
	case <-s.calls.closed:
	}
}

func (s *Members) reachable(r *http.Request, to address) error {
	members, err := s.members(r.Context(), to.cluster)
	if err != nil {
		return err
	}
	m := find(members, func(m member) bool { return m.name == to.node })
	if m == nil {
		return fmt.Errorf("pod %s%s does not exist", podPrefix, to.node)
	}
	if !m.works {
		return fmt.Errorf("the kubelet of node %s does not answer", to.node)
	}
	return nil
}

// conn is a forwarded connection. It has no deadlines: the other end closes it at its own.
type conn struct {
	httpstream.Stream

	to address
}

// LocalAddr returns the address of the member.
func (c *conn) LocalAddr() net.Addr { return c.to }

// RemoteAddr returns the address of the member, too. From it a call knows its member.
func (c *conn) RemoteAddr() net.Addr { return c.to }

// SetDeadline does nothing.
func (c *conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (c *conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// inbox is a listener whose connections are delivered to it.
type inbox struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newInbox() *inbox { return &inbox{conns: make(chan net.Conn), closed: make(chan struct{})} }

var errClosed = errors.New("the members have stopped")

func (i *inbox) deliver(c net.Conn) error {
	select {
	case i.conns <- c:
		return nil
	case <-i.closed:
		return errClosed
	}
}

// Accept returns the next delivered connection.
func (i *inbox) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.closed:
		return nil, errClosed
	}
}

// Close closes the listener. It is called once.
func (i *inbox) Close() error {
	close(i.closed)
	return nil
}

// Addr returns an address without a place: connections come from anywhere.
func (i *inbox) Addr() net.Addr { return address{} }
