package catalog

import "slices"

// Found is what the catalog has under a Slot's name.
type Found struct {
	// Entry as it was written; its Services are those with our mark.
	Entry
	// NodeBoot is the Boot that the node itself names.
	NodeBoot string
	// Exists: there is a node of the name.
	Exists bool
	// Agent: the node has an ID, so an agent registered it, which writes it by itself.
	Agent bool
	// Foreign: the node has services that nobody should have made.
	Foreign bool
	// NodeIndex and ServiceIndex are for a check-and-set; ServiceIndex 0: no service of the
	// group. Indices are those of the Services, and Boots those that they name.
	NodeIndex, ServiceIndex uint64
	Indices                 map[string]uint64
	Boots                   map[string]string
}

// Step is what is to be done about an entry.
type Step string

const (
	// Keep: it is as it should be, or not ours to change.
	Keep Step = "keep"
	// Update writes what differs, and the node where its address changed.
	Update Step = "update"
	// Replace removes the node first, and with it all sessions on it: it is another Boot's.
	Replace Step = "replace"
)

// Plan is a Step with what it is about.
type Plan struct {
	Step Step
	// Own: the group's own service, or the node, is to be written.
	Own bool
	// Put and Drop are services to write, and the IDs of those to remove, in the transaction.
	Put  []Service
	Drop []string
	// Callers are to be written beside it.
	Callers []Service
}

// transacts reports whether there is something for the transaction.
func (p Plan) transacts() bool { return p.Step == Replace || p.Own || len(p.Put)+len(p.Drop) > 0 }

// Decide says what to do about what is found. What is found must be of now for the plan to
// count: it is carried out by check-and-set.
func Decide(found Found, want Entry) Plan {
	switch {
	case found.Agent:
		return Plan{Step: Keep}
	case !found.Exists:
		return differences(Update, Found{}, want)
	case found.Boot != want.Boot || found.Foreign:
		return differences(Replace, Found{}, want)
	case found.ServiceIndex != 0 && want.Why != WhySilent && want.Why != WhyEnded && want.Sequence < found.Sequence:
		// A newer report was written. That nobody hears a Boot follows from the lease, not from
		// a report, so it has no place in their order; the next report that arrives anywhere is
		// newer than what is kept.
		return Plan{Step: Keep}
	}
	return differences(Update, found, want)
}

// differences is the plan that makes found what is wanted.
func differences(step Step, found Found, want Entry) Plan {
	out := Plan{Step: step, Own: found.ServiceIndex == 0 || !found.sameAs(want)}
	if !want.Partial {
		have := map[string]Service{}
		for _, s := range found.Services {
			have[s.ID] = s
		}
		for _, s := range want.Services {
			is, has := have[s.ID]
			delete(have, s.ID)
			switch {
			case has && is.equal(s):
			case s.Calls():
				out.Callers = append(out.Callers, s)
			default:
				out.Put = append(out.Put, s)
			}
		}
		for _, s := range found.Services {
			if _, left := have[s.ID]; left {
				out.Drop = append(out.Drop, s.ID)
			}
		}
	}
	if out.Step == Update && !out.Own && len(out.Put)+len(out.Drop)+len(out.Callers) == 0 {
		out.Step = Keep
	}
	return out
}

// sameAs ignores the sequence: a report that says nothing new writes nothing. The services are
// compared by themselves.
func (e Entry) sameAs(o Entry) bool {
	return e.Group == o.Group && e.Slot == o.Slot && e.Boot == o.Boot && e.VIP == o.VIP && e.Port == o.Port && e.Role == o.Role && e.Ready == o.Ready && e.Why == o.Why
}

// same tells that nothing of want is missing in e.
func same(e, want Entry) bool {
	return e.sameAs(want) && (want.Partial || slices.EqualFunc(e.Services, want.Services, Service.equal))
}
