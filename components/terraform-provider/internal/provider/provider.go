package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	tf "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Address is the provider's source address in configurations.
const Address = "cadre.dev/cadre/cadre"

// New gives the maker of providers of one version of this program.
func New(version string) func() tf.Provider {
	return func() tf.Provider { return &cadre{version: version} }
}

type cadre struct{ version string }

var (
	_ tf.ProviderWithFunctions          = (*cadre)(nil)
	_ tf.ProviderWithEphemeralResources = (*cadre)(nil)
)

func (p *cadre) Metadata(_ context.Context, _ tf.MetadataRequest, resp *tf.MetadataResponse) {
	resp.TypeName, resp.Version = "cadre", p.version
}

func (p *cadre) Schema(_ context.Context, _ tf.SchemaRequest, resp *tf.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Keeps stateful groups of confidential VMs in the state that is written down, one member at a time. " +
			"It finds a cluster as the `cadre` command does: by a context file.",
		Attributes: map[string]schema.Attribute{
			"context": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Cluster name, or path of a context file. Default: `$CADRE_CONTEXT`, then the only file in `~/.config/cadre`."},
			"context_json": schema.StringAttribute{Optional: true, Sensitive: true,
				MarkdownDescription: "Text of a context file, such as the `context_json` of a `cadre_cluster`, in place of a file. It may lack the token: see `token`."},
			"token": schema.StringAttribute{Optional: true, Sensitive: true,
				MarkdownDescription: "The operator's Consul ACL token, in place of the one in the context. Default: `$CADRE_TOKEN`. An ephemeral value keeps it out of state and plan files."},
			"endpoint": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Address, `host:port`, that is dialled for the coordinators in place of the gateway's name. Default: `$CADRE_ENDPOINT`, then the context's."},
			"ca_pem": schema.StringAttribute{Optional: true,
				MarkdownDescription: "The cluster CA that the coordinators must prove, PEM, in place of the context's."},
		},
	}
}

// settings are the provider's block.
type settings struct {
	Context     types.String `tfsdk:"context"`
	ContextJSON types.String `tfsdk:"context_json"`
	Token       types.String `tfsdk:"token"`
	Endpoint    types.String `tfsdk:"endpoint"`
	CAPEM       types.String `tfsdk:"ca_pem"`
}

func (p *cadre) Configure(ctx context.Context, req tf.ConfigureRequest, resp *tf.ConfigureResponse) {
	var s settings
	resp.Diagnostics.Append(req.Config.Get(ctx, &s)...)
	if resp.Diagnostics.HasError() {
		return
	}
	c := newConnection(s)
	resp.ResourceData, resp.DataSourceData, resp.EphemeralResourceData = c, c, c
}

func (p *cadre) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newCluster, newGroup, newInstance, newGate, newDeployment, newSecret}
}

func (p *cadre) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newPlanData, newRolloutData, newInstancesData, newComposeData, newHealthCheckData, newLifecycleHookData}
}

func (p *cadre) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{newOperatorToken}
}

func (p *cadre) Functions(context.Context) []func() function.Function {
	return []func() function.Function{newComposeHash, newPin}
}
