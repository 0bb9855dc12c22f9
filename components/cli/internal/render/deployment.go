package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cadre.dev/client"
	"cadre.dev/client/format"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Deployments lists deployments.
func Deployments(s Style, list []client.Deployment) string {
	if len(list) == 0 {
		return s.Line("no deployment", Dim)
	}
	rows := [][]Cell{}
	for _, d := range list {
		v := d.Present()
		if d.Unreadable {
			rows = append(rows, []Cell{T(d.Name, Bold), T("unreadable", Bad), C("unknown: repair the record deployments/" + d.Name)})
			continue
		}
		rows = append(rows, []Cell{T(d.Name, Bold), C(fmt.Sprint(v.Number)), C(strings.Join(names(v), ", ")), C(labels(v)), C(clock(v.At)), C(format.ShortCaller(v.By))})
	}
	return s.Table([]string{"DEPLOYMENT", "VERSION", "GROUPS", "LABELS", "AT", "BY"}, rows)
}

// Deployment shows the present version of a deployment, and the state of its groups.
func Deployment(s Style, d client.DeploymentState, groups []*apiv1.GroupSummary) string {
	v := d.Present()
	fields := []Field{
		{Name: "deployment", Value: T(d.Name, Bold)}, {Name: "version", Value: C(versionText(v))}, {Name: "labels", Value: C(labels(v))},
		{Name: "applied", Value: C(clock(v.At) + " by " + v.By)}, {Name: "reason", Value: C(v.Reason)},
	}
	rows := [][]Cell{}
	for _, name := range names(v) {
		spec, of := T("of the version", Good), &apiv1.GroupSummary{RolloutState: "GONE"}
		if slices.Contains(d.Drifted, name) {
			spec = T("drifted", Warn)
		}
		for _, g := range groups {
			if g.GetGroup() == name {
				of = g
			}
		}
		rows = append(rows, []Cell{
			T(name, Bold), spec, C(fmt.Sprintf("%d/%d", of.GetAvailable(), of.GetReplicas())), C(format.Short(of.GetTargetRevision())), T(of.GetRolloutState(), rolloutTone(of.GetRolloutState())), C(of.GetMessage()),
		})
	}
	return s.Fields(fields...) + "\n" + s.Table([]string{"GROUP", "SPEC", "AVAILABLE", "TARGET", "ROLLOUT", "MESSAGE"}, rows)
}

// DeploymentHistory lists the versions of a deployment.
func DeploymentHistory(s Style, d client.Deployment) string {
	rows := [][]Cell{}
	for i, v := range d.Versions {
		changed := names(v)
		if i+1 < len(d.Versions) {
			changed = changes(d.Versions[i+1], v)
		}
		rows = append(rows, []Cell{T(versionText(v), Bold), C(clock(v.At)), C(format.ShortCaller(v.By)), C(strings.Join(changed, ", ")), C(format.ShortRequest(v.RequestID)), C(v.Reason)})
	}
	return s.Table([]string{"VERSION", "AT", "BY", "CHANGED", "REQUEST", "REASON"}, rows)
}

// DeletedDeployment shows the effect of a deletion.
func DeletedDeployment(s Style, r client.DeletedDeployment, d client.Deletion) string {
	verb := "are being deleted"
	if d.DryRun {
		verb = "would be deleted"
	}
	cvms := "everything on their disks is lost permanently"
	if d.KeepCVMs {
		cvms = "their CVMs are left on the platform, without credentials"
	}
	groups, slots := strings.Join(r.Groups, ", "), strings.Join(r.Slots, ", ")
	if groups == "" {
		groups = "no group"
	}
	if slots == "" {
		slots = "no slot"
	}
	return Warnings(s, r.Warnings) + s.Line(fmt.Sprintf("deployment %s: %s %s, with %s: %s", r.Deployment, groups, verb, slots, cvms), Bad)
}

// changes are the groups that a version added, changed or left out.
func changes(before, v client.DeploymentVersion) []string {
	var out []string
	for _, name := range names(v) {
		switch was, had := before.Digests[name]; {
		case !had:
			out = append(out, "+"+name)
		case was != v.Digests[name]:
			out = append(out, name)
		}
	}
	for _, name := range names(before) {
		if _, has := v.Digests[name]; !has {
			out = append(out, "-"+name)
		}
	}
	if !maps.Equal(before.Labels, v.Labels) {
		out = append(out, "labels")
	}
	return out
}

func versionText(v client.DeploymentVersion) string {
	if v.Of != 0 {
		return fmt.Sprintf("%d (undo to %d)", v.Number, v.Of)
	}
	return fmt.Sprint(v.Number)
}

func names(v client.DeploymentVersion) []string { return slices.Sorted(maps.Keys(v.Digests)) }

func labels(v client.DeploymentVersion) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(v.Labels)) {
		out = append(out, name+"="+v.Labels[name])
	}
	return strings.Join(out, " ")
}
