package catalog

import (
	"slices"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Records is what the records say of a member.
type Records struct {
	Group, Slot, Boot, VIP string
	// Port of the group's own service; 0: it has none.
	Port int
	// Held: the Boot holds its Slot's lease, so some coordinator hears it. Ended: it said
	// farewell.
	Held, Ended bool
	// Draining: an Operation is about to stop it, or does. HandsOver: what leadership it has is
	// still to be given away in that.
	Draining, HandsOver bool
	// MeshAt is the index of the record of its group's part in the service layer; MeshUnknown:
	// that record cannot be read, and what it said before is not known here.
	MeshAt             uint64
	ServiceMeshUnknown bool
}

// Member is everything that an entry rests on.
type Member struct {
	Records
	// ServiceMesh is its group's part in the service layer.
	ServiceMesh group.ServiceMesh
	// Report is the last one of this Boot here, with its Sequence; nil: there is none. Its
	// Health is for rollouts: the catalog goes by Workload, the health of what runs in the
	// member without its Envoys.
	Report   *rollout.Report
	Sequence uint64
	Workload rollout.Health
	// Rival is the greatest epoch at which another member of the group says that it leads, and
	// is heard; 0: none does, or its epoch is not known.
	Rival uint64
	// Live are the proxies, by ID, whose Envoys can be reached.
	Live map[string]bool
	// Backends is what the workload says in it of the backends that it registers itself.
	Backends map[string]reports.Backend
}

// hear takes what the member says of itself.
func (m *Member) hear(got reports.Received) {
	m.Report, m.Sequence, m.Backends = got.Observed(), got.Report.GetSequence(), got.Backends()
	m.Workload, m.Live = got.Workload(), map[string]bool{}
	for _, p := range m.ServiceMesh.Proxies {
		m.Live[p.ID] = got.Live(p.ID)
	}
}

// Entry is a member in Consul's catalog: its node with the service of its group, and those
// of its part in the service layer.
type Entry struct {
	Group, Slot, Boot, VIP string
	// Port of the group's own service; 0: it has none.
	Port int
	// Sequence of the report that it was made from; 0: of none.
	Sequence uint64
	// Role is its tag; "": it has none.
	Role string
	// Ready: its check is passing. Why is the check's output, one of few texts.
	Ready bool
	Why   string
	// Services beside the group's, sorted by ID. Partial: which there should be is not known,
	// and those that are there stay as they are.
	Services []Service
	Partial  bool
}

// Why an entry is as it is.
const (
	WhyHealthy   = "healthy"
	WhyUnhealthy = "not healthy"
	WhyUnknown   = "its health is not known"
	WhyProxy     = "its proxy is not live"
	WhyDraining  = "draining"
	WhyNoReport  = "no report yet"
	WhySilent    = "no coordinator hears it"
	WhyEnded     = "it said farewell"
)

// Want is what the entry of an admitted Boot should be.
func Want(m Member) Entry {
	out := Entry{Group: m.Group, Slot: m.Slot, Boot: m.Boot, VIP: m.VIP, Port: m.Port, Sequence: m.Sequence, Partial: m.ServiceMeshUnknown}
	out.judge(m)
	if !out.Partial {
		out.Services = services(m, out)
	}
	return out
}

// WantHeard is the entry, without the service layer, of the Boot of a Slot that got is of and that
// is heard; ok is false where another Boot has the Slot, or none. It is for the simulator, where
// Boots hold no leases.
func WantHeard(v *view.View, slot string, got reports.Received) (e Entry, ok bool) {
	var m Member
	if m.Records, ok = recordsOf(v, slot); !ok || m.Boot != got.BootID {
		return Entry{}, false
	}
	m.Held = true
	m.hear(got)
	return Want(m), true
}

// judge says how the member is.
func (e *Entry) judge(m Member) {
	switch {
	case m.Ended:
		e.Why = WhyEnded
		return
	case !m.Held:
		e.Why = WhySilent
		return
	case m.Report == nil:
		e.Why = WhyNoReport
		return
	}
	switch m.Report.Role {
	case rollout.RoleLeader:
		// One that was replaced and does not know it yet is nobody's leader: a route would lead
		// to both.
		if m.leads() {
			e.Role = string(rollout.RoleLeader)
		}
	case rollout.RoleFollower, rollout.RoleLearner:
		e.Role = string(m.Report.Role)
	default: // none, or not known: no route goes by it
	}
	e.Why = WhyDraining
	// A leader serves until another one does. Were it gone from discovery before, its route
	// would lead nowhere before callers are told to wait.
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

// heard tells that the entry rests on what the member says of itself.
func (e *Entry) heard() bool {
	return !slices.Contains([]string{WhyEnded, WhySilent, WhyNoReport}, e.Why)
}
