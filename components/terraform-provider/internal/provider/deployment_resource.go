package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/compose/lint"
	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
)

func newDeployment() resource.Resource { return &deploymentResource{} }

// deploymentResource is a deployment by its document.
type deploymentResource struct{ connection *connection }

var (
	_ resource.ResourceWithConfigure      = (*deploymentResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*deploymentResource)(nil)
	_ resource.ResourceWithValidateConfig = (*deploymentResource)(nil)
	_ resource.ResourceWithImportState    = (*deploymentResource)(nil)
)

// deploymentModel is a deployment as Terraform has it.
type deploymentModel struct {
	ID        types.String   `tfsdk:"id"`
	Document  types.String   `tfsdk:"document"`
	Folder    types.String   `tfsdk:"folder"`
	Variables types.Map      `tfsdk:"variables"`
	Reason    types.String   `tfsdk:"reason"`
	Wait      types.Bool     `tfsdk:"wait_for_rollout"`
	Protected types.Bool     `tfsdk:"deletion_protection"`
	Disks     types.Bool     `tfsdk:"delete_disks"`
	Keep      types.Bool     `tfsdk:"keep_cvms"`
	Version   types.Int64    `tfsdk:"version"`
	Groups    types.Map      `tfsdk:"groups"`
	Indexes   types.Map      `tfsdk:"spec_indexes"`
	Complete  types.Bool     `tfsdk:"rollout_complete"`
	Timeouts  timeouts.Value `tfsdk:"timeouts"`
}

func (r *deploymentResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_deployment"
}

func (r *deploymentResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.connection = configured(req.ProviderData)
}

func (r *deploymentResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A deployment: several groups as one document with versions, as `cadre deployment apply` writes it. One transaction writes the specs of all changed groups. Manage a group either here or as `cadre_group`: a plan that changes or destroys a `cadre_group` of a deployment is refused, and a `cadre_instance` sets only the revision and the overrides of its slots.",
		Attributes: map[string]schema.Attribute{
			"id":        schema.StringAttribute{Computed: true, MarkdownDescription: "The name of the deployment, from the document. It cannot change: another name is another deployment."},
			"document":  schema.StringAttribute{Required: true, MarkdownDescription: "Text of the document: one `deployment` block with its groups, or the JSON of `cadre deployment export`. Usually `file(\"shop.hcl\")`."},
			"folder":    schema.StringAttribute{Optional: true, MarkdownDescription: "Folder at which relative paths of `file()` and `templatefile()` in the document start, such as `path.module`. Default: the working folder of the run."},
			"variables": schema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Values of the document's `variable` blocks."},
			"reason":    schema.StringAttribute{Optional: true, MarkdownDescription: "Reason, for the history of the deployment."},
			argWait: schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Wait until every group of the deployment is rolled out and available; fail with the reasons. Default `true`."},
			argProtected: schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false), MarkdownDescription: "Refuse to destroy the deployment. Default `false`."},
			argDisks:     schema.BoolAttribute{Optional: true, MarkdownDescription: "Destroying the deployment also deletes the disks that a spec preserves. For good."},
			argKeep:      schema.BoolAttribute{Optional: true, MarkdownDescription: "When the deployment is destroyed, leave the CVMs of its groups on the platform: Cadre forgets them, and their credentials end."},
			"version":    schema.Int64Attribute{Computed: true, MarkdownDescription: "Present version. A plan of a change shows the next one where the document differs from the present version, or a group from the document."},
			"groups":     schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Revision of each group of the document."},
			"spec_indexes": schema.MapAttribute{Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "Index of each group's stored spec, as it was read last; 0: the group is absent. An apply overwrites no spec that was edited since."},
			argComplete: schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the rollouts of all groups are over. With `wait_for_rollout`, a plan that finds it `false` waits for them again."},
		},
		Blocks: map[string]schema.Block{argTimeouts: timeouts.Block(ctx, timeouts.Opts{Create: true, Update: true, Delete: true})},
	}
}

// ValidateConfig judges the document without a cluster, as soon as its text is known.
func (r *deploymentResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m deploymentModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if !resp.Diagnostics.HasError() {
		m.read(ctx, &resp.Diagnostics)
	}
}

