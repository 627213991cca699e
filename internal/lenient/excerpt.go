package lenient

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// maxQuoted bounds what a message quotes of a value, which may be as large as an object can be: a
// status that repeats such a value is refused by the API server.
const maxQuoted = 64

// Quote returns a word in quotes, and of a long one the beginning. A password in a URL is left out.
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

// Excerpt returns JSON as one line that is fit to be shown, and of long JSON the beginning.
func Excerpt(json string) string {
	text := sanitize.Line(maxQuoted+len("…"), json)
	if len(json) <= maxQuoted {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.TrimSuffix(text, "…"), len(json))
}
