package sanitize

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of texts, in bytes.
const (
	// MaxNote is what the API server accepts of the note of an event.
	MaxNote = 1024
	// MaxMessage bounds the message of a condition, a line of the log and a field that the command line prints. Every
	// definition of a condition accepts more than that.
	MaxMessage = 4096
	// MaxPart bounds one of several parts of a message, so that no part displaces the others.
	MaxPart = 512
	// MaxBrief bounds a message where the API server refuses the longer one.
	MaxBrief = 128
	// MaxListed bounds a list that Fettle writes into an object. The API server stores no object above 1.5 MiB.
	MaxListed = 512 << 10
)

const ellipsis = "…"

// Line returns the text as one line of at most so many bytes, and ends a text that is cut with an ellipsis. White space
// other than blanks becomes one blank, and any other character that is not printable its escape sequence, such as \x1b
// or \u202e. A password in a URL is left out. Line does not change what it returned before.
func Line(most int, text string) string {
	if len(text) <= most && plain(text) {
		return text
	}
	return render(most, text, false)
}

// Lines is Line for a text of ours that may have several lines. It keeps line feeds and tabs.
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

// line is a text as it is rendered.
type line struct {
	strings.Builder

	most int
	// fits is the length of what is kept when the text is cut.
	fits int
	// lines is set where line feeds and tabs are kept.
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

// take renders what the text begins with, and returns its size. It reports whether what follows can't be shown.
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
	// maxAuthority is more than the user, the host and the port of any URL that is meant.
	maxAuthority = 2048
	// afterAuthority are the characters that end it. A password may have the others.
	afterAuthority = "/?#\"<> \t\r\n\v\f"
	redacted       = "***"
)

// authority renders the beginning of a URL without its user and password. An authority that no URL can have is left out
// as a whole, since it can't be told which part of it is a password.
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
	// shown is how long the authority would be when it is rendered. It must not become endless: Line returns what it
	// returned before as it is.
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

// cut returns what fits, and shows that more was there.
func (l *line) cut() string {
	if l.most < len(ellipsis) {
		return ""
	}
	return l.String()[:l.fits] + ellipsis
}
