package controlplane

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/fettle-io/fettle/sandbox/child"
)

// otherStopTimeout is shorter than the time that an API server gives the watches of its clients. Its state is in etcd,
// so to kill it costs nothing.
const otherStopTimeout = 10 * time.Second

// runOtherAPIServer runs the program of another version until ctx ends.
func runOtherAPIServer(ctx context.Context, cfg Config, f files, etcdEndpoint string) error {
	_, port, err := net.SplitHostPort(cfg.Listener.Addr().String())
	if err != nil {
		return fmt.Errorf("reading its port: %w", err)
	}
	// The program takes no open socket, only a port.
	if err := cfg.Listener.Close(); err != nil {
		return fmt.Errorf("freeing its port: %w", err)
	}
	cmd := exec.Command(cfg.APIServer, append(apiServerArgs(cfg, f, etcdEndpoint), "--secure-port="+port)...)
	cmd.Stdout, cmd.Stderr = cfg.Log, cfg.Log
	program, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("starting %s: %w", cfg.APIServer, err)
	}
	defer program.Stop(otherStopTimeout)
	select {
	case <-ctx.Done():
		return nil
	case err := <-program.Died():
		return err
	}
}
