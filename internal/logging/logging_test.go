package logging_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/logging"
	"github.com/fettle-io/fettle/internal/sanitize"
)

func newLog(t *testing.T, to io.Writer, level, format string) logr.Logger {
	t.Helper()
	handler, err := logging.New(to, level, format)
	if err != nil {
		t.Fatal(err)
	}
	return logr.FromSlogHandler(handler)
}

// TestI15LogIsFitToShow: text of other parties is harmless and short in both formats of the log.
func TestI15LogIsFitToShow(t *testing.T) {
	poison := "\x1b[2J\r\u009b\u202e\u2028https://me:SECRET@h/" + strings.Repeat("x", 1<<20)
	foreign := apierrors.NewGenericServerResponse(502, "get", schema.GroupResource{Resource: "nodes"}, "", "SECRET", 0, true)
	var out bytes.Buffer
	for _, name := range []string{"json", "text"} {
		out.Reset()
		log := newLog(t, &out, "info", name).WithName("x").WithValues("policy", poison)
		log.Info(poison, "node", poison, "list", []string{poison}, "struct", struct{ Name string }{poison}, "number", 7)
		log.Error(fmt.Errorf("listing: %w", errors.Join(foreign, errors.New(poison))), "it failed", "target", poison)
		got := out.String()
		if strings.Count(got, "\n") != 2 || len(got) > 20*4096 {
			t.Errorf("%s: it has %d lines and %d bytes", name, strings.Count(got, "\n"), len(got))
		}
		if bad := strings.IndexFunc(strings.ReplaceAll(got, "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }); bad >= 0 {
			t.Errorf("%s: it has %q", name, got[bad:bad+8])
		}
		if strings.Contains(got, "SECRET") {
			t.Errorf("%s: it has what is secret: %.300s", name, got)
		}
		if !strings.Contains(got, "502") || !strings.Contains(got, "[2J") {
			t.Errorf("%s: it does not say what happened: %.300s", name, got)
		}
	}
}

// TestLogKeepsValues: the log keeps values that are safe to show.
func TestLogKeepsValues(t *testing.T) {
	var out bytes.Buffer
	log := newLog(t, &out, "info", "json")
	log.Info("größer", "list", []string{"a", "b"}, "number", 7, "yes", true)
	if want := `"msg":"größer","list":["a","b"],"number":7,"yes":true}`; !strings.Contains(out.String(), want) {
		t.Errorf("it is %s, want %s", out.String(), want)
	}
}

// TestFlags: a level drops what is below it, and an unknown word is refused with the flag that it comes from.
func TestFlags(t *testing.T) {
	var out bytes.Buffer
	log := newLog(t, &out, "warn", "text")
	log.Info("quiet")
	log.Error(nil, "loud")
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "level=ERROR msg=loud") {
		t.Errorf("it is %s", got)
	}
	for want, flags := range map[string][2]string{
		`--log-level is "loud"; it must be debug`: {"loud", "json"}, `--log-format is "rhyme"; it must be json or text`: {"info", "rhyme"},
	} {
		if _, err := logging.New(&out, flags[0], flags[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

// TestLogOfOtherValues: a value that JSON can't express is text, and so is a long one.
func TestLogOfOtherValues(t *testing.T) {
	var out bytes.Buffer
	log := newLog(t, &out, "info", "json")
	of := func(size int) []string { return []string{strings.Repeat("x", size-len(`[""]`))} }
	for want, value := range map[string]any{
		`"value":"map[true:1]"}`:                  map[bool]int{true: 1},
		`"value":["` + of(sanitize.MaxMessage)[0]: of(sanitize.MaxMessage),
		`"value":"[\"xxx`:                         of(sanitize.MaxMessage + 1),
	} {
		out.Reset()
		log.Info("m", "value", value)
		if !strings.Contains(out.String(), want) {
			t.Errorf("it is %.200s, want %.200s", out.String(), want)
		}
	}
}
