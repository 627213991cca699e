package contain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/contain"
)

var errPlain = errors.New("plain")

type tree struct{ left *tree }

func fell(t *tree) *tree { return t.left }

func TestRun(t *testing.T) {
	cases := map[string]struct {
		do       func() error
		panicked bool
		says     string
	}{
		"nothing happens":       {func() error { return nil }, false, ""},
		"an error is itself":    {func() error { return errPlain }, false, "plain"},
		"a panic":               {func() error { panic("the sky falls") }, true, "panic: the sky falls, at contain_test.TestRun.func3 (contain_test.go:"},
		"a nil pointer":         {func() error { _ = fell(nil); return nil }, true, "nil pointer dereference, at contain_test."},
		"a panic with an error": {func() error { panic(errPlain) }, true, "panic: plain, at contain_test."},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			err := contain.Run(tc.do)
			_, panicked := errors.AsType[*contain.PanicError](err)
			if (err == nil) != (tc.says == "") || panicked != tc.panicked || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("it returns %v, want %q", err, tc.says)
			}
		})
	}
}

// deep panics after a number of nested calls.
func deep(calls int) error {
	if calls == 0 {
		panic("deep down")
	}
	return deep(calls - 1)
}

// TestPanicIsBounded, so that it fits into a log line.
func TestPanicIsBounded(t *testing.T) {
	text := contain.Run(func() error { return deep(1000) }).Error()
	if got := strings.Count(text, "contain_test.deep"); got != 6 || len(text) > 1000 {
		t.Errorf("it names %d calls in %d bytes: %s", got, len(text), text)
	}
}

// A panic near the start of its goroutine names the calls that there are, and no more.
func TestPanicOfAFewCalls(t *testing.T) {
	said := make(chan string)
	go func() { said <- contain.Run(func() error { panic("at once") }).Error() }()
	text := <-said
	if !strings.Contains(text, "contain_test.TestPanicOfAFewCalls") || strings.Contains(text, "(.:0)") {
		t.Errorf("it names other calls: %s", text)
	}
}

// TestGroup: Wait waits for all, and raises the first panic with its place.
func TestGroup(t *testing.T) {
	var quiet contain.Group
	done := false
	quiet.Go(func() { done = true })
	quiet.Wait()
	if !done {
		t.Error("it did not wait")
	}
	var g contain.Group
	ended := false
	release := make(chan struct{})
	g.Go(func() { panic("the sky falls") })
	g.Go(func() {
		<-release
		ended = true
	})
	err := contain.Run(func() error {
		close(release)
		g.Wait()
		return nil
	})
	if _, panicked := errors.AsType[*contain.PanicError](err); !panicked || !ended || !strings.Contains(err.Error(), "falls, at contain_test.TestGroup.func") {
		t.Errorf("it raises %v; the other has ended: %t", err, ended)
	}
	for range 2 {
		if again := contain.Run(func() error { g.Wait(); return nil }); !errors.Is(again, err) {
			t.Errorf("it raises %v when waited for again", again)
		}
	}
}
