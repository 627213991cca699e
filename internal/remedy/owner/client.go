package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
)

// Config is what a Client needs. Every field is required.
type Config struct {
	// Machine returns a machine as it was last seen, or nil.
	Machine func(id core.ID) *clusterapi.Machine
	Writer  clusterapi.Writer
	// OnWrite stores a machine as it is after a write.
	OnWrite func(m *clusterapi.Machine)
}

// Client marks machines for their owners, who replace them.
type Client struct{ Config }

// NewClient returns a client.
func NewClient(c Config) *Client { return &Client{c} }

// Start writes the conditions of the machine. They say which checks of its health check have failed, and mark it for
// its owner.
func (c *Client) Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error) {
	t := &o.Target
	if t.ID.UID == "" || t.Revision == "" {
		return 0, fmt.Errorf("marking %s: its UID or revision is not known, so no request is made", t.ID)
	}
	m := c.Machine(t.ID)
	switch {
	case m == nil:
		return core.Vanished, nil
	case string(m.UID) != t.ID.UID || m.ResourceVersion != t.Revision:
		return core.Stale, nil
	}
	changes, may := requestChanges(m, &o)
	if !may {
		return core.Stale, nil
	}
	written, err := c.Writer.Write(ctx, m, changes)
	switch {
	case err == nil:
		c.OnWrite(written)
		return core.Accepted, nil
	case apierrors.IsNotFound(err):
		return core.Vanished, nil
	case apierrors.IsConflict(err):
		return core.Stale, nil
	}
	return 0, fmt.Errorf("marking %s for its owner: %w", t.ID, err)
}

// errNoUID protects the conditions of a namesake.
var errNoUID = errors.New("its UID is not known, so it is left alone")

// Stop does nothing. An owner has no time limit: the request stands as long as the machine is unhealthy.
func (*Client) Stop(_ context.Context, r core.Request, _ time.Time) error {
	if r.ID.UID == "" {
		return fmt.Errorf("telling the owner of %s to stop: %w", r.ID, errNoUID)
	}
	return nil
}

// withdrawAttempts bounds the writes of one withdrawal, for a machine that other controllers change meanwhile.
const withdrawAttempts = 4

// Withdraw removes the request from the machine's conditions. After a conflict it reads the machine again. A withdrawal
// is safe for any revision of the machine.
func (c *Client) Withdraw(ctx context.Context, r core.Request) (core.RemedyResult, error) {
	if r.ID.UID == "" {
		return 0, fmt.Errorf("taking back the mark of %s: %w", r.ID, errNoUID)
	}
	if r.Leaving {
		return core.Accepted, nil
	}
	m := c.Machine(r.Target)
	for range withdrawAttempts {
		changes := withdrawalChanges(m, &r)
		if changes == nil {
			return core.Accepted, nil
		}
		written, err := c.Writer.Write(ctx, m, changes)
		if err == nil {
			c.OnWrite(written)
			return core.Accepted, nil
		}
		if apierrors.IsConflict(err) {
			m, err = c.Writer.Read(ctx, r.Target.Namespace, r.Target.Name)
		}
		switch {
		case apierrors.IsNotFound(err):
			return core.Accepted, nil
		case err != nil:
			return 0, fmt.Errorf("taking back the mark of %s: %w", r.ID, err)
		}
	}
	return 0, fmt.Errorf("taking back the mark of %s: it changes all the time; it is tried again", r.ID)
}
