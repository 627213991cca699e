package main

import (
	"context"
	"fmt"
	"net"
	"time"
)

// dialer dials the API server as client-go does where it is not told otherwise.
//
//nolint:gochecknoglobals // a constant
var dialer = net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}

// dial returns a connection by which nothing is sent once the lease is lost. A context that ends comes too late for a process that
// was stopped in the midst of a call: it goes on where it was, before any timer fires, while another replica leads.
func (l *leaderLease) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &leasedConn{conn, l}, nil
}

// leasedConn is a connection for as long as the lease can be counted on, or was never held.
type leasedConn struct {
	net.Conn

	lease *leaderLease
}

// Write sends data, and errLeaseLost is its error when the lease is lost. The clock is read last, so that as little as possible comes
// between it and the call of the kernel.
func (c *leasedConn) Write(data []byte) (int, error) {
	if c.lease.lost() {
		return 0, errLeaseLost
	}
	return c.Conn.Write(data) //nolint:wrapcheck // it is a connection itself
}
