package provider

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"cadre.dev/core/group"
	"cadre.dev/terraform-provider/internal/shape"
)

// written is a group's spec as a configuration has it.
type written struct {
	// blocks is the tree of the spec's own arguments and blocks; tree has the rendered ones
	// behind them.
	blocks, tree map[string]any
	// unknown are the paths of unknown values.
	unknown []string
	spec    group.Spec
}

// writtenIn reads the spec out of a resource's value. With unknown parts the spec lacks
// them. The error is about the text of a rendered block, at the path, or a *group.ValidationError of fields
// that the spec lacks: see unread.
func writtenIn(o object) (written, path.Path, error) {
	w := written{}
	var err error
	whole := tftypes.NewValue(shape.Object(specFields), specPart(o))
	if w.blocks, w.unknown, err = shape.Tree(specFields, whole); err != nil {
		return w, path.Empty(), err
	}
	w.tree = map[string]any{}
	for k, v := range w.blocks {
		w.tree[k] = v
	}
	for _, argument := range []string{argHooksJSON, argChecksJSON} {
		if v := o[argument]; v.Type() != nil && !v.IsFullyKnown() {
			w.unknown = append(w.unknown, rendered[argument])
			continue
		}
		for i, text := range o.texts(argument) {
			one, err := shape.Parse([]byte(text))
			if err != nil {
				return w, path.Root(argument).AtListIndex(i), fmt.Errorf("is not a block as a data source renders it: %w", err)
			}
			list, _ := w.tree[rendered[argument]].([]any)
			w.tree[rendered[argument]] = append(slices.Clone(list), one)
		}
	}
	text, err := json.Marshal(w.tree)
	if err == nil {
		w.spec, err = group.Decode(text)
	}
	return w, path.Empty(), err
}

func specPart(o object) map[string]tftypes.Value {
	out := map[string]tftypes.Value{}
	for _, f := range specFields {
		v := o[f.Name]
		if v.Type() == nil {
			v = tftypes.NewValue(f.Type(), nil)
		}
		out[f.Name] = v
	}
	return out
}

// complete is the spec with every default filled in, of its own.
func (w written) complete() group.Spec { return complete(w.spec) }

func complete(s group.Spec) group.Spec {
	s = s.With(s.AgentSpec()) // copies the parts that Normalize would write
	s.Backends, s.Secrets = slices.Clone(s.Backends), slices.Clone(s.Secrets)
	s.Normalize()
	return s
}

// same reports that two specs mean the same.
func same(a, b group.Spec) bool { return reflect.DeepEqual(plain(complete(a)), plain(complete(b))) }

// plain is the tree of a spec's JSON form; a spec always has one.
func plain(s group.Spec) map[string]any {
	tree, err := shape.Plain(s)
	if err != nil {
		return nil
	}
	return tree
}

// at is where Terraform shows the problem of a path: in the block, or in the argument that
// the block was rendered into. false: at the resource as a whole.
func (w written) at(problem string) (path.Path, bool) {
	p, ok := shape.Path(specFields, w.tree, problem)
	for argument, field := range rendered {
		own, _ := w.blocks[field].([]any)
		if !strings.HasPrefix(problem, field+"[") {
			continue
		}
		steps := p.Steps()
		if len(steps) < 2 {
			continue
		}
		if n, isIndex := steps[1].(path.PathStepElementKeyInt); isIndex && int(n) >= len(own) {
			return path.Root(argument).AtListIndex(int(n) - len(own)), true
		}
	}
	return p, ok
}

// stored converts the coordinators' spec into the values of the state. A value with the same
// meaning stays as it was written, rendered blocks included.
func (w written) stored(now group.Spec) (map[string]tftypes.Value, object, error) {
	wasFull, nowFull := plain(w.complete()), plain(complete(now))
	tree := shape.Drift(specFields, shape.Four{Was: w.tree, WasFull: wasFull, Now: shape.Trim(specFields, plain(now)), NowFull: nowFull})
	extra := object{}
	for argument, field := range rendered {
		own, _ := w.blocks[field].([]any)
		was, _ := w.tree[field].([]any)
		is, _ := tree[field].([]any)
		if len(was) == len(own) {
			continue
		}
		if reflect.DeepEqual(was, is) {
			tree[field] = w.blocks[field]
			continue
		}
		// Another client changed the blocks: the state shows them as blocks, and the plan shows the
		// difference.
		extra[argument] = textsValue(nil)
	}
	values, err := shape.Values(specFields, tree)
	return values, extra, err
}
