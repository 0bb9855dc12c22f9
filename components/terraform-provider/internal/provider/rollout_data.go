package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// question is a data source that asks the coordinators about one group.
type question[T any] struct {
	name, about string
	attributes  map[string]schema.Attribute
	ask         func(ctx context.Context, cl *client.Client, group string) (T, error)

	connection *connection
}

func (q *question[T]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + q.name
}

func (q *question[T]) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	q.connection = configured(req.ProviderData)
}

func (q *question[T]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := map[string]schema.Attribute{"group": schema.StringAttribute{Required: true, MarkdownDescription: "Name of the group."}}
	for name, a := range q.attributes {
		attributes[name] = a
	}
	resp.Schema = schema.Schema{MarkdownDescription: q.about, Attributes: attributes}
}

func (q *question[T]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, groupPath, &name)...)
	cl := q.connection.use(&resp.Diagnostics)
	if cl == nil || resp.Diagnostics.HasError() {
		return
	}
	out, err := q.ask(ctx, cl, name.ValueString())
	if err != nil {
		groupUnread(name.ValueString(), err, &resp.Diagnostics)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, out)...)
}

func text(about string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: about}
}

func whole(about string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: about}
}

func flagged(about string) schema.BoolAttribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: about}
}

func listed(about string, of map[string]schema.Attribute) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{Computed: true, MarkdownDescription: about, NestedObject: schema.NestedAttributeObject{Attributes: of}}
}

func textList(about string) schema.ListAttribute {
	return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: about}
}

type planData struct {
	Group    string     `tfsdk:"group"`
	Target   string     `tfsdk:"target_revision"`
	Stable   string     `tfsdk:"stable_revision"`
	Message  string     `tfsdk:"message"`
	Warnings []string   `tfsdk:"warnings"`
	Actions  []planStep `tfsdk:"actions"`
}

type planStep struct {
	Slot    string     `tfsdk:"slot"`
	Ordinal int64      `tfsdk:"ordinal"`
	Extra   bool       `tfsdk:"extra"`
	Kind    string     `tfsdk:"kind"`
	From    string     `tfsdk:"from_revision"`
	To      string     `tfsdk:"to_revision"`
	Execute bool       `tfsdk:"execute"`
	When    string     `tfsdk:"when"`
	Text    string     `tfsdk:"text"`
	Holds   []planHold `tfsdk:"holds"`
}

type planHold struct {
	Predicate string `tfsdk:"predicate"`
	Message   string `tfsdk:"message"`
}

func newPlanData() datasource.DataSource {
	hold := map[string]schema.Attribute{"predicate": text("Stable name, such as `max_unavailable`."), "message": text("The event or command that ends the wait.")}
	return &question[planData]{
		name: "plan", about: "The coordinators' present plan for a group: each step in order, and its holds.",
		attributes: map[string]schema.Attribute{
			"target_revision": text("Revision that the spec asks for."), "stable_revision": text("Last revision whose rollout completed."),
			"message": text("The progress, in one line."), "warnings": textList("Expected losses of service."),
			"actions": listed("Steps, in order.", map[string]schema.Attribute{
				"slot": text("Slot."), "ordinal": whole("Its ordinal."), "extra": flagged("Whether the slot is there for the time of a rollout only (`max_surge`)."), "kind": text("The kind of the step."), "from_revision": text("Revision before."), "to_revision": text("Revision after."),
				"execute": flagged("Whether it may begin now."), "when": text("`now`, `held`, or the phase that it is in."), "text": text("The step in one line."), "holds": listed("The reasons of its wait.", hold),
			}),
		},
		ask: func(ctx context.Context, cl *client.Client, name string) (planData, error) {
			p, err := cl.Plan(ctx, name, nil)
			return planOf(name, p), err
		},
	}
}

func planOf(name string, p rollout.Plan) planData {
	out := planData{Group: name, Target: p.Target, Stable: p.Stable, Message: p.Message, Warnings: append([]string{}, p.Warnings...), Actions: []planStep{}}
	for _, a := range p.Actions {
		s := planStep{Slot: a.Slot, Ordinal: int64(a.Ordinal), Extra: a.Extra, Kind: string(a.Kind), From: a.From, To: a.To, Execute: a.Execute, When: format.When(a), Text: format.Step(a, time.Now()), Holds: []planHold{}}
		for _, h := range a.Holds {
			s.Holds = append(s.Holds, planHold{Predicate: h.Predicate, Message: h.Message})
		}
		out.Actions = append(out.Actions, s)
	}
	return out
}

