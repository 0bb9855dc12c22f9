package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"cadre.dev/core/group"
	"cadre.dev/terraform-provider/internal/shape"
)

// blockData renders one repeated block of a spec, to share it between groups.
type blockData struct{ field, into, about string }

func newHealthCheckData() datasource.DataSource {
	return blockData{field: "health_check", into: argChecksJSON, about: "A health check to share between groups: give its `json` to their `health_check_json`."}
}

func newLifecycleHookData() datasource.DataSource {
	return blockData{field: "lifecycle_hook", into: argHooksJSON, about: "A lifecycle hook to share between groups: give its `json` to their `lifecycle_hook_json`."}
}

func (b blockData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + b.field
}

func (b blockData) fields() []shape.Field {
	f, _ := shape.Find(specFields, b.field)
	return f.Fields
}

func (b blockData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes, blocks := shape.Data(b.fields(), specWords)
	attributes["name"] = schema.StringAttribute{Required: true, MarkdownDescription: specWords[b.field+".name"]}
	attributes["json"] = text("The block as the spec has it, for `" + b.into + "`.")
	resp.Schema = schema.Schema{MarkdownDescription: b.about, Attributes: attributes, Blocks: blocks}
}

func (b blockData) Read(_ context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	o, err := objectOf(req.Config.Raw)
	if err != nil {
		addError(&resp.Diagnostics, "Configuration cannot be read", err)
		return
	}
	own := map[string]tftypes.Value{}
	for _, f := range b.fields() {
		own[f.Name] = o[f.Name]
	}
	tree, _, err := shape.Tree(b.fields(), tftypes.NewValue(shape.Object(b.fields()), own))
	if err != nil {
		addError(&resp.Diagnostics, "Configuration cannot be read", err)
		return
	}
	for _, p := range problemsOf(b.field, tree) {
		at, _ := shape.Path(b.fields(), tree, within(p.Path, b.field, o.text("name")))
		resp.Diagnostics.AddAttributeError(at, fmt.Sprintf("%s %q is not valid", b.field, o.text("name")), p.String())
	}
	if resp.Diagnostics.HasError() {
		return
	}
	out, err := json.Marshal(tree)
	if err != nil {
		addError(&resp.Diagnostics, "Block cannot be rendered", err)
		return
	}
	o["json"] = textValue(string(out))
	resp.State.Raw = o.value(req.Config.Raw)
}

// problemsOf judges one block as part of a spec that has nothing else.
func problemsOf(field string, tree map[string]any) []group.Problem {
	raw, err := json.Marshal(map[string]any{"name": "x", field: []any{tree}})
	if err != nil {
		return []group.Problem{{Path: field, Message: err.Error()}}
	}
	spec, err := group.Decode(raw)
	var wrong *group.ValidationError
	if errors.As(err, &wrong) {
		return append(wrong.Problems, group.Apart(group.ProblemsIn(spec, field), wrong.Problems)...)
	}
	if err != nil {
		return []group.Problem{{Path: field, Message: err.Error()}}
	}
	return group.ProblemsIn(spec, field)
}

// within is the rest of a path behind the block's name.
func within(problem, field, name string) string {
	rest := strings.TrimPrefix(problem, fmt.Sprintf("%s[%q]", field, name))
	return strings.TrimPrefix(rest, ".")
}
