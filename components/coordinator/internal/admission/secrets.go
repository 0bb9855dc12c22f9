package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/coordinator/internal/secrets"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// addSecrets adds the secrets in force. If the record of a secret's epoch is unreadable, no value
// can be given: the value of the first epoch may have been rotated away. A Boot that has a value
// then keeps it. A refusal would end its tokens, and those of its whole group, within minutes. The same
// holds for a secret whose value an operator has yet to give: a running Boot lives without it.
func (s *Service) addSecrets(ctx context.Context, g *grant, out *admissionv1.Credentials) error {
	slot := g.admission.Slot
	values, err := s.cfg.Secrets.For(ctx, g.view, g.spec)
	none, _ := errors.AsType[*secrets.NoValueError](err)
	if err != nil && !g.keeps(err) {
		return fmt.Errorf("secrets of %s: %w", slot, err)
	}
	g.checks = append(g.checks, values.Checks...)
	out.Secrets = values.Secrets
	if err == nil {
		return nil
	}
	for _, declared := range g.spec.AllSecrets() {
		if none != nil && slices.Contains(none.Names, declared.Name) {
			continue // no Boot has such a value
		}
		if !slices.ContainsFunc(values.Secrets, func(one *admissionv1.Secret) bool { return one.GetName() == declared.Name }) {
			out.KeptSecrets = append(out.KeptSecrets, declared.Name)
		}
	}
	s.log.Warn("a renewal omits secrets; the boot keeps its values", "slot", slot, "kept", out.KeptSecrets, "error", err)
	return nil
}

// keeps reports whether addSecrets may omit values because of err: a record is damaged while the
// store works, or a value was not given yet, and the Boot has values and understands the omission.
func (g *grant) keeps(err error) bool {
	_, none := errors.AsType[*secrets.NoValueError](err)
	return g.inUse != nil && (none || len(store.RecordErrors(err)) > 0)
}
