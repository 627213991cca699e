package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/internal/peer"
)

// options has the flags.
type options struct {
	kubeconfig string
	node       string
	stateDir   string
	address    string
	port       uint16
	stopWithin time.Duration
	logLevel   string
	logFormat  string
	version    bool
}

// nodeNameVariable is the environment variable with the name of the node, which a pod gets from its own spec.
const nodeNameVariable = "NODE_NAME"

// nodeAddressVariable is that with the IP address of the node.
const nodeAddressVariable = "NODE_ADDRESS"

const usage = `Keep the watchdog of this node from firing until the node is condemned, and promise that in its Lease,
until a signal ends it. It then withdraws the promise, and disarms the watchdog once that is confirmed.

It does nothing on a node that no FencePolicy selects. It runs as root on each node, as a pod of a DaemonSet.

Example:
  fettle-agent --node-name worker-7

Flags:
`

var (
	errArguments = errors.New("arguments are not understood; fettle-agent takes flags alone")
	errPort      = errors.New("it must be a port, such as 9643")
)

// parse reads the flags. It writes help and other output that the user requests to a writer. Its errors name the flags.
func parse(args []string, to io.Writer) (options, error) {
	o := options{port: peer.DefaultPort}
	f := flag.NewFlagSet("fettle-agent", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the cluster of this node (default: $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	f.StringVar(&o.node, "node-name", os.Getenv(nodeNameVariable), "`name` of this node (default: $"+nodeNameVariable+")")
	f.StringVar(&o.stateDir, "state-dir", "/run/fettle", "`directory` of what must outlive this process, but not the boot; it must be on a file system in memory")
	f.StringVar(&o.address, "address", os.Getenv(nodeAddressVariable), "IP `address` at which other agents reach this one; if it is empty, the agent answers none (default: $"+nodeAddressVariable+")")
	f.Func("port", "`port` at which other agents reach this one, on all addresses of the node (default "+strconv.Itoa(peer.DefaultPort)+")", func(text string) error {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return errPort
		}
		o.port = uint16(n)
		return nil
	})
	f.DurationVar(&o.stopWithin, "stop-within", 45*time.Second, "how long to try to withdraw the promise after a signal; the watchdog stays armed if that fails")
	f.StringVar(&o.logLevel, "log-level", "info", "`level`: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "`format`: json, or text for people")
	f.BoolVar(&o.version, "version", false, "print the version of this binary")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(to, usage)
		f.SetOutput(to)
		f.PrintDefaults()
		return o, err //nolint:wrapcheck // the caller looks for it
	case err != nil:
		return o, fmt.Errorf("reading the flags: %w", err)
	case f.NArg() > 0:
		return o, errArguments
	}
	return o, nil
}

// validate returns what is wrong with the flags.
func (o options) validate() error {
	var problems []error
	if wrong := validation.IsDNS1123Subdomain(o.node); len(wrong) > 0 {
		problems = append(problems, fmt.Errorf("--node-name is %q, which no node can be called", o.node))
	}
	if a, err := netip.ParseAddr(o.address); o.address != "" && (err != nil || a.Zone() != "") {
		problems = append(problems, fmt.Errorf("--address is %q; it must be an IP address, such as 192.0.2.1", o.address))
	}
	if o.address != "" && o.port == 0 {
		problems = append(problems, errors.New("--port is 0; it must be a port, such as 9643"))
	}
	if o.stopWithin <= 0 {
		problems = append(problems, fmt.Errorf("--stop-within is %s; it must be above zero, such as 45s", o.stopWithin))
	}
	return errors.Join(problems...)
}
