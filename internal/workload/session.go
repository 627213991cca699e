package workload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/contain"
)

// errChanged ends a session whose kubeconfig has changed, and errMoved a session whose kubeconfig names another API server. It wraps
// errChanged.
var (
	errChanged = errors.New("the kubeconfig has changed")
	errMoved   = fmt.Errorf("%w, and names another API server", errChanged)
)

// session keeps the nodes of a cluster up to date with one client, until something fails. The next session reads
// the Secret anew and lists all nodes, since earlier ones may be out of date.
type session struct {
	*Connection
	*apiClient

	// kubeconfigHash identifies the kubeconfig.
	kubeconfigHash [sha256.Size]byte
	// server identifies the API server that the kubeconfig names.
	server serverID
	// listed is when the first list was stored. It is zero before, and read once the session has ended.
	listed time.Time
}

// serverID identifies an API server by its address and its certificate authority. Credentials may change while it stays.
type serverID struct {
	host, name string
	authority  [sha256.Size]byte
}

func serverOf(c *rest.Config) serverID {
	return serverID{host: c.Host, name: c.ServerName, authority: sha256.Sum256(c.CAData)}
}

// syncedFor returns how long the session was synced before it ended.
func (s *session) syncedFor() time.Duration {
	if s.listed.IsZero() {
		return 0
	}
	return s.Now().Sub(s.listed)
}

// begin reads the Secret and returns a session.
func (c *Connection) begin(ctx context.Context) (*session, error) {
	raw, err := c.kubeconfig(ctx, c.cluster)
	if err != nil {
		return nil, err
	}
	config, err := readKubeconfig(raw)
	if err != nil {
		return nil, userErrorf("the kubeconfig in Secret %s can't be used: %s", secretOf(c.cluster), err)
	}
	return c.over(config, raw)
}

func (c *Connection) over(config *rest.Config, raw []byte) (*session, error) {
	config.UserAgent = c.UserAgent
	api, err := c.open(config)
	if err != nil {
		return nil, userErrorf("the kubeconfig in Secret %s can't be used: %s", secretOf(c.cluster), err)
	}
	return &session{Connection: c, apiClient: api, kubeconfigHash: sha256.Sum256(raw), server: serverOf(config)}, nil
}

// run keeps the nodes up to date, and returns the error that ended the session. Its goroutines have ended by then.
func (s *session) run(ctx context.Context) error {
	defer s.close()
	ctx, end := context.WithCancel(withoutLogging(ctx))
	var following sync.WaitGroup
	defer following.Wait() // also after a panic below
	defer end()
	if err := s.probe(ctx); err != nil {
		return err
	}
	followed := make(chan error, 1)
	following.Go(func() { followed <- contain.Run(func() error { return s.listAndWatch(ctx) }) })
	return s.monitor(ctx, followed)
}

// monitor probes a silent cluster and compares its Secret, until listAndWatch returns or one of them fails.
func (s *session) monitor(ctx context.Context, followed <-chan error) error {
	silent := time.NewTimer(s.Timing.ProbeAfter)
	compare := time.NewTimer(jitter(s.Timing.SecretCheck, rand.Float64())) //nolint:gosec // it spreads load, and keeps no secret
	for {
		select {
		case err := <-followed:
			return err
		case <-silent.C:
			if s.silence() >= s.Timing.ProbeAfter {
				if err := s.probe(ctx); err != nil {
					return err
				}
			}
			silent.Reset(s.Timing.ProbeAfter - s.silence())
		case <-compare.C:
			if err := s.changed(ctx); err != nil {
				return err
			}
			compare.Reset(jitter(s.Timing.SecretCheck, rand.Float64())) //nolint:gosec // the same
		}
	}
}

// silence returns how long the cluster has sent nothing.
func (s *session) silence() time.Duration { return s.Now().Sub(s.currentState().heard) }

// probe returns an error unless the API server itself answers in time.
func (s *session) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timing.ProbeTimeout)
	defer cancel()
	if err := s.isReady(ctx); err != nil {
		return err
	}
	s.update(state.heardFrom)
	return nil
}

// changed returns errChanged if the Secret has another kubeconfig, or errMoved if that names another API server or can't be
// used. A Secret that can't be read counts as unchanged, since the present session works.
func (s *session) changed(ctx context.Context) error {
	switch raw, err := s.kubeconfig(ctx, s.cluster); {
	case err != nil, sha256.Sum256(raw) == s.kubeconfigHash:
		return nil //nolint:nilerr // the present session works
	case !s.sameServer(raw):
		return errMoved
	}
	return errChanged
}

// sameServer reports whether a kubeconfig can be used and names the API server of the session.
func (s *session) sameServer(raw []byte) bool {
	config, err := readKubeconfig(raw)
	return err == nil && serverOf(config) == s.server
}

// cause returns the text for users of the error that ended a session.
func (s *session) cause(err error) string {
	return explain(err, s.host, secretOf(s.cluster).String())
}

// The errors of a cluster that sends other objects than were requested.
var (
	errNotNodes   = errors.New("it sends something else where a node belongs")
	errNotObjects = errors.New("it sends something else than the requested objects")
)
