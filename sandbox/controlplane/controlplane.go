package controlplane

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fettle-io/fettle/sandbox/access"
	"github.com/fettle-io/fettle/sandbox/pki"
)

// administrators is the group that has all rights in RBAC.
const administrators = "system:masters"

// Config configures a control plane. Every field without "optional" is required.
type Config struct {
	Dir      string       // etcd's data, certificates and generated files go below it
	Listener net.Listener // loopback TCP; the API server closes it
	Log      io.Writer    // etcd's log; the Kubernetes components log through klog
	AuditLog string       // file; optional
	// APIServer is the path of a kube-apiserver of another version, in place of the linked one; optional
	APIServer string

	NodeMonitorGracePeriod time.Duration
	NodeMonitorPeriod      time.Duration
	Controllers            []string // as the controller manager's --controllers
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	died       chan error
	components []*component // in the order of their start
	sockets    string       // temporary directory of etcd's sockets
	server     string
	ca         []byte
	authority  *pki.Authority
	admin      access.Identity
}

// Start starts all components. It returns when the API server serves and the controllers have made the basic objects.
// If ctx or a component ends before, Start stops everything again.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	plane := &ControlPlane{
		died:   make(chan error, 3),
		server: "https://" + cfg.Listener.Addr().String(),
	}
	if err := plane.start(ctx, cfg); err != nil {
		_ = cfg.Listener.Close()
		plane.Stop()
		return nil, err
	}
	return plane, nil
}

// Died returns a channel with the error of a component that ended on its own.
func (p *ControlPlane) Died() <-chan error { return p.died }

// Admin returns the identity of the cluster's administrator.
func (p *ControlPlane) Admin() access.Identity { return p.admin }

// Server returns the URL of the API server.
func (p *ControlPlane) Server() string { return p.server }

// Simulator returns an identity with all rights. Its name marks its requests in the audit log.
func (p *ControlPlane) Simulator(name string) (access.Identity, error) {
	request := pki.Request{File: name, CommonName: "sandbox:" + name, Organization: administrators}
	pair, err := p.authority.Issue(request)
	if err != nil {
		return access.Identity{}, err
	}
	return access.Identity{Server: p.server, CA: p.ca, Certificate: pair, User: name}, nil
}

// Serving returns a server certificate for these hosts. Clients that trust the API server trust it too.
func (p *ControlPlane) Serving(name string, hosts []string) (pki.Pair, error) {
	return p.authority.Issue(pki.Request{File: name, CommonName: "sandbox:" + name, Hosts: hosts})
}

// Stop stops all components, the last started first, and waits for them.
func (p *ControlPlane) Stop() {
	for _, c := range slices.Backward(p.components) {
		c.stop()
	}
	p.components = nil
	if p.sockets != "" {
		_ = os.RemoveAll(p.sockets)
	}
}

func (p *ControlPlane) start(ctx context.Context, cfg Config) error {
	files, err := prepareFiles(cfg.Dir)
	if err != nil {
		return err
	}
	p.authority = files.authority
	if p.ca, err = os.ReadFile(files.caCert); err != nil {
		return fmt.Errorf("reading the CA certificate: %w", err)
	}
	p.admin = access.Identity{Server: p.server, CA: p.ca, Certificate: files.admin, User: "admin"}
	if p.sockets, err = socketDir(cfg.Dir); err != nil {
		return err
	}
	etcd, err := startEtcd(ctx, etcdConfig{dataDir: filepath.Join(cfg.Dir, "etcd"), sockets: p.sockets, log: cfg.Log})
	if err != nil {
		return err
	}
	p.launch("etcd", etcd.run)
	p.launch("the API server", func(ctx context.Context) error {
		if cfg.APIServer != "" {
			return runOtherAPIServer(ctx, cfg, files, etcd.endpoint)
		}
		return runAPIServer(ctx, cfg, files, etcd.endpoint)
	})
	if err := p.waitUntil(ctx, "the API server", apiServes); err != nil {
		return err
	}
	identity := access.Identity{Server: p.server, CA: p.ca, Certificate: files.controllerManager, User: "controller-manager"}
	if err := access.Write(files.controllerManagerKubeconfig, identity); err != nil {
		return err
	}
	p.launch("the controller manager", func(ctx context.Context) error {
		return runControllerManager(ctx, cfg, files)
	})
	if !makesServiceAccounts(cfg.Controllers) {
		return nil
	}
	return p.waitUntil(ctx, "the controller manager", controllersWork)
}

func (p *ControlPlane) launch(name string, run func(context.Context) error) {
	p.components = append(p.components, launch(name, p.died, run))
}
