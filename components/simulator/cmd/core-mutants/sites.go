package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// site is one place that can be broken in one way.
type site struct {
	file string
	// line it is in, n is its number among those of the file.
	line, n int
	// what is done to it, for people.
	what string
}

func (s site) String() string {
	return fmt.Sprintf("%s/%s:%d %s", filepath.Base(filepath.Dir(s.file)), filepath.Base(s.file), s.line, s.what)
}

// sites are all places of packages below core.
func sites(core string, packages []string) ([]site, error) {
	var out []site
	for _, name := range packages {
		files, err := filepath.Glob(filepath.Join(core, name, "*.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("package %q: core has no such package with Go files", name)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set, tree, err := parse(file)
			if err != nil {
				return nil, err
			}
			visit(tree, func(n int, node ast.Node, what string, _ func()) bool {
				out = append(out, site{file, set.Position(node.Pos()).Line, n, what})
				return true
			})
		}
	}
	return out, nil
}

func parse(file string) (*token.FileSet, *ast.File, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.ParseComments)
	return set, tree, err
}

// mutated is the text of the file with the site broken.
func (s site) mutated() ([]byte, error) {
	set, tree, err := parse(s.file)
	if err != nil {
		return nil, err
	}
	visit(tree, func(n int, _ ast.Node, _ string, breakIt func()) bool {
		if n == s.n {
			breakIt()
		}
		return n != s.n
	})
	var b bytes.Buffer
	err = format.Node(&b, set, tree)
	return b.Bytes(), err
}

// swaps are operators with what takes their place.
var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
}

// visit numbers the sites of a file, each with what breaks it, until found says false.
func visit(tree *ast.File, found func(n int, node ast.Node, what string, breakIt func()) bool) {
	n, goes := 0, true
	tell := func(node ast.Node, what string, breakIt func()) {
		if goes {
			goes = found(n, node, what, breakIt)
			n++
		}
	}
	ast.Inspect(tree, func(node ast.Node) bool {
		switch e := node.(type) {
		case *ast.BinaryExpr:
			if other, swapped := swaps[e.Op]; swapped {
				tell(e, fmt.Sprintf("%s becomes %s", e.Op, other), func() { e.Op = other })
			}
		case *ast.IfStmt:
			tell(e, "the condition never holds", func() { e.Cond = both(e.Cond, token.LAND, "false") })
			tell(e, "the condition always holds", func() { e.Cond = both(e.Cond, token.LOR, "true") })
		case *ast.CaseClause:
			dropFrom(e.Body, func(list []ast.Stmt) { e.Body = list }, tell)
		case *ast.BlockStmt:
			dropFrom(e.List, func(list []ast.Stmt) { e.List = list }, tell)
		}
		return goes
	})
}

// both joins a condition with a constant, so that what it uses is used still.
func both(cond ast.Expr, op token.Token, constant string) ast.Expr {
	return &ast.BinaryExpr{X: &ast.ParenExpr{X: cond}, Op: op, Y: ast.NewIdent(constant)}
}

// dropFrom offers to drop each statement that sets or calls something.
func dropFrom(list []ast.Stmt, set func([]ast.Stmt), tell func(ast.Node, string, func())) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
		default:
			continue
		}
		tell(s, "the statement is dropped", func() {
			set(append(append([]ast.Stmt{}, list[:i]...), list[i+1:]...))
		})
	}
}
