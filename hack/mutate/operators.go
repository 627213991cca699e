package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// walkFile collects the mutants of one file.
func (m *mutator) walkFile(file *ast.File) {
	m.constant, m.open = map[ast.Expr]bool{}, map[ast.Node]bool{}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			m.function = functionName(d)
			if d.Body != nil {
				ast.Inspect(d.Body, m.visit)
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec) //nolint:forcetypeassert // a variable's declaration holds nothing else
				m.function = v.Names[0].Name
				for _, value := range v.Values {
					ast.Inspect(value, m.visit)
				}
			}
		}
	}
}

// visit mutates one node, and reports whether to go on with its parts.
func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR // constants stay constant
	case *ast.ArrayType, *ast.FuncType, *ast.StructType, *ast.MapType, *ast.InterfaceType:
		return false
	case *ast.CallExpr:
		return m.call(n)
	case ast.Stmt:
		m.statement(n)
	case ast.Expr:
		switch n := n.(type) {
		case *ast.BinaryExpr:
			m.binary(n)
		case *ast.CompositeLit:
			m.table(n)
		}
		return m.constantOf(n)
	}
	return true
}

// statement mutates what a statement consists of.
func (m *mutator) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		m.statements(s.List, m.open[s])
	case *ast.CommClause:
		m.statements(s.Body, false)
	case *ast.CaseClause:
		m.statements(s.Body, m.open[s])
	case *ast.SwitchStmt:
		m.cases(s)
	case *ast.TypeSwitchStmt:
		for _, c := range s.Body.List {
			m.keepAll(c.(*ast.CaseClause).List) //nolint:forcetypeassert // a switch holds nothing else
		}
	case *ast.IfStmt:
		m.open[s.Body] = s.Else == nil
		m.negate(s.Cond)
	case *ast.RangeStmt:
		m.open[s.Body] = true
	case *ast.ForStmt:
		m.open[s.Body] = true
		if s.Cond != nil {
			m.negate(s.Cond)
		}
	case *ast.ReturnStmt:
		m.returned(s)
	}
}

// cases negates the conditions of a switch without a tag. The cases of another are values that must differ.
func (m *mutator) cases(s *ast.SwitchStmt) {
	complete := slices.ContainsFunc(s.Body.List, func(c ast.Stmt) bool {
		return c.(*ast.CaseClause).List == nil //nolint:forcetypeassert // a switch holds nothing else
	})
	for _, c := range s.Body.List {
		m.open[c] = !complete
		list := c.(*ast.CaseClause).List //nolint:forcetypeassert // a switch holds nothing else
		if s.Tag != nil {
			m.keepAll(list)
			continue
		}
		for _, cond := range list {
			m.negate(cond)
		}
	}
}

// negate turns a condition around.
func (m *mutator) negate(cond ast.Expr) {
	if m.pkg.info.Types[cond].Value != nil {
		return
	}
	if id, ok := m.add(cond, "negate", m.text(cond)); ok {
		m.wrap(cond, fmt.Sprintf("(mutantOn(%d) != (", id), "))")
	}
}

// returned negates what a function returns, where that is a bool.
func (m *mutator) returned(r *ast.ReturnStmt) {
	for _, result := range r.Results {
		t := m.pkg.info.TypeOf(result)
		if t == nil {
			continue
		}
		if t == types.Typ[types.Bool] || t == types.Typ[types.UntypedBool] {
			if id, ok := m.add(result, "negate result", m.text(r)); ok {
				m.wrap(result, fmt.Sprintf("(mutantOn(%d) != (", id), "))")
			}
		}
	}
}

// binary moves the bound of a comparison, and drops either side of a conjunction or disjunction.
func (m *mutator) binary(b *ast.BinaryExpr) {
	if m.pkg.info.Types[b].Value != nil {
		return
	}
	switch b.Op { //nolint:exhaustive // the others have no neighbour that is worth a mutant
	case token.LSS, token.GTR:
		if id, ok := m.add(b, "move bound", m.text(b)); ok {
			m.wrap(b, "(", fmt.Sprintf(" || mutantOn(%d) && (%s) == (%s))", id, m.flat(b.X), m.flat(b.Y)))
		}
	case token.LEQ, token.GEQ:
		if id, ok := m.add(b, "move bound", m.text(b)); ok {
			m.wrap(b, "(", fmt.Sprintf(" && !(mutantOn(%d) && (%s) == (%s)))", id, m.flat(b.X), m.flat(b.Y)))
		}
	case token.LAND:
		m.dropOperands(b, "(mutantOn(%d) || (", "))")
	case token.LOR:
		m.dropOperands(b, "(!mutantOn(%d) && (", "))")
	}
}

