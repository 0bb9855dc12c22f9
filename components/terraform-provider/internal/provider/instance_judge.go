package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// validateTexts refuses metadata, env and a size that no group takes. Which names its group has, and lists
// as not secret, is not known without it: here all of them are.
func (m instance) validateTexts(diags *diag.Diagnostics) {
	one := group.InstanceSettings{Ordinal: max(0, int(m.Ordinal.ValueInt64())), Metadata: knownTexts(m.Metadata), Env: knownTexts(m.Env), InstanceType: m.InstanceType.ValueString()}
	s := group.Spec{Instances: []group.InstanceSettings{one}, Template: group.Template{Env: map[string]string{}}}
	s.NotSecret = slices.AppendSeq(slices.Collect(maps.Keys(one.Metadata)), maps.Keys(one.Env))
	for name := range one.Env {
		s.Template.Env[name] = ""
	}
	if !m.InstanceType.IsNull() && !m.InstanceType.IsUnknown() && one.InstanceType == "" {
		diags.AddAttributeError(path.Root("instance_type"), "instance_type of a slot is not valid", "instance_type: is empty: name a size such as \"tdx.large\", or take the argument out for the size of the group's template")
	}
	for _, p := range group.ProblemsIn(s, "instance") {
		_, at, _ := strings.Cut(p.Path, "].")
		field, _, _ := strings.Cut(at, "[")
		if field == "metadata" || field == "env" || field == "instance_type" {
			diags.AddAttributeError(path.Root(field), field+" of a slot is not valid", at+": "+p.Message)
		}
	}
}

// knownTexts are the elements that are known already.
func knownTexts(m types.Map) map[string]string {
	out := map[string]string{}
	for name, v := range m.Elements() {
		if text, ok := v.(types.String); ok && !text.IsNull() && !text.IsUnknown() {
			out[name] = text.ValueString()
		}
	}
	return out
}

// with returns the spec of g with the settings of want for its slot, over the earlier ones.
func (m instance) with(ctx context.Context, had instance, g client.Group) (spec group.Spec, before, now group.InstanceSettings, err error) {
	if spec, err = allOf(g); err != nil {
		return spec, before, now, err
	}
	before = spec.Instance(int(m.Ordinal.ValueInt64()))
	if now, err = m.settings(ctx, had, before); err != nil {
		return spec, before, now, err
	}
	spec.Instances = slices.DeleteFunc(slices.Clone(spec.Instances), func(i group.InstanceSettings) bool { return i.Ordinal == now.Ordinal })
	if !equal(now, group.InstanceSettings{Ordinal: now.Ordinal}) {
		spec.Instances = append(spec.Instances, now)
	}
	return spec, before, now, nil
}

// warnOfRefusal reports, as a warning, the refusals and holds of the coordinators if the slot's
// settings were written now. It is no error: the same run may change the group first. Settings that the document of a
// deployment has are an error.
func (m instance) warnOfRefusal(ctx context.Context, cl *client.Client, had instance, diags *diag.Diagnostics) {
	if !m.sets() && !had.sets() || m.Pinned.IsUnknown() || m.InstanceType.IsUnknown() || m.Excluded.IsUnknown() || m.Unhealed.IsUnknown() || m.PreservedState.IsUnknown() {
		return
	}
	g, err := cl.Group(ctx, m.Group.ValueString())
	if err != nil {
		return // the group is made in the same run; applying will say if not
	}
	spec, before, now, err := m.with(ctx, had, g)
	if err != nil || equal(before, now) {
		return // not all of it is known yet, or nothing is written
	}
	if of, err := deploymentOf(ctx, cl, spec.Name); err == nil && of != "" {
		if m.sets() {
			diags.AddError("Slot "+m.slot()+" has its settings in deployment "+of, m.settingsInDocument(of).Error())
		}
		return // of a resource that gives its settings up, nothing is written
	}
	checked, err := cl.ApplyGroupWith(ctx, spec, client.ApplyOptions{DryRun: true})
	if err != nil {
		if !mayStand(err) {
			diags.AddWarning("Settings of slot "+m.slot()+" would be refused", err.Error()+
				"\n\nThat is by the group's spec as it is stored now. If this run changes the group first, it is judged again then.")
		}
		return
	}
	own := fmt.Sprintf("instance[%q]", now.Label())
	for _, text := range checked.Warnings {
		if strings.Contains(text, own) {
			diags.AddWarning("Slot "+m.slot(), text)
		}
	}
}
