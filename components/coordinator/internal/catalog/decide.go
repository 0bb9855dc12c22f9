package catalog

import "slices"

// Found is the content of the catalog under a Slot's name.
type Found struct {
	// Entry as written. Its Services are the services with our meta key.
	Entry
	// NodeBoot is the Boot in the node's meta.
	NodeBoot string
	// Exists: the catalog has a node of that name.
	Exists bool
	// Agent: the node has an ID, so a Consul agent registered it and maintains it.
	Agent bool
	// Foreign: the node has services that no coordinator wrote.
	Foreign bool
	// NodeIndex and ServiceIndex are for check-and-set; ServiceIndex is 0 when the node has no
	// service of the group. Indices are the modify indices of the Services by ID, and Boots the
	// Boots in their meta.
	NodeIndex, ServiceIndex uint64
	Indices                 map[string]uint64
	Boots                   map[string]string
}

// Step is the kind of change that an entry needs.
type Step string

const (
	// Keep: the entry is right already, or a Consul agent maintains it.
	Keep Step = "keep"
	// Update writes the differences, and the node when its address changed.
	Update Step = "update"
	// Replace first removes the node of another Boot, and with it all sessions on that node.
	Replace Step = "replace"
)

// Plan is a Step with the services to change.
type Plan struct {
	Step Step
	// Own: the group's own service, or the node, is to be written.
	Own bool
	// Put are the services to write, and Drop the IDs of services to remove, in the transaction.
	Put  []Service
	Drop []string
	// Callers are registered outside of the transaction.
	Callers []Service
}

// transacts reports whether the plan needs a transaction.
func (p Plan) transacts() bool { return p.Step == Replace || p.Own || len(p.Put)+len(p.Drop) > 0 }

// Decide returns the plan that turns found into want. The plan is carried out by check-and-set, so
// it fails when found is outdated.
func Decide(found Found, want Entry) Plan {
	switch {
	case found.Agent:
		return Plan{Step: Keep}
	case !found.Exists:
		return differences(Update, Found{}, want)
	case found.Boot != want.Boot || found.Foreign:
		return differences(Replace, Found{}, want)
	case found.ServiceIndex != 0 && want.Why != WhySilent && want.Why != WhyEnded && want.Sequence < found.Sequence:
		// The catalog has a newer report. WhySilent follows from the lease and not from a report,
		// so it is exempt from the order of reports. The next report that any coordinator receives
		// has a higher sequence than the stored one.
		return Plan{Step: Keep}
	}
	return differences(Update, found, want)
}

// differences returns the plan that turns found into want.
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

// sameAs ignores the sequence, so that a report without a change writes nothing. sameAs does not
// compare the services.
func (e Entry) sameAs(o Entry) bool {
	return e.Group == o.Group && e.Slot == o.Slot && e.Boot == o.Boot && e.VIP == o.VIP && e.Port == o.Port && e.Role == o.Role && e.Ready == o.Ready && e.Why == o.Why
}

// same reports whether e already has everything that want asks for.
func same(e, want Entry) bool {
	return e.sameAs(want) && (want.Partial || slices.EqualFunc(e.Services, want.Services, Service.equal))
}
