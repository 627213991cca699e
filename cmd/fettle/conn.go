package main

import (
	"context"
	"fmt"
	"net"
	"time"
)

// dialer dials the API server with client-go's defaults.
//
//nolint:gochecknoglobals // a constant
var dialer = net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}

// dial returns a connection that sends nothing once the lease is lost. A process may be suspended
// in the midst of a call. It resumes before any timer fires, while another replica leads, and
// cancelling a context would come too late.
func (l *leaderLease) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &leasedConn{conn, l}, nil
}

// leasedConn is a connection that works as long as this replica hasn't lost the lease.
type leasedConn struct {
	net.Conn

	lease *leaderLease
}

// Write sends data, or returns errLeaseLost once the lease is lost. It reads the clock last, as
// close to the system call as possible.
func (c *leasedConn) Write(data []byte) (int, error) {
	if c.lease.lost() {
		return 0, errLeaseLost
	}
	return c.Conn.Write(data) //nolint:wrapcheck // it is a connection itself
}
