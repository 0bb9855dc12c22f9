package provider

import (
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// object is the value of a whole resource by the names of its arguments and blocks.
type object map[string]tftypes.Value

// objectOf reads a resource's value; nil when there is none.
func objectOf(v tftypes.Value) (object, error) {
	if v.IsNull() || !v.IsKnown() {
		return nil, nil
	}
	out := object{}
	if err := v.As((*map[string]tftypes.Value)(&out)); err != nil {
		return nil, fmt.Errorf("read a resource: %w", err)
	}
	return out, nil
}

// value gives the whole back, in the type that it was read in.
func (o object) value(like tftypes.Value) tftypes.Value {
	return tftypes.NewValue(like.Type(), map[string]tftypes.Value(o))
}

// text is the string under name; "" when it is null or not known.
func (o object) text(name string) string {
	var s string
	if v, ok := o[name]; ok && v.IsKnown() && !v.IsNull() {
		_ = v.As(&s) // another type reads as absent
	}
	return s
}

// flag is the bool under name, or absent when it is null or unknown.
func (o object) flag(name string, absent bool) bool {
	v, ok := o[name]
	if !ok || v.IsNull() || !v.IsKnown() {
		return absent
	}
	var b bool
	if err := v.As(&b); err != nil {
		return absent
	}
	return b
}

// number is the whole number under name; 0 when it is null or not known.
func (o object) number(name string) int64 {
	v, ok := o[name]
	if !ok || v.IsNull() || !v.IsKnown() {
		return 0
	}
	n := new(big.Float)
	if err := v.As(&n); err != nil {
		return 0
	}
	out, _ := n.Int64()
	return out
}

// texts are the strings of the list under name.
func (o object) texts(name string) []string {
	var values []tftypes.Value
	if v, ok := o[name]; !ok || v.IsNull() || !v.IsKnown() || v.As(&values) != nil {
		return nil
	}
	out := []string{}
	for _, v := range values {
		var s string
		if v.IsKnown() && !v.IsNull() && v.As(&s) == nil {
			out = append(out, s)
		}
	}
	return out
}

func textValue(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func flagValue(b bool) tftypes.Value { return tftypes.NewValue(tftypes.Bool, b) }

func numberValue(n uint64) tftypes.Value {
	return tftypes.NewValue(tftypes.Number, new(big.Float).SetUint64(n))
}

func textsValue(list []string) tftypes.Value {
	typ := tftypes.List{ElementType: tftypes.String}
	if len(list) == 0 {
		return tftypes.NewValue(typ, nil)
	}
	values := make([]tftypes.Value, len(list))
	for i, s := range list {
		values[i] = textValue(s)
	}
	return tftypes.NewValue(typ, values)
}
