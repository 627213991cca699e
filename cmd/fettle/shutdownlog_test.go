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

// TestRequestedEndIsNoError: during a shutdown, the end of leadership and cancelled calls are
// no errors. Otherwise the replica has lost its lease, or a call failed. All other records are
// logged.
func TestRequestedEndIsNoError(t *testing.T) {
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
		t.Errorf("before the signal to end, it logs\n%s", before)
	}
	ask()
	rest := tell()
	if initials(rest) != "IEEI" || !strings.Contains(rest, "Unable to write event") || strings.Contains(rest, `err="`+leaderElectionLost) || strings.Count(rest, "part=election") != 4 {
		t.Errorf("after that it logs\n%s", rest)
	}
}

// TestWhatWasBrokenOffKeepsToTheLevel: information isn't logged at the level of errors.
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
