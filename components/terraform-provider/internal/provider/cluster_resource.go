package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"cadre.dev/cli/genesis"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
)

func newCluster() resource.Resource { return &clusterResource{} }

// clusterResource is the coordinators of one cluster, made as `cadre cluster create` makes
// them. The operator's token and the platform's key stay in the context file of this machine.
type clusterResource struct{}

var (
	_ resource.ResourceWithValidateConfig = (*clusterResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*clusterResource)(nil)
	_ resource.ResourceWithImportState    = (*clusterResource)(nil)
)

// coordinators are a cluster as Terraform has it.
type coordinators struct {
	ID          types.String   `tfsdk:"id"`
	File        types.String   `tfsdk:"file"`
	Variables   types.Map      `tfsdk:"variables"`
	Context     types.String   `tfsdk:"context"`
	Key         types.String   `tfsdk:"platform_api_key"`
	Protected   types.Bool     `tfsdk:"deletion_protection"`
	AppID       types.String   `tfsdk:"coordinator_app_id"`
	CAPEM       types.String   `tfsdk:"ca_pem"`
	ClusterID   types.String   `tfsdk:"cluster_id"`
	ContextJSON types.String   `tfsdk:"context_json"`
	Rendering   types.String   `tfsdk:"rendering"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
}

func (r *clusterResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster"
}

func (r *clusterResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	kept := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The coordinators of a cluster, as `cadre cluster create` makes them: it allots their app, makes their CVMs, waits until one proves itself, and pins the cluster's CA. " +
			"An interrupted apply continues where it ended. Another content of the file upgrades the coordinators one at a time, as `cadre cluster upgrade` does. The operator's token is made on this machine and kept in the context file, never in state: see `cadre_operator_token`.",
		Attributes: map[string]schema.Attribute{
			"id":      schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the cluster.", PlanModifiers: kept},
			"file":    schema.StringAttribute{Required: true, MarkdownDescription: "Path of the cluster file of `cadre cluster create`."},
			"context": schema.StringAttribute{Optional: true, MarkdownDescription: "Name or path of the new context file. Default: the cluster's name, in `~/.config/cadre`. For a moved file, change the path here; the coordinators stay."},
			"variables": schema.MapAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Values for `var.<name>` in the file. They are in state: no place for a secret."},
			"platform_api_key": schema.StringAttribute{Optional: true, Sensitive: true, WriteOnly: true,
				MarkdownDescription: "The platform's API key, in place of the environment variable that the file names. Neither state nor plans hold it; destroying reads the variable, and a plan to destroy fails without it."},
			"deletion_protection": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Refuse to destroy the coordinators: every record of the cluster is lost with them. Default `true`."},
			"coordinator_app_id": schema.StringAttribute{Computed: true, MarkdownDescription: "The coordinators' application on the platform.", PlanModifiers: kept},
			"ca_pem":             schema.StringAttribute{Computed: true, MarkdownDescription: "The cluster CA that the coordinators proved, PEM."},
			"cluster_id":         schema.StringAttribute{Computed: true, MarkdownDescription: "The cluster ID that they proved."},
			"rendering": schema.StringAttribute{Computed: true,
				MarkdownDescription: "Digest of the coordinators' measured document, OS image and shape by the file. Another digest is an upgrade. A change of env values alone is not seen."},
			"context_json": schema.StringAttribute{Computed: true, MarkdownDescription: "The context without the token and the platform's key, for a provider's `context_json`."},
		},
		Blocks: map[string]schema.Block{"timeouts": timeouts.Block(ctx, timeouts.Opts{Create: true, Update: true, Delete: true})},
	}
}

// load reads the cluster file, and says where the context is kept.
func (m coordinators) load(ctx context.Context) (groupfile.Cluster, string, error) {
	vars := map[string]string{}
	if d := m.Variables.ElementsAs(ctx, &vars, false); d.HasError() {
		return groupfile.Cluster{}, "", errors.New("variables: " + d[0].Detail())
	}
	file, err := groupfile.Load([]string{m.File.ValueString()}, groupfile.Vars{Named: vars})
	if err != nil {
		return groupfile.Cluster{}, "", err
	}
	if len(file.Clusters) != 1 {
		return groupfile.Cluster{}, "", fmt.Errorf("%s has %d cluster blocks, want one", m.File.ValueString(), len(file.Clusters))
	}
	name := m.Context.ValueString()
	if name == "" {
		name = file.Clusters[0].Name
	}
	at, err := client.Path(name)
	return file.Clusters[0], at, err
}

// known: everything that the cluster file needs is.
func (m coordinators) known() bool {
	for _, v := range m.Variables.Elements() {
		if v.IsUnknown() {
			return false
		}
	}
	return !m.File.IsUnknown() && !m.Variables.IsUnknown() && !m.Context.IsUnknown()
}

// ValidateConfig finds the problems that `cadre cluster create` would reject before it makes
// anything.
func (r *clusterResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m coordinators
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() || !m.known() {
		return
	}
	if _, _, err := m.load(ctx); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("file"), "Cluster file is not valid", err.Error())
	}
}

// ModifyPlan rejects the destruction of a protected cluster, and another cluster in place of this
// one.
func (r *clusterResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() {
		return
	}
	var before, want coordinators
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	if req.Plan.Raw.IsNull() {
		protected(before, &resp.Diagnostics)
		before.deletable(&resp.Diagnostics)
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &want)...)
	if resp.Diagnostics.HasError() || !want.known() {
		return
	}
	if want.same(ctx, before.ID.ValueString(), &resp.Diagnostics) {
		want.planProven(ctx, before, resp)
	}
}

// same reports whether the cluster file and the context belong to the existing cluster. Another
// cluster would leave the existing coordinators without an owner, and bootstrap new ones.
func (m coordinators) same(ctx context.Context, name string, diags *diag.Diagnostics) bool {
	cluster, at, err := m.load(ctx)
	switch {
	case err != nil:
		diags.AddAttributeError(path.Root("file"), "Cluster file is not valid", err.Error())
	case cluster.Name != name:
		diags.AddAttributeError(path.Root("file"), "Another cluster", fmt.Sprintf("The file is about cluster %q, this resource is cluster %q. A cluster cannot be renamed; another one is another resource.", cluster.Name, name))
	default:
		if _, err = client.LoadContext(at); errors.Is(err, client.ErrNoContext) {
			noContext(name, at, diags)
			return false
		}
		return true
	}
	return false
}

// noContext: without the context there is neither the operator's token nor the platform's key
// to do anything with, and nothing may be taken for gone.
func noContext(name, at string, diags *diag.Diagnostics) {
	diags.AddAttributeError(path.Root("context"), "The context of cluster "+name+" is not on this machine",
		"There is no "+at+". Copy it from where the cluster was made, and let context name it. If the cluster was removed by `cadre cluster delete`, remove the resource from the state.")
}

func protected(m coordinators, diags *diag.Diagnostics) {
	if m.Protected.ValueBool() {
		diags.AddAttributeError(path.Root("deletion_protection"), fmt.Sprintf("Cluster %s is protected from deletion", m.ID.ValueString()),
			"Every record of the cluster is lost with its coordinators, and no workload can be admitted again. To destroy them, set deletion_protection = false and apply that first.")
	}
}

// Create makes the coordinators, or the missing ones of them.
func (r *clusterResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m coordinators
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("platform_api_key"), &m.Key)...)
	timeout, more := m.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if m.make(ctx, genesis.Create, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Update upgrades the coordinators one at a time, or makes missing ones.
func (r *clusterResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m coordinators
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("platform_api_key"), &m.Key)...)
	timeout, more := m.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var before coordinators
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	do := genesis.Create
	if before.upgrades(m.Rendering.ValueString()) {
		do = func(ctx context.Context, o genesis.Options) (client.Context, error) {
			// The list of own hosts is an env value, which only a person or another digest shows.
			o.Env = o.Cluster.Platform.Driver == group.PlatformVMM
			return genesis.Apply(ctx, o)
		}
	}
	if m.same(ctx, before.ID.ValueString(), &resp.Diagnostics) && m.make(ctx, do, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// make has do make the coordinators of the file, with its progress in the log.
func (m *coordinators) make(ctx context.Context, do func(context.Context, genesis.Options) (client.Context, error), diags *diag.Diagnostics) bool {
	cluster, at, err := m.load(ctx)
	var made client.Context
	if err == nil {
		cloud, key, opened := genesis.OpenFor(cluster.Platform, m.Key.ValueString())
		if err = opened; err == nil {
			made, err = do(ctx, genesis.Options{
				Cluster: cluster, ContextPath: at, Cloud: cloud, APIKey: key, Say: func(text string) { tflog.Info(ctx, text) },
			})
		}
	}
	if err == nil {
		var rendering string
		rendering, err = genesis.Rendering(cluster, made)
		m.Rendering = types.StringValue(rendering)
	}
	m.Key = types.StringNull() // write-only
	if err != nil {
		diags.AddError("Cluster "+cluster.Name+" is not as the file says yet", err.Error()+
			"\n\nWhat was made is noted in the context file "+at+" and on the platform: apply again to continue, or remove it with `cadre cluster delete`.")
		return false
	}
	return m.fill(made, diags)
}

// fill reads the public values of a context.
func (m *coordinators) fill(c client.Context, diags *diag.Diagnostics) bool {
	m.ID, m.AppID = types.StringValue(c.Cluster), types.StringValue(c.CoordinatorAppID)
	m.CAPEM, m.ClusterID = types.StringValue(c.CAPEM), types.StringValue(c.ClusterID)
	c.Token, c.Platform.APIKey, c.CoordinatorAppNonce = "", "", ""
	text, err := json.Marshal(c)
	if err != nil {
		addError(diags, "Context cannot be written", err)
		return false
	}
	m.ContextJSON = types.StringValue(string(text))
	return true
}

// Read refreshes the state from the context file. Without one nothing is known of the cluster
// here, least of all that it is gone.
func (r *clusterResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m coordinators
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	known, at, err := m.stored()
	switch {
	case errors.Is(err, client.ErrNoContext):
		noContext(m.ID.ValueString(), at, &resp.Diagnostics)
	case err != nil:
		addError(&resp.Diagnostics, "Context cannot be read", err)
	case m.fill(known, &resp.Diagnostics):
		if m.Protected.IsNull() {
			m.Protected = types.BoolValue(true) // imported
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Delete removes the coordinators with their disks, and forgets the cluster on this machine.
func (r *clusterResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m coordinators
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	timeout, more := m.Timeouts.Delete(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	if protected(m, &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	known, at, err := m.stored()
	if errors.Is(err, client.ErrNoContext) {
		noContext(m.ID.ValueString(), at, &resp.Diagnostics)
		return
	}
	if err == nil {
		if left := genesis.NoGroupsLeft(ctx, known, genesis.ListingLag); left != nil {
			groupsLeft(m.ID.ValueString(), left, &resp.Diagnostics)
			return
		}
		cloud, _, opened := genesis.OpenCloud(known.Platform, "")
		if err = opened; err == nil {
			err = genesis.Delete(ctx, cloud, known, func(text string) { tflog.Info(ctx, text) })
		}
	}
	if err == nil {
		err = genesis.RemoveContext(at)
	}
	if err != nil {
		resp.Diagnostics.AddError("Cluster "+m.ID.ValueString()+" is not deleted", err.Error()+"\n\nDestroy again to continue.")
	}
}

// groupsLeft: a group whose first apply failed is in no state, so that a destroy passes it by.
func groupsLeft(name string, err error, diags *diag.Diagnostics) {
	summary := "It is not known whether cluster " + name + " still has groups"
	if errors.Is(err, genesis.ErrGroupsLeft) {
		summary = "Cluster " + name + " still has groups"
	}
	diags.AddError(summary, err.Error()+"\n\nWithout the coordinators the CVMs of groups run on, and only the platform can delete them by hand. "+
		"A group whose first apply failed is not in Terraform's state: delete it with `cadre group delete <name> --delete-disks --wait`, or import it, and destroy again. "+
		"To give the coordinators up all the same: `cadre cluster delete`, then `terraform state rm`.")
}

// ImportState takes a cluster over that this machine knows by the name or path of its context.
func (r *clusterResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if strings.ContainsRune(req.ID, '/') {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("context"), req.ID)...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
}
