package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
)

// TestReasonsSayWhy: each reason has a text of its own.
func TestReasonsSayWhy(t *testing.T) {
	t.Parallel()
	seen := map[string]Reason{NoWatchdog.text(): NoWatchdog}
	for _, r := range []Reason{
		NotSelected, WatchdogTimeout, NoWitnesses, TimesOutOfBounds, StateLost, StateNotStored, NoAnswer, NoPolicies, EarlierBoot, NoCertificate, NotListening,
		Condemned, NotReset, Overdue, NoBootTimer, NotPetted, NotDisarmed, Promising, Disarmed,
	} {
		if other, is := seen[r.text()]; is {
			t.Errorf("%s has the text of %s: %s", r, other, r.text())
		}
		seen[r.text()] = r
	}
}

// TestEventOf: an event of a node has the type of its reason, and a bounded message.
func TestEventOf(t *testing.T) {
	t.Parallel()
	const longest = 4096
	now := time.Unix(0, 0x1234)
	for r, want := range map[Reason]string{Promising: eventNormal, NotSelected: eventNormal, Disarmed: eventNormal, Condemned: eventWarning, NoAnswer: eventWarning} {
		if e := eventOf("n", Note{Reason: r}, now); e.Type != want || e.Metadata.Name != "n.1234" || e.Message != r.text() {
			t.Errorf("the event of %s is %+v", r, e)
		}
	}
	e := eventOf("n", Note{Reason: NoAnswer, Err: errors.New(strings.Repeat("x", 2*longest))}, now)
	if len(e.Message) != longest || !strings.HasPrefix(e.Message, NoAnswer.text()+": xxx") {
		t.Errorf("a long message has %d bytes, want %d: %s", len(e.Message), longest, e.Message)
	}
}

// TestTheLogIsComplete: a reporter logs all notes before its end. It logs each event that was not created.
func TestTheLogIsComplete(t *testing.T) {
	t.Parallel()
	s, err := NewServer(&rest.Config{Host: "http://127.0.0.1:1", Dial: Direct})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})
	r := NewReporter(s, "n", func() time.Time { return time.Unix(0, 0) }, log)
	r.Tell(Note{Reason: Promising})
	r.Tell(Note{Reason: Disarmed})
	ended, end := context.WithCancel(t.Context())
	end()
	r.drain()
	if len(lines) != 2 {
		t.Errorf("the log is %q", lines)
	}
	lines = nil
	for range 40 {
		r.Tell(Note{Reason: Disarmed})
	}
	r.Run(ended)
	if count := strings.Count(strings.Join(lines, "\n"), Disarmed.text()); count != 40 {
		t.Errorf("of 40 notes, %d are in the log", count)
	}
	lines = nil
	r.send(ended, Note{Reason: NoAnswer})
	if len(lines) != 1 || !strings.Contains(lines[0], "an event was not created") {
		t.Errorf("the log is %q", lines)
	}
}
