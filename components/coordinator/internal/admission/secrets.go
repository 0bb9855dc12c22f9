package admission

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// addSecrets adds the secrets in force. If the record of a secret's epoch is unreadable, no value
// can be given: the value of the first epoch may have been rotated away. A Boot that has a value
// then keeps it. A refusal would end its tokens, and those of its whole group, within minutes.
func (s *Service) addSecrets(ctx context.Context, g *grant, out *admissionv1.Credentials) error {
	slot := g.admission.Slot
	values, err := s.cfg.Secrets.For(ctx, g.view, g.spec)
	if err != nil && !g.keeps(err) {
		return fmt.Errorf("secrets of %s: %w", slot, err)
	}
	g.checks = append(g.checks, values.Checks...)
	out.Secrets = values.Secrets
	if err == nil {
		return nil
	}
	for _, declared := range g.spec.AllSecrets() {
		if !slices.ContainsFunc(values.Secrets, func(one *admissionv1.Secret) bool { return one.GetName() == declared.Name }) {
			out.KeptSecrets = append(out.KeptSecrets, declared.Name)
		}
	}
	s.log.Warn("a renewal omits secrets; the boot keeps its values", "slot", slot, "secrets", out.KeptSecrets, "error", err)
	return nil
}

// keeps reports whether addSecrets may omit values because of err: a record is damaged while the
// store works, and the Boot has values and understands the omission.
func (g *grant) keeps(err error) bool { return g.inUse != nil && len(store.RecordErrors(err)) > 0 }
