package agent

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/fettle-io/fettle/internal/peer"
)

// listenAgain is how soon the agent tries again to listen.
const listenAgain = 30 * time.Second

// Listen answers other agents at a port of all addresses of the node until the context ends. While it can't, it tells people, and tries again.
func Listen(ctx context.Context, s *peer.Server, port uint16, tell func(Note)) {
	told := false
	for ctx.Err() == nil {
		err := listen(ctx, s, port)
		if ctx.Err() != nil {
			return
		}
		if !told {
			tell(Note{Reason: NotListening, Err: err})
		}
		told = true
		timer := time.NewTimer(listenAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// listener listens at addresses.
func listener() *net.ListenConfig { return &net.ListenConfig{KeepAlive: keepAlive} }

func listen(ctx context.Context, s *peer.Server, port uint16) error {
	l, err := listener().Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("listening for other agents: %w", err)
	}
	return s.Serve(ctx, l)
}
