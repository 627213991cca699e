package cluster

import (
	"net"
	"runtime"
	"testing"
)

// TestFreeAddressStaysFree: an address can still be used after another process has taken its port at 127.0.0.1.
func TestFreeAddressStaysFree(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this system has one address on loopback")
	}
	address := FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{"127.0.0.1:" + port, address} {
		l, err := net.Listen("tcp", taken)
		if err != nil {
			t.Fatalf("listening at %s: %v", taken, err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}