type rolloutData struct {
	Group     string   `tfsdk:"group"`
	ID        string   `tfsdk:"id"`
	State     string   `tfsdk:"state"`
	Reason    string   `tfsdk:"reason"`
	Target    string   `tfsdk:"target_revision"`
	Stable    string   `tfsdk:"stable_revision"`
	Message   string   `tfsdk:"message"`
	Complete  bool     `tfsdk:"complete"`
	Paused    bool     `tfsdk:"paused"`
	Replicas  int64    `tfsdk:"replicas"`
	Updated   int64    `tfsdk:"updated"`
	Available int64    `tfsdk:"available"`
	Failed    []string `tfsdk:"failed_revisions"`
}

func newRolloutData() datasource.DataSource {
	return &question[rolloutData]{
		name: "rollout", about: "How far the rollout of a group is.",
		attributes: map[string]schema.Attribute{
			"id": text("The rollout's name."), "state": text("`RUNNING`, `BAKING`, `PAUSED`, `COMPLETE`, `PARTITION_REACHED`, `FAILED` or `SUPERSEDED`."), "reason": text("Why it is in that state."),
			"target_revision": text("Revision that the spec asks for."), "stable_revision": text("Last revision whose rollout completed."), "message": text("The progress, in one line."),
			"complete": flagged("Whether every slot in scope is at the target and available."), "paused": flagged("Whether an operator paused it."),
			"replicas": whole("Slots."), "updated": whole("Slots at the target."), "available": whole("Slots that count."), "failed_revisions": textList("Revisions that never became available somewhere."),
		},
		ask: func(ctx context.Context, cl *client.Client, name string) (rolloutData, error) {
			v, err := cl.Look(ctx, name)
			if err != nil {
				return rolloutData{}, err
			}
			s := v.Status
			out := rolloutData{Group: name, ID: s.Rollout, State: s.RolloutState, Target: s.Target, Stable: s.Stable, Message: s.Message, Paused: s.Paused,
				Replicas: int64(s.Replicas), Updated: int64(s.Updated), Available: int64(s.Available), Failed: append([]string{}, s.FailedRevisions...)}
			if v.Plan.Rollout != nil {
				out.Reason = v.Plan.Rollout.Reason
			}
			done, failed := client.Outcome(v, 0, "")
			out.Complete = done && failed == nil
			return out, nil
		},
	}
}

type instancesData struct {
	Group     string       `tfsdk:"group"`
	Instances []instanceOf `tfsdk:"instances"`
}

type instanceOf struct {
	Slot       string `tfsdk:"slot"`
	Ordinal    int64  `tfsdk:"ordinal"`
	Extra      bool   `tfsdk:"extra"`
	InstanceID string `tfsdk:"instance_id"`
	AppID      string `tfsdk:"app_id"`
	VIP        string `tfsdk:"vip"`
	State      string `tfsdk:"state"`
	Health     string `tfsdk:"health"`
	Role       string `tfsdk:"role"`
	Revision   string `tfsdk:"revision"`
	Assigned   string `tfsdk:"assigned_revision"`
	Reason     string `tfsdk:"reason"`
}

func newInstancesData() datasource.DataSource {
	return &question[instancesData]{
		name: "instances", about: "The slots of a group and the CVMs that fill them.",
		attributes: map[string]schema.Attribute{"instances": listed("By ordinal.", map[string]schema.Attribute{
			"slot": text("Slot."), "ordinal": whole("Its ordinal."), "extra": flagged("Whether it is there for the time of a rollout only (`max_surge`)."), "instance_id": text("Instance that fills it."), "app_id": text("The platform's application."), "vip": text("Virtual address."),
			"state": text("One word, such as `Available`."), "health": text("`Healthy`, `Unhealthy` or `Unknown`."), "role": text("The role that the workload reports."),
			"revision": text("Revision that it proved."), "assigned_revision": text("Revision that the leader decided for it."), "reason": text("Why it is so."),
		})},
		ask: func(ctx context.Context, cl *client.Client, name string) (instancesData, error) {
			list, err := cl.Instances(ctx, name)
			out := instancesData{Group: name, Instances: []instanceOf{}}
			for _, i := range list {
				out.Instances = append(out.Instances, instanceOfStatus(i))
			}
			return out, err
		},
	}
}

func instanceOfStatus(i group.InstanceStatus) instanceOf {
	return instanceOf{Slot: i.Slot, Ordinal: int64(i.Ordinal), Extra: i.Extra, InstanceID: i.InstanceID, AppID: i.AppID, VIP: i.VIP, State: string(i.State), Health: i.Health, Role: i.Role,
		Revision: i.Observed, Assigned: i.Assigned, Reason: format.Why(i)}
}
