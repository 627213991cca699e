package sanitize

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds on texts, in bytes.
const (
	// MaxNote is how much the API server accepts for the note of an event.
	MaxNote = 1024
	// MaxMessage bounds the message of a condition, a line of the log and a field that the command line prints.
	// Every definition of a condition accepts more.
	MaxMessage = 4096
	// MaxPart bounds one of several parts of a message, so that no part displaces the others.
	MaxPart = 512
	// MaxBrief bounds a message if the API server refuses the longer one.
	MaxBrief = 128
	// MaxListed bounds a list that Fettle writes into an object. The API server stores no object above 1.5 MiB.
	MaxListed = 512 << 10
)

const ellipsis = "…"

// Line returns the text as one line of at most so many bytes. A text that is cut ends with an ellipsis. White space
// other than blanks becomes one blank, and any other character that is not printable becomes its escape sequence,
// such as \x1b or \u202e. Line leaves out a password in a URL. It returns its own results unchanged.
func Line(most int, text string) string {
	if len(text) <= most && plain(text) {
		return text
	}
	return render(most, text, false)
}

// Lines is Line for a text of Fettle's own that may have several lines. It keeps line feeds and tabs.
func Lines(most int, text string) string { return render(most, text, true) }

// plain reports whether a text is printable ASCII without a URL.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return !strings.Contains(text, "://")
}

// line is a text that is being rendered.
type line struct {
	strings.Builder

	most int
	// fits is the length of the part that is kept if the text is cut.
	fits int
	// lines is set if line feeds and tabs are kept.
	lines bool
	// blank is set after white space.
	blank bool
}

func render(most int, text string, lines bool) string {
	l := line{most: most, lines: lines}
	for len(text) > 0 {
		size, over := l.take(text)
		if text = text[size:]; over || l.Len() > most {
			return l.cut()
		}
	}
	return l.String()
}

// take renders the beginning of the text and returns the size of what it has read. It reports whether the rest
// can't be shown.
func (l *line) take(text string) (size int, over bool) {
	if l.Len() <= l.most-len(ellipsis) {
		l.fits = l.Len()
	}
	if strings.HasPrefix(text, "://") {
		return l.authority(text)
	}
	letter, size := utf8.DecodeRuneInString(text)
	blank := false
	switch {
	case letter == utf8.RuneError && size == 1:
		fmt.Fprintf(l, `\x%02x`, text[0])
	case l.lines && (letter == '\n' || letter == '\t'), unicode.IsPrint(letter):
		l.WriteRune(letter)
	case unicode.IsSpace(letter):
		blank = true
		if !l.blank {
			l.WriteByte(' ')
		}
	case letter < utf8.RuneSelf:
		fmt.Fprintf(l, `\x%02x`, letter)
	case letter <= 0xffff:
		fmt.Fprintf(l, `\u%04x`, letter)
	default:
		fmt.Fprintf(l, `\U%08x`, letter)
	}
	l.blank = blank
	return size, false
}

const (
	// maxAuthority is more than the user, the host and the port of any real URL.
	maxAuthority = 2048
	// afterAuthority are the characters that end an authority. A password may have the others.
	afterAuthority = "/?#\"<> \t\r\n\v\f"
	redacted       = "***"
)

// authority renders the beginning of a URL without its user and password. It leaves out an authority that no URL
// can have, since any part of it may be a password.
func (l *line) authority(text string) (size int, over bool) {
	const begin = len("://")
	l.blank = false
	rest := text[begin:]
	rest = rest[:min(len(rest), maxAuthority)]
	end := strings.IndexAny(rest, afterAuthority)
	endless := end < 0 && len(rest) == maxAuthority
	if end < 0 {
		end = len(rest)
	}
	l.WriteString("://")
	at := strings.LastIndexByte(rest[:end], '@')
	// shown is the length of the rendered authority. It must stay below the bound, since Line returns its own results
	// unchanged.
	shown := end
	if at >= 0 {
		shown = len(redacted) + end - at
	}
	switch {
	case endless || shown >= maxAuthority || strings.ContainsFunc(rest[at+1:end], unprintable):
		l.WriteString(redacted)
		if l.Len() <= l.most-len(ellipsis) {
			l.fits = l.Len()
		}
		return begin + end, endless
	case at >= 0:
		l.WriteString(redacted)
		return begin + at, false
	}
	return begin, false
}

func unprintable(letter rune) bool { return letter == utf8.RuneError || !unicode.IsPrint(letter) }

// cut returns the part that fits, with an ellipsis.
func (l *line) cut() string {
	if l.most < len(ellipsis) {
		return ""
	}
	return l.String()[:l.fits] + ellipsis
}
