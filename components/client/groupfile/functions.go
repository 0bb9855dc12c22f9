package groupfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// plainFunctions depend on their arguments only.
func plainFunctions() map[string]function.Function {
	return map[string]function.Function{
		"jsonencode": stdlib.JSONEncodeFunc,
		"jsondecode": stdlib.JSONDecodeFunc,
		"format":     stdlib.FormatFunc,
		"join":       stdlib.JoinFunc,
		"split":      stdlib.SplitFunc,
		"lower":      stdlib.LowerFunc,
		"upper":      stdlib.UpperFunc,
		"replace":    stdlib.ReplaceFunc,
		"trimspace":  stdlib.TrimSpaceFunc,
		"merge":      stdlib.MergeFunc,
		"lookup":     stdlib.LookupFunc,
		"indent":     stdlib.IndentFunc,
		"sha256": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "text", Type: cty.String}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				sum := sha256.Sum256([]byte(args[0].AsString()))
				return cty.StringVal(hex.EncodeToString(sum[:])), nil
			},
		}),
	}
}

// functions adds the functions that read files relative to dir.
func functions(dir string) map[string]function.Function {
	out := plainFunctions()
	out["file"] = function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := readFrom(dir, args[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return cty.StringVal(string(text)), nil
		},
	})
	out["templatefile"] = function.New(&function.Spec{
		Params: []function.Parameter{
			{Name: "path", Type: cty.String},
			{Name: "vars", Type: cty.DynamicPseudoType},
		},
		Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return renderTemplate(dir, args[0].AsString(), args[1])
		},
	})
	return out
}

// FromFolder begins the part of an error that names the folder of relative paths.
const FromFolder = "relative paths start at the folder "

// readFrom reads the file within(dir, path). The error names dir, which the author of the path may not know.
func readFrom(dir, path string) ([]byte, error) {
	text, err := readBounded(within(dir, path))
	if err == nil || filepath.IsAbs(path) {
		return text, err
	}
	if whole, wrong := filepath.Abs(dir); wrong == nil {
		dir = whole
	}
	return nil, fmt.Errorf("%w; %s%s", err, FromFolder, dir)
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func renderTemplate(dir, path string, vars cty.Value) (cty.Value, error) {
	if t := vars.Type(); !t.IsObjectType() && !t.IsMapType() {
		return cty.NilVal, function.NewArgErrorf(1, "an object of variables is required, such as { name = \"value\" }")
	}
	text, err := readFrom(dir, path)
	if err != nil {
		return cty.NilVal, function.NewArgError(0, err)
	}
	expr, diags := hclsyntax.ParseTemplate(text, within(dir, path), hcl.InitialPos)
	if !diags.HasErrors() {
		// A template has no file functions: the HCL file names every file that a template uses.
		var v cty.Value
		v, diags = expr.Value(&hcl.EvalContext{Variables: vars.AsValueMap(), Functions: plainFunctions()})
		if !diags.HasErrors() {
			return v, nil
		}
	}
	return cty.NilVal, function.NewArgError(0, fmt.Errorf("template: %s", strings.ReplaceAll(newError(diags).Error(), "\n", "; ")))
}
