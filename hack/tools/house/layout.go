package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxWidth is how wide the text of a page may be.
	maxWidth = 100
	// maxWords is the most words of a sentence that longSentence doesn't count.
	maxWords = 25
	// longSentence is the name of sentences of more than maxWords words in the baseline.
	longSentence = "sentence over 25 words"
	// headless is the name of sentences that begin with a headless what, and so are no questions.
	headless = "sentence with a headless what"
	// headlessComment is the name of the same in comments of Go, and headlessClause of clauses of both that begin so after a colon or semicolon.
	headlessComment = "comment with a headless what"
	headlessClause  = "clause with a headless what"
)

var (
	mark      = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+`)
	inCode    = regexp.MustCompile("``[^`]*(?:`[^`]+)*``|`[^`]*`")
	linked    = regexp.MustCompile(`!?\[[^\]]*\]\([^)]*\)`)
	tag       = regexp.MustCompile(`<[^>]*>`)
	endOfText = regexp.MustCompile(`[.!?][)"'”]*\s+`)
	what      = regexp.MustCompile(`^\s*What\s`)
	clause    = regexp.MustCompile(`[:;]\s+what\s`)
)

// isPage reports whether users or contributors read a file as a page of documentation.
func isPage(name string) bool {
	return isDocument(name) && (strings.HasPrefix(name, "docs/") || !strings.Contains(name, "/"))
}

// isRow reports whether a line is a row of a table.
func isRow(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "|") }

// text returns the lines of a page, with those of code empty, whether fences or an indentation mark it.
func text(page string) []string {
	lines := prose(page)
	item, blank, code := 0, true, false // the column at which the text of the item of a list begins; what was before
	for i, line := range lines {
		column := len(line) - len(strings.TrimLeft(line, " "))
		if column == len(line) {
			blank = true
			continue
		}
		code = column >= item+4 && (blank || code)
		switch {
		case code:
			lines[i] = ""
		case mark.MatchString(line):
			item = len(mark.FindString(line))
		default:
			item = min(item, column)
		}
		blank = false
	}
	return lines
}

// isOneWord reports whether a line can't be broken. A link and code in a line are a word each.
func isOneWord(line string) bool {
	return len(strings.Fields(plain(mark.ReplaceAllString(line, "")))) <= 1
}

// wide returns the lines of pages that are wider than maxWidth. Rows of tables, code, headings and lines of one word may be.
func wide(files tree) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !isPage(name) {
			continue
		}
		for i, line := range text(files[name]) {
			width := utf8.RuneCountInString(line)
			if width <= maxWidth || isRow(line) || heading.MatchString(line) || isOneWord(line) {
				continue
			}
			found = append(found, fmt.Sprintf("%s:%d: %d", name, i+1, width))
		}
	}
	return found
}

// block is text that no sentence leaves: a paragraph, an item of a list, or a cell of a table.
type block struct {
	line int
	text string
}

// blocks returns the blocks of a page, without headings.
func blocks(page string) []block {
	var all []block
	open := false
	for i, line := range text(page) {
		switch {
		case strings.TrimSpace(line) == "", heading.MatchString(line):
			open = false
		case isRow(line):
			open = false
			for cell := range strings.SplitSeq(inCode.ReplaceAllString(line, "`code`"), "|") {
				all = append(all, block{i + 1, cell})
			}
		case !open || mark.MatchString(line):
			open = true
			all = append(all, block{i + 1, mark.ReplaceAllString(line, "")})
		default:
			all[len(all)-1].text += "\n" + line
		}
	}
	return all
}

// countSentences counts the sentences of a page that have more than maxWords words or begin with a headless what. A link and code in a line are
// a word each, and so are several of them that a list has. A list of tests is no sentence.
func (c counter) countSentences(name, page string) {
	for _, b := range blocks(page) {
		line := b.line
		for _, sentence := range sentences(plain(b.text)) {
			if words(sentence) > maxWords && !strings.HasPrefix(sentence, "Tests") {
				c.add(longSentence, name, line)
			}
			c.countHeadless(headless, name, line, sentence)
			line += strings.Count(sentence, "\n")
		}
	}
}

// countComment counts the sentences of a comment that begin with a headless what.
func (c counter) countComment(name string, line int, text string) {
	for _, sentence := range sentences(text) {
		c.countHeadless(headlessComment, name, line, sentence)
		line += strings.Count(sentence, "\n")
	}
}

// countHeadless counts a sentence that begins with a headless what under a name, and its clauses that do.
func (c counter) countHeadless(as, name string, line int, sentence string) {
	if strings.Contains(sentence, "?") {
		return
	}
	if what.MatchString(sentence) {
		c.add(as, name, line)
	}
	for _, at := range clause.FindAllStringIndex(sentence, -1) {
		c.add(headlessClause, name, line+strings.Count(sentence[:at[0]], "\n"))
	}
}

// oneWord stands for a link or for code, and for several with commas between them. No text has it.
const oneWord = "\uE000X"

var several = regexp.MustCompile(oneWord + `\n?(?:,\s+` + oneWord + `\n?)+`)

// plain returns the text of a block without its marks. It has a word for each link and for each code, and one for several of them
// that a list has. It keeps the ends of lines.
func plain(text string) string {
	word := func(s string) string { return oneWord + strings.Repeat("\n", strings.Count(s, "\n")) }
	text = inCode.ReplaceAllStringFunc(text, word)
	text = linked.ReplaceAllStringFunc(text, word)
	text = several.ReplaceAllStringFunc(tag.ReplaceAllStringFunc(text, word), word)
	return strings.NewReplacer("**", "", "*", "").Replace(text)
}

// sentences returns the sentences of a text, each with the space behind it. An end is followed by no small letter.
func sentences(text string) []string {
	var all []string
	begin := 0
	for _, end := range endOfText.FindAllStringIndex(text, -1) {
		if next, _ := utf8.DecodeRuneInString(text[end[1]:]); !unicode.IsLower(next) {
			all = append(all, text[begin:end[1]])
			begin = end[1]
		}
	}
	return append(all, text[begin:])
}

// words returns how many words a sentence has. Signs that stand alone are none.
func words(sentence string) int {
	count := 0
	for field := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			count++
		}
	}
	return count
}
