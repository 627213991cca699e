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

// watchIdleTimeout is how long a watch may bring nothing. API servers send a bookmark about once a minute
// where nothing changes.
const watchIdleTimeout = 3 * time.Minute

// errWatchIdle ends a watch that has gone silent; it is then begun anew.
var errWatchIdle = errors.New("the watch has brought nothing for too long")

// endIdleWatches ends watches that bring nothing for a time. A connection that dies is noticed by
// itself; one that lives while something on the way swallows what it should bring is not, and the cache
// behind it would show an old world for ever.
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

// watchBody notes that a watch brings something.
type watchBody struct {
	io.ReadCloser

	ctx   context.Context //nolint:containedctx // it is the request's, and ends it
	end   context.CancelCauseFunc
	idle  *time.Timer
	after time.Duration
}

// Read reads what the watch brings.
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

// idleCause says that silence was the reason, where it was.
func idleCause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errWatchIdle) {
		return errWatchIdle
	}
	return err
}
