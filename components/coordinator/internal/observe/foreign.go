package observe

import (
	"cmp"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
)

// ours takes care of CVMs that only carry the name of a Slot which no record binds. Two clusters in one account
// may come to the same name: cluster a has the CVM a-b-c-0 for group b-c, and cluster a-b for group c. While the
// group's app is not known, such a CVM must not tell it, or the group's other members would be made in
// an app of another cluster. Where the Slot's policy already names the app that its CVM is made in, a CVM of another
// app is not the one that the call made.
func ours(v *view.View, spec group.Spec, record group.SlotRecord, found *rollout.Instance, others []rollout.Instance) (*rollout.Instance, []rollout.Instance) {
	if found == nil || record.VMUUID != "" || record.InstanceID != "" || knownApp(v, spec) != "" {
		return found, others
	}
	app := v.Policies[record.Slot].Value.AppID
	var out []rollout.Instance
	for _, i := range append([]rollout.Instance{*found}, others...) {
		switch {
		case app == "":
			i.AppID = ""
		case i.AppID != "" && i.AppID != app:
			continue
		}
		out = append(out, i)
	}
	return rollout.Filling("", out)
}

// knownApp is the group's app by its spec and its records; "": none tells.
func knownApp(v *view.View, spec group.Spec) string {
	if spec.AppID != "" {
		return spec.AppID
	}
	for _, record := range v.SlotsOf(spec.Name) {
		if record.AppID != "" {
			return record.AppID
		}
	}
	return ""
}

// orphan tells of a CVM that is named as one of the group's and that no Slot claims.
func orphan(i platform.Instance, app string) string {
	if app != "" && i.AppID != "" && i.AppID != app {
		return i.Name + " (" + cmp.Or(i.VMUUID, i.ID) + ", of app " + i.AppID + ": perhaps another cluster's, whose names are alike)"
	}
	return i.Name + " (" + cmp.Or(i.VMUUID, i.ID) + ")"
}
