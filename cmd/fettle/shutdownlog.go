package main

import (
	"context"
	"errors"
	"log/slog"
)

// leaderElectionLost is what controller-runtime logs as an error whenever a leader ends, also one that was asked to.
const leaderElectionLost = "leader election lost"

// shutdownHandler is a handler of logs for a process that may be asked to end. From then on it is no error that this replica
// leads no more, or that a call is broken off, and nobody is to be woken up for that.
type shutdownHandler struct {
	slog.Handler

	stopping <-chan struct{}
}

// Handle passes on all records while nobody has asked. From then on the lead that is given up goes untold, since the
// end itself is logged, and what was broken off is told as information: it may be an event that nobody will see.
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

// WithAttrs keeps what these records are watched for.
func (h shutdownHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return shutdownHandler{h.Handler.WithAttrs(attrs), h.stopping}
}

// WithGroup keeps what these records are watched for.
func (h shutdownHandler) WithGroup(name string) slog.Handler {
	return shutdownHandler{h.Handler.WithGroup(name), h.stopping}
}

// errorOf gives the error that a record tells of, or nil.
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
