package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
			idle := time.AfterFunc(after, func() { end(errWatchIdle) })
			response, err := next.RoundTrip(r.WithContext(ctx))
			if err != nil {
				idle.Stop()
				end(nil)
				return nil, idleCause(ctx, err)
			}
			response.Body = &watchBody{ReadCloser: response.Body, ctx: ctx, end: end, idle: idle, after: after}
			return response, nil
		})
	}
}

// watchBody restarts the timer of a watch whenever the watch receives data.
type watchBody struct {
	io.ReadCloser

	ctx   context.Context //nolint:containedctx // it is the context of the request
	end   context.CancelCauseFunc
	idle  *time.Timer
	after time.Duration
}

// Read reads data of the watch.
func (l *watchBody) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	if n > 0 && l.idle.Stop() {
		l.idle.Reset(l.after)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = idleCause(l.ctx, err)
	}
	return n, err
}

// Close ends the watch.
func (l *watchBody) Close() error {
	l.idle.Stop()
	err := l.ReadCloser.Close()
	l.end(nil)
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
