package legible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostQuoted bounds what a message quotes of a value, which may be as large as an object can be: a
// status that repeats such a value is refused by the API server.
const mostQuoted = 64

// Quote gives a word in quotes, and of a long one the beginning.
func Quote(word string) string {
	if len(word) <= mostQuoted {
		return fmt.Sprintf("%q", word)
	}
	return fmt.Sprintf("%q… (%d bytes)", Cut(word, mostQuoted), len(word))
}

// Excerpt gives JSON in one line as it is written, and of long JSON the beginning.
func Excerpt(json string) string {
	if len(json) <= mostQuoted {
		return oneLine(json)
	}
	return fmt.Sprintf("%s… (%d bytes)", oneLine(Cut(json, mostQuoted)), len(json))
}

// Cut gives the first bytes of a text, up to the end of a letter.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func oneLine(text string) string {
	return strings.Map(func(letter rune) rune {
		if unicode.IsControl(letter) {
			return ' '
		}
		return letter
	}, strings.ToValidUTF8(text, "�"))
}
