package admission

import (
	"context"

	"cadre.dev/core/policy"
)

// Catalog registers members in Consul, because they have no Consul agent.
type Catalog interface {
	// Register makes the node of a Boot that holds its Slot's lease, so that sessions can be
	// created on it. Register removes the node of the Slot's previous Boot. A repeated call does
	// nothing.
	Register(ctx context.Context, group, slot, bootID, vip string) error
	// Remove removes the Boot's node, and with it all sessions on that node.
	Remove(ctx context.Context, slot, bootID string) error
}

// register writes the Boot into Consul's catalog before the Boot receives its token.
func (s *Service) register(ctx context.Context, g *grant) *refusal {
	if s.cfg.Catalog == nil {
		return nil
	}
	if err := s.cfg.Catalog.Register(ctx, g.admission.Group, g.admission.Slot, g.admission.BootID, g.vip); err != nil {
		return refuse(codeTokens, "%v", err).later()
	}
	return nil
}

// unregister removes an evicted Boot from Consul. If the call fails, the leader's audit removes it.
func (s *Service) unregister(ctx context.Context, a policy.Admission) {
	if s.cfg.Catalog == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionLimit)
	defer cancel()
	if err := s.cfg.Catalog.Remove(ctx, a.Slot, a.BootID); err != nil {
		s.log.Warn("node of an evicted boot not removed; the leader's audit removes it", "slot", a.Slot, "error", err)
	}
}
