package selffence

import (
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// forward listens in the network and passes connections on to an address of this computer. It returns the address to connect to.
func (f *fabric) forward(t *testing.T, to string) string {
	t.Helper()
	listener, err := f.listen(net.JoinHostPort(address(0), "6443"))
	if err != nil {
		t.Fatalf("listening in the network of the nodes: %v", err)
	}
	var open sync.WaitGroup
	connections := make(chan net.Conn, 1)
	ended := make(chan struct{})
	open.Go(func() {
		defer close(connections)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			connections <- c
		}
	})
	open.Go(func() {
		for c := range connections {
			open.Go(func() { pass(c, to, ended) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(ended)
		open.Wait()
	})
	return "https://" + listener.Addr().String()
}

// listen listens in the namespace of the network.
func (f *fabric) listen(at string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		listener, err := f.listenThere(at)
		results <- result{listener, err}
	}()
	r := <-results
	return r.listener, r.err
}

// listenThere moves this thread to the namespace of the network, and listens.
func (f *fabric) listenThere(at string) (net.Listener, error) {
	there, err := os.Open("/proc/" + strconv.Itoa(f.pid) + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer func() { _ = there.Close() }()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	return net.Listen("tcp", at)
}

// pass passes the bytes of a connection on in both directions, until either end closes it or the test has ended.
func pass(from net.Conn, to string, ended <-chan struct{}) {
	defer func() { _ = from.Close() }()
	onward, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = onward.Close() }()
	closed := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(onward, from); closed <- struct{}{} }()
	go func() { _, _ = io.Copy(from, onward); closed <- struct{}{} }()
	select {
	case <-closed:
	case <-ended:
	}
}
