package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// statements drops each statement of a list that can be dropped, and swaps neighbours whose order may matter. A
// return with results is dropped where the compiler doesn't demand it.
func (m *mutator) statements(list []ast.Stmt, open bool) {
	swapped := 0 // the mutant that runs this statement before the one in front of it
	for i, s := range list {
		id, dropped := m.drop(s, open)
		guard := ""
		switch {
		case dropped && swapped > 0:
			guard = fmt.Sprintf("!mutantOn(%d) && !mutantOn(%d)", id, swapped)
		case dropped:
			guard = fmt.Sprintf("!mutantOn(%d)", id)
		case swapped > 0:
			guard = fmt.Sprintf("!mutantOn(%d)", swapped)
		}
		if guard != "" {
			m.wrap(s, "if "+guard+" { ", " }")
		}
		swapped = 0
		if i+1 < len(list) && m.swappable(s) && m.swappable(list[i+1]) {
			next := m.text(list[i+1])
			if early, ok := m.add(s, "swap with next", m.text(s)+"; "+next); ok {
				m.wrap(s, fmt.Sprintf("if mutantOn(%d) { %s }; ", early, next), "")
				swapped = early
			}
		}
	}
}

// drop adds the mutant that leaves a statement out.
func (m *mutator) drop(s ast.Stmt, open bool) (int, bool) {
	operator := "drop statement"
	switch s := s.(type) {
	case *ast.ExprStmt:
		if m.keeps(s) {
			return 0, false
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || allBlank(s.Lhs) {
			return 0, false
		}
	case *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.GoStmt:
	case *ast.ReturnStmt:
		if !open && len(s.Results) > 0 {
			return 0, false
		}
		operator = "drop return"
	case *ast.BranchStmt:
		if s.Tok != token.CONTINUE && s.Tok != token.BREAK {
			return 0, false
		}
		operator = "drop branch"
	default:
		return 0, false
	}
	return m.add(s, operator, m.text(s))
}

// keeps reports whether a statement stays: to drop a line of a log, or a panic, says nothing of the code.
func (m *mutator) keeps(s *ast.ExprStmt) bool {
	call, ok := s.X.(*ast.CallExpr)
	return ok && (m.logs(call) || isPanic(call))
}

// swappable reports whether a statement makes a call, stands on one line and declares nothing. Setters of objects, writes
// of fields and locks are left out.
func (m *mutator) swappable(s ast.Stmt) bool {
	if m.pkg.fset.Position(s.Pos()).Line != m.pkg.fset.Position(s.End()).Line {
		return false
	}
	var from ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		from = s.X
	case *ast.AssignStmt:
		if _, variable := s.Lhs[0].(*ast.Ident); variable && s.Tok != token.DEFINE && len(s.Rhs) == 1 {
			from = s.Rhs[0]
		}
	}
	call, ok := from.(*ast.CallExpr)
	return ok && !m.logs(call) && !isPanic(call) && !isSetter(call)
}

// isSetter reports whether a call sets a field of an object, or locks: only the race detector notices a lock out of place.
func isSetter(c *ast.CallExpr) bool {
	method, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch method.Sel.Name {
	case "Lock", "Unlock", "RLock", "RUnlock":
		return true
	}
	return strings.HasPrefix(method.Sel.Name, "Set")
}

func isPanic(c *ast.CallExpr) bool {
	name, ok := c.Fun.(*ast.Ident)
	return ok && name.Name == "panic"
}

func allBlank(list []ast.Expr) bool {
	for _, e := range list {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}
