package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// TestEndThatWasAskedForIsNoError: who was asked to end leads no more and breaks off its calls, which is no error;
// whoever was not has lost the lease, or fails. All else is logged either way.
func TestEndThatWasAskedForIsNoError(t *testing.T) {
	var out bytes.Buffer
	ctx, ask := context.WithCancel(t.Context())
	log := logr.FromSlogHandler(shutdownHandler{slog.NewTextHandler(&out, nil), ctx.Done()}).WithName("manager").WithValues("part", "election")
	tell := func() string {
		out.Reset()
		log.Error(errors.New(leaderElectionLost), "error received after stop sequence was engaged")
		log.Error(&url.Error{Op: "Post", URL: "https://cluster/events", Err: context.Canceled}, "Unable to write event")
		log.Error(fmt.Errorf("reading a node: %w", context.DeadlineExceeded), "error of a call")
		log.Error(nil, "error of nothing")
		log.Info(leaderElectionLost)
		return out.String()
	}
	initials := func(log string) string {
		var all string
		for line := range strings.Lines(log) {
			_, level, _ := strings.Cut(line, "level=")
			all += level[:1]
		}
		return all
	}
	if before := tell(); initials(before) != "EEEEI" {
		t.Errorf("before anybody asked it to end, it logs\n%s", before)
	}
	ask()
	rest := tell()
	if initials(rest) != "IEEI" || !strings.Contains(rest, "Unable to write event") || strings.Contains(rest, `err="`+leaderElectionLost) || strings.Count(rest, "part=election") != 4 {
		t.Errorf("after that it logs\n%s", rest)
	}
}

// TestWhatWasBrokenOffKeepsToTheLevel: as information it goes untold where only errors are asked for.
func TestWhatWasBrokenOffKeepsToTheLevel(t *testing.T) {
	var out bytes.Buffer
	ctx, ask := context.WithCancel(t.Context())
	log := logr.FromSlogHandler(shutdownHandler{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}), ctx.Done()})
	ask()
	log.Error(context.Canceled, "Unable to write event")
	if out.Len() > 0 {
		t.Errorf("it logs %s", out.String())
	}
}
