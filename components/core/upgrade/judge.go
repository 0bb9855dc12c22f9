package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/version"
)

// Code is the stable name of a kind of Finding.
type Code string

const (
	// VersionSkipped: the way is too long for one step, and the finding names the next version.
	VersionSkipped Code = "version_skipped"
	// VersionFirst: a newer release of the same line goes first.
	VersionFirst Code = "version_first"
	// DataUnreadable: the server cannot open the disk.
	DataUnreadable Code = "data_unreadable"
	// WayBackClosed: the data is newer than the server, and the finding names the command that goes first.
	WayBackClosed Code = "way_back_closed"
	// NoWayBack: a step after which the way back needs more than an undo.
	NoWayBack Code = "no_way_back"
	// VersionNote is a fact about the version.
	VersionNote Code = "version_note"
	// VersionUnknown: there is no rule, or a version is not known, so that nothing was judged.
	VersionUnknown Code = "version_unknown"
)

// Finding is one fact about a change of version.
type Finding struct {
	Code Code `json:"code"`
	// Refused: the change can never work as it is.
	Refused bool `json:"refused,omitempty"`
	// Slots are the members that it is about, sorted; empty: a version in the spec.
	Slots   []string `json:"slots,omitempty"`
	Message string   `json:"message"`
}

func (f Finding) String() string {
	text := string(f.Code) + ": " + f.Message
	if len(f.Slots) > 0 {
		text += " (" + strings.Join(f.Slots, ", ") + ")"
	}
	return text
}

// Member has the versions that one member runs, as its driver reports them; empty: not known.
type Member struct {
	Slot string
	// Version of the server, and of the data on its disk.
	Version, Data string
}

// runs is the version that m's software counts by.
func (r *Rules) runs(m Member) version.Version {
	v, ok := version.Parse(m.Version)
	if !ok || r.Data {
		v, _ = version.Parse(m.Data)
	}
	return v
}

// Judge returns the findings of moving members to the target, each once with its Slots. It is pure.
func (t Target) Judge(members []Member) []Finding {
	var out []Finding
	for _, m := range members {
		for _, f := range t.judge(m) {
			if f.Refused && len(t.servers) > 0 && t.Rules.Setting {
				f.Message += fmt.Sprintf("; the version is that of %s: if the workload's server is another one, set `version` in the workload block", t.where())
			}
			at := slices.IndexFunc(out, func(o Finding) bool { return o.Code == f.Code && o.Message == f.Message })
			if at < 0 {
				at, out = len(out), append(out, f)
			}
			if m.Slot != "" {
				out[at].Slots = append(out[at].Slots, m.Slot)
				slices.Sort(out[at].Slots)
			}
		}
	}
	return out
}

// judge is Judge for one member.
func (t Target) judge(m Member) []Finding {
	r, from := t.Rules, t.Rules.runs(m)
	switch {
	case !t.Version.Known():
		return []Finding{finding(VersionUnknown, "the spec names no version of %s that Cadre can read, so that no rule applies%s", r.Software, t.hint())}
	case !from.Known() || from.Line(r.LineParts) == "":
		return nil // nothing ran there, or its driver reports no version
	case r.line(t.Version) < 0 || r.line(from) < 0:
		if from.Line(r.LineParts) == t.Version.Line(r.LineParts) {
			return nil
		}
		return []Finding{finding(VersionUnknown, "Cadre has no rule for a step from %s %s to %s: its release notes decide", r.Software, from, t.Version)}
	}
	a, b := r.line(from), r.line(t.Version)
	if far := max(a-b, b-a); far > r.Jump.Most {
		return []Finding{t.tooFar(from, a, b)}
	}
	if b > a {
		return t.forward(from)
	}
	return t.backward(m, from)
}

// hint says how the spec names the version.
func (t Target) hint() string {
	set, tag := "set `version` in the workload block", "tag the image by it"
	if len(t.servers) > 1 {
		tag = "give one tag to the images of " + t.where()
	} else if len(t.servers) == 1 {
		if _, is := t.Rules.isImage(t.servers[0].Image); !is {
			return ", as the tag of the image of " + t.where() + " does not: " + set
		}
	}
	if !t.Rules.Setting {
		return ": " + tag
	}
	return ": " + tag + ", or " + set
}

// where names the services that may run the software.
func (t Target) where() string {
	var names []string
	for _, i := range t.servers {
		image, _, _ := strings.Cut(i.Image, "@")
		names = append(names, fmt.Sprintf("service %s (%s)", i.Service, image))
	}
	return strings.Join(names, " and ")
}

