package upgrade

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/strictjson"
	"cadre.dev/core/version"
)

// Rules are the facts about the versions of one software.
type Rules struct {
	// Software is its name in texts.
	Software string `json:"software"`
	// Kinds are the kinds of workload that run it. Images are the names of its images, without registry and folder.
	Kinds  []string `json:"kinds"`
	Images []string `json:"images"`
	// Within are the names of images that run the software as a part of another one, or begin such names with a hyphen
	// after them. Their tags do not name its version, and an image of Images next to them is no server.
	Within []string `json:"within,omitempty"`
	// Setting: the workload's setting `version` names its version.
	Setting bool `json:"setting,omitempty"`
	// Data: members report its version as that of their data only.
	Data bool `json:"data,omitempty"`
	// LineParts is how many numbers of a version name its release line. Lines are the known ones, oldest first.
	LineParts int      `json:"line_parts"`
	Lines     []string `json:"lines"`
	Jump      Jump     `json:"jump"`
	Steps     []Step   `json:"steps"`
}

// Jump is how far a version may move at once.
type Jump struct {
	// Most is the number of release lines, in either direction.
	Most int `json:"most"`
	// Certain: a longer way never works; otherwise it is not supported, or not known to work.
	Certain bool   `json:"certain,omitempty"`
	Why     string `json:"why"`
	Source  string `json:"source"`
}

// Values of Step.NoReturn.
const (
	// LastMember: the step of the last member that runs the older line.
	LastMember = "last_member"
	// Operator: a command of an operator, at any time after the rollout.
	Operator = "operator"
)

// Step has the facts about the way from one release line to a newer one, and back.
type Step struct {
	// From and To are lines; both empty: any.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// First is the least version of From before the step; FirstWhy is the reason.
	First    string `json:"first,omitempty"`
	FirstWhy string `json:"first_why,omitempty"`
	// NoReturn is the event after which the older version no longer runs on the data; empty: none is known. Lost is the
	// loss.
	NoReturn string `json:"no_return,omitempty"`
	Lost     string `json:"lost,omitempty"`
	// Back is the need of the way back after that. BackCertain: without it the older server never starts.
	Back        string `json:"back,omitempty"`
	BackCertain bool   `json:"back_certain,omitempty"`
	// Note is a fact about the newer version.
	Note string `json:"note,omitempty"`
	// Source is a page of the project, or a measurement with its versions.
	Source string `json:"source"`
}

//go:embed *.json
var files embed.FS

// all are the rules of the files. The tests prove that each file can be read.
var all, _ = load()

func load() (out []Rules, err error) {
	entries, err := files.ReadDir(".")
	for _, e := range entries {
		text, readErr := files.ReadFile(e.Name())
		var r Rules
		if one := errors.Join(readErr, strictjson.Unmarshal(text, &r)); one != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", e.Name(), one))
			continue
		}
		out = append(out, r)
	}
	return out, err
}

// All returns the rules of every software, in the order of their files.
func All() []Rules { return slices.Clone(all) }

// of returns the rules of a kind of workload.
func of(kind string) []*Rules {
	var out []*Rules
	for i := range all {
		if slices.Contains(all[i].Kinds, kind) {
			out = append(out, &all[i])
		}
	}
	return out
}

// isImage reports that an image reference is one of the software, and returns its version; unknown without a tag that
// names one.
func (r *Rules) isImage(ref string) (v version.Version, is bool) {
	name, tag := nameOf(ref)
	if !slices.Contains(r.Images, name) {
		return v, false
	}
	v, _ = version.Parse(tag)
	return v, true
}

// servers are the images of a compose text that may run the software.
func (r *Rules) servers(images []group.ServiceImage) (named []group.ServiceImage) {
	var within []group.ServiceImage
	for _, i := range images {
		name, _ := nameOf(i.Image)
		if _, is := r.isImage(i.Image); is {
			named = append(named, i)
		}
		if slices.ContainsFunc(r.Within, func(w string) bool { return name == w || strings.HasPrefix(name, w+"-") }) {
			within = append(within, i)
		}
	}
	if len(within) > 0 {
		return within
	}
	return named
}

// nameOf returns the name of an image without registry and folder, and its tag.
func nameOf(ref string) (name, tag string) {
	name, _, _ = strings.Cut(ref, "@")
	name, tag, _ = strings.Cut(path.Base(name), ":")
	return name, tag
}

// line is the place of a version's release line among the known ones; -1: unknown.
func (r *Rules) line(v version.Version) int { return slices.Index(r.Lines, v.Line(r.LineParts)) }

// step returns the facts between two neighbours or any lines; nil: none.
func (r *Rules) step(older, newer string) *Step {
	for i := range r.Steps {
		if s := &r.Steps[i]; s.From == "" || s.From == older && s.To == newer {
			return s
		}
	}
	return nil
}
