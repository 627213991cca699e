package main

import (
	"context"
	"errors"
	"log/slog"
)

// leaderElectionLost is the error that controller-runtime logs whenever a leader ends, also at a
// shutdown.
const leaderElectionLost = "leader election lost"

// shutdownHandler is a log handler for a process that may shut down. During a shutdown, the end of
// leadership and cancelled calls are no errors, and should page no one.
type shutdownHandler struct {
	slog.Handler

	stopping <-chan struct{}
}

// Handle passes all records on before a shutdown. During a shutdown it drops the end of leadership,
// since the shutdown itself is logged. It logs cancelled calls as information, since an event may
// be lost.
func (h shutdownHandler) Handle(ctx context.Context, r slog.Record) error {
	select {
	case <-h.stopping:
		switch err := errorOf(r); {
		case err != nil && err.Error() == leaderElectionLost:
			return nil
		case errors.Is(err, context.Canceled):
			r.Level = min(r.Level, slog.LevelInfo)
		}
	default:
	}
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r) //nolint:wrapcheck // it is a handler itself
}

// WithAttrs implements slog.Handler.
func (h shutdownHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return shutdownHandler{h.Handler.WithAttrs(attrs), h.stopping}
}

// WithGroup implements slog.Handler.
func (h shutdownHandler) WithGroup(name string) slog.Handler {
	return shutdownHandler{h.Handler.WithGroup(name), h.stopping}
}

// errorOf returns the error of a record, or nil.
func errorOf(r slog.Record) error {
	var found error
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		if is {
			found = err
		}
		return !is
	})
	return found
}
