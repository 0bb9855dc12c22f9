package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"cadre.dev/compose/lint"
	"cadre.dev/core/group"
)

// ValidateConfig finds what `cadre group apply` would refuse without asking a cluster.
func (r *groupResource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	o, err := objectOf(req.Config.Raw)
	if err != nil || o == nil {
		addErrorIf(&resp.Diagnostics, "Configuration cannot be read", err)
		return
	}
	w, at, err := writtenIn(o)
	if err != nil {
		resp.Diagnostics.AddAttributeError(at, "Group cannot be read", err.Error())
		return
	}
	judge(w, &resp.Diagnostics)
	if o.flag(argDisks, false) && o.flag(argKeep, false) {
		resp.Diagnostics.AddAttributeError(path.Root(argKeep), "keep_cvms and delete_disks are both set", "Say one of them: whether the CVMs go on without Cadre, or are deleted with their disks.")
	}
	healing(o, w, &resp.Diagnostics)
}

// judge adds everything that is wrong with a spec, in the words of `cadre group validate`.
// What depends on something that is not known yet is judged when it is.
func judge(w written, diags *diag.Diagnostics) {
	for _, refusal := range lint.Refusals(w.spec) {
		if !w.judged(refusal.Path) {
			continue
		}
		// The text begins with the field's path, which is Terraform's to show; it stays,
		// since it is what the command line says.
		summary := fmt.Sprintf("Group %s is not valid", w.spec.Name)
		if at, ok := w.at(refusal.Path); ok {
			diags.AddAttributeError(at, summary, refusal.Text)
			continue
		}
		diags.AddError(summary, refusal.Text)
	}
}

// restsOn names, by the first word of a problem's path, what else the rule looks at.
var restsOn = map[string][]string{
	"replicas":      {"workload", "update_policy"},
	"update_policy": {"replicas", "workload", "lifecycle_hook"},
	"template":      {"not_secret"}, "meta": {"not_secret"}, "workload": {"not_secret"},
	"not_secret":     {"template", "meta", "workload"},
	"lifecycle_hook": {"template"}, "health_check": {"template"},
	"secret": {"workload"}, "backend": {"secret", "name"}, "route": {"backend", "workload"}, "consul_permissions": {"name"},
}

// judged: everything is known that a problem at path follows from.
func (w written) judged(path string) bool {
	if len(w.unknown) == 0 {
		return true
	}
	first := top(path)
	about := append([]string{first}, restsOn[first]...)
	return !slices.ContainsFunc(w.unknown, func(u string) bool { return u == "" || slices.Contains(about, top(u)) })
}

func top(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// maxInitialDelay is an hour, as that of a managed instance group.
const maxInitialDelay = 3600

// healing checks auto_healing_policies, and says that nothing acts on it yet.
func healing(o object, w written, diags *diag.Diagnostics) {
	block, err := objectOf(o[argHealing])
	if err != nil || block == nil {
		return
	}
	at := path.Root(argHealing)
	name := block.text("health_check")
	if known := block["health_check"].IsKnown() && len(w.unknown) == 0; known && !slices.ContainsFunc(w.spec.HealthChecks, func(c group.HealthCheck) bool { return c.Name == name }) {
		diags.AddAttributeError(at.AtName("health_check"), fmt.Sprintf("Group %s is not valid", w.spec.Name),
			fmt.Sprintf("auto_healing_policies.health_check: %q is the name of no health_check of this group", name))
	}
	if n := block.number("initial_delay_sec"); n < 0 || n > maxInitialDelay {
		diags.AddAttributeError(at.AtName("initial_delay_sec"), fmt.Sprintf("Group %s is not valid", w.spec.Name),
			fmt.Sprintf("auto_healing_policies.initial_delay_sec: is %d: must be 0 to %d", n, maxInitialDelay))
	}
	diags.AddAttributeWarning(at, "auto_healing_policies is NOT acted on yet",
		"It is accepted and checked, and nothing is healed by it: a slot that stays unhealthy waits for an operator (`cadre instance restart`, `cadre instance replace`).")
}