// flat returns the source of an expression that may stand on one line: line breaks would end a statement.
func (m *mutator) flat(e ast.Expr) string {
	text := m.text(e)
	if strings.Contains(text, "\n") {
		return "mutantCannot" // the compiler refuses it, so the mutant is dropped
	}
	return text
}

// dropOperands puts the neutral value in the place of each operand. Of a && b && c each of the three is an operand of one
// node, and a && b together deserves no mutant.
func (m *mutator) dropOperands(b *ast.BinaryExpr, before, after string) {
	for _, side := range []ast.Expr{b.X, b.Y} {
		if inner, ok := side.(*ast.BinaryExpr); ok && inner.Op == b.Op {
			continue
		}
		if id, ok := m.add(side, "drop operand", m.text(side)+" of "+m.text(b)); ok {
			m.wrap(side, fmt.Sprintf(before, id), after)
		}
	}
}

// call leaves logging alone, and the arguments of make, which are sizes.
func (m *mutator) call(c *ast.CallExpr) bool {
	if m.logs(c) {
		return false
	}
	if name, ok := c.Fun.(*ast.Ident); ok && name.Name == "make" {
		m.keepAll(c.Args[1:])
	}
	return m.constantOf(c)
}

// logs reports whether the call writes a log.
func (m *mutator) logs(c *ast.CallExpr) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	object := m.pkg.info.Uses[sel.Sel]
	if object == nil || object.Pkg() == nil {
		return false
	}
	switch object.Pkg().Path() {
	case "github.com/go-logr/logr", "log/slog", "log", "k8s.io/klog/v2":
		return true
	}
	return false
}

// table leaves out each element of an ordered table, and swaps it with the next.
func (m *mutator) table(lit *ast.CompositeLit) {
	if _, slice := m.pkg.info.TypeOf(lit).Underlying().(*types.Slice); !slice || lit.Type == nil || len(lit.Elts) < 2 {
		return
	}
	for i, element := range lit.Elts {
		if _, keyed := element.(*ast.KeyValueExpr); keyed {
			return
		}
		if id, ok := m.add(element, "skip element", m.text(element)); ok {
			m.wrap(lit, fmt.Sprintf("mutantSkip(%d, %d, ", id, i), ")")
		}
		if i == len(lit.Elts)-1 {
			break
		}
		if id, ok := m.add(element, "swap with next", m.text(element)); ok {
			m.wrap(lit, fmt.Sprintf("mutantSwap(%d, %d, ", id, i), ")")
		}
	}
}

// keepAll marks expressions whose constants stay.
func (m *mutator) keepAll(list []ast.Expr) {
	for _, e := range list {
		m.constant[e] = true
	}
}

// constantOf moves a number by one, or doubles a duration, and reports whether to go on with the parts of an expression.
// The outermost constant expression moves, since its parts must stay constant.
func (m *mutator) constantOf(e ast.Expr) bool {
	if m.constant[e] {
		return m.pkg.info.Types[e].Value == nil
	}
	tv := m.pkg.info.Types[e]
	if tv.Value == nil {
		return true
	}
	if tv.Value.Kind() != constant.Int && tv.Value.Kind() != constant.Float {
		return false
	}
	name, duration, ok := m.numeric(tv.Type)
	if !ok || duration && constant.Sign(tv.Value) == 0 {
		return false
	}
	change := " + 1"
	if duration {
		change = " * 2"
	}
	if strings.Contains(m.text(e), "\n") {
		return false
	}
	if id, ok := m.add(e, "move constant", m.text(e)+" in "+m.lineOf(e)); ok {
		m.wrap(e, fmt.Sprintf("mutantPick[%s](%d, (%s)%s, ", name, id, m.text(e), change), ")")
	}
	return false
}

// lineOf returns the line of code that an expression stands on, without its comment.
func (m *mutator) lineOf(e ast.Expr) string {
	line := strings.Split(string(m.source), "\n")[m.pkg.fset.Position(e.Pos()).Line-1]
	line, _, _ = strings.Cut(line, " // ")
	return line
}

// numeric returns the name of a number's type as the file can write it, and reports whether it is a duration. An
// enumeration is no number.
func (m *mutator) numeric(t types.Type) (name string, duration, ok bool) {
	basic, isBasic := t.(*types.Basic)
	if isBasic {
		return basic.Name(), false, basic.Info()&types.IsUntyped == 0
	}
	if named, isNamed := t.(*types.Named); !isNamed || named.String() != "time.Duration" {
		return "", false, false
	}
	for _, spec := range m.file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == "time" && spec.Name == nil {
			return "time.Duration", true, true
		}
	}
	return "", false, false
}

// functionName returns the name of a function with its receiver.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	return fmt.Sprintf("(%s).%s", types.ExprString(d.Recv.List[0].Type), d.Name.Name)
}
