package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/compose/lint"
	"cadre.dev/compose/pin"
	"cadre.dev/core/appcompose"
)

var groupPath = path.Root("group")

func newComposeData() datasource.DataSource { return composeData{} }

// composeData judges a compose text and computes its measurement, without any connection.
type composeData struct{}

type composed struct {
	Compose    string    `tfsdk:"compose"`
	Cluster    *string   `tfsdk:"cluster"`
	Group      *string   `tfsdk:"group"`
	EnvNames   []string  `tfsdk:"env_names"`
	TimeOff    *bool     `tfsdk:"secure_time_off"`
	AppCompose *string   `tfsdk:"app_compose"`
	Hash       *string   `tfsdk:"hash"`
	Valid      *bool     `tfsdk:"valid"`
	Images     []string  `tfsdk:"images"`
	Findings   []finding `tfsdk:"findings"`
}

type finding struct {
	Severity string `tfsdk:"severity"`
	Rule     string `tfsdk:"rule"`
	Line     int64  `tfsdk:"line"`
	Column   int64  `tfsdk:"column"`
	Message  string `tfsdk:"message"`
	Fix      string `tfsdk:"fix"`
}

func (composeData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_compose"
}

func (composeData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The measurement of a compose file, and its problems, as in `cadre compose lint`. No cluster and no registry is asked.",
		Attributes: map[string]schema.Attribute{
			"compose":         schema.StringAttribute{Required: true, MarkdownDescription: "Text of the compose file."},
			"cluster":         schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the cluster. With `group` it gives the `hash` that the group's CVMs attest."},
			"group":           schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the group."},
			"env_names":       schema.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Names that `template.env` sets; their values are not measured. With them, variables that none of the names supplies are found, and names that the text never takes."},
			"secure_time_off": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether the cluster's trust file has `secure_time_off`, which changes `hash`."},
			"app_compose":     text("The app-compose.json that Cadre renders for the group; null without `cluster` and `group`."),
			"hash":            text("Its compose hash; null without `cluster` and `group`."),
			"valid":           flagged("Whether no finding is an error."),
			"images":          textList("Image references, in the order of the file."),
			"findings": listed("Findings of lint, in the order of the text.", map[string]schema.Attribute{
				"severity": text("`error` or `warning`."), "rule": text("Name of the rule."), "line": whole("Line, from 1."), "column": whole("Column, from 1."),
				"message": text("The problem."), "fix": text("The way out."),
			}),
		},
	}
}

func (composeData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var c composed
	resp.Diagnostics.Append(req.Config.Get(ctx, &c)...)
	if resp.Diagnostics.HasError() {
		return
	}
	valid := true
	c.Valid, c.Images, c.Findings = &valid, []string{}, []finding{}
	env := map[string]string{}
	for _, name := range c.EnvNames {
		env[name] = ""
	}
	found := lint.Lint([]byte(c.Compose))
	if c.EnvNames != nil {
		found = lint.Spec(c.Compose, env)
	}
	for _, f := range found {
		valid = valid && f.Severity != lint.Error
		c.Findings = append(c.Findings, finding{Severity: string(f.Severity), Rule: string(f.Rule), Line: int64(f.Line), Column: int64(f.Column), Message: f.Subject(), Fix: f.Fix})
	}
	if images, err := pin.Images([]byte(c.Compose)); err == nil {
		for _, i := range images {
			c.Images = append(c.Images, i.Reference)
		}
	}
	if c.Cluster != nil && c.Group != nil {
		rules := appcompose.Rules{SecureTimeOff: c.TimeOff != nil && *c.TimeOff}
		raw, err := rules.Render(*c.Cluster+"-"+*c.Group, c.Compose, c.EnvNames)
		if err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("compose"), "Compose text cannot be measured", err.Error())
			return
		}
		document, hash := string(raw), appcompose.Hash(raw)
		c.AppCompose, c.Hash = &document, &hash
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, c)...)
}
