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

// longestSilence is how long a watch may bring nothing. API servers send a bookmark about once a minute
// where nothing changes.
const longestSilence = 3 * time.Minute

// errSilent ends a watch that has gone silent; it is then begun anew.
var errSilent = errors.New("the watch has brought nothing for too long")

// endSilentWatches ends watches that bring nothing for a time. A connection that dies is noticed by
// itself; one that lives while something on the way swallows what it should bring is not, and the cache
// behind it would show an old world for ever.
func endSilentWatches(after time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.RawQuery, "watch=true") {
				return next.RoundTrip(r)
			}
			ctx, end := context.WithCancelCause(r.Context())
			silence := time.AfterFunc(after, func() { end(errSilent) })
			response, err := next.RoundTrip(r.WithContext(ctx))
			if err != nil {
				silence.Stop()
				end(nil)
				return nil, reasonOf(ctx, err)
			}
			response.Body = &listener{ReadCloser: response.Body, ctx: ctx, end: end, silence: silence, after: after}
			return response, nil
		})
	}
}

// listener notes that a watch brings something.
type listener struct {
	io.ReadCloser

	ctx     context.Context //nolint:containedctx // it is the request's, and ends it
	end     context.CancelCauseFunc
	silence *time.Timer
	after   time.Duration
}

// Read reads what the watch brings.
func (l *listener) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	if n > 0 && l.silence.Stop() {
		l.silence.Reset(l.after)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = reasonOf(l.ctx, err)
	}
	return n, err
}

// Close ends the watch.
func (l *listener) Close() error {
	l.silence.Stop()
	err := l.ReadCloser.Close()
	l.end(nil)
	if err != nil {
		return fmt.Errorf("ending a watch: %w", err)
	}
	return nil
}

// reasonOf says that silence was the reason, where it was.
func reasonOf(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}