// read reads and judges the document. ok is false when a part of it is unknown yet, or wrong; the reason was added then.
func (m deploymentModel) read(ctx context.Context, diags *diag.Diagnostics) (doc deployment.Document, ok bool) {
	if m.Document.IsUnknown() || m.Folder.IsUnknown() || m.Variables.IsUnknown() {
		return doc, false
	}
	given := map[string]types.String{}
	diags.Append(m.Variables.ElementsAs(ctx, &given, false)...)
	vars := groupfile.Vars{Named: map[string]string{}}
	for name, value := range given {
		if value.IsUnknown() {
			return doc, false
		}
		vars.Named[name] = value.ValueString()
	}
	folder := m.Folder.ValueString()
	if folder == "" {
		folder = "."
	}
	d, err := groupfile.ReadDeployment("document", []byte(m.Document.ValueString()), folder, vars)
	if err != nil {
		text := err.Error()
		if strings.Contains(text, groupfile.FromFolder) && m.Folder.ValueString() == "" {
			text += "\n\nThat is the working folder of this run. For another one set folder, such as folder = path.module."
		}
		diags.AddAttributeError(path.Root("document"), "Invalid document", text)
		return doc, false
	}
	doc = d.Document()
	var problems []string
	for _, g := range d.Groups {
		for _, refusal := range lint.Refusals(g.Spec, g.Wrong) {
			if g.Judged(refusal.Path) {
				problems = append(problems, fmt.Sprintf("%s: group[%q].%s", g.Position(refusal.Path), g.Spec.Name, refusal.Text))
			}
		}
	}
	// The problems of each group are known with their lines.
	judged := func(group.Spec) error { return nil }
	for _, p := range deployment.Validate(doc, judged, nil) {
		problems = append(problems, d.Position()+": "+p.String())
	}
	if len(problems) > 0 {
		diags.AddAttributeError(path.Root("document"), "Invalid document", strings.Join(problems, "\n"))
	}
	return doc, len(problems) == 0
}

// applyDeployment is one create or update.
type applyDeployment struct {
	doc     deployment.Document
	options client.DeploymentOptions
	dry     client.AppliedDeployment
}

// ask has the coordinators judge the document against the specs of the state before. ok is false when they refuse it, or
// none answers, or the deployment is not as in the state; the reason was added.
func (r *deploymentResource) ask(ctx context.Context, cl *client.Client, doc deployment.Document, reason string, before deploymentModel, diags *diag.Diagnostics) (a applyDeployment, ok bool) {
	driver := cl.Context().Platform.Driver
	for i := range doc.Groups {
		if doc.Groups[i].Platform == "" && driver != "" {
			doc.Groups[i].Platform = driver
		}
	}
	a = applyDeployment{doc: doc, options: client.DeploymentOptions{Reason: reason, DryRun: true}}
	present, err := cl.Deployment(ctx, doc.Name, 0)
	switch {
	case err == nil:
		a.options.ExpectedVersion = present.Present().Number
	case client.KindOf(err) == client.NotFound:
		a.options.ExpectAbsent = true
	default:
		addError(diags, "Deployment "+doc.Name+" cannot be read", err)
		return a, false
	}
	if !before.ID.IsNull() && before.Version.ValueInt64() != int64(a.options.ExpectedVersion) {
		a.moved(before, diags)
		return a, false
	}
	if !a.unknownTo(before) {
		a.options.Indexes = before.expected(ctx, doc, diags)
	}
	if a.dry, err = cl.ApplyDeployment(ctx, doc, a.options); err != nil {
		a.refused(err, diags)
		return a, false
	}
	return a, true
}

// unknownTo reports whether the deployment exists and the state lacks it: the plan replaces the deployment, or an earlier
// run failed after its write, or another author made it. The state says nothing about its groups then.
func (a applyDeployment) unknownTo(before deploymentModel) bool {
	return before.ID.IsNull() && !a.options.ExpectAbsent
}

// moved adds the error of a deployment that another client wrote since the state was read.
func (a applyDeployment) moved(before deploymentModel, diags *diag.Diagnostics) {
	text := fmt.Sprintf("It is at version %d", a.options.ExpectedVersion)
	if a.options.ExpectAbsent {
		text = "It was deleted"
	}
	diags.AddAttributeError(path.Root("document"), fmt.Sprintf("Deployment %s was changed since it was read", a.doc.Name),
		fmt.Sprintf("%s, and the state has version %d. Nothing was overwritten. Plan again: the plan shows the changes.", text, before.Version.ValueInt64()))
}

// waysOn of a deployment that exists and that the state lacks.
func (a applyDeployment) waysOn() string {
	return fmt.Sprintf("To manage it here, import it and apply again: terraform import cadre_deployment.NAME %[1]s. To be rid of it: cadre deployment delete %[1]s. For another deployment, use another name.", a.doc.Name)
}

// refused adds the error of a write of the document.
func (a applyDeployment) refused(err error, diags *diag.Diagnostics) {
	if a.options.Indexes != nil && client.KindOf(err) == client.Conflict {
		diags.AddAttributeError(path.Root("document"), fmt.Sprintf("A group of deployment %s was changed since it was read", a.doc.Name),
			err.Error()+"\n\nNothing was overwritten. Plan again: the plan shows the changes. To keep an edit of a group, or to take an existing group into the deployment, write its present spec into the document first.")
		return
	}
	addError(diags, "The coordinators refuse the deployment "+a.doc.Name, err)
}

