package specparse

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

func TestBackoff(t *testing.T) {
	usual := core.DefaultBackoff()
	changed := func(change func(*core.Backoff)) core.Backoff {
		b := usual
		change(&b)
		return b
	}
	at := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	for sentence, tc := range map[string]struct {
		annotations map[string]string
		want        core.Backoff
		problems    []string
	}{
		"nothing":           {nil, usual, nil},
		"a base":            {map[string]string{annotation.BackoffBase: "7s"}, changed(func(b *core.Backoff) { b.Base = 7 * time.Second }), nil},
		"a limit":           {map[string]string{annotation.BackoffLimit: "7m"}, changed(func(b *core.Backoff) { b.Limit = 7 * time.Minute }), nil},
		"a limit below all": {map[string]string{annotation.BackoffLimit: "1s"}, changed(func(b *core.Backoff) { b.Base, b.Limit = time.Second, time.Second }), nil},
		"an end": {map[string]string{annotation.GiveUpAfter: "3", annotation.ResumedAt: "2026-01-31T12:00:00Z"},
			changed(func(b *core.Backoff) { b.GiveUpAfter, b.ResumedAt = 3, at }), nil},
		"a wrong base": {map[string]string{annotation.BackoffBase: "0s", annotation.BackoffLimit: "7m", annotation.GiveUpAfter: "3"}, usual,
			[]string{annotation.BackoffBase}},
		"a wrong limit": {map[string]string{annotation.BackoffBase: "7s", annotation.BackoffLimit: "soon"}, usual, []string{annotation.BackoffLimit}},
		"all is wrong": {map[string]string{annotation.BackoffBase: "", annotation.BackoffLimit: "", annotation.GiveUpAfter: "", annotation.ResumedAt: ""}, usual,
			[]string{annotation.BackoffBase, annotation.BackoffLimit, annotation.GiveUpAfter, annotation.ResumedAt}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := Backoff(tc.annotations)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("back-off (-want +got):\n%s", diff)
			}
			wantKeys(t, err, tc.problems)
		})
	}
}

// wantKeys checks that each error is about the annotation of this place.
func wantKeys(t *testing.T, err error, keys []string) {
	t.Helper()
	lines := ErrorLines(err)
	if len(lines) != len(keys) {
		t.Errorf("the error is %v, want those of %q", err, keys)
		return
	}
	for i, key := range keys {
		if !strings.HasPrefix(lines[i], "annotation "+key+" is ") {
			t.Errorf("the error is %s, want that of %s", lines[i], key)
		}
	}
}

func TestStormCooldown(t *testing.T) {
	if got, err := StormCooldown(nil); got != core.DefaultStormCooldown || err != nil {
		t.Errorf("without the annotation the wait is %s, %v", got, err)
	}
	for text, want := range map[string]time.Duration{"30s": 30 * time.Second, "0s": 0, "": -1, "30": -1, "-5m": -1, "soon": -1} {
		got, err := StormCooldown(map[string]string{annotation.StormCooldown: text})
		if want < 0 {
			wantKeys(t, err, []string{annotation.StormCooldown})
			want = core.DefaultStormCooldown
		} else if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got != want {
			t.Errorf("%q is read as %s, want %s", text, got, want)
		}
		if err != nil && !strings.HasSuffix(err.Error(), "; give a duration such as 30s, or 0s for no wait") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
