package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
)

func newOperatorToken() ephemeral.EphemeralResource { return operatorToken{} }

// operatorToken reads the operator's token where `cadre cluster create` left it. It is never
// in state or in a plan.
type operatorToken struct{}

func (operatorToken) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_operator_token"
}

func (operatorToken) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The operator's token of a cluster, from the context file on this machine. Ephemeral: Terraform writes it neither to state nor to plans.",
		Attributes: map[string]schema.Attribute{
			"context": schema.StringAttribute{Optional: true, MarkdownDescription: "Cluster name, or path of a context file. Default: as the provider's."},
			"cluster": schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the cluster."},
			"token":   schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "The token."},
		},
	}
}

func (operatorToken) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("context"), &name)...)
	if resp.Diagnostics.HasError() {
		return
	}
	file, err := client.Path(name.ValueString())
	var known client.Context
	if err == nil {
		known, err = client.LoadContext(file)
	}
	if err != nil {
		addError(&resp.Diagnostics, "No cluster to talk to", err)
		return
	}
	resp.Diagnostics.Append(resp.Result.SetAttribute(ctx, path.Root("context"), name)...)
	resp.Diagnostics.Append(resp.Result.SetAttribute(ctx, path.Root("cluster"), known.Cluster)...)
	resp.Diagnostics.Append(resp.Result.SetAttribute(ctx, path.Root("token"), known.Token)...)
}
