package admission

import (
	"context"

	"cadre.dev/core/policy"
)

// Catalog tells Consul of members, which have no agent that would.
type Catalog interface {
	// Register makes the node of a Boot that holds its Slot's lease, so that sessions can be
	// made on it; what another Boot of the Slot had there ends. Again, it does nothing.
	Register(ctx context.Context, group, slot, bootID, vip string) error
	// Remove takes the Boot's node out, and with it all sessions on it.
	Remove(ctx context.Context, slot, bootID string) error
}

// register has the Boot in Consul's catalog before it is given what it asks Consul with.
func (s *Service) register(ctx context.Context, g *grant) *refusal {
	if s.cfg.Catalog == nil {
		return nil
	}
	if err := s.cfg.Catalog.Register(ctx, g.admission.Group, g.admission.Slot, g.admission.BootID, g.vip); err != nil {
		return refuse(codeTokens, "%v", err).later()
	}
	return nil
}

// unregister ends what an evicted Boot has in Consul. If it cannot, the leader's audit does.
func (s *Service) unregister(ctx context.Context, a policy.Admission) {
	if s.cfg.Catalog == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionLimit)
	defer cancel()
	if err := s.cfg.Catalog.Remove(ctx, a.Slot, a.BootID); err != nil {
		s.log.Warn("node of an evicted boot not removed; the leader's audit does", "slot", a.Slot, "error", err)
	}
}
