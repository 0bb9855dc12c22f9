package catalog

import (
	"slices"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Records is the part of a member's state that comes from the records in KV.
type Records struct {
	Group, Slot, Boot, VIP string
	// Port of the group's own service; 0: the group has none.
	Port int
	// Leased: the Boot holds its Slot's lease, so a coordinator receives its reports. Ended: the Boot
	// said farewell.
	Leased, Ended bool
	// Draining: an Operation stops the Boot now or is about to. HandsOver: that Operation still has
	// to hand over the Boot's leadership.
	Draining, HandsOver bool
	// MeshAt is the index of the group's service mesh record. ServiceMeshUnknown: the record cannot
	// be read, and this coordinator has no earlier version of it.
	MeshAt             uint64
	ServiceMeshUnknown bool
}

// Member is the complete input of an entry.
type Member struct {
	Records
	// ServiceMesh is its group's part in the service layer.
	ServiceMesh group.ServiceMesh
	// Report is the last report of this Boot at this coordinator, with its Sequence; nil: there is
	// none. Its Health is for rollouts. The catalog uses Workload instead: the health of the
	// member's workload without its Envoys.
	Report   *rollout.Report
	Sequence uint64
	Workload rollout.Health
	// Rival is the greatest epoch at which another live member of the group claims to lead; 0: no
	// other member claims it, or its epoch is not known.
	Rival uint64
	// Live are the proxies, by ID, whose Envoys can be reached.
	Live map[string]bool
	// Backends are the workload's own reports of the backends that it registers itself.
	Backends map[string]reports.Backend
}

// hear copies the member's own report into m.
func (m *Member) hear(got reports.Received) {
	m.Report, m.Sequence, m.Backends = got.Observed(), got.Report.GetSequence(), got.Backends()
	m.Workload, m.Live = got.Workload(), map[string]bool{}
	for _, p := range m.ServiceMesh.Proxies {
		m.Live[p.ID] = got.Live(p.ID)
	}
}

// Entry is a member in Consul's catalog: its node, the service of its group, and the services of
// its part in the service layer.
type Entry struct {
	Group, Slot, Boot, VIP string
	// Port of the group's own service; 0: the group has none.
	Port int
	// Sequence of the report behind the entry; 0: there is no report.
	Sequence uint64
	// Role is the tag of the entry; "": the entry has no tag.
	Role string
	// Ready: the entry's check is passing. Why is the check's output, one of a few texts.
	Ready bool
	Why   string
	// Services other than the group's own, sorted by ID. Partial: the wanted services are unknown,
	// and the services in the catalog stay unchanged.
	Services []Service
	Partial  bool
}

// Values of Entry.Why.
const (
	WhyHealthy   = "healthy"
	WhyUnhealthy = "not healthy"
	WhyUnknown   = "its health is not known"
	WhyProxy     = "its proxy is not live"
	WhyDraining  = "draining"
	WhyNoReport  = "no report yet"
	WhySilent    = "no coordinator receives its reports"
	WhyEnded     = "it said farewell"
)

// Want returns the entry that an admitted Boot should have.
func Want(m Member) Entry {
	out := Entry{Group: m.Group, Slot: m.Slot, Boot: m.Boot, VIP: m.VIP, Port: m.Port, Sequence: m.Sequence, Partial: m.ServiceMeshUnknown}
	out.judge(m)
	if !out.Partial {
		out.Services = services(m, out)
	}
	return out
}

// WantHeard returns the entry, without the service layer, of the Boot that sent the report got. ok
// is false when another Boot has the Slot, or none. The simulator uses it, because its Boots hold
// no leases.
func WantHeard(v *view.View, slot string, got reports.Received) (e Entry, ok bool) {
	var m Member
	if m.Records, ok = recordsOf(v, slot); !ok || m.Boot != got.BootID {
		return Entry{}, false
	}
	m.Leased = true
	m.hear(got)
	return Want(m), true
}

// judge sets the role and the readiness of the entry.
func (e *Entry) judge(m Member) {
	switch {
	case m.Ended:
		e.Why = WhyEnded
		return
	case !m.Leased:
		e.Why = WhySilent
		return
	case m.Report == nil:
		e.Why = WhyNoReport
		return
	}
	switch m.Report.Role {
	case rollout.RoleLeader:
		// A replaced leader that still claims to lead gets no leader tag: a route would lead to
		// both members.
		if m.leads() {
			e.Role = string(rollout.RoleLeader)
		}
	case rollout.RoleFollower, rollout.RoleLearner:
		e.Role = string(m.Report.Role)
	default: // none or unknown: no route selects it
	}
	e.Why = WhyDraining
	// A leader serves until another member leads. An earlier removal from discovery would leave its
	// route without a target before callers are asked to wait.
	if !m.Draining || m.HandsOver && m.leads() {
		e.Why = why(m.Workload)
	}
	e.Ready = e.Why == WhyHealthy
}

func why(health rollout.Health) string {
	switch health {
	case rollout.Healthy:
		return WhyHealthy
	case rollout.Unknown:
		return WhyUnknown
	default:
		return WhyUnhealthy
	}
}

// heard reports whether the entry follows from the member's own report.
func (e *Entry) heard() bool {
	return !slices.Contains([]string{WhyEnded, WhySilent, WhyNoReport}, e.Why)
}
