package groupfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// ReadVars reads a --var-file: one "name = value" argument per line, HCL literals.
func ReadVars(path string) (map[string]string, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	parsed, diags := hclsyntax.ParseConfig(text, path, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, newError(diags)
	}
	attrs, diags := parsed.Body.JustAttributes()
	out := map[string]string{}
	for name, a := range attrs {
		v, more := a.Expr.Value(nil)
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}
		s, ok := asText(v)
		if !ok {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Wrong type", Detail: "variables are text, numbers or booleans", Subject: &a.Range})
			continue
		}
		out[name] = s
	}
	if diags.HasErrors() {
		return nil, newError(diags)
	}
	return out, nil
}

// ParseVar reads one --var flag, "name=value".
func ParseVar(flag string) (name, value string, err error) {
	name, value, ok := strings.Cut(flag, "=")
	if !ok || !hclsyntax.ValidIdentifier(name) {
		return "", "", fmt.Errorf("--var %q: want name=value", flag)
	}
	return name, value, nil
}

// Vars has values for the variables of files.
type Vars struct {
	// Named values were given for these files. A name that no file declares is rejected: the value
	// of a misspelt name would be lost.
	Named map[string]string
	// Shared values come from a file that may serve other files as well. Named ones win.
	Shared map[string]string
}

func (v Vars) value(name string) (string, bool) {
	if value, ok := v.Named[name]; ok {
		return value, true
	}
	value, ok := v.Shared[name]
	return value, ok
}

// undeclared rejects named variables that no file declares.
func (l *loader) undeclared(declared map[string]bool) {
	known := slices.Sorted(maps.Keys(declared))
	for _, name := range slices.Sorted(maps.Keys(l.vars.Named)) {
		if declared[name] {
			continue
		}
		detail := fmt.Sprintf("%q is declared in no file, and none declares a variable: add variable %q {}", name, name)
		if len(known) > 0 {
			detail = fmt.Sprintf("%q is declared in no file; declared: %s", name, strings.Join(known, ", "))
		}
		if near := nearest(name, known); near != "" {
			detail += fmt.Sprintf("; did you mean %q?", near)
		}
		l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Undeclared variable", Detail: detail})
	}
}

// nearest returns the most similar known name, "" when none is similar enough.
func nearest(name string, known []string) string {
	best, distance := "", len(name)/3+2
	for _, one := range known {
		if d := levenshtein.Distance(name, one, nil); d < distance {
			best, distance = one, d
		}
	}
	return best
}

// declare reads the variable and locals blocks of all files.
func (l *loader) declare(sources []source) {
	l.values, l.locals = map[string]cty.Value{}, map[string]cty.Value{}
	declared := map[string]bool{}
	for _, s := range sources {
		for _, b := range s.body.Blocks {
			if b.Type == "variable" {
				l.variable(s, b, declared)
			}
		}
	}
	l.undeclared(declared)
	for _, s := range sources {
		for _, b := range s.body.Blocks {
			if b.Type != "locals" {
				continue
			}
			// In source order, each local may use the ones before it.
			for _, a := range sortedAttributes(b.Body) {
				v, diags := a.Expr.Value(l.context(s.dir))
				l.diags = append(l.diags, diags...)
				if diags.HasErrors() {
					v = cty.DynamicVal
				}
				l.locals[a.Name] = v
			}
		}
	}
}

func (l *loader) variable(s source, b *hclsyntax.Block, declared map[string]bool) {
	if len(b.Labels) != 1 || !hclsyntax.ValidIdentifier(b.Labels[0]) {
		l.add(b.DefRange(), "Variable without a name", `write: variable "name" { default = "..." }`)
		return
	}
	name := b.Labels[0]
	declared[name] = true
	var fallback *hclsyntax.Attribute
	for _, a := range sortedAttributes(b.Body) {
		switch a.Name {
		case "default":
			fallback = a
		case "description":
		default:
			l.add(a.NameRange, "Unknown argument", fmt.Sprintf("%q is not known here; known: default, description", a.Name))
		}
	}
	if given, ok := l.vars.value(name); ok {
		l.values[name] = cty.StringVal(given)
		return
	}
	if fallback == nil {
		l.add(b.DefRange(), "Variable without a value", fmt.Sprintf("give --var %s=..., a line of a --var-file, or a default", name))
		l.values[name] = cty.DynamicVal
		return
	}
	v, diags := fallback.Expr.Value(&hcl.EvalContext{Functions: functions(s.dir)})
	l.diags = append(l.diags, diags...)
	if diags.HasErrors() {
		v = cty.DynamicVal
	}
	l.values[name] = v
}

// context returns the variables and functions for expressions of a file in dir.
func (l *loader) context(dir string) *hcl.EvalContext {
	return &hcl.EvalContext{
		Variables: map[string]cty.Value{"var": cty.ObjectVal(l.values), "local": cty.ObjectVal(l.locals)},
		Functions: functions(dir),
	}
}

func asText(v cty.Value) (string, bool) {
	switch {
	case v.IsNull() || !v.IsKnown():
		return "", false
	case v.Type() == cty.String:
		return v.AsString(), true
	case v.Type() == cty.Number:
		return v.AsBigFloat().Text('f', -1), true
	case v.Type() == cty.Bool:
		return fmt.Sprint(v.True()), true
	}
	return "", false
}

// CollectVars reads --var-file and --var flags. Flags win over files, and later flags over earlier
// ones.
func CollectVars(flags, files []string) (Vars, error) {
	out := Vars{Named: map[string]string{}, Shared: map[string]string{}}
	for _, f := range files {
		more, err := ReadVars(f)
		if err != nil {
			return Vars{}, err
		}
		maps.Copy(out.Shared, more)
	}
	for _, f := range flags {
		name, value, err := ParseVar(f)
		if err != nil {
			return Vars{}, err
		}
		out.Named[name] = value
	}
	return out, nil
}
