package workload

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/contain"
)

// errChanged ends a session whose Secret says something else by now.
var errChanged = errors.New("the kubeconfig has changed")

// session keeps in step with a cluster over one line, until something fails. It is then begun anew with whatever the Secret
// says, since nothing that was known is worth more than a new list.
type session struct {
	*Connection
	*apiClient

	// kubeconfigHash is that of the kubeconfig.
	kubeconfigHash [sha256.Size]byte
	// listed is when nodes were first taken in. It is zero before, and read once the session has ended.
	listed time.Time
}

// syncedFor returns how long the session was in step before it ended.
func (s *session) syncedFor() time.Duration {
	if s.listed.IsZero() {
		return 0
	}
	return s.Now().Sub(s.listed)
}

// begin reads the Secret and opens a line.
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
	return &session{Connection: c, apiClient: api, kubeconfigHash: sha256.Sum256(raw)}, nil
}

// run keeps in step, and tells why it ended. All that it began has ended by then.
func (s *session) run(ctx context.Context) error {
	defer s.close()
	ctx, end := context.WithCancel(withoutLogging(ctx))
	var following sync.WaitGroup
	defer following.Wait() // also when what follows panics
	defer end()
	if err := s.probe(ctx); err != nil {
		return err
	}
	followed := make(chan error, 1)
	following.Go(func() { followed <- contain.Run(func() error { return s.listAndWatch(ctx) }) })
	return s.monitor(ctx, followed)
}

// monitor probes a cluster that is silent and looks at its Secret, until following it ends or any of that does.
func (s *session) monitor(ctx context.Context, followed <-chan error) error {
	silent := time.NewTimer(jitter(s.Timing.ProbeAfter*4/5, rand.Float64())) //nolint:gosec // it spreads load, and keeps no secret
	defer silent.Stop()
	compare := time.NewTimer(jitter(s.Timing.SecretCheck, rand.Float64())) //nolint:gosec // the same
	defer compare.Stop()
	for {
		select {
		case err := <-followed:
			return err
		case <-silent.C:
			left := s.Timing.ProbeAfter - s.Now().Sub(s.currentState().heard)
			if left <= 0 {
				if err := s.probe(ctx); err != nil {
					return err
				}
				left = s.Timing.ProbeAfter
			}
			silent.Reset(left)
		case <-compare.C:
			if s.changed(ctx) {
				return errChanged
			}
			compare.Reset(jitter(s.Timing.SecretCheck, rand.Float64())) //nolint:gosec // the same
		}
	}
}

// probe proves that the API server itself answers.
func (s *session) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timing.ProbeTimeout)
	defer cancel()
	if err := s.isReady(ctx); err != nil {
		return err
	}
	s.update(state.heardFrom)
	return nil
}

// changed tells whether the Secret is known to say something else. One that can't be read just now changes nothing:
// what it said still works.
func (s *session) changed(ctx context.Context) bool {
	raw, err := s.kubeconfig(ctx, s.cluster)
	return err == nil && sha256.Sum256(raw) != s.kubeconfigHash
}

// cause is what a session ended with, for people.
func (s *session) cause(err error) string {
	if text, is := errors.AsType[userError](err); is {
		return text.text
	}
	return explain(err, s.host, secretOf(s.cluster).String())
}

// The errors of a cluster that sends other things than it was asked for.
var (
	errNotNodes   = errors.New("it sends something else where a node belongs")
	errNotObjects = errors.New("it sends something else than the objects that it was asked for")
)
