package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// watchIdleTimeout is how long a watch may receive nothing. API servers send a bookmark about once
// a minute.
const watchIdleTimeout = 3 * time.Minute

// errWatchIdle ends a watch that receives nothing. Its informer starts another.
var errWatchIdle = errors.New("the watch received nothing for too long")

// endIdleWatches returns a transport wrapper that ends watches which receive nothing for a time.
// The kernel notices a dead connection. It doesn't notice a proxy that drops the data of a live
// connection, and the cache behind it would stay old for ever.
func endIdleWatches(after time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.RawQuery, "watch=true") {
				return next.RoundTrip(r)
			}
			ctx, end := context.WithCancelCause(r.Context())
			idle := &idleTimer{began: time.Now(), after: after, ctx: ctx, end: end}
			time.AfterFunc(after, idle.check)
			response, err := next.RoundTrip(r.WithContext(ctx))
			if err != nil {
				end(nil)
				return nil, idleCause(ctx, err)
			}
			response.Body = &watchBody{response.Body, idle}
			return response, nil
		})
	}
}

// idleTimer ends a watch that has received nothing for a time. Data changes no timer, since that would cost more than
// reading it.
type idleTimer struct {
	began time.Time
	after time.Duration
	// received is when data was received last, in nanoseconds since began.
	received atomic.Int64
	ctx      context.Context //nolint:containedctx // it is the context of the request
	end      context.CancelCauseFunc
}

func (t *idleTimer) note() { t.received.Store(int64(time.Since(t.began))) }

// check ends the watch, or checks again when it may be idle for the whole time.
func (t *idleTimer) check() {
	idle := time.Since(t.began) - time.Duration(t.received.Load())
	switch {
	case t.ctx.Err() != nil:
	case idle >= t.after:
		t.end(errWatchIdle)
	default:
		time.AfterFunc(t.after-idle, t.check)
	}
}

// watchBody notes when a watch receives data.
type watchBody struct {
	io.ReadCloser

	idle *idleTimer
}

// Read reads data of the watch.
func (l *watchBody) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	if n > 0 {
		l.idle.note()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = idleCause(l.idle.ctx, err)
	}
	return n, err
}

// Close ends the watch.
func (l *watchBody) Close() error {
	err := l.ReadCloser.Close()
	l.idle.end(nil)
	if err != nil {
		return fmt.Errorf("ending a watch: %w", err)
	}
	return nil
}

// idleCause returns errWatchIdle if it ended the context, and err otherwise.
func idleCause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errWatchIdle) {
		return errWatchIdle
	}
	return err
}
