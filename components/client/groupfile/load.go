package groupfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"cadre.dev/core/group"
)

// maxFile bounds each file that is read.
const maxFile = 1 << 20

// Group is one group block.
type Group struct {
	Spec group.Spec
	// JSON is the record's form of Spec.
	JSON []byte
	// Wrong are the fields whose values have another type. Spec lacks them and is not usable as a
	// whole. The rest of it can be validated, so that all problems are reported together.
	Wrong []group.Problem

	ranges map[string]hcl.Range
	block  hcl.Range
	// unread are the paths of the fields in Load's error.
	unread []string
}

// File is the content of a set of files.
type File struct {
	Groups   []Group
	Clusters []Cluster
	// Deployments have groups of their own.
	Deployments []Deployment
}

// Load reads the files in paths (a folder means its *.hcl files), with vars for their variables.
// The error is an Error with all problems of form. Load returns readable Groups with it; Judged
// reports which of their fields were read.
func Load(paths []string, vars Vars) (File, error) {
	return load(paths, vars)
}

// Position returns where the field at path was written, as "file:line"; for an absent field the
// nearest enclosing block.
func (g Group) Position(path string) string {
	for p := path; p != ""; p = parentPath(p) {
		if r, ok := g.ranges[p]; ok {
			return position(r)
		}
	}
	return position(g.block)
}

// Judged reports whether the field at path was read, so that a problem with it is a problem of its
// own.
func (g Group) Judged(path string) bool {
	return !slices.ContainsFunc(g.unread, func(field string) bool { return group.Within(path, field) })
}

func parentPath(p string) string {
	i := strings.LastIndexAny(p, ".[")
	if i < 0 {
		return ""
	}
	return p[:i]
}

type source struct {
	dir  string
	body *hclsyntax.Body
}

func load(paths []string, vars Vars) (File, error) {
	files, err := expand(paths)
	if err != nil {
		return File{}, err
	}
	var sources []source
	var diags hcl.Diagnostics
	for _, name := range files {
		text, err := readBounded(name)
		if err != nil {
			return File{}, err
		}
		parsed, more := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
		diags = append(diags, more...)
		if body, ok := parsed.Body.(*hclsyntax.Body); ok && !more.HasErrors() {
			sources = append(sources, source{dir: filepath.Dir(name), body: body})
		}
	}
	if diags.HasErrors() {
		return File{}, newError(diags)
	}
	return read(sources, vars)
}

// read evaluates the blocks of parsed files.
func read(sources []source, vars Vars) (File, error) {
	l := &loader{vars: vars}
	l.declare(sources)
	var out File
	for _, s := range sources {
		ctx := l.context(s.dir)
		for _, attr := range sortedAttributes(s.body) {
			l.add(attr.SrcRange, "Unexpected argument", fmt.Sprintf("%q is outside of a block: expected group, cluster, deployment, variable or locals blocks", attr.Name))
		}
		for _, b := range s.body.Blocks {
			switch b.Type {
			case "group":
				if g, ok := l.group(ctx, b); ok {
					out.Groups = append(out.Groups, g)
				}
			case "cluster":
				if c, ok := l.cluster(ctx, b); ok {
					out.Clusters = append(out.Clusters, c)
				}
			case "deployment":
				if d, ok := l.deployment(ctx, b); ok {
					out.Deployments = append(out.Deployments, d)
				}
			case "variable", "locals":
			default:
				l.add(b.DefRange(), "Unknown block", fmt.Sprintf("%q is not known here: expected group, cluster, deployment, variable or locals", b.Type))
			}
		}
	}
	l.unique(out)
	if l.diags.HasErrors() {
		return File{Groups: out.Groups, Deployments: out.Deployments}, newError(l.diags)
	}
	return out, nil
}

type loader struct {
	vars   Vars
	values map[string]cty.Value
	locals map[string]cty.Value
	diags  hcl.Diagnostics
}

func (l *loader) add(at hcl.Range, summary, detail string) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at})
}

func (l *loader) group(ctx *hcl.EvalContext, b *hclsyntax.Block) (Group, bool) {
	if len(b.Labels) != 1 {
		l.add(b.DefRange(), "Group without a name", `write: group "name" { ... }`)
		return Group{}, false
	}
	d := &decoder{loader: l, ctx: ctx, ranges: map[string]hcl.Range{}, untyped: true}
	tree := d.body(b.Body, reflect.TypeFor[group.Spec](), "", "name")
	tree["name"] = b.Labels[0]
	d.ranges["name"] = b.DefRange()
	out := Group{ranges: d.ranges, block: b.DefRange(), unread: d.unread}
	text, err := json.Marshal(tree)
	if err == nil {
		out.Spec, err = group.Decode(text)
	}
	var wrong *group.ValidationError
	if errors.As(err, &wrong) {
		out.Wrong = wrong.Problems
		return out, true
	}
	if err == nil {
		out.JSON, err = json.Marshal(out.Spec)
	}
	if err != nil {
		l.add(b.DefRange(), "Group cannot be read", err.Error())
	}
	return out, err == nil
}

// unique rejects two blocks of one name: one of them would be lost.
func (l *loader) unique(f File) {
	seen := map[string]hcl.Range{}
	check := func(kind, name string, at hcl.Range) {
		if first, ok := seen[kind+name]; ok {
			l.add(at, "Duplicate "+kind, fmt.Sprintf("%s %q is already at %s", kind, name, position(first)))
		}
		seen[kind+name] = at
	}
	for _, g := range f.Groups {
		check("group", g.Spec.Name, g.block)
	}
	for _, d := range f.Deployments {
		check("deployment", d.Name, d.block)
		for _, g := range d.Groups {
			check("group", g.Spec.Name, g.block)
		}
	}
	for _, c := range f.Clusters {
		check("cluster", c.Name, c.block)
	}
}

// expand turns folders into their *.hcl files.
func expand(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", p, unwrapPath(err))
		}
		if !info.IsDir() {
			out = append(out, p)
			continue
		}
		found, err := filepath.Glob(filepath.Join(p, "*.hcl"))
		if err != nil {
			return nil, fmt.Errorf("read folder %s: %w", p, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("folder %s has no *.hcl file", p)
		}
		slices.Sort(found)
		out = append(out, found...)
	}
	return out, nil
}

func sortedAttributes(b *hclsyntax.Body) []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(b.Attributes))
	for _, a := range b.Attributes {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *hclsyntax.Attribute) int { return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte })
	return out
}
