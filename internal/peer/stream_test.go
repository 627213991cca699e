package peer

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// unwritable is a connection that can be read from, and not be written to.
type unwritable struct{ net.Conn }

var errUnwritable = errors.New("it can't be written to")

func (unwritable) Write([]byte) (int, error) { return 0, errUnwritable }

// TestAStreamThatCanNotBeWrittenTo ends at once, in both directions.
func TestAStreamThatCanNotBeWrittenTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent, here := net.Pipe()
		there, server := net.Pipe()
		defer server.Close()
		defer agent.Close()
		go func() { _, _ = agent.Write([]byte("x")) }()
		began := time.Now() //nolint:forbidigo // the clock of the bubble
		carry(context.WithoutCancel(t.Context()), here, unwritable{there})
		if took := time.Since(began); took >= time.Second { //nolint:forbidigo // the same
			t.Errorf("it ends after %s", took)
		}
	})
}

// TestAQuestionThatCanNotBeSent has no answer, whatever the other side says.
func TestAQuestionThatCanNotBeSent(t *testing.T) {
	t.Parallel()
	if err := askRelay(unwritable{}, bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\n\r\n"))); !errors.Is(err, errUnwritable) {
		t.Errorf("the error is %v", err)
	}
}

// TestDialer: how long a connection may take, and how often its other side is to show that it is there.
func TestDialer(t *testing.T) {
	t.Parallel()
	if d := dialer(); d.Timeout != 3*time.Second || d.KeepAlive != 10*time.Second {
		t.Errorf("it takes %s, and shows that each %s", d.Timeout, d.KeepAlive)
	}
}