// ModifyPlan asks the coordinators which groups the document changes.
func (r *deploymentResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var m, before deploymentModel
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	}
	if req.Plan.Raw.IsNull() {
		r.planDelete(ctx, before, &resp.Diagnostics)
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	doc, ok := m.read(ctx, &resp.Diagnostics)
	if !ok || resp.Diagnostics.HasError() {
		return
	}
	m.ID = types.StringValue(doc.Name)
	if !req.State.Raw.IsNull() && before.ID.ValueString() != doc.Name {
		resp.Diagnostics.AddAttributeError(path.Root("document"), fmt.Sprintf("Deployment %s cannot be renamed to %s", before.ID.ValueString(), doc.Name),
			fmt.Sprintf("A rename would delete the groups of %[1]s with their data. Nothing was changed. Keep the name %[1]q in this document. For another deployment, add another cadre_deployment with groups of other names: `cadre deployment clone %[1]s %[2]s` and `cadre deployment export %[2]s` make its document. "+
				"Destroy this one when its groups are not needed any more.", before.ID.ValueString(), doc.Name))
		return
	}
	m.Version, m.Groups, m.Indexes, m.Complete = types.Int64Unknown(), types.MapUnknown(types.StringType), types.MapUnknown(types.Int64Type), types.BoolUnknown()
	cl, err := r.connection.open()
	switch {
	case err != nil:
		noPlan(doc.Name, err, &resp.Diagnostics)
	case before.goes(ctx, cl): // no error: to destroy, Terraform plans as if to apply first
	default:
		a, ok := r.ask(ctx, cl, doc, m.Reason.ValueString(), before, &resp.Diagnostics)
		if !ok {
			break
		}
		a.warn(&resp.Diagnostics)
		m.Groups = a.groups(ctx)
		if a.unknownTo(before) && a.dry.Changed { // no error: a plan that replaces the deployment destroys it first
			resp.Diagnostics.AddAttributeWarning(path.Root("document"), fmt.Sprintf("Deployment %s exists already", doc.Name), "It has another content than this document. Unless this plan replaces the deployment, its apply is refused. "+a.waysOn())
		}
		if before.ID.IsNull() { // the version of a new deployment depends on whether another one was destroyed first
			break
		}
		m.Version = types.Int64Value(int64(a.dry.Version))
		if !a.dry.Changed && !before.Indexes.IsNull() {
			m.Indexes = before.Indexes
		}
		if !a.dry.Changed && (before.Complete.ValueBool() || !m.Wait.ValueBool()) && !before.Complete.IsNull() {
			m.Complete = before.Complete
		}
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, m)...)
}

// warn lists the groups that an apply changes, with their warnings.
func (a applyDeployment) warn(diags *diag.Diagnostics) {
	for _, g := range a.dry.Groups {
		text := append([]string{}, g.Warnings...)
		if len(g.HeldDisks) > 0 {
			text = append(text, "Slots stay for their disks: "+strings.Join(g.HeldDisks, ", "))
		}
		summary := fmt.Sprintf("Group %s changes, revision %.8s", g.Group, g.Revision)
		switch {
		case !g.Changed && len(text) == 0:
			continue
		case !g.Changed:
			summary = "Group " + g.Group
		case g.Index == 0:
			summary = fmt.Sprintf("Group %s is new, revision %.8s", g.Group, g.Revision)
		}
		diags.AddWarning(summary, lines(append(text, fmt.Sprintf("Version %d of deployment %s.", a.dry.Version, a.doc.Name))...))
	}
	for _, text := range a.dry.Warnings {
		diags.AddWarning("Deployment "+a.doc.Name, text)
	}
}

// expected are the indexes of specs that a write of doc expects, by group: the indexes in the state. A group that the state
// lacks is absent, or has the very spec of the document. nil: any, since the state is of an older provider.
func (m deploymentModel) expected(ctx context.Context, doc deployment.Document, diags *diag.Diagnostics) map[string]uint64 {
	if m.Indexes.IsNull() && !m.ID.IsNull() {
		return nil
	}
	read, out := map[string]uint64{}, map[string]uint64{}
	if !m.Indexes.IsNull() {
		diags.Append(m.Indexes.ElementsAs(ctx, &read, false)...)
	}
	for _, spec := range doc.Groups {
		out[spec.Name] = read[spec.Name]
	}
	return out
}

