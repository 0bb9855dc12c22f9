package groupfile

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// decoder turns one block into the JSON tree of a Go type, by the type's JSON
// names: scalars, lists and maps are arguments; structs are blocks; a list of
// structs is a repeated block whose label is the element's name.
type decoder struct {
	*loader
	ctx    *hcl.EvalContext
	ranges map[string]hcl.Range
	// untyped keeps values of another type in the tree, for a reader that reports them by field.
	untyped bool
	// unread are the paths of fields that have a diagnostic and are missing in the tree.
	unread []string
}

// shape is the syntax of a field.
type shape int

const (
	asArgument shape = iota
	asBlock
	asBlocks
	asMap
)

type field struct {
	name  string
	typ   reflect.Type
	shape shape
	// label is the JSON name that a block's label fills, "" for none.
	label string
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

func fields(typ reflect.Type, skip ...string) map[string]field {
	out := map[string]field{}
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" || slices.Contains(skip, name) {
			continue
		}
		f := field{name: name, typ: typ.Field(i).Type}
		for f.typ.Kind() == reflect.Pointer {
			f.typ = f.typ.Elem()
		}
		switch {
		case reflect.PointerTo(f.typ).Implements(textType):
		case f.typ.Kind() == reflect.Struct:
			f.shape, f.label = asBlock, labelOf(name)
		case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Struct:
			f.shape, f.typ = asBlocks, f.typ.Elem()
			f.label = labelIn(fields(f.typ))
		case f.typ.Kind() == reflect.Map:
			f.shape = asMap
		}
		out[name] = f
	}
	return out
}

// labelIn names the field that identifies repeated blocks, "" when there is none.
func labelIn(fields map[string]field) string {
	for _, name := range []string{"name", "ordinal"} {
		if _, ok := fields[name]; ok {
			return name
		}
	}
	return ""
}

// labelOf names the field that the label of a single block fills.
func labelOf(block string) string {
	if block == "workload" {
		return "kind"
	}
	return ""
}

func (d *decoder) body(b *hclsyntax.Body, typ reflect.Type, path string, skip ...string) map[string]any {
	known := fields(typ, skip...)
	out := map[string]any{}
	for _, attr := range sortedAttributes(b) {
		at := joinPath(path, attr.Name)
		f, ok := known[attr.Name]
		switch {
		case !ok && free(known) != "":
			// The settings of a workload are written directly into its block.
			d.putIn(out, free(known), attr.Name, at, attr)
			continue
		case !ok:
			d.add(attr.NameRange, "Unknown argument", d.unknown(attr.Name, known))
			continue
		case f.shape == asBlock && !flat(f.typ) || f.shape == asBlocks && f.label != "":
			d.unread = append(d.unread, at)
			d.add(attr.NameRange, "Block expected", fmt.Sprintf("write %s { ... } instead of %s = ...", blockHead(f), attr.Name))
			continue
		}
		d.ranges[at] = attr.SrcRange
		v, ok := d.value(attr.Expr, f.typ, f.shape, at)
		if texts, isMap := v.(map[string]any); isMap {
			// Free arguments of the same block may have created it.
			begun, _ := out[attr.Name].(map[string]any)
			maps.Copy(texts, begun)
		}
		if ok {
			out[attr.Name] = v
		}
	}
	for _, inner := range b.Blocks {
		d.block(out, inner, known, path)
	}
	return out
}

func (d *decoder) block(out map[string]any, b *hclsyntax.Block, known map[string]field, path string) {
	f, ok := known[b.Type]
	at := joinPath(path, b.Type)
	if !ok {
		d.add(b.DefRange(), "Unknown block", d.unknown(b.Type, known))
		return
	}
	if f.shape == asArgument {
		d.unread = append(d.unread, at)
		d.add(b.DefRange(), "Argument expected", fmt.Sprintf("write %s = ... instead of a block", b.Type))
		return
	}
	wantLabels := 0
	if f.label != "" {
		wantLabels = 1
	}
	if len(b.Labels) != wantLabels {
		d.unread = append(d.unread, at)
		d.add(b.DefRange(), "Wrong labels", fmt.Sprintf("write %s { ... }", blockHead(f)))
		return
	}
	if f.shape == asBlocks {
		list, _ := out[b.Type].([]any)
		item := fmt.Sprintf("%s[%d]", at, len(list))
		if f.label != "" {
			// Validation uses the same form for the path.
			item = fmt.Sprintf("%s[%q]", at, b.Labels[0])
		}
		d.ranges[item] = b.DefRange()
		one := d.body(b.Body, f.typ, item, f.label)
		if f.label != "" {
			one[f.label] = d.label(f, b)
		}
		out[b.Type] = append(list, one)
		return
	}
	if _, twice := out[b.Type]; twice {
		d.add(b.DefRange(), "Duplicate block", fmt.Sprintf("%s is set twice here: keep one", b.Type))
		return
	}
	d.ranges[at] = b.DefRange()
	if f.shape == asMap {
		d.mapBlock(out, b, f, at)
		return
	}
	one := d.body(b.Body, f.typ, at, f.label)
	if f.label != "" {
		one[f.label] = b.Labels[0]
	}
	out[b.Type] = one
}

