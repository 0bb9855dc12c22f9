package upgrade

import (
	"cadre.dev/core/group"
	"cadre.dev/core/version"
)

// Target is one software of a spec, and the version that the spec names.
type Target struct {
	Rules *Rules
	// Version is unknown if the spec names none.
	Version version.Version
	// servers are the services that may run the software, if the tags of their images name the version.
	servers []group.ServiceImage
}

// Targets returns the software of a spec's workload that rules exist for. The setting `version` of the workload names
// the version; otherwise the tag of the images that may run the software, if they agree. A workload behind an adapter has
// rules only if such an image names it.
func Targets(spec group.Spec) []Target {
	rules := of(spec.Workload.Kind)
	if len(rules) == 0 {
		return nil
	}
	images, _ := group.ComposeImages(spec.Template.Compose)
	var out []Target
	for _, r := range rules {
		t := Target{Rules: r, servers: r.servers(images)}
		if len(t.servers) == 0 && !r.Setting {
			continue
		}
		if set := spec.Workload.Settings[group.SettingVersion]; r.Setting && set != "" {
			t.Version, _ = version.Parse(set)
			t.servers = nil
		} else {
			t.Version = r.tagged(t.servers)
		}
		out = append(out, t)
	}
	return out
}

// tagged is the version in the tags of images; unknown if they differ.
func (r *Rules) tagged(images []group.ServiceImage) (v version.Version) {
	for n, i := range images {
		tag, _ := r.isImage(i.Image)
		if n > 0 && tag.String() != v.String() {
			return version.Version{}
		}
		v = tag
	}
	return v
}

// Field is the path of the field that names the version in a spec.
func Field(spec group.Spec) string {
	if spec.Workload.Settings[group.SettingVersion] != "" {
		return "workload.settings[\"" + group.SettingVersion + "\"]"
	}
	return "template.compose"
}

// Named is a member that runs the versions that targets name.
func Named(targets []Target) (m Member) {
	for _, t := range targets {
		if t.Rules.Data {
			m.Data = t.Version.String()
		} else {
			m.Version = t.Version.String()
		}
	}
	return m
}

// Edit judges the edit of a spec as if each member ran the version that the old spec names.
func Edit(old, next group.Spec) []Finding {
	if old.Workload.Kind != next.Workload.Kind {
		return nil
	}
	var out []Finding
	before := Targets(old)
	for _, t := range Targets(next) {
		for _, b := range before {
			if b.Rules == t.Rules && (b.Version.Known() || t.Version.Known()) {
				out = append(out, t.Judge([]Member{Named([]Target{b})})...)
			}
		}
	}
	return out
}

// Texts are the findings in one line each.
func Texts(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.String())
	}
	return out
}
