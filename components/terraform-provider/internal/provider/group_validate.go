package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"cadre.dev/compose/lint"
	"cadre.dev/core/group"
)

// ValidateConfig finds the problems that `cadre group apply` would reject without a cluster.
func (r *groupResource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	o, err := objectOf(req.Config.Raw)
	if err != nil || o == nil {
		addErrorIf(&resp.Diagnostics, "Configuration cannot be read", err)
		return
	}
	w, at, err := writtenIn(o)
	if err != nil {
		unread(w, at, err, &resp.Diagnostics)
		return
	}
	judge(w, nil, &resp.Diagnostics)
	if o.flag(argDisks, false) && o.flag(argKeep, false) {
		resp.Diagnostics.AddAttributeError(path.Root(argKeep), "keep_cvms and delete_disks are both set", "Set one of them: the CVMs keep running without Cadre, or are deleted with their disks.")
	}
}

// judge adds every problem of a spec, with the texts of `cadre group validate`. The wrong fields
// that the spec lacks come first. A problem that depends on an unknown value is judged once the
// value is known.
func judge(w written, wrong []group.Problem, diags *diag.Diagnostics) {
	for i, refusal := range lint.Refusals(w.spec, wrong) {
		if i >= len(wrong) && !w.judged(refusal.Path) { // a wrong field is independent of unknown values
			continue
		}
		// The text begins with the field's path, which Terraform shows as well. The path stays, so
		// that the text equals the command line's.
		summary := fmt.Sprintf("Group %s is not valid", w.spec.Name)
		if at, ok := w.at(refusal.Path); ok {
			diags.AddAttributeError(at, summary, refusal.Text)
			continue
		}
		diags.AddError(summary, refusal.Text)
	}
}

// unread adds the reason why writtenIn could not read a spec: wrong fields together with the other
// problems.
func unread(w written, at path.Path, err error, diags *diag.Diagnostics) {
	var wrong *group.ValidationError
	if errors.As(err, &wrong) {
		judge(w, wrong.Problems, diags)
		return
	}
	diags.AddAttributeError(at, "Group cannot be read", err.Error())
}

// restsOn names, by the first word of a problem's path, the other fields that the rule reads.
var restsOn = map[string][]string{
	"replicas":      {"workload", "update_policy"},
	"without":       {"name", "replicas"},
	"update_policy": {"replicas", "without", "name", "workload", "lifecycle_hook"},
	"template":      {"not_secret"}, "meta": {"not_secret"}, "workload": {"not_secret"},
	"instance":       {"template", "not_secret"},
	"not_secret":     {"template", "meta", "workload", "instance"},
	"lifecycle_hook": {"template"}, "health_check": {"template"},
	"auto_healing_policies": {"health_check", "restart_policy", "workload"}, "restart_policy": {"auto_healing_policies"},
	"secret": {"workload", "name"}, "backend": {"secret", "name"}, "route": {"backend", "workload", "name"}, "consul_permissions": {"name"},
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
