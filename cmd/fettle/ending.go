package main

import (
	"context"
	"errors"
	"log/slog"
)

// lostLead is what controller-runtime logs as an error whenever a leader ends, also one that was asked to.
const lostLead = "leader election lost"

// ending is a handler of logs for a process that may be asked to end. From then on it is no error that this replica
// leads no more, or that a call is broken off, and nobody is to be woken up for that.
type ending struct {
	slog.Handler

	asked <-chan struct{}
}

// Handle passes on all records while nobody has asked. From then on the lead that is given up goes untold, since the
// end itself is logged, and what was broken off is told as information: it may be an event that nobody will see.
func (h ending) Handle(ctx context.Context, r slog.Record) error {
	select {
	case <-h.asked:
		switch err := errorIn(r); {
		case err != nil && err.Error() == lostLead:
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
func (h ending) WithAttrs(attrs []slog.Attr) slog.Handler {
	return ending{h.Handler.WithAttrs(attrs), h.asked}
}

// WithGroup keeps what these records are watched for.
func (h ending) WithGroup(name string) slog.Handler {
	return ending{h.Handler.WithGroup(name), h.asked}
}

// errorIn gives the error that a record tells of, or nil.
func errorIn(r slog.Record) error {
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
