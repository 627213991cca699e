package agent

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Leases grants by the Lease of a node in the API server. One goroutine uses it.
type Leases struct {
	server *Server
	node   string
	now    func() time.Time
	// Address is where this agent listens for others, which its Lease states. It may be empty.
	Address netip.AddrPort
	// uid is that of the Lease of a revision. A Lease that was deleted and created again is another one.
	uid      types.UID
	revision uint64
}

// NewLeases returns the Lease of a node. Now is what the Lease shows to people.
func NewLeases(s *Server, node string, now func() time.Time) *Leases {
	return &Leases{server: s, node: node, now: now}
}

const leases = "/apis/coordination.k8s.io/v1/namespaces/" + promiselease.Namespace + "/leases"

// Read implements Grantor.
func (l *Leases) Read(ctx context.Context) (selffence.Lease, error) {
	var lease coordinationv1.Lease
	err := l.server.do(ctx, call{method: http.MethodGet, path: path.Join(leases, l.node)}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		l.uid, l.revision = "", 0
		return selffence.Lease{}, nil
	case err != nil:
		return selffence.Lease{}, err
	}
	return l.learn(&lease)
}

// errOther is returned if the API server has answered with something else than it was to store.
var errOther = errors.New("the API server has stored another Lease than it was sent")

// Write implements Grantor.
func (l *Leases) Write(ctx context.Context, r promiselease.Record) (uint64, error) {
	wanted := r.Lease
	r.Address = l.Address
	lease, err := promiselease.Encode(l.node, r, l.now())
	if err != nil {
		return 0, err
	}
	c := call{method: http.MethodPost, path: leases, body: lease}
	if wanted.Revision > 0 {
		c.method, c.path = http.MethodPut, path.Join(leases, l.node)
		if l.revision != wanted.Revision {
			return 0, nil // its UID is unknown
		}
		lease.UID = l.uid // without it, the API server would create a Lease that was deleted
	}
	var stored coordinationv1.Lease
	err = l.server.do(ctx, c, &stored)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), wanted.Revision > 0 && apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	}
	got, err := l.learn(&stored)
	if err != nil {
		return 0, err
	}
	revision := got.Revision
	if got.Revision = wanted.Revision; got != wanted {
		return 0, errOther
	}
	return revision, nil
}

// learn returns what a Lease of the API server says.
func (l *Leases) learn(lease *coordinationv1.Lease) (selffence.Lease, error) {
	r, err := promiselease.Decode(lease)
	if err != nil {
		return selffence.Lease{}, err
	}
	if lease.Name != l.node || lease.Namespace != promiselease.Namespace || strconv.FormatUint(r.Revision, 10) != lease.ResourceVersion {
		return selffence.Lease{}, errOther
	}
	l.uid, l.revision = lease.UID, r.Revision
	return r.Lease, nil
}
