package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// relayTarget is what a client names to be connected to the API server. A server connects to nothing else, so it doesn't read an address.
const relayTarget = "api-server:443"

// Bounds of streams to the API server.
const (
	// relayRate is how many bytes a stream carries in a second, in each direction, and relayPiece how many at a time.
	relayRate  = 1 << 20
	relayPiece = 16 << 10
	// relayIdle is how long a stream may carry nothing, and relayTime how long it may take in all.
	relayIdle = 90 * time.Second
	relayTime = 10 * time.Minute
	// relayDial bounds the time to connect to the API server.
	relayDial = 2 * time.Second
)

// relayBound returns how many streams a server carries.
func relayBound() bound { return bound{ofNode: 2, all: 16} }

// Relay has the server connect other agents to the API server. Dial connects to it, and must not do so through another agent: so there is no loop.
// Call it before Serve.
func (s *Server) Relay(dial func(context.Context) (net.Conn, error)) { s.dial = dial }

// relay connects an agent to the API server until one of both sides ends.
func (s *Server) relay(w http.ResponseWriter, r *http.Request, node string) {
	if s.dial == nil || r.RequestURI != relayTarget {
		s.refuse(w, http.StatusNotFound, other{cause: UnknownQuestion, node: node})
		return
	}
	if !s.relaying.take(node, relayBound()) {
		s.refuse(w, http.StatusTooManyRequests, other{cause: TooManyQuestions, node: node})
		return
	}
	defer s.relaying.leave(node)
	ctx, cancel := context.WithTimeout(r.Context(), relayDial)
	defer cancel()
	there, err := s.dial(ctx)
	if err != nil {
		refuse(w, http.StatusBadGateway)
		return
	}
	defer func() { _ = there.Close() }()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, http.StatusInternalServerError)
		return
	}
	defer func() { _ = here.Close() }()
	if buffered.Reader.Buffered() > 0 || here.SetDeadline(time.Time{}) != nil {
		return // the other side says something before it is connected
	}
	if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	carry(r.Context(), here, there)
}

// carry carries bytes between two connections until one of them ends, or the context.
func carry(ctx context.Context, a, b net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _, _ = a.Close(), b.Close() })
	defer stop()
	last := &lastUse{timer: time.AfterFunc(relayIdle, cancel)}
	defer last.timer.Stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer cancel()
			last.copy(ctx, way[0], way[1])
		})
	}
	both.Wait()
}

// lastUse ends a stream that is idle.
type lastUse struct{ timer *time.Timer }

// copy copies from a connection to another one, at most at the rate of a stream.
func (l *lastUse) copy(ctx context.Context, from, to net.Conn) {
	piece := make([]byte, relayPiece)
	pace := time.NewTicker(time.Second * relayPiece / relayRate)
	defer pace.Stop()
	for {
		n, err := from.Read(piece)
		if n > 0 {
			l.timer.Reset(relayIdle)
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// Relay connects to the API server through the agent of a node. The agent sees the bytes alone, and the caller verifies the API server.
func (c *Client) Relay(ctx context.Context, node string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	conn, err := c.connect(ctx, "tcp", NameOf(node))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	reader := bufio.NewReaderSize(io.LimitReader(conn, maxHeader), maxHeader)
	err = askRelay(conn, reader)
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		_ = conn.Close()
		return nil, errorOf(err)
	}
	if reader.Buffered() > 0 {
		_ = conn.Close()
		return nil, &Error{Reason: Refused} // the API server says nothing first
	}
	return conn, nil
}

// askRelay asks the other side of a connection to connect it to the API server.
func askRelay(conn net.Conn, reader *bufio.Reader) error {
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", relayTarget, relayTarget); err != nil {
		return err //nolint:wrapcheck // the caller names it
	}
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err //nolint:wrapcheck // the caller names it
	}
	defer func() { _ = response.Body.Close() }()
	return refusal(response.StatusCode)
}
