package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

func newSecret() resource.Resource { return &secretResource{} }

// secretResource is the value of an operator's secret of a group. The group's spec declares the secret. State and plans
// have the epoch, and never the value.
type secretResource struct{ connection *connection }

var (
	_ resource.ResourceWithConfigure      = (*secretResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*secretResource)(nil)
	_ resource.ResourceWithValidateConfig = (*secretResource)(nil)
	_ resource.ResourceWithImportState    = (*secretResource)(nil)
)

// secretModel is a value as Terraform has it.
type secretModel struct {
	ID       types.String   `tfsdk:"id"`
	Group    types.String   `tfsdk:"group"`
	Name     types.String   `tfsdk:"name"`
	Value    types.String   `tfsdk:"value_wo"` // null in plans and states
	File     types.String   `tfsdk:"from_file"`
	Version  types.Int64    `tfsdk:"value_wo_version"`
	Reason   types.String   `tfsdk:"reason"`
	Epoch    types.Int64    `tfsdk:"epoch"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func (m secretModel) id() string { return m.Group.ValueString() + "/" + m.Name.ValueString() }

func (r *secretResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_secret"
}

func (r *secretResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.connection = configured(req.ProviderData)
}

func (r *secretResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	another := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The value of a secret with `source = \"operator\"`, as `cadre secret set` gives it. This machine seals the value after a coordinator proved its key under the trust of the context; without that proof nothing is sealed. State, plans and logs have no value. " +
			"A group waits for the first value, so write the name of the group as a text: a reference to its `cadre_group` with `wait_for_rollout` would wait for the group, which waits for the value. The apply waits until the group declares the secret. " +
			"Destroying the resource leaves the value to the members: removing the declaration from the group's spec deletes it.",
		Attributes: map[string]schema.Attribute{
			"id":    schema.StringAttribute{Computed: true, MarkdownDescription: "`<group>/<name>`.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
			"group": schema.StringAttribute{Required: true, MarkdownDescription: "Name of the group.", PlanModifiers: another},
			"name":  schema.StringAttribute{Required: true, MarkdownDescription: "Name of the secret in the group's spec.", PlanModifiers: another},
			"value_wo": schema.StringAttribute{Optional: true, Sensitive: true, WriteOnly: true,
				MarkdownDescription: "The value, as UTF-8 text of at most 64 KiB; a line end at the end is part of it. Write-only: take the value from an ephemeral variable or an ephemeral resource, since a literal is in the configuration. Either this or `from_file`."},
			"from_file": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Path of a file on this machine with the value, byte by byte. It must exist at the plan. Either this or `value_wo`."},
			"value_wo_version": schema.Int64Attribute{Required: true,
				MarkdownDescription: "Version of the value, from 1. Another version gives the secret the present value of `value_wo` or `from_file`; another value alone is not noticed. After another client gave the secret a value, a plan shows the version as missing, and gives the value again."},
			"reason": schema.StringAttribute{Optional: true, MarkdownDescription: "Reason, for the record of the next value."},
			"epoch":  schema.Int64Attribute{Computed: true, MarkdownDescription: "Epoch of the value in force.", PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}},
		},
		Blocks: map[string]schema.Block{argTimeouts: timeouts.Block(ctx, timeouts.Opts{Create: true, Update: true})},
	}
}

func (r *secretResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m secretModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	invalid := func(name, format string, args ...any) {
		resp.Diagnostics.AddAttributeError(path.Root(name), "Invalid "+name, fmt.Sprintf(format, args...))
	}
	for _, one := range []struct {
		name  string
		value types.String
	}{{"group", m.Group}, {"name", m.Name}} {
		if p := group.NameProblem(one.value.ValueString()); p != "" && !one.value.IsUnknown() {
			invalid(one.name, "%q %s.", one.value.ValueString(), p)
		}
	}
	if v := m.Version; !v.IsUnknown() && v.ValueInt64() < 1 {
		invalid("value_wo_version", "Is %d: versions begin at 1. Raise it with each other value.", v.ValueInt64())
	}
	switch {
	case m.Value.IsUnknown() || m.File.IsUnknown():
	case m.Value.IsNull() && m.File.IsNull():
		invalid("value_wo", "There is no value: set value_wo or from_file.")
	case !m.Value.IsNull() && !m.File.IsNull():
		invalid("from_file", "Both value_wo and from_file are set: take one of them out.")
	case m.File.IsNull():
		if p := group.SealedProblem(len(m.Value.ValueString())); p != "" {
			invalid("value_wo", "The value %s.", p)
		}
	}
}

