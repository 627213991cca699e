package lenient

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// maxQuoted bounds how much of a value a message quotes. A value may be as large as an object can be, and the API
// server refuses a status that repeats it.
const maxQuoted = 64

// Quote returns a word in quotes, and the beginning of a long word. It leaves out a password in a URL.
func Quote(word string) string {
	switch {
	case strings.Contains(word, "://"):
		return `"` + Excerpt(word) + `"`
	case len(word) <= maxQuoted:
		return fmt.Sprintf("%q", word)
	}
	beginning := strings.ToValidUTF8(word[:maxQuoted], "")
	return fmt.Sprintf("%q… (%d bytes)", beginning, len(word))
}

// Excerpt returns JSON as one line that is safe to show, and the beginning of long JSON.
func Excerpt(json string) string {
	text := sanitize.Line(maxQuoted+len("…"), json)
	if len(json) <= maxQuoted {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.TrimSuffix(text, "…"), len(json))
}
