package shape

import "reflect"

// Four is a value in the four forms that show a change: as written before, the same with every
// default, as it is now, and that with every default.
type Four struct{ Was, WasFull, Now, NowFull map[string]any }

// Drift writes a value that another client may have changed. A part with the same meaning stays as
// written before, an absent default included. Only a different part takes its present form.
func Drift(fields []Field, v Four) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if one := f.drift(v); one != nil {
			out[f.Name] = one
		}
	}
	return out
}

func (f Field) drift(v Four) any {
	was, now := v.Was[f.Name], v.Now[f.Name]
	wasFull, nowFull := v.WasFull[f.Name], v.NowFull[f.Name]
	if reflect.DeepEqual(wasFull, nowFull) {
		return was
	}
	switch f.Kind {
	case Block:
		one := Four{Was: block(was), WasFull: block(wasFull), Now: block(now), NowFull: block(nowFull)}
		if one.NowFull == nil {
			return nil
		}
		out := Drift(f.Fields, one)
		if len(out) == 0 && was == nil && (!f.MeaningfulWhenEmpty || now == nil) {
			return nil
		}
		return out
	case Blocks:
		return f.driftItems(v)
	case Text, Number, Flag, Texts, TextMap:
	}
	return now
}

// driftItems pairs repeated blocks by their labels.
func (f Field) driftItems(v Four) any {
	now, nowFull := list(v.Now[f.Name]), list(v.NowFull[f.Name])
	was, wasFull := list(v.Was[f.Name]), list(v.WasFull[f.Name])
	out := []any{}
	for i := range now {
		// By their labels: in the full specs the blocks are sorted.
		name := label(block(now[i]))
		one := Four{Now: block(now[i]), NowFull: block(at(nowFull, named(nowFull, name)))}
		if j := named(was, name); j >= 0 {
			one.Was, one.WasFull = block(was[j]), block(at(wasFull, named(wasFull, name)))
		}
		if one.Was == nil {
			out = append(out, one.Now)
			continue
		}
		out = append(out, Drift(f.Fields, one))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Trim leaves out the blocks of a tree that have no written value, except blocks whose presence has a meaning.
func Trim(fields []Field, tree map[string]any) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		one := tree[f.Name]
		switch f.Kind {
		case Block:
			if inner := block(one); inner != nil {
				inner = Trim(f.Fields, inner)
				if len(inner) == 0 && !f.MeaningfulWhenEmpty {
					continue
				}
				one = inner
			}
		case Blocks:
			items := []any{}
			for _, item := range list(one) {
				items = append(items, Trim(f.Fields, block(item)))
			}
			if one = nil; len(items) > 0 {
				one = items
			}
		case Text, Number, Flag, Texts, TextMap:
		}
		if one != nil {
			out[f.Name] = one
		}
	}
	return out
}

func block(v any) map[string]any {
	out, _ := v.(map[string]any)
	return out
}

func list(v any) []any {
	out, _ := v.([]any)
	return out
}

func at(items []any, i int) any {
	if i < len(items) {
		return items[i]
	}
	return nil
}
