package workload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// maxIdleBuffer bounds the memory that a stream keeps between events. A larger event gets its own.
const maxIdleBuffer = 64 << 10

// stream reads the events of a watch, until the context of the request ends.
type stream struct {
	body io.ReadCloser
	// stalls is called when the rest of an event has not come within patience.
	stalls   func()
	patience time.Duration
	frame    bytes.Buffer
}

// next returns the next encoded event. It is valid until the next call. At the end of the watch, next returns
// io.EOF.
func (s *stream) next() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(s.body, length[:]); err != nil {
		return nil, err //nolint:wrapcheck // io.EOF is compared by identity
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > nodeBytes {
		return nil, tooLarge("an event of a watch", nodeBytes)
	}
	stalled := time.AfterFunc(s.patience, s.stalls)
	defer stalled.Stop()
	if s.frame.Cap() > maxIdleBuffer {
		s.frame = bytes.Buffer{}
	}
	s.frame.Reset()
	switch _, err := io.CopyN(&s.frame, s.body, size); {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err //nolint:wrapcheck // the caller says what was being done
	}
	return s.frame.Bytes(), nil
}

// isEnd reports whether an error is the end of a watch, in good order or because the connection broke. After both,
// the next watch goes on from the last revision.
func isEnd(err error) bool { return utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) }

// causeIn returns the cause for which the context was ended, if it was. The error is then a consequence, unless it
// is about a bound.
func causeIn(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errBound) {
		return cause //nolint:wrapcheck // the caller says what was being done
	}
	return err
}
