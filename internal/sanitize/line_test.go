package sanitize

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"plain text":                          {`a "b" \x1b %s`, `a "b" \x1b %s`},
		"letters of any script":               {"größer 東京 ∞ 🙂", "größer 東京 ∞ 🙂"},
		"a terminal's escape sequence":        {"a\x1b[2Jb", `a\x1b[2Jb`},
		"an escape sequence of one letter":    {"a\u009b2Jb", `a\u009b2Jb`},
		"other control characters":            {"a\x00\a\b\x7f", `a\x00\x07\x08\x7f`},
		"control characters alone":            {"\x1b\a", `\x1b\x07`},
		"a character that deletes, alone":     {"\x7f", `\x7f`},
		"others beyond ASCII, alone":          {"\u009b\u202e", `\u009b\u202e`},
		"the last of each escape sequence":    {"a\u0080\ufffe\uffff", `a\u0080\ufffe\uffff`},
		"a URL between tabs":                  {"a\t://\tb", "a :// b"},
		"the character that deletes":          {"a\x7fb", `a\x7fb`},
		"white space that looks like a blank": {"a\u00a0b\u3000c", "a b c"},
		"a host with bytes that are no text":  {"https://h\xff/a", "https://***/a"},
		"a carriage return":                   {"good\rbad", "good bad"},
		"a row of a table that is not there":  {"x\nworker-1   healthy\r\n\r\ny", "x worker-1   healthy y"},
		"separators of lines":                 {"a\u2028b\u2029c\u0085d", "a b c d"},
		"text from right to left":             {"a\u202eb\u2066c", `a\u202eb\u2066c`},
		"characters of no width":              {"a\u200bb\ufeffc\u00ad", `a\u200bb\ufeffc\u00ad`},
		"characters beyond the first plane":   {"a\U000e0041", `a\U000e0041`},
		"bytes that are no text":              {"a\xff\xc3", `a\xff\xc3`},
		"a replacement character":             {"a\ufffd", "a\ufffd"},
		"a password":                          {`Get "https://me:it's@h:6443/x?y": no`, `Get "https://***@h:6443/x?y": no`},
		"a password with an at sign":          {"https://me:p@ss@h", "https://***@h"},
		"a password with an escape sequence":  {"https://me:p\x1bss@h", "https://***@h"},
		"a URL in a URL":                      {"a://b://c:d@e", "a://b://***@e"},
		"an at sign in a path":                {"https://h/a@b", "https://h/a@b"},
		"an at sign in the path of a file":    {"file:///a@b", "file:///a@b"},
		"an empty user":                       {"https://@h", "https://***@h"},
		"a host with an escape sequence":      {"https://h\x1b[2J/a", "https://***/a"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := Line(MaxMessage, tc.text); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLineIsCut(t *testing.T) {
	secret := "https://me:" + strings.Repeat("p", 5000) + "@h"
	cases := map[string]struct {
		most int
		text string
		want string
	}{
		"it fits":                        {4, "four", "four"},
		"letters that are not plain fit": {5, "aüü", "aüü"},
		"letters are whole":              {6, "aüüü", "aü…"},
		"escape sequences are whole":     {8, "a\x1b\x1b\x1b", `a\x1b…`},
		"no byte is allowed":             {2, "four", ""},
		"there is room for the ellipsis": {3, "four", "…"},
		"the longest authority":          {MaxMessage, "a://" + strings.Repeat("b", maxAuthority-1), "a://" + strings.Repeat("b", 2047)},
		"a long path":                    {MaxMessage, "a:///" + strings.Repeat("b", maxAuthority), "a:///" + strings.Repeat("b", 2048)},
		"an authority without end":       {MaxMessage, "a://" + strings.Repeat("b", maxAuthority), "a://***…"},
		"an endless user":                {MaxMessage, "a://" + strings.Repeat("u", maxAuthority) + "@" + strings.Repeat("b", 9), "a://***…"},
		"an endless password with an @":  {MaxMessage, "a://me:p@" + strings.Repeat("b", maxAuthority) + "@h", "a://***…"},
		"a long host grows no further":   {MaxMessage, "a://u@" + strings.Repeat("b", maxAuthority-3) + "/c", "a://***/c"},
		"an empty user of a long host":   {MaxMessage, "a://@" + strings.Repeat("b", maxAuthority-4) + "/c", "a://***/c"},
		"the longest host of no user":    {MaxMessage, "a://@" + strings.Repeat("b", maxAuthority-5) + "/c", "a://***@" + strings.Repeat("b", 2043) + "/c"},
		"the longest host of a user":     {MaxMessage, "a://u@" + strings.Repeat("b", maxAuthority-5) + "/c", "a://***@" + strings.Repeat("b", 2043) + "/c"},
		"a host that is not printable":   {MaxMessage, "a://me:p@\x1b/c", "a://***/c"},
		"a user that is not printable":   {MaxMessage, "a://me:\x1b@h/c", "a://***@h/c"},
		"such an authority just fits":    {10, "a://" + strings.Repeat("b", maxAuthority), "a://***…"},
		"such an authority does not fit": {8, "a://" + strings.Repeat("b", maxAuthority), "a…"},
		"a password is never cut in two": {64, secret, "https://***…"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := Line(tc.most, tc.text); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestI15LineReadsNoMoreThanItShows: a text of any size costs what is shown of it.
func TestI15LineReadsNoMoreThanItShows(t *testing.T) {
	long := strings.Repeat("\x1b", 5<<20)
	if n := testing.AllocsPerRun(10, func() { _ = Line(MaxMessage, long) }); n > 3000 {
		t.Errorf("a text of 5 MiB takes %v allocations", n)
	}
	if got := Line(MaxMessage, long); len(got) > MaxMessage || !strings.HasSuffix(got, ellipsis) {
		t.Errorf("a text of 5 MiB becomes one of %d bytes", len(got))
	}
}

// TestI15BoundsOfTexts: the API server accepts 1024 bytes as the note of an event, and 1.5 MiB as an object. A part leaves room
// for others.
func TestI15BoundsOfTexts(t *testing.T) {
	if MaxNote > 1024 || MaxListed > 1<<20 {
		t.Errorf("a note has %d bytes, and a list %d", MaxNote, MaxListed)
	}
	if bounds := []int{MaxBrief, MaxPart, MaxNote, MaxMessage, MaxListed / 100}; !slices.IsSorted(bounds) || len(slices.Compact(bounds)) < 5 {
		t.Errorf("the bounds are %v", bounds)
	}
}

func TestLines(t *testing.T) {
	if got, want := Lines(MaxMessage, "a\n\tb\x1b\r"), "a\n\tb\\x1b "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		"", "a", "a\x1b[2Jb\r\nc", "\u202e\u2066\ufeff\u200b\u2028", "\xff\xc3(", "https://me:p@ss@h/x://y@z", "a://\x1b" + strings.Repeat("b", 3000),
		"://" + strings.Repeat("u", 40) + "@" + strings.Repeat("b", 2000) + "@", "://u@" + strings.Repeat("b", 2045), "://u@" + strings.Repeat("\x1b", 1000), strings.Repeat("ü", 600),
	} {
		f.Add(seed, 64)
		f.Add(seed, MaxMessage)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = min(max(most, 0), MaxMessage)
		got := Line(most, text)
		if len(got) > most {
			t.Errorf("it has %d bytes, and at most %d were to be: %q", len(got), most, got)
		}
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("it has what is not printable: %q", got)
		}
		if again := Line(most, got); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
		if lines := Lines(most, text); len(lines) > most || !utf8.ValidString(lines) {
			t.Errorf("several lines of it are %q", lines)
		}
	})
}
