package upgrade

import (
	"cadre.dev/core/group"
	"cadre.dev/core/version"
)

// Target is one software of a spec, and the version that the spec names.
type Target struct {
	Rules *Rules
	// Version is unknown if the spec names none. Image is the reference of the software's image; empty: none is known.
	Version version.Version
	Image   string
	// tagged: the tag of the image names the version, and the setting could name another one.
	tagged bool
}

// Targets returns the software of a spec's workload that rules exist for. The setting `version` of the workload names
// the version; otherwise the tag of the first image of the compose text that has one of the software's names. A
// workload behind an adapter has rules only if such an image names it.
func Targets(spec group.Spec) []Target {
	rules := of(spec.Workload.Kind)
	if len(rules) == 0 {
		return nil
	}
	images, _ := group.ComposeImages(spec.Template.Compose)
	var out []Target
	for _, r := range rules {
		t := Target{Rules: r}
		for _, i := range images {
			if v, is := r.isImage(i.Image); is {
				t.Image, t.Version, t.tagged = i.Image, v, r.Setting
				break
			}
		}
		if set := spec.Workload.Settings[group.SettingVersion]; r.Setting && set != "" {
			t.Version, _ = version.Parse(set)
			t.tagged = false
		}
		if t.Image != "" || r.Setting {
			out = append(out, t)
		}
	}
	return out
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
