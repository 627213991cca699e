package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// TestLeadThatIsGivenUpIsNoError: who was asked to end leads no more, which is no error; whoever was not has lost
// the lease. All else is logged either way.
func TestLeadThatIsGivenUpIsNoError(t *testing.T) {
	var out bytes.Buffer
	ctx, ask := context.WithCancel(t.Context())
	log := logr.FromSlogHandler(ending{slog.NewTextHandler(&out, nil), ctx.Done()}).WithName("manager").WithValues("part", "election")
	tell := func() string {
		out.Reset()
		log.Error(errors.New(lostLead), "error received after stop sequence was engaged")
		log.Error(errors.New("another"), "error received after stop sequence was engaged")
		log.Info(lostLead)
		return out.String()
	}
	if all := tell(); strings.Count(all, "\n") != 3 {
		t.Errorf("before anybody asked it to end, it logs\n%s", all)
	}
	ask()
	rest := tell()
	if strings.Count(rest, "\n") != 2 || strings.Contains(rest, `err="leader election lost"`) || !strings.Contains(rest, "err=another") || !strings.Contains(rest, "part=election") {
		t.Errorf("after that it logs\n%s", rest)
	}
}
