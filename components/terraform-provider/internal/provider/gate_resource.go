package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

func newGate() resource.Resource { return &gateResource{} }

// gateResource is the setting of a gate of a group. The gate itself is a block of the group's spec.
type gateResource struct{ connection *connection }

var (
	_ resource.ResourceWithConfigure      = (*gateResource)(nil)
	_ resource.ResourceWithValidateConfig = (*gateResource)(nil)
	_ resource.ResourceWithImportState    = (*gateResource)(nil)
)

// gate is a setting as Terraform has it.
type gate struct {
	ID     types.String `tfsdk:"id"`
	Group  types.String `tfsdk:"group"`
	Name   types.String `tfsdk:"name"`
	State  types.String `tfsdk:"state"`
	Reason types.String `tfsdk:"reason"`
	Until  types.String `tfsdk:"until"`
}

func (r *gateResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_gate"
}

func (r *gateResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.connection = configured(req.ProviderData)
}

func (r *gateResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	another := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The setting that opens or closes a gate of a group, as `cadre gate open` and `cadre gate close` do. A `gate` block of the group's spec declares the gate. Destroying the setting leaves the gate its `default`. A gate with `per = \"slot\"` takes settings of single steps, which no configuration can know: use `cadre gate` there.",
		Attributes: map[string]schema.Attribute{
			"id":     schema.StringAttribute{Computed: true, MarkdownDescription: "`<group>/<name>`.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
			"group":  schema.StringAttribute{Required: true, MarkdownDescription: "Name of the group.", PlanModifiers: another},
			"name":   schema.StringAttribute{Required: true, MarkdownDescription: "Name of the gate in the group's spec.", PlanModifiers: another},
			"state":  schema.StringAttribute{Required: true, MarkdownDescription: "`open` or `closed`."},
			"reason": schema.StringAttribute{Required: true, MarkdownDescription: "Reason, which the plan of the group shows."},
			"until":  schema.StringAttribute{Optional: true, MarkdownDescription: "End of the setting, such as `2026-05-04T14:00:00Z`. Default: the next setting. After it a plan shows the setting as missing, and refuses to set it again: remove the resource, or give it more time."},
		},
	}
}

func (r *gateResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m gate
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	invalid := func(name, format string, args ...any) {
		resp.Diagnostics.AddAttributeError(path.Root(name), "Invalid "+name, fmt.Sprintf(format, args...))
	}
	for name, value := range map[string]types.String{"group": m.Group, "name": m.Name} {
		if p := group.NameProblem(value.ValueString()); p != "" && !value.IsUnknown() && !value.IsNull() {
			invalid(name, "%q %s.", value.ValueString(), p)
		}
	}
	if s := m.State; !s.IsUnknown() && !s.IsNull() && s.ValueString() != group.GateOpen && s.ValueString() != group.GateClosed {
		invalid("state", "%q is unknown: use %s or %s.", s.ValueString(), group.GateOpen, group.GateClosed)
	}
	if !m.Reason.IsUnknown() && !m.Reason.IsNull() && strings.TrimSpace(m.Reason.ValueString()) == "" {
		invalid("reason", "The reason is empty, and the plan of the group shows it.")
	}
	if _, err := m.until(); err != nil {
		invalid("until", "%q is no time: write it like 2026-05-04T14:00:00Z.", m.Until.ValueString())
	}
}

// until is the configured end; zero: none, or not known yet.
func (m gate) until() (time.Time, error) {
	if m.Until.ValueString() == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, m.Until.ValueString())
}

// set gives the setting, and completes m.
func (r *gateResource) set(ctx context.Context, m *gate, diags *diag.Diagnostics) (ok bool) {
	cl := r.connection.use(diags)
	if cl == nil {
		return false
	}
	setting := client.GateSetting{Group: m.Group.ValueString(), Gate: m.Name.ValueString(), State: m.State.ValueString(), Reason: m.Reason.ValueString()}
	until, err := m.until()
	if err == nil && !until.IsZero() {
		if setting.Length = time.Until(until); setting.Length <= 0 {
			err = errors.New("until has passed: remove the resource, or give it more time")
		}
	}
	if err != nil {
		diags.AddAttributeError(path.Root("until"), "Invalid until", err.Error())
		return false
	}
	if _, err := cl.SetGate(ctx, setting); err != nil {
		addError(diags, "Gate "+setting.Group+"/"+setting.Gate+" is not set", err)
		return false
	}
	m.ID = types.StringValue(setting.Group + "/" + setting.Gate)
	return true
}

func (r *gateResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m gate
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if !resp.Diagnostics.HasError() && r.set(ctx, &m, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

func (r *gateResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m gate
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if !resp.Diagnostics.HasError() && r.set(ctx, &m, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Read takes the setting in effect from any author. Without one the resource is gone.
func (r *gateResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m gate
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	cl := r.connection.lookup("Gate "+m.ID.ValueString(), &resp.Diagnostics)
	if cl == nil {
		return
	}
	list, err := cl.Gates(ctx, m.Group.ValueString())
	if err != nil && client.KindOf(err) != client.NotFound {
		addError(&resp.Diagnostics, "Gate "+m.ID.ValueString()+" cannot be read", err)
		return
	}
	at := slices.IndexFunc(list, func(g client.Gate) bool { return g.Gate == m.Name.ValueString() && g.Slot == "" && g.Set })
	if at < 0 {
		resp.State.RemoveResource(ctx)
		return
	}
	setting := list[at]
	m.State, m.Reason = types.StringValue(setting.State), types.StringValue(setting.Reason)
	end := time.Time{}
	if !setting.Until.IsZero() {
		end = time.Now().Add(time.Duration(setting.LeftSeconds) * time.Second)
	}
	if until, err := m.until(); err != nil || until.IsZero() != end.IsZero() || until.Sub(end).Abs() > sameTime {
		m.Until = types.StringNull()
		if !end.IsZero() {
			m.Until = types.StringValue(end.UTC().Format(time.RFC3339))
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *gateResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m gate
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	cl := r.connection.use(&resp.Diagnostics)
	if cl == nil || resp.Diagnostics.HasError() {
		return
	}
	if _, err := cl.ClearGate(ctx, m.Group.ValueString(), m.Name.ValueString(), ""); err != nil && client.KindOf(err) != client.NotFound {
		addError(&resp.Diagnostics, "The setting of gate "+m.ID.ValueString()+" is not taken back", err)
	}
}

// ImportState takes <group>/<name>.
func (r *gateResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	name, gate, ok := strings.Cut(req.ID, "/")
	if !ok || group.NameProblem(name) != "" || group.NameProblem(gate) != "" {
		resp.Diagnostics.AddError("Invalid id", fmt.Sprintf("%q names no gate: write <group>/<gate>, such as web/alarm.", req.ID))
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("group"), name)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), gate)...)
}
