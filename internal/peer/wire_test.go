package peer

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a connection that counts what is done with it, and that fails as it is told.
type wire struct {
	*socket

	reads, writes   int
	deadline, write error
}

func (w *wire) Read([]byte) (int, error) {
	w.reads++
	return 0, io.EOF
}

func (w *wire) Write(b []byte) (int, error) {
	w.writes++
	return len(b), w.write
}

func (w *wire) SetDeadline(time.Time) error { return w.deadline }

// TestAStreamThatEnds writes nothing for the end of one of its sides.
func TestAStreamThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := &wire{socket: &socket{}}, &wire{socket: &socket{}}
		carry(t.Context(), here, there)
		synctest.Wait() // the connections are closed beside it
		if here.writes+there.writes > 0 || here.closed.Load() != 1 || there.closed.Load() != 1 {
			t.Errorf("there are %d and %d writes, and the connections are closed %d and %d times", here.writes, there.writes, here.closed.Load(), there.closed.Load())
		}
	})
}

// TestPaceOfAStream: a piece follows the one before it after the time that it may take, and a stream is idle from its last one.
func TestPaceOfAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent, here := net.Pipe()
		there, server := net.Pipe()
		began := time.Now()                                       //nolint:forbidigo // the clock of the bubble
		took := func() time.Duration { return time.Since(began) } //nolint:forbidigo // the same
		ended := make(chan time.Duration, 1)
		go func() {
			carry(context.WithoutCancel(t.Context()), here, there)
			ended <- took()
		}()
		for i := range 3 {
			go func() { _, _ = agent.Write(make([]byte, relayPiece)) }()
			if _, err := io.ReadFull(server, make([]byte, relayPiece)); err != nil || took() != time.Duration(i)*time.Second/64 {
				t.Errorf("piece %d is carried after %s: %v", i, took(), err)
			}
		}
		if got := <-ended; got != time.Second/32+relayIdle {
			t.Errorf("the stream ends after %s", got)
		}
	})
}
