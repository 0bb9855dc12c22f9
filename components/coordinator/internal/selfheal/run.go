package selfheal

import (
	"context"
	"log/slog"
	"time"

	"cadre.dev/coordinator/internal/operate"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/platform"
	"cadre.dev/store"
)

// callLimit bounds one call to the platform.
const callLimit = 30 * time.Second

// Starter is the one call of the platform that healing makes.
type Starter interface {
	Start(ctx context.Context, vmUUID string) (platform.Accepted, error)
}

// Config of a Healer. All fields are required.
type Config struct {
	// Cluster and AppID name the coordinators' CVMs, Slot is this coordinator's.
	Cluster, AppID, Slot string
	// Replicas is the number of coordinators.
	Replicas int
	Platform Starter
	// Views have the leader and a freeze of the whole cluster.
	Views *view.Watcher
	// Connected lists the Slots of coordinators to which a Session is open.
	Connected func() map[string]bool
	// Called counts a call by its kind and outcome.
	Called func(kind, outcome string)
	Now    func() time.Time
	Log    *slog.Logger
}

// Healer evaluates listings and starts coordinators. Note may be called by any goroutine, Run by one.
type Healer struct {
	cfg   Config
	lists chan []platform.Instance // capacity 1: the newest listing
	state State
}

// New makes a Healer that has seen nothing.
func New(cfg Config) *Healer {
	return &Healer{cfg: cfg, lists: make(chan []platform.Instance, 1)}
}

// Note hands a listing of the coordinators' app over. A listing that failed is not noted.
func (h *Healer) Note(list []platform.Instance) {
	select {
	case <-h.lists: // an older listing that Run has not taken
	default:
	}
	select {
	case h.lists <- list:
	default: // another caller was faster with an equally new listing
	}
}

// Run evaluates each listing until ctx ends.
func (h *Healer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-h.lists:
			h.heal(ctx, list)
		}
	}
}

func (h *Healer) heal(ctx context.Context, list []platform.Instance) {
	now := h.cfg.Now()
	m, ok := h.state.Next(h.evaluation(list, now), now)
	if !ok {
		return
	}
	attrs := []any{"slot", m.Slot, "cvm", m.VMUUID, "attempt", h.state.Starts(m.Slot)}
	h.cfg.Log.Warn("the platform reports a coordinator as stopped: this coordinator starts it", attrs...)
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := h.cfg.Platform.Start(call, m.VMUUID)
	h.cfg.Called("start_coordinator", string(operate.OutcomeOf(err)))
	if err != nil {
		// The next listing shows the outcome. The back-off grows either way.
		h.cfg.Log.Error("coordinator not started, another attempt follows after the back-off", append(attrs, "error", err)...)
	}
}

// evaluation reads the listing together with the records and the Sessions. A name that two CVMs carry
// is left out: which of them has the disk is for an operator to decide.
func (h *Healer) evaluation(list []platform.Instance, now time.Time) Evaluation {
	e := Evaluation{Self: h.cfg.Slot}
	if v, _ := h.cfg.Views.Latest(); v != nil {
		// Also by records that cannot be read any more: the freeze of an operator outlives the quorum.
		_, e.Frozen = v.InEffect(store.OverrideFreeze, store.Everywhere, now)
		if h.cfg.Views.Readable() {
			e.Leader = v.Leader
		}
	}
	connected := h.cfg.Connected()
	for n := range h.cfg.Replicas {
		slot := peering.CoordinatorSlot(n)
		var found []platform.Instance
		for _, i := range list {
			if i.AppID == h.cfg.AppID && i.Name == h.cfg.Cluster+"-"+slot {
				found = append(found, i)
			}
		}
		if len(found) == 1 {
			i := found[0]
			e.Members = append(e.Members, Member{Slot: slot, VMUUID: i.VMUUID, Stopped: i.StaysDown(), Connected: connected[slot]})
		}
	}
	return e
}
