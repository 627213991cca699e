package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	etcdStartTimeout = time.Minute
	etcdQuotaBytes   = 8 << 30

	clientSocket  = "client.sock"
	peerSocket    = "peer.sock"
	maxSocketPath = 107
)

type etcdConfig struct {
	dataDir string
	sockets string // directory
	log     io.Writer
}

type etcd struct {
	endpoint string
	server   *embed.Etcd
}

// startEtcd starts a single-member etcd on Unix sockets: no port is open, and file permissions keep other users out.
func startEtcd(ctx context.Context, cfg etcdConfig) (*etcd, error) {
	client := url.URL{Scheme: "unix", Path: filepath.Join(cfg.sockets, clientSocket)}
	// etcd takes a peer's socket from the host part. With an empty one it would open a socket for all users.
	peer := url.URL{Scheme: "unix", Host: filepath.Join(cfg.sockets, peerSocket)}
	// etcd stores its advertised address in its data. So that must be the same in every run, and the path of a socket
	// is not. No client uses it: a single member has no peers, and the API server gets the socket.
	advertised := url.URL{Scheme: "http", Host: "localhost:2380"}

	c := embed.NewConfig()
	c.Name = "sandbox"
	c.Dir = cfg.dataDir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{advertised}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{advertised}
	c.InitialCluster = c.Name + "=" + advertised.String()
	c.QuotaBackendBytes = etcdQuotaBytes
	// State must survive the end of the process, not a power cut of the host.
	c.UnsafeNoFsync = true
	c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration // NewConfig leaves it at zero, which warns of all
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newZapLogger(cfg.log))

	server, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
		return &etcd{endpoint: client.String(), server: server}, nil
	case err = <-server.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(etcdStartTimeout):
		err = fmt.Errorf("not ready after %v", etcdStartTimeout)
	}
	server.Close()
	return nil, fmt.Errorf("starting etcd: %w", err)
}

func (e *etcd) run(ctx context.Context) error {
	defer e.server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.server.Err():
		return err
	case <-e.server.Server.StopNotify():
		return errEnded
	}
}

// socketDir makes a directory for sockets that only this user can enter. It is in the state directory if that isn't too
// deep, since the path of a socket can't be longer than 107 bytes. Otherwise it is among the temporary files.
func socketDir(stateDir string) (string, error) {
	dir := filepath.Join(stateDir, "run")
	if len(filepath.Join(dir, clientSocket)) <= maxSocketPath {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("creating the directory of etcd's sockets: %w", err)
		}
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "fettle-etcd-")
	if err != nil {
		return "", fmt.Errorf("creating the directory of etcd's sockets: %w", err)
	}
	return dir, nil
}

func newZapLogger(w io.Writer) *zap.Logger {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(w), zapcore.WarnLevel))
}
