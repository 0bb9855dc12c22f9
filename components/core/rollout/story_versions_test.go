package rollout_test

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/core/upgrade"
	"cadre.dev/core/version"
)

// A Revision whose name begins with a digit, such as 3.6.16, runs that version of etcd, or of PostgreSQL under Patroni.

// storyImage is the image of the content with a name.
func storyImage(name string) string {
	if name[0] >= '0' && name[0] <= '9' {
		return "example/etcd:" + name
	}
	if major, ok := strings.CutPrefix(name, "pg"); ok && major != "" {
		return "example/postgres:" + major
	}
	return "example/app"
}

// versionAt is the version that c runs; unknown at a Revision that names none.
func (w *world) versionAt(c *cvm) version.Version {
	m := upgrade.Named(upgrade.Targets(group.Spec{Workload: group.Workload{Kind: w.kind}, Template: c.content}))
	v, _ := version.Parse(m.Version + m.Data)
	return v
}

// raise raises the version of the data once each member runs a newer one, as etcd does. PostgreSQL's never changes.
func (w *world) raise() {
	if w.lowered || w.kind == group.WorkloadPatroni && w.data.Known() {
		return
	}
	var least version.Version
	for _, c := range w.cvms {
		if c.gone {
			continue
		}
		v := w.versionAt(c)
		if !w.works(c) || !v.Known() {
			return
		}
		if !least.Known() || v.Compare(least) < 0 {
			least = v
		}
	}
	if to, _ := version.Parse(least.Line(w.lineParts())); to.Known() && to.Compare(w.data) > 0 {
		w.data = to
		w.log("the data is of %s", to)
	}
}

func (w *world) lineParts() int {
	if w.kind == group.WorkloadPatroni {
		return 1
	}
	return 2
}

// opens reports that c's server runs on the data.
func (w *world) opens(c *cvm) bool {
	v := w.versionAt(c)
	if w.kind == group.WorkloadPatroni && v.Known() && w.data.Known() {
		return v.Line(1) == w.data.Line(1)
	}
	return !v.Known() || v.Compare(w.data) >= 0
}

// reportVersion adds the versions to a report of a member that works.
func (w *world) reportVersion(c *cvm, r *rollout.Report, works bool) {
	v := w.versionAt(c)
	if !works || !v.Known() {
		return
	}
	r.Version, r.DataFormat = v.String(), w.data.String()
	if w.kind == group.WorkloadPatroni {
		r.Version, r.DataFormat = "4.1.5", v.Line(1)
	}
}

func versionEvents() []event {
	return []event{
		{"the data goes back to WORD", func(s *story, arg []string) error {
			s.w.data, _ = version.Parse(arg[0])
			s.w.lowered = true
			return nil
		}},
	}
}

func versionExpectations() []event {
	return []event{
		{"it warns REST", func(s *story, arg []string) error {
			if slices.ContainsFunc(s.c.plan.Warnings, func(text string) bool { return strings.Contains(text, arg[0]) }) {
				return nil
			}
			return fmt.Errorf("the plan warns %q", s.c.plan.Warnings)
		}},
	}
}
