package openshift

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostQuoted bounds what a message quotes of a value, and mostSaid the message. Values may be as large
// as objects can be, and a status that repeats them is refused.
const (
	mostQuoted = 64
	mostSaid   = 2048
)

// quoted gives a value in quotes, and of a long one the beginning.
func quoted(value string) string {
	if len(value) <= mostQuoted {
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprintf("%q… (%d bytes)", cut(value, mostQuoted), len(value))
}

// excerpt gives JSON as it is written, and of long JSON the beginning.
func excerpt(json string) string {
	json = strings.Map(func(letter rune) rune {
		if unicode.IsControl(letter) {
			return ' '
		}
		return letter
	}, strings.ToValidUTF8(json, "�"))
	if len(json) <= mostQuoted {
		return json
	}
	return fmt.Sprintf("%s… (%d bytes)", cut(json, mostQuoted), len(json))
}

// cut gives the first bytes of a text, up to the end of a letter.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