// ModifyPlan rejects a value that can never be given, and reports whether the apply waits for the group.
func (r *secretResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var had, want secretModel
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &had)...)
	}
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.AddWarning("The value of secret "+had.id()+" stays in force",
			"The members keep the value while the spec of group "+had.Group.ValueString()+" declares the secret. Removing the declaration, or the group, deletes it.")
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &want)...)
	if resp.Diagnostics.HasError() || !want.gives(had) {
		return
	}
	want.Epoch = types.Int64Unknown()
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("epoch"), want.Epoch)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("value_wo"), &want.Value)...)
	value, known := want.value(&resp.Diagnostics)
	if resp.Diagnostics.HasError() || want.Group.IsUnknown() || want.Name.IsUnknown() {
		return
	}
	cl, err := r.connection.open()
	if err != nil {
		return
	}
	there, err := want.declared(ctx, cl)
	switch {
	case err != nil: // the apply reports it
	case there == nil:
		resp.Diagnostics.AddWarning("Group "+want.Group.ValueString()+" does not declare the secret "+want.Name.ValueString()+" yet",
			"The apply waits for it: the spec of the group needs secret \""+want.Name.ValueString()+"\" { source = \"operator\" }. Let this resource depend on no cadre_group or cadre_deployment that waits for its rollout, which waits for the value.")
	case there.Source != string(group.SecretOperator):
		want.refuseDerived(&resp.Diagnostics)
	case known:
		_, err := cl.SetSecret(ctx, want.Group.ValueString(), want.Name.ValueString(), value, want.Reason.ValueString(), true)
		if err != nil && slices.Contains([]client.Kind{client.Denied, client.Untrusted}, client.KindOf(err)) {
			addError(&resp.Diagnostics, "Secret "+want.id()+" cannot get its value", err)
		}
	}
}

// gives reports whether an apply over the state had gives the secret a value.
func (m secretModel) gives(had secretModel) bool {
	return had.Version.IsNull() || !m.Version.Equal(had.Version) || !m.Group.Equal(had.Group) || !m.Name.Equal(had.Name)
}

// declared returns the secret by the spec in force; nil: the group does not declare it, or does not exist.
func (m secretModel) declared(ctx context.Context, cl *client.Client) (*client.Secret, error) {
	list, err := cl.Secrets(ctx, m.Group.ValueString())
	if err = unlessAbsent(err); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(s client.Secret) bool { return s.Name == m.Name.ValueString() })
	if at < 0 {
		return nil, nil
	}
	return &list[at], nil
}

func (m secretModel) refuseDerived(diags *diag.Diagnostics) {
	diags.AddAttributeError(path.Root("name"), "Coordinators derive the value of "+m.id(),
		"It takes no value of yours: declare another secret with source = \"operator\" in the spec of group "+m.Group.ValueString()+".")
}

func (r *secretResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m secretModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("value_wo"), &m.Value)...)
	timeout, more := m.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	if !resp.Diagnostics.HasError() && r.give(ctx, &m, timeout, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

func (r *secretResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, had secretModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &had)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("value_wo"), &m.Value)...)
	timeout, more := m.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	if resp.Diagnostics.HasError() {
		return
	}
	if m.gives(had) && !r.give(ctx, &m, timeout, &resp.Diagnostics) {
		return
	}
	m.Value = types.StringNull()
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Read takes the epoch in force. A value by another client shows as a missing version. Without a value the resource is gone.
func (r *secretResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m secretModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	cl := r.connection.lookup("Secret "+m.id(), &resp.Diagnostics)
	if cl == nil {
		return
	}
	there, err := m.declared(ctx, cl)
	switch {
	case err != nil:
		addError(&resp.Diagnostics, "Secret "+m.id()+" cannot be read", err)
		return
	case there == nil || there.NoValue || there.Source != string(group.SecretOperator):
		resp.State.RemoveResource(ctx)
		return
	}
	if epoch := types.Int64Value(int64(there.Epoch)); !m.Epoch.Equal(epoch) {
		m.Epoch, m.Version = epoch, types.Int64Null()
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Delete forgets the resource; the plan reported that the value stays.
func (r *secretResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// ImportState takes <group>/<name> of a secret that has a value. The next apply gives it the value of the configuration.
func (r *secretResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	groupName, name, ok := strings.Cut(req.ID, "/")
	if !ok || group.NameProblem(groupName) != "" || group.NameProblem(name) != "" {
		resp.Diagnostics.AddError("Invalid id", fmt.Sprintf("%q names no secret: write <group>/<name>, such as web/s3-key.", req.ID))
		return
	}
	m := secretModel{Group: types.StringValue(groupName), Name: types.StringValue(name)}
	cl := r.connection.lookup("Secret "+req.ID, &resp.Diagnostics)
	if cl == nil {
		return
	}
	switch there, err := m.declared(ctx, cl); {
	case err != nil:
		addError(&resp.Diagnostics, "Secret "+req.ID+" cannot be read", err)
	case there == nil || there.NoValue:
		resp.Diagnostics.AddError("Secret "+req.ID+" has no value", "There is nothing to import: apply the resource, and it gives the value.")
	case there.Source != string(group.SecretOperator):
		m.refuseDerived(&resp.Diagnostics)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("group"), groupName)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
}
