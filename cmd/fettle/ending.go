package main

import (
	"context"
	"log/slog"
)

// lostLead is what controller-runtime logs as an error whenever a leader ends, also one that was asked to.
const lostLead = "leader election lost"

// ending is a handler of logs for a process that may be asked to end. From then on it is no error that this replica
// leads no more, and nobody is to be woken up for that.
type ending struct {
	slog.Handler

	asked <-chan struct{}
}

// Handle passes on all other records, and this one too while nobody has asked.
func (h ending) Handle(ctx context.Context, r slog.Record) error {
	select {
	case <-h.asked:
		if saysLeadIsLost(r) {
			return nil
		}
	default:
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

func saysLeadIsLost(r slog.Record) bool {
	lost := false
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		lost = is && err.Error() == lostLead
		return !lost
	})
	return lost
}
