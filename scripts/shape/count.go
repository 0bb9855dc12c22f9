package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math"
	"slices"
	"strings"
)

// Figures are the entry of one package in recorded.json.
type Figures struct {
	Package string `json:"package"`
	// Type is the struct whose fields are counted separately, "" for none.
	Type string `json:"type,omitempty"`

	Lines         int     `json:"lines"`
	Arrows        int     `json:"arrows"`
	Upward        int     `json:"upward_arrows"`
	Logic         float64 `json:"logic_per_100_lines"`
	Largest       string  `json:"largest_struct"`
	LargestFields int     `json:"largest_struct_fields"`
	TypeFields    int     `json:"type_fields,omitempty"`
	TypeBools     int     `json:"type_bools,omitempty"`
	Busiest       string  `json:"most_methods_on"`
	Methods       int     `json:"methods"`
	Times         int     `json:"times"`
	BareTimes     int     `json:"times_without_comment"`
}

// source is the text of one file.
type source struct {
	name string
	text []byte
}

// count computes the figures of the package that the files make up. The importer resolves imports.
func count(path, named string, sources []source, importer types.Importer) (Figures, error) {
	f := Figures{Package: path, Type: named}
	slices.SortFunc(sources, func(a, b source) int { return strings.Compare(a.name, b.name) })
	set := token.NewFileSet()
	files := make([]*ast.File, len(sources))
	for i, s := range sources {
		file, err := parser.ParseFile(set, s.name, s.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return f, fmt.Errorf("parse: %w", err)
		}
		files[i] = file
		f.Lines += bytes.Count(s.text, []byte("\n"))
	}
	info := &types.Info{
		Defs:  make(map[*ast.Ident]types.Object),
		Uses:  make(map[*ast.Ident]types.Object),
		Types: make(map[ast.Expr]types.TypeAndValue),
	}
	conf := types.Config{Importer: importer}
	pkg, err := conf.Check(path, set, files, info)
	if err != nil {
		return f, fmt.Errorf("check the types of %s: %w", path, err)
	}
	uses := usesOf(set, files, info, pkg)
	for _, row := range uses {
		for _, is := range row {
			if is {
				f.Arrows++
			}
		}
	}
	f.Upward = upward(uses)
	if f.Lines > 0 {
		f.Logic = decimal(100 * float64(logic(files)) / float64(f.Lines))
	}
	f.countTypes(info)
	if named != "" && f.TypeFields == 0 {
		return f, fmt.Errorf("%s has no struct %s with fields: name in %s the type that took its place", path, named, recorded)
	}
	for _, file := range files {
		f.countTimes(file, info)
	}
	return f, nil
}

// decimal rounds to one decimal: finer differences of a ratio are no change.
func decimal(ratio float64) float64 { return math.Round(ratio*10) / 10 }

// usesOf returns for each file which of the others it uses, both by index.
func usesOf(set *token.FileSet, files []*ast.File, info *types.Info, pkg *types.Package) [][]bool {
	index := make(map[*token.File]int, len(files))
	uses := make([][]bool, len(files))
	for i, file := range files {
		index[set.File(file.Pos())] = i
		uses[i] = make([]bool, len(files))
	}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		if from, to := index[set.File(id.Pos())], index[set.File(object.Pos())]; from != to {
			uses[from][to] = true
		}
	}
	return uses
}

// upward counts the arrows to higher files, in the order that the comment of the package describes.
func upward(uses [][]bool) int {
	rest := make([]int, len(uses))
	for i := range rest {
		rest[i] = i
	}
	up := 0
	for len(rest) > 0 {
		next, uppers, users := 0, len(uses), 0
		for i, file := range rest {
			out, in := 0, 0
			for _, other := range rest {
				if uses[file][other] {
					out++
				}
				if uses[other][file] {
					in++
				}
			}
			if out < uppers || out == uppers && in > users {
				next, uppers, users = i, out, in
			}
		}
		up += uppers
		rest = slices.Delete(rest, next, next+1)
	}
	return up
}

// logic counts && and ||.
func logic(files []*ast.File) int {
	n := 0
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if b, ok := node.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
				n++
			}
			return true
		})
	}
	return n
}

// countTypes looks for the largest struct and the type with the most methods, and counts the
// fields of the named type.
func (f *Figures) countTypes(info *types.Info) {
	for _, object := range info.Defs {
		name, ok := object.(*types.TypeName)
		if !ok {
			continue
		}
		declared, ok := name.Type().(*types.Named)
		if !ok { // an alias, or the parameter of a generic type
			continue
		}
		// The order of a map is not that of the last run: the first name wins among equals.
		if n := declared.NumMethods(); n > f.Methods || n > 0 && n == f.Methods && name.Name() < f.Busiest {
			f.Busiest, f.Methods = name.Name(), n
		}
		fields, ok := declared.Underlying().(*types.Struct)
		if !ok {
			continue
		}
		n := fields.NumFields()
		if n > f.LargestFields || n > 0 && n == f.LargestFields && name.Name() < f.Largest {
			f.Largest, f.LargestFields = name.Name(), n
		}
		if name.Name() != f.Type || name.Parent() != name.Pkg().Scope() {
			continue
		}
		f.TypeFields = n
		for field := range fields.Fields() {
			if b, ok := field.Type().Underlying().(*types.Basic); ok && b.Kind() == types.Bool {
				f.TypeBools++
			}
		}
	}
}

// countTimes counts a file's constants of time.
func (f *Figures) countTimes(file *ast.File, info *types.Info) {
	for _, declaration := range file.Decls {
		top, _ := declaration.(*ast.GenDecl)
		ast.Inspect(declaration, func(node ast.Node) bool {
			group, ok := node.(*ast.GenDecl)
			// Variables of functions change; the package's are constants in all but the word.
			if !ok || group.Tok != token.CONST && (group.Tok != token.VAR || group != top) {
				return true
			}
			for _, spec := range group.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				commented := value.Doc != nil || value.Comment != nil || !group.Lparen.IsValid() && group.Doc != nil
				for i, name := range value.Names {
					if !isTime(info, value, i, name) {
						continue
					}
					f.Times++
					if !commented {
						f.BareTimes++
					}
				}
			}
			return true
		})
	}
}

// isTime reports whether the name at i of the declaration is a constant of time.
func isTime(info *types.Info, value *ast.ValueSpec, i int, name *ast.Ident) bool {
	object := info.Defs[name]
	if object == nil || name.Name == "_" {
		return false
	}
	if isDuration(object.Type()) {
		return true
	}
	if _, ok := object.(*types.Var); !ok || len(value.Values) != len(value.Names) {
		return false
	}
	found := false
	ast.Inspect(value.Values[i], func(node ast.Node) bool {
		if expression, ok := node.(ast.Expr); ok {
			known := info.Types[expression]
			found = found || known.Value != nil && isDuration(known.Type)
		}
		// The value of a function is not the value of the variable that holds the function.
		_, isFunction := node.(*ast.FuncLit)
		return !found && !isFunction
	})
	return found
}

func isDuration(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Duration" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time"
}