// indexes are those of the stored specs of the document's groups.
func indexes(ctx context.Context, of map[string]uint64) types.Map {
	out := map[string]int64{}
	for name, index := range of {
		out[name] = int64(index)
	}
	m, _ := types.MapValueFrom(ctx, types.Int64Type, out) // numbers always convert
	return m
}

// groups are the revisions of the document's groups.
func (a applyDeployment) groups(ctx context.Context) types.Map {
	out := map[string]string{}
	for _, g := range a.dry.Groups {
		out[g.Group] = g.Revision
	}
	m, _ := types.MapValueFrom(ctx, types.StringType, out) // texts always convert
	return m
}

func (r *deploymentResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m deploymentModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	timeout, more := m.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.apply(ctx, &m, deploymentModel{}, timeout, &resp.Diagnostics) {
		return
	}
	if resp.Diagnostics.HasError() {
		// With a state, Terraform would delete the deployment and its disks at the next apply.
		resp.Diagnostics.AddError(fmt.Sprintf("Deployment %s exists, and its rollouts continue without Terraform", m.ID.ValueString()),
			fmt.Sprintf("To continue, apply again: the same document is adopted unchanged. For a corrected document, import it first: terraform import cadre_deployment.NAME %[1]s. To be rid of it: cadre deployment delete %[1]s", m.ID.ValueString()))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *deploymentResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, before deploymentModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	timeout, more := m.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	if !resp.Diagnostics.HasError() && r.apply(ctx, &m, before, timeout, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// apply writes the document, waits, and completes m; false: nothing was written. A failed wait adds its reason.
// before is the state; the zero value: the deployment is new, or has this very content.
func (r *deploymentResource) apply(ctx context.Context, m *deploymentModel, before deploymentModel, timeout time.Duration, diags *diag.Diagnostics) bool {
	doc, ok := m.read(ctx, diags)
	cl := r.connection.use(diags)
	if !ok || cl == nil {
		return false
	}
	a, ok := r.ask(ctx, cl, doc, m.Reason.ValueString(), before, diags)
	if !ok {
		return false
	}
	if a.unknownTo(before) && a.dry.Changed {
		diags.AddAttributeError(path.Root("document"), fmt.Sprintf("Deployment %s exists already", doc.Name), "It has another content than this document, and nothing was changed. "+a.waysOn())
		return false
	}
	done := a.dry
	if a.dry.Changed {
		var err error
		a.options.DryRun = false
		if done, err = cl.ApplyDeployment(ctx, doc, a.options); err != nil {
			a.refused(err, diags)
			return false
		}
	}
	m.ID, m.Version, m.Groups, m.Complete = types.StringValue(doc.Name), types.Int64Value(int64(done.Version)), a.groups(ctx), types.BoolValue(true)
	stored := map[string]uint64{}
	for _, g := range done.Groups {
		stored[g.Group] = g.Index
		w := written{spec: g.Spec, blocks: map[string]any{}, tree: map[string]any{}}
		applied := client.Applied{Changed: g.Changed, Index: g.Index, Revision: g.Revision}
		if m.Wait.ValueBool() && !waitFor(ctx, cl, w, applied, timeout, diags) || !m.Wait.ValueBool() && !settled(ctx, cl, g.Spec, g.Index) {
			m.Complete = types.BoolValue(false)
		}
	}
	if m.Indexes.IsUnknown() {
		m.Indexes = indexes(ctx, stored)
	}
	return true
}

// Read takes the present version. The plan compares it with the document.
func (r *deploymentResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m deploymentModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	name := m.ID.ValueString()
	cl := r.connection.lookup("Deployment "+name, &resp.Diagnostics)
	if cl == nil {
		return
	}
	d, err := cl.Deployment(ctx, name, 0)
	switch {
	case err != nil && client.KindOf(err) == client.NotFound:
		left, err := m.left(ctx, cl)
		switch {
		case err != nil:
			addError(&resp.Diagnostics, "The groups of deployment "+name+" cannot be read", err)
		case len(left) == 0:
			resp.State.RemoveResource(ctx)
		default:
			resp.Diagnostics.AddWarning("Deployment "+name+" is being deleted", "Its groups are not gone yet: "+strings.Join(left, ", ")+". To keep a group: cadre group delete GROUP --cancel")
		}
		return
	case err != nil:
		addError(&resp.Diagnostics, "Deployment "+name+" cannot be read", err)
		return
	}
	m.Version, m.Indexes, m.Complete = types.Int64Value(int64(d.Present().Number)), indexes(ctx, d.Indexes), types.BoolValue(true)
	for _, spec := range d.Document.Groups {
		if !settled(ctx, cl, spec, 0) {
			m.Complete = types.BoolValue(false)
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// ImportState takes a deployment over by its name. The next apply gives it the document of the configuration.
func (r *deploymentResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