// tooFar is the finding of a step over more lines than allowed.
func (t Target) tooFar(from version.Version, a, b int) Finding {
	r := t.Rules
	f := finding(VersionSkipped, "%s %s does not go to %s at once: %s", r.Software, from, t.Version, r.Jump.Why)
	f.Refused = r.Jump.Certain
	if r.Jump.Most == 0 {
		f.Code = DataUnreadable
		f.Message = fmt.Sprintf("%s %s cannot open this disk, which %s %s wrote: %s", r.Software, t.Version, r.Software, r.Lines[a], r.Jump.Why)
		return f
	}
	next := a + r.Jump.Most
	if b < a {
		next = a - r.Jump.Most
	}
	f.Message += fmt.Sprintf("; go to %s first", r.Lines[next])
	return f
}

// forward are the findings of a step to a newer line.
func (t Target) forward(from version.Version) []Finding {
	r := t.Rules
	older, newer := from.Line(r.LineParts), t.Version.Line(r.LineParts)
	s := r.step(older, newer)
	if s == nil {
		return nil
	}
	var out []Finding
	if first, ok := version.Parse(s.First); ok && len(strings.Split(from.String(), ".")) > r.LineParts && from.Compare(first) < 0 {
		out = append(out, finding(VersionFirst, "%s %s should go to %s or newer before %s: %s", r.Software, from, first, newer, s.FirstWhy))
	}
	switch s.NoReturn {
	case LastMember:
		out = append(out, finding(NoWayBack, "when the last member runs %s %s, %s; before that, an undo is enough; after it, to go back: %s", r.Software, newer, s.Lost, s.Back))
	case Operator:
		out = append(out, finding(NoWayBack, "an undo of %s %s is enough until %s; after it, to go back: %s", r.Software, newer, s.Lost, s.Back))
	default:
		if s.Back != "" {
			out = append(out, finding(VersionNote, "to go back from %s %s: %s", r.Software, newer, s.Back))
		}
	}
	if s.Note != "" {
		out = append(out, finding(VersionNote, "%s", s.Note))
	}
	return out
}

// backward are the findings of a step to an older release, or of none.
func (t Target) backward(m Member, from version.Version) []Finding {
	r := t.Rules
	to := t.Version.Line(r.LineParts)
	data, _ := version.Parse(m.Data)
	known := r.line(data) >= 0 // else unknown, or another software's
	if known && r.line(data) <= r.line(t.Version) {
		return nil // also where the server is newer: the way back is open
	}
	newer := from.Line(r.LineParts)
	if known {
		newer = data.Line(r.LineParts)
	}
	if newer == to {
		return nil
	}
	s := r.step(to, newer)
	switch {
	case s == nil || s.Back == "":
		return nil
	case known && s.NoReturn != "":
		f := finding(WayBackClosed, "the data is of %s %s, which %s does not open; first %s", r.Software, newer, to, s.Back)
		f.Refused = s.BackCertain
		return []Finding{f}
	case s.NoReturn != "":
		return []Finding{finding(WayBackClosed, "if the data is already of %s %s, %s does not open it; then first %s", r.Software, newer, to, s.Back)}
	}
	return []Finding{finding(VersionNote, "before %s %s goes back to %s: %s", r.Software, newer, to, s.Back)}
}

// Irreversible reports that the step of m to the target cannot be undone by another step, because no other member runs
// the older release line. others are the members without m, asked for only where they decide; a member with an unknown
// version counts as moved.
func (t Target) Irreversible(m Member, others func() []Member) (Finding, bool) {
	r, from := t.Rules, t.Rules.runs(m)
	a, b := r.line(from), r.line(t.Version)
	if a < 0 || b <= a {
		return Finding{}, false
	}
	s := r.step(from.Line(r.LineParts), t.Version.Line(r.LineParts))
	if s == nil || s.NoReturn != LastMember {
		return Finding{}, false
	}
	for _, o := range others() {
		data, _ := version.Parse(o.Data)
		if at := r.line(r.runs(o)); at >= 0 && at < b || r.line(data) >= b {
			return Finding{}, false // not the last one, or too late: the data of the others has moved
		}
	}
	f := finding(NoWayBack, "it is the last one with %s %s: after its step %s; then, to go back: %s", r.Software, r.Lines[a], s.Lost, s.Back)
	f.Slots = []string{m.Slot}
	return f, true
}

func finding(code Code, format string, args ...any) Finding {
	return Finding{Code: code, Message: fmt.Sprintf(format, args...)}
}