// label returns the value of a repeated block's label.
func (d *decoder) label(f field, b *hclsyntax.Block) any {
	label := b.Labels[0]
	if fields(f.typ)[f.label].typ.Kind() != reflect.Int {
		return label
	}
	n, err := strconv.Atoi(label)
	if err != nil || strconv.Itoa(n) != label {
		d.add(b.LabelRanges[0], "Wrong label", fmt.Sprintf("%q is not an %s: write a whole number such as %s \"0\" { ... }", label, f.label, b.Type))
	}
	return n
}

// mapBlock reads meta { a = "1" } like meta = { a = "1" }.
func (d *decoder) mapBlock(out map[string]any, b *hclsyntax.Block, f field, at string) {
	out[f.name] = map[string]any{}
	for _, attr := range sortedAttributes(b.Body) {
		d.putIn(out, f.name, attr.Name, joinPath(at, attr.Name), attr)
	}
	for _, inner := range b.Body.Blocks {
		d.add(inner.DefRange(), "Unknown block", fmt.Sprintf("%s holds only arguments", f.name))
	}
}

func (d *decoder) putIn(out map[string]any, into, name, at string, attr *hclsyntax.Attribute) {
	m, ok := out[into].(map[string]any)
	if !ok {
		m = map[string]any{}
		out[into] = m
	}
	d.ranges[at] = attr.SrcRange
	if v, ok := d.value(attr.Expr, reflect.TypeFor[string](), asArgument, at); ok {
		m[name] = v
	}
}

// flat reports whether a struct has only plain text fields. An object value of another file, such
// as a local cloud's key_provider, may be given for it as a whole.
func flat(typ reflect.Type) bool {
	for i := range typ.NumField() {
		if typ.Field(i).Type.Kind() != reflect.String {
			return false
		}
	}
	return true
}

// free names the map that takes arguments of any name, "" when there is none.
func free(known map[string]field) string {
	if f, ok := known["settings"]; ok && f.shape == asMap {
		return "settings"
	}
	return ""
}

func (d *decoder) unknown(name string, known map[string]field) string {
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	slices.Sort(names)
	return fmt.Sprintf("%q is not known here; known: %s", name, strings.Join(names, ", "))
}

func blockHead(f field) string {
	if f.label != "" {
		return fmt.Sprintf("%s %q", f.name, f.label)
	}
	return f.name
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// value evaluates the expression of the field at path to a value that json.Marshal can encode as
// typ. A null or an unknown value is left out.
func (d *decoder) value(expr hclsyntax.Expression, typ reflect.Type, s shape, path string) (any, bool) {
	v, diags := expr.Value(d.ctx)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() || !v.IsWhollyKnown() {
		d.unread = append(d.unread, path)
		return nil, false
	}
	if v.IsNull() {
		return nil, false
	}
	want := cty.String
	switch kind := typ.Kind(); {
	case reflect.PointerTo(typ).Implements(textType):
	case s == asMap && typ.Elem().Kind() == reflect.String:
		want = cty.Map(cty.String)
	case s == asMap || kind == reflect.Struct:
		want = cty.DynamicPseudoType
	case kind == reflect.Bool:
		want = cty.Bool
	case kind >= reflect.Int && kind <= reflect.Uint64:
		want = cty.Number
	case kind == reflect.Slice && typ.Elem().Kind() == reflect.String:
		want = cty.List(cty.String)
	case kind == reflect.Slice:
		want = cty.DynamicPseudoType
	}
	converted, err := convert.Convert(v, want)
	if err != nil {
		if raw, unfit := ctyjson.Marshal(v, v.Type()); d.untyped && unfit == nil {
			return json.RawMessage(raw), true
		}
		d.add(expr.Range(), "Wrong type", err.Error())
		return nil, false
	}
	if want == cty.Number && !d.untyped {
		if _, acc := converted.AsBigFloat().Int(nil); acc != big.Exact {
			d.add(expr.Range(), "Wrong type", "a whole number is required")
			return nil, false
		}
	}
	if want.IsMapType() {
		texts := map[string]any{}
		for k, v := range converted.AsValueMap() {
			if !v.IsNull() {
				texts[k] = v.AsString()
			}
		}
		return texts, true
	}
	raw, err := ctyjson.Marshal(converted, converted.Type())
	if err != nil {
		d.add(expr.Range(), "Wrong type", err.Error())
		return nil, false
	}
	return json.RawMessage(raw), true
}
