package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/upgrade"
)

// targetsOf returns the software of a Revision that rules of version upgrades exist for, once per pass.
func (w *world) targetsOf(revision string) []upgrade.Target {
	if known, ok := w.found.versions[revision]; ok {
		return known
	}
	spec := w.specAt(revision)
	spec.Template = w.templateOf(revision)
	out := upgrade.Targets(spec)
	if w.found.versions == nil {
		w.found.versions = make(map[string][]upgrade.Target)
	}
	w.found.versions[revision] = out
	return out
}

// versionOf returns the versions that m runs on its disk: by its report, by its record, or else by the Revision at which it was last
// available. The Revision that it was given proves nothing, because its server may not have started.
func (w *world) versionOf(m *member) upgrade.Member {
	var out upgrade.Member
	if last := m.record.WasAvailableAt; last != "" {
		out = upgrade.Named(w.targetsOf(last))
	}
	out.Slot, out.Data = m.slot, cmp.Or(m.record.DataFormat, out.Data)
	if r := m.report; r != nil {
		out.Version, out.Data = cmp.Or(r.Version, out.Version), cmp.Or(r.DataFormat, out.Data)
	}
	return out
}

// keepData records the version of the data on m's disk, for a group that names versions. The last report counts, not
// the newest version: a server of the older version may open the disk after a downgrade of the data.
func (w *world) keepData(m *member) {
	switch r := m.report; {
	case !w.spec.RecordsData():
		m.record.DataFormat = ""
	case r != nil && r.DataFormat != "":
		m.record.DataFormat = r.DataFormat
	}
}

// holdsOfVersion: a server that certainly cannot run on the disk is not booted. The empty disk that an operator's
// replacement makes gets the data of the other members. Healing chooses its own Revision (madeAgainAt).
func (w *world) holdsOfVersion(c candidate, _ evaluation) []Hold {
	judged := []upgrade.Member{w.versionOf(c.m)}
	switch {
	case c.kind == operation.Replace && c.actor != operation.ActorOperator:
		return nil
	case c.kind == operation.Replace:
		judged = w.versionsWithout(c.m, &taken{})
	}
	var holds []Hold
	for _, f := range w.judgeStep(c.to, judged) {
		if f.Refused {
			holds = append(holds, hold(HoldVersionStep, "%s", f.Message))
		}
	}
	return holds
}

// judgeStep returns the findings of the rules of version upgrades about a step of these members to a Revision.
func (w *world) judgeStep(revision string, members []upgrade.Member) (out []upgrade.Finding) {
	for _, t := range w.targetsOf(revision) {
		out = append(out, t.Judge(members)...)
	}
	return out
}

// mayNotRead says that the server of op's Revision may not open the data on m's disk: no rule judged the step, because
// the spec names no version, and the step brings another image. Empty: nothing suggests it.
func (w *world) mayNotRead(m *member, op operation.Operation) string {
	if len(newImages(w.templateOf(op.From).Compose, w.templateOf(op.To).Compose)) == 0 {
		return ""
	}
	for _, t := range w.targetsOf(op.To) {
		for _, o := range append([]*member{m}, w.everyone...) {
			if data := w.versionOf(o).Data; data != "" && !t.Version.Known() {
				return fmt.Sprintf("the step brought a new image, the spec names no version of %s, and %s reported data of version %s: "+
					"a server that cannot open this data ends so; with `version` in the workload block such a step is refused before it begins", t.Rules.Software, o.slot, data)
			}
		}
	}
	return ""
}

// holdsOfIrreversible: the step after which an older version no longer runs on the data waits for an operator.
func (w *world) holdsOfIrreversible(c candidate, l evaluation) []Hold {
	if w.spec.UpdatePolicy.Irreversible == group.IrreversibleAllow {
		return nil
	}
	var holds []Hold
	for _, f := range w.irreversible(c.m, c.to, l.taken) {
		holds = append(holds, hold(HoldIrreversible, "%s; say when, with `cadre instance update %s`", f.Message, c.m.slot))
	}
	return holds
}

// irreversible says why the step of m to a Revision ends the way back; empty: it does not.
func (w *world) irreversible(m *member, to string, t *taken) []upgrade.Finding {
	var out []upgrade.Finding
	others := func() []upgrade.Member { return w.versionsWithout(m, t) }
	for _, target := range w.targetsOf(to) {
		if f, last := target.Irreversible(w.versionOf(m), others); last {
			out = append(out, f)
		}
	}
	return out
}

// versionsWithout are the versions of all other members, at the end of their steps.
func (w *world) versionsWithout(m *member, taken *taken) []upgrade.Member {
	var out []upgrade.Member
	for _, o := range w.everyone {
		if o == m {
			continue
		}
		v, to := w.versionOf(o), ""
		switch {
		case o.open != nil && o.open.To != "":
			to = o.open.To
		case taken.has(o):
			to = o.want.revision
		}
		if to != "" {
			v.Version = cmp.Or(upgrade.Named(w.targetsOf(to)).Version, v.Version)
		}
		out = append(out, v)
	}
	return out
}

// versionFindings are the findings of all updates that the spec asks for, before any of them begins.
func (w *world) versionFindings() []upgrade.Finding {
	moves := make(map[string][]upgrade.Member)
	from := make(map[string]bool)
	other := false // the move changes an image
	for _, m := range w.members {
		to := m.want.revision
		if len(w.targetsOf(to)) == 0 || !w.outdated(m) && (m.open == nil || m.open.Kind != operation.Update) {
			continue
		}
		moves[to] = append(moves[to], w.versionOf(m))
		if !from[m.observed] {
			from[m.observed] = true
			before := w.templateOf(m.observed).Compose
			other = other || before != "" && len(newImages(before, w.templateOf(to).Compose)) > 0
		}
	}
	var out []upgrade.Finding
	for _, revision := range slices.Sorted(maps.Keys(moves)) {
		out = append(out, w.judgeStep(revision, moves[revision])...)
	}
	return slices.DeleteFunc(out, func(f upgrade.Finding) bool { return f.Code == upgrade.VersionUnknown && !other })
}
