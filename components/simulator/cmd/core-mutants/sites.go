package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// site is one place that can be broken in one way.
type site struct {
	// n is its number, from 1 on, among the sites of all packages.
	n    int
	file string
	line int
	// The change of the site, for people.
	what string
}

// pkg is the package of core that the site is in.
func (s site) pkg() string { return filepath.Base(filepath.Dir(s.file)) }

// place is its location: package, file and line.
func (s site) place() string { return fmt.Sprintf("%s/%s:%d", s.pkg(), filepath.Base(s.file), s.line) }

func (s site) String() string { return s.place() + " " + s.what }

// woven is a file whose every site checks at run time whether it is the broken site.
type woven struct {
	pkg  string
	text []byte
}

// weave finds the places of packages below core. It returns the replacements of their files, by
// path.
func weave(core string, packages []string) ([]site, map[string]woven, error) {
	var all []site
	files := map[string]woven{}
	for _, name := range packages {
		found, err := filepath.Glob(filepath.Join(core, name, "*.go"))
		if err != nil || len(found) == 0 {
			return nil, nil, fmt.Errorf("package %q: core has no such package with Go files", name)
		}
		for _, file := range found {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, nil, err
			}
			w := weaver{file: file, text: text, first: len(all) + 1}
			if err := w.run(); err != nil {
				return nil, nil, err
			}
			all = append(all, w.sites...)
			files[file] = woven{w.pkg, w.result()}
		}
	}
	return all, files, nil
}

// weaver rewrites the text of one file in place, so that each line keeps its number.
type weaver struct {
	file  string
	text  []byte
	first int
	set   *token.FileSet
	pkg   string
	sites []site
	edits []edit
}

// edit puts text at an offset of the file, in place of cut bytes. Closing texts come before opening
// texts at the same offset. Opening texts are ordered from outer to inner, closing texts the other
// way.
type edit struct {
	at, cut int
	closes  bool
	text    string
}

func (w *weaver) run() error {
	w.set = token.NewFileSet()
	tree, err := parser.ParseFile(w.set, w.file, w.text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	w.pkg = tree.Name.Name
	ast.Inspect(tree, func(node ast.Node) bool {
		switch e := node.(type) {
		case *ast.BinaryExpr:
			w.operator(e)
		case *ast.IfStmt:
			never, always := w.site(e, "the condition never holds"), w.site(e, "the condition always holds")
			w.around(e.Cond, "((", fmt.Sprintf(") && !mutantOn(%d) || mutantOn(%d))", never, always))
		case *ast.CaseClause:
			w.statements(e.Body)
		case *ast.BlockStmt:
			w.statements(e.List)
		}
		return true
	})
	return nil
}

// swaps are operators with their replacements, and the function that implements both.
var swaps = map[token.Token]struct {
	other token.Token
	call  string
}{
	token.EQL: {token.NEQ, ""}, token.NEQ: {token.EQL, ""},
	token.LSS: {token.LEQ, "mutantLess"}, token.LEQ: {token.LSS, "mutantLessOrSame"},
	token.GTR: {token.GEQ, "mutantMore"}, token.GEQ: {token.GTR, "mutantMoreOrSame"},
	token.LAND: {token.LOR, "mutantAnd"}, token.LOR: {token.LAND, "mutantOr"},
}

func (w *weaver) operator(e *ast.BinaryExpr) {
	swap, swapped := swaps[e.Op]
	if !swapped {
		return
	}
	n := w.site(e, fmt.Sprintf("%s becomes %s", e.Op, swap.other))
	switch e.Op {
	case token.EQL, token.NEQ:
		w.around(e, "((", fmt.Sprintf(") != mutantOn(%d))", n))
	case token.LAND, token.LOR:
		// The right side is evaluated only where it was. Its parenthesis keeps a line end behind
		// the operator harmless.
		w.around(e, fmt.Sprintf("%s(%d, ", swap.call, n), ") })")
		w.edits = append(w.edits, edit{at: w.offset(e.OpPos), cut: len(e.Op.String()), text: ", func() bool { return ("})
	default:
		w.around(e, fmt.Sprintf("%s(%d, ", swap.call, n), ")")
		w.edits = append(w.edits, edit{at: w.offset(e.OpPos), cut: len(e.Op.String()), text: ","})
	}
}

// statements makes a site that drops the statement, for each statement that sets or calls
// something.
func (w *weaver) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
		default:
			continue
		}
		w.around(s, fmt.Sprintf("if !mutantOn(%d) { ", w.site(s, "the statement is dropped")), " }")
	}
}

// site adds a place and returns its number.
func (w *weaver) site(node ast.Node, what string) int {
	n := w.first + len(w.sites)
	w.sites = append(w.sites, site{n, w.file, w.set.Position(node.Pos()).Line, what})
	return n
}

func (w *weaver) around(node ast.Node, opens, closes string) {
	w.edits = append(w.edits, edit{at: w.offset(node.Pos()), text: opens}, edit{at: w.offset(node.End()), text: closes, closes: true})
}

func (w *weaver) offset(p token.Pos) int { return w.set.Position(p).Offset }

// result is the text after all edits.
func (w *weaver) result() []byte {
	var closing, opening []edit
	for _, e := range w.edits {
		if e.closes {
			closing = append(closing, e)
		} else {
			opening = append(opening, e)
		}
	}
	slices.Reverse(closing)
	all := slices.Concat(closing, opening)
	slices.SortStableFunc(all, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	done := 0
	for _, e := range all {
		out = append(append(out, w.text[done:e.at]...), e.text...)
		done = e.at + e.cut
	}
	return append(out, w.text[done:]...)
}
