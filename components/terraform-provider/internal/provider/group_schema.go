package provider

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/core/group"
	"cadre.dev/terraform-provider/internal/shape"
)

// specFields are the arguments and blocks that are the group's spec.
var specFields = shape.Of[group.Spec]()

// Arguments of a group in addition to its spec.
const (
	argWait       = "wait_for_rollout"
	argProtected  = "deletion_protection"
	argDisks      = "delete_disks"
	argKeep       = "keep_cvms"
	argTimeouts   = "timeouts"
	argChecksJSON = "health_check_json"
	argHooksJSON  = "lifecycle_hook_json"
	argID         = "id"
	argRevision   = "revision"
	argIndex      = "spec_index"
	argComplete   = "rollout_complete"
	argDeleting   = "deleting"
)

// rendered are the arguments that take blocks as data sources render them, with the field
// that they add to.
var rendered = map[string]string{argChecksJSON: "health_check", argHooksJSON: "lifecycle_hook"}

func (r *groupResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes, blocks := shape.Resource(specFields, specWords)
	attributes["name"] = schema.StringAttribute{Required: true, MarkdownDescription: specWords["name"],
		PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}}
	maps.Copy(attributes, map[string]schema.Attribute{
		argWait: schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Wait until every slot in scope proved the revision and is available; fail with the rollout's reasons. The coordinators carry out the rollout, with or without this wait. Default `true`."},
		argProtected: schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Refuse to destroy the group. Default `false`."},
		argDisks: schema.BoolAttribute{Optional: true,
			MarkdownDescription: "Give up disks: those of slots that fewer `replicas` remove, and, with `preserved_state`, those of the group when it is destroyed. Without it neither is deleted. For good."},
		argKeep: schema.BoolAttribute{Optional: true,
			MarkdownDescription: "When the group is destroyed, leave its CVMs on the platform as they are: Cadre forgets them, and their credentials end."},
		argChecksJSON: schema.ListAttribute{Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Health checks as `cadre_health_check` renders them, to share them between groups; they follow those in `health_check` blocks."},
		argHooksJSON: schema.ListAttribute{Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Lifecycle hooks as `cadre_lifecycle_hook` renders them, to share them between groups; they follow those in `lifecycle_hook` blocks."},
		argID:       schema.StringAttribute{Computed: true, MarkdownDescription: "The group's name."},
		argRevision: schema.StringAttribute{Computed: true, MarkdownDescription: "Revision that the spec asks for, as the coordinators name it; known when planning where they can be asked."},
		argIndex:    schema.Int64Attribute{Computed: true, MarkdownDescription: "Index of the stored spec; a spec that another client changed since the read is not overwritten."},
		argComplete: schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the rollout of the stored spec is over. With `wait_for_rollout`, a plan that finds it `false` waits for it again. Slots that are down at another time are warned of in plans."},
	})
	attributes[argDeleting] = schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the group is being deleted: by an interrupted destroy, or by another client. Nothing can be applied to it meanwhile; destroying it continues the deletion."}
	blocks[argTimeouts] = timeouts.Block(ctx, timeouts.Opts{Create: true, Update: true, Delete: true})
	resp.Schema = schema.Schema{
		MarkdownDescription: "A group: its workload, its number of slots, and the rules of its changes. Arguments and blocks have the names of the group's spec; blocks that have a label in a group file have a `name` here.",
		Attributes:          attributes, Blocks: blocks,
	}
}
