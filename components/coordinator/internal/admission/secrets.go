package admission

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// addSecrets gives out the secrets in force. Where the record that
// says which epoch that is cannot be read there is no value to give: the first epoch's
// may be one that was rotated away. A Boot that has a value keeps it then. Refusing it
// would end its tokens within minutes, and those of its whole group with them.
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
	s.log.Warn("values are left out of a renewal; the boot keeps those that it has", "slot", slot, "secrets", out.KeptSecrets, "error", err)
	return nil
}

// keeps reports whether err is a reason to leave something out: a record is bad, not
// the store, and the Boot has values and knows what it means.
func (g *grant) keeps(err error) bool { return g.held != nil && len(store.RecordErrors(err)) > 0 }
