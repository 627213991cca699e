package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var (
	fence    = regexp.MustCompile("^\\s*(```|~~~)")
	heading  = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*\s*$`)
	inText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	explicit = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
)

// prose returns the lines of a page, with those of code blocks empty.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	code := false
	for i, line := range lines {
		bound := fence.MatchString(line)
		if bound {
			code = !code
		}
		if bound || code {
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the names of a page's sections, as GitHub makes them of headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, line := range prose(text) {
		for _, match := range explicit.FindAllStringSubmatch(line, -1) {
			names[match[1]] = true
		}
		match := heading.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		base := slug(match[1])
		name := base
		for n := 1; names[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		names[name] = true
	}
	return names
}

// slug returns the anchor of a heading: in lower case, with hyphens for spaces and without punctuation.
func slug(title string) string {
	title = inText.ReplaceAllString(title, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		default:
			return -1
		}
	}, title)
}
