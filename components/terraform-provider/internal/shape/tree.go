package shape

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Tree turns the Fields of an object value into the tree of its JSON form. It leaves out null
// values, and unknown values, whose paths it returns.
func Tree(fields []Field, v tftypes.Value) (tree map[string]any, unknown []string, err error) {
	if !v.IsKnown() {
		return map[string]any{}, []string{""}, nil
	}
	values := map[string]tftypes.Value{}
	if err := v.As(&values); err != nil {
		return nil, nil, fmt.Errorf("read a block: %w", err)
	}
	tree = map[string]any{}
	for _, f := range fields {
		one, more, err := f.tree(values[f.Name])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		unknown = append(unknown, more...)
		if one != nil {
			tree[f.Name] = one
		}
	}
	return tree, unknown, nil
}

func (f Field) tree(v tftypes.Value) (any, []string, error) {
	if v.Type() == nil || v.IsNull() {
		return nil, nil, nil
	}
	if !v.IsKnown() {
		return nil, []string{f.Path}, nil
	}
	switch f.Kind {
	case Block:
		tree, unknown, err := Tree(f.Fields, v)
		return tree, unknown, err
	case Blocks:
		return f.list(v, func(one tftypes.Value) (any, []string, error) {
			tree, unknown, err := Tree(f.Fields, one)
			return tree, unknown, err
		})
	case Texts:
		return f.list(v, f.text)
	case TextMap:
		return f.textMap(v)
	case Number:
		n := new(big.Float)
		if err := v.As(&n); err != nil {
			return nil, nil, err
		}
		return json.Number(n.Text('f', -1)), nil, nil
	case Flag:
		var b bool
		err := v.As(&b)
		return b, nil, err
	case Text:
	}
	return f.text(v)
}

func (f Field) text(v tftypes.Value) (any, []string, error) {
	if v.IsNull() {
		return nil, nil, nil
	}
	if !v.IsKnown() {
		return nil, []string{f.Path}, nil
	}
	var s string
	err := v.As(&s)
	return s, nil, err
}

func (f Field) list(v tftypes.Value, each func(tftypes.Value) (any, []string, error)) (any, []string, error) {
	var values []tftypes.Value
	if err := v.As(&values); err != nil {
		return nil, nil, err
	}
	out, unknown := []any{}, []string{}
	for _, value := range values {
		one, more, err := each(value)
		if err != nil {
			return nil, nil, err
		}
		unknown = append(unknown, more...)
		if one != nil {
			out = append(out, one)
		}
	}
	if len(out) == 0 && f.Kind == Blocks {
		return nil, unknown, nil // absent blocks are an empty list
	}
	return out, unknown, nil
}

func (f Field) textMap(v tftypes.Value) (any, []string, error) {
	values := map[string]tftypes.Value{}
	if err := v.As(&values); err != nil {
		return nil, nil, err
	}
	out, unknown := map[string]any{}, []string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		one, more, err := f.text(values[key])
		if err != nil {
			return nil, nil, err
		}
		unknown = append(unknown, more...)
		if one != nil {
			out[key] = one
		}
	}
	return out, unknown, nil
}

// Values turns a tree of JSON into the values of an object with these Fields: absent texts
// and blocks are null, absent repeated blocks an empty list, as Terraform has them.
func Values(fields []Field, tree map[string]any) (map[string]tftypes.Value, error) {
	out := map[string]tftypes.Value{}
	for _, f := range fields {
		v, err := f.value(tree[f.Name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		out[f.Name] = v
	}
	return out, nil
}

func (f Field) value(tree any) (tftypes.Value, error) {
	typ := f.Type()
	if tree == nil && f.Kind == Blocks {
		return tftypes.NewValue(typ, []tftypes.Value{}), nil
	}
	if tree == nil {
		return tftypes.NewValue(typ, nil), nil
	}
	switch one := tree.(type) {
	case map[string]any:
		return f.mapping(one)
	case []any:
		return f.items(one)
	case json.Number:
		n, _, err := big.ParseFloat(string(one), 10, 64, big.ToNearestEven)
		if err != nil || f.Kind != Number {
			return tftypes.Value{}, fmt.Errorf("%s is not what it should be", one)
		}
		return tftypes.NewValue(typ, n), nil
	}
	if err := tftypes.ValidateValue(typ, tree); err != nil {
		return tftypes.Value{}, err
	}
	return tftypes.NewValue(typ, tree), nil
}

func (f Field) mapping(tree map[string]any) (tftypes.Value, error) {
	switch f.Kind {
	case Block:
		values, err := Values(f.Fields, tree)
		if err != nil {
			return tftypes.Value{}, err
		}
		return tftypes.NewValue(f.Type(), values), nil
	case TextMap:
		values := map[string]tftypes.Value{}
		for key, one := range tree {
			if err := tftypes.ValidateValue(tftypes.String, one); err != nil {
				return tftypes.Value{}, err
			}
			values[key] = tftypes.NewValue(tftypes.String, one)
		}
		return tftypes.NewValue(f.Type(), values), nil
	case Text, Number, Flag, Texts, Blocks:
	}
	return tftypes.Value{}, fmt.Errorf("%s is no block", f.Path)
}

func (f Field) items(tree []any) (tftypes.Value, error) {
	if f.Kind != Texts && f.Kind != Blocks {
		return tftypes.Value{}, fmt.Errorf("%s is no list", f.Path)
	}
	values := []tftypes.Value{}
	for _, one := range tree {
		block, isBlock := one.(map[string]any)
		switch {
		case f.Kind == Blocks && isBlock:
			inner, err := Values(f.Fields, block)
			if err != nil {
				return tftypes.Value{}, err
			}
			values = append(values, tftypes.NewValue(Object(f.Fields), inner))
		case f.Kind == Texts:
			if err := tftypes.ValidateValue(tftypes.String, one); err != nil {
				return tftypes.Value{}, err
			}
			values = append(values, tftypes.NewValue(tftypes.String, one))
		default:
			return tftypes.Value{}, fmt.Errorf("%s is a list", f.Path)
		}
	}
	return tftypes.NewValue(f.Type(), values), nil
}

// Plain is the tree of v's JSON form, with numbers as they are written.
func Plain(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write a block: %w", err)
	}
	return Parse(text)
}
