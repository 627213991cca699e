package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// mutant is one small change of the code.
type mutant struct {
	id       int // what switches it on, unique in its package
	file     string
	function string
	operator string
	text     string // the code that it changes, on one line
	ordinal  int    // above 1 where an earlier mutant of the function has the same operator and text
	line     int
}

// key names the mutant in survivors.txt. It holds while other code of the file changes.
func (m *mutant) key() string {
	text := m.text
	if m.ordinal > 1 {
		text += fmt.Sprintf(" #%d", m.ordinal)
	}
	return strings.Join([]string{m.file, m.function, m.operator, text}, " | ")
}

// insertion is text that is added to a file before or after a node. Mutants only ever add text, so they nest as their
// nodes do.
type insertion struct {
	offset int
	before bool // of a node, in place of after it
	size   int  // of the node
	level  int  // 1 for a statement, which stands around an expression of the same size
	order  int  // among insertions for the same node: a later one stands around an earlier one
	text   string
}

// mutator collects the mutants of a package, file by file.
type mutator struct {
	pkg     *checked
	mutants []*mutant
	dropped map[string]map[int]bool // lines by file where a mutant doesn't compile

	// The state of the file that is being walked.
	file       *ast.File
	name       string
	source     []byte
	function   string
	insertions []insertion
	seen       map[string]int
	constant   map[ast.Expr]bool // expressions that must stay constant, or whose value doesn't matter
	open       map[ast.Node]bool // blocks and clauses that need not end in a return
}

// add stores a mutant that changes the node and returns its ID, or reports that the line can't hold one.
func (m *mutator) add(node ast.Node, operator, text string) (int, bool) {
	line := m.pkg.fset.Position(node.Pos()).Line
	if m.dropped[m.name][line] {
		return 0, false
	}
	mu := &mutant{
		id: len(m.mutants) + 1, file: m.name, function: m.function, operator: operator, text: oneLine(text), line: line,
	}
	mu.ordinal = 1
	m.seen[mu.key()]++
	mu.ordinal = m.seen[mu.key()]
	m.mutants = append(m.mutants, mu)
	return mu.id, true
}

// wrap adds text before and after a node.
func (m *mutator) wrap(node ast.Node, before, after string) {
	from, to := m.offset(node.Pos()), m.offset(node.End())
	level := 0
	if _, ok := node.(ast.Stmt); ok {
		level = 1
	}
	n := len(m.insertions)
	m.insertions = append(m.insertions,
		insertion{offset: from, before: true, size: to - from, level: level, order: n, text: before},
		insertion{offset: to, size: to - from, level: level, order: n, text: after})
}

// compareInsertions orders insertions as their text follows each other in the file.
func compareInsertions(a, b insertion) int {
	if a.offset != b.offset {
		return cmp.Compare(a.offset, b.offset)
	}
	if a.before != b.before {
		if b.before {
			return -1
		}
		return 1
	}
	inner := cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.level, b.level), cmp.Compare(a.order, b.order))
	if a.before {
		return -inner
	}
	return inner
}

// rewrite returns the source of the file that was walked, with all its mutants.
func (m *mutator) rewrite() []byte {
	slices.SortStableFunc(m.insertions, compareInsertions)
	var b bytes.Buffer
	at := 0
	for _, in := range m.insertions {
		b.Write(m.source[at:in.offset])
		b.WriteString(in.text)
		at = in.offset
	}
	b.Write(m.source[at:])
	return b.Bytes()
}

func (m *mutator) offset(pos token.Pos) int { return m.pkg.fset.Position(pos).Offset }

// text returns the source of a node.
func (m *mutator) text(node ast.Node) string {
	return string(m.source[m.offset(node.Pos()):m.offset(node.End())])
}

// oneLine returns the code without line breaks, cut to a length that suits a list.
func oneLine(code string) string {
	const limit = 90
	code = strings.Join(strings.Fields(code), " ")
	if runes := []rune(code); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return code
}
