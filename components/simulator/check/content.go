package check

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/simulator/trace"
)

// content compares the content of CVMs with the specs. The engine itself writes the Revision and
// the hash of every record, so records cannot show that the two do not match. The text itself shows
// it. A call carries the text of its Operation's Revision. Where a group gives no reason, each
// member runs the text, size and image of the Revision at which it is admitted.
func content(s *state, e trace.Event) []string {
	switch {
	case e.Kind == trace.Called && e.Call.Hash != "":
		op := s.member(e.Slot).acting()
		if op == nil {
			return nil // I5 reports that
		}
		if sp := s.specAt(op.Group, op.To); sp != nil && e.Call.Content != sp.Template.Compose {
			return wrong("call %d leads %s to %.12s with another text than its spec has", e.Call.ID, e.Slot, op.To)
		}
	case e.Kind == trace.Settled:
		return s.contentAtRest(e)
	}
	return nil
}

func (s *state) contentAtRest(e trace.Event) []string {
	var out []string
	for _, sp := range s.wanted() {
		if reason, says := e.Resting[sp.Name]; !says || reason != "" {
			continue
		}
		for _, slot := range sp.Members() {
			m := s.member(slot)
			at := slices.IndexFunc(e.CVMs, func(vm trace.CVM) bool { return m.bound != nil && s.boundTo(vm) == m })
			if m.admission == nil || at < 0 {
				continue // L6 and I25 report that
			}
			is, runs := s.specAt(sp.Name, m.admission.Revision), e.CVMs[at]
			switch {
			case is == nil:
			case runs.Content != is.Template.Compose:
				out = append(out, wrong("%s runs another text than revision %.12s has", slot, m.admission.Revision)...)
			case runs.InstanceType != is.Template.InstanceType && !s.ownSize(sp.Name, slot, runs.InstanceType) || runs.OSImage != is.Template.OSImage:
				out = append(out, wrong("%s is a %s with %s, and revision %.12s asks for a %s with %s",
					slot, runs.InstanceType, runs.OSImage, m.admission.Revision, is.Template.InstanceType, is.Template.OSImage)...)
			}
		}
	}
	return out
}

// specAt is a spec of the group that was in force and has that Revision; nil: there was none.
func (s *state) specAt(name, revision string) *group.Spec {
	for _, d := range slices.Backward(s.group(name).specs) {
		if d.spec != nil && d.spec.Revision() == revision {
			return d.spec
		}
	}
	return nil
}

// ownSize: a spec of the group gave the Slot that size of its own. A member that is held keeps the size of an earlier spec.
func (s *state) ownSize(name, slot, size string) bool {
	_, ordinal, err := group.ParseSlot(slot)
	return err == nil && slices.ContainsFunc(s.group(name).specs, func(d dated) bool {
		return d.spec != nil && d.spec.Instance(ordinal).InstanceType == size
	})
}
