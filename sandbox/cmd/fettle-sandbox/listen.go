package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/fettle-io/fettle/sandbox/access"
)

// listen opens the given port, else the port of the last run, else any.
func listen(ctx context.Context, port int, kubeconfig string) (net.Listener, error) {
	if port != 0 {
		listener, err := listenOn(ctx, port)
		if err != nil {
			return nil, fmt.Errorf("opening port %d: %w: choose another --port, or leave it out", port, err)
		}
		return listener, nil
	}
	last, err := access.PortOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	if listener, err := listenOn(ctx, last); err == nil {
		return listener, nil
	}
	listener, err := listenOn(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a free port: %w", err)
	}
	return listener, nil
}

func listenOn(ctx context.Context, port int) (net.Listener, error) {
	config := net.ListenConfig{}
	return config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
