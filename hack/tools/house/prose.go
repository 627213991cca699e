package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// baselineName is the file that says how often each phrase may be used.
const baselineName = "hack/prose.txt"

// phrases are counted in comments of Go, in its strings and in documents, also where a line ends within one.
var phrases = [...]string{
	"somebody", "somebody's", "nobody", "anybody", "everyone", "whoever", "one that", "ones that", "those that", "those who", "is asked", "what is asked",
}

// beginnings are counted where a comment on a function begins with them, after the function's name.
var beginnings = [...]string{"gives", "tells"}

// usage is by phrase where it is used.
type usage map[string][]string

// counter collects places by phrase.
type counter struct {
	patterns map[string]*regexp.Regexp
	found    usage
}

// uses returns where each phrase is used.
func uses(files tree) (usage, error) {
	c := counter{patterns: patterns(), found: usage{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case isDocument(name):
			c.count(name, 1, strings.Join(prose(files[name]), "\n"))
			if isPage(name) {
				c.countSentences(name, files[name])
			}
		case strings.HasSuffix(name, ".go"):
			if err := c.countGo(name, files[name]); err != nil {
				return nil, err
			}
		}
	}
	return c.found, nil
}

// names returns the phrases as the baseline has them.
func names() []string {
	all := slices.Clone(phrases[:])
	for _, word := range beginnings {
		all = append(all, beginning(word))
	}
	return append(all, longSentence, headless, headlessComment, headlessClause)
}

func beginning(word string) string { return "func " + word }

// countGo counts the comments and strings of a Go file, unless a tool wrote it.
func (c counter) countGo(name, text string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", name, err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	line := func(pos token.Pos) int { return set.Position(pos).Line }
	for _, group := range file.Comments {
		c.count(name, line(group.Pos()), bare(group))
		c.countComment(name, line(group.Pos()), bare(group))
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				c.count(name, line(node.Pos()), node.Value)
			}
		case *ast.FuncDecl:
			c.countBeginning(name, line(node.Pos()), node)
		}
		return true
	})
	return nil
}

// bare returns a comment line by line, without its marks.
func bare(group *ast.CommentGroup) string {
	var lines []string
	for _, comment := range group.List {
		text := strings.TrimPrefix(comment.Text, "//")
		lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(text, "/*"), "*/"))
	}
	return strings.Join(lines, "\n")
}

func (c counter) countBeginning(name string, line int, f *ast.FuncDecl) {
	words := strings.Fields(f.Doc.Text())
	if len(words) < 2 || words[0] != f.Name.Name {
		return
	}
	for _, word := range beginnings {
		if words[1] == word {
			c.add(beginning(word), name, line)
		}
	}
}

// patterns returns the phrases as they stand in text.
func patterns() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for _, phrase := range phrases {
		all[phrase] = regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(phrase, " ", `\s+`) + `\b`)
	}
	return all
}

// count counts the phrases of a text that begins at a line of a file.
func (c counter) count(name string, line int, text string) {
	for phrase, pattern := range c.patterns {
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			c.add(phrase, name, line+strings.Count(text[:at[0]], "\n"))
		}
	}
}

func (c counter) add(phrase, name string, line int) {
	c.found[phrase] = append(c.found[phrase], fmt.Sprintf("%s:%d", name, line))
}

// errBaseline is returned when the baseline is not what lowerBaseline writes.
var errBaseline = errors.New(baselineName + ": want each phrase once, on a line of its own, after its count")

// readBaseline returns by phrase how often it may be used.
func readBaseline(files tree) (map[string]int, error) {
	limits := map[string]int{}
	for line := range strings.Lines(files[baselineName]) {
		count, phrase, _ := strings.Cut(strings.TrimSpace(line), " ")
		limit, err := strconv.Atoi(count)
		if _, twice := limits[phrase]; err != nil || twice || !slices.Contains(names(), phrase) {
			return nil, fmt.Errorf("%w; have %q", errBaseline, strings.TrimSpace(line))
		}
		limits[phrase] = limit
	}
	if len(limits) != len(names()) {
		return nil, errBaseline
	}
	return limits, nil
}

// above returns the phrases that are used more often than they may be.
func above(limits map[string]int, found usage) []string {
	var lines []string
	for _, phrase := range names() {
		if have, limit := len(found[phrase]), limits[phrase]; have > limit {
			lines = append(lines, fmt.Sprintf("%q: %d, and at most %d; hack/check-house -list %q prints where", phrase, have, limit, phrase))
		}
	}
	return lines
}

// below returns the phrases whose count can be lowered.
func below(limits map[string]int, found usage) []string {
	var lines []string
	for _, phrase := range names() {
		if have, limit := len(found[phrase]), limits[phrase]; have < limit {
			lines = append(lines, fmt.Sprintf("%q: %d, where %s allows %d; hack/check-house -lower lowers it", phrase, have, baselineName, limit))
		}
	}
	return lines
}

// lowerBaseline writes the counts of phrases that are used less often than they may be.
func lowerBaseline(root string, limits map[string]int, found usage) error {
	var text strings.Builder
	for _, phrase := range names() {
		fmt.Fprintf(&text, "%d %s\n", min(limits[phrase], len(found[phrase])), phrase)
	}
	if err := os.WriteFile(filepath.Join(root, baselineName), []byte(text.String()), 0o644); err != nil { //nolint:gosec // anyone may read it
		return fmt.Errorf("lowering counts: %w", err)
	}
	return nil
}

// listPhrase prints where a phrase is used.
func listPhrase(files tree, phrase string, out io.Writer) error {
	if !slices.Contains(names(), phrase) {
		return fmt.Errorf("%q is no phrase of %s; they are %q", phrase, baselineName, names()) //nolint:err113 // for people alone
	}
	found, err := uses(files)
	if err != nil {
		return err
	}
	for _, place := range found[phrase] {
		fmt.Fprintln(out, place)
	}
	return nil
}
