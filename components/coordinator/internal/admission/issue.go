package admission

import (
	"context"
	"crypto"
	"encoding/pem"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// Issuer issues and revokes Consul tokens.
type Issuer interface {
	Slot(ctx context.Context, h tokens.Holder) (tokens.Token, error)
	// Rules returns the rules of a token for h.
	Rules(h tokens.Holder) string
	Revoke(ctx context.Context, accessors ...string) error
}

// Secrets returns the current secrets of workloads.
type Secrets interface {
	// For returns the values for a Slot whose group has spec. For uses the epochs of v and adds
	// checks that these are in force; with a nil v it reads the epochs. For omits values whose
	// record cannot be read, and its error then holds a *store.RecordError for each. With any other
	// error there are no values.
	For(ctx context.Context, v *view.View, spec group.Spec) (secrets.Values, error)
}

// grant is a recorded decision to issue credentials. Admit and Renew both end in one.
type grant struct {
	admission policy.Admission
	// index of the admission's record; 0: unknown, so record reads it.
	index uint64
	// view is the View behind the grant; nil: the records were read.
	view *view.View
	// checks pass while the decision behind the grant is valid.
	checks []store.Op
	spec   group.Spec
	vip    string
	// key is the Boot's; the connection proved it.
	key crypto.PublicKey
	// inUse is the Boot's own list of its credentials; nil: the Boot sent none.
	inUse *admissionv1.CredentialsInUse
}

// errTaken means that the records have changed since the decision.
var errTaken = errors.New("the records changed meanwhile")

// issue makes the credentials of a Boot that holds the Slot now: everything is fresh except the
// key. Tokens are recorded before the Boot receives them (TOK-12).
func (s *Service) issue(ctx context.Context, g *grant) (*admissionv1.Credentials, *refusal) {
	out, err := s.sign(ctx, g)
	none, noValue := errors.AsType[*secrets.NoValueError](err)
	switch {
	case errors.Is(err, keys.ErrKeyForbidden):
		return nil, refuse(codeKey, "%v", err)
	case len(store.RecordErrors(err)) > 0:
		return nil, refuse(codeUnreadable, "%v; the value in force is unknown until the record is repaired", err).later()
	case noValue:
		return nil, refuse(policy.CodeSecretNoValue, "%v", none).later()
	case err != nil:
		return nil, refuse(codeTokens, "%v", err).later()
	}
	if g.keepsToken(s.cfg.Issuer.Rules(g.holder()), s.now()) {
		out.Consul.TokenKept, out.Consul.TokensId = true, g.inUse.GetTokensId()
		return out, s.confirm(ctx, g)
	}
	if refused := s.register(ctx, g); refused != nil {
		return nil, refused
	}
	token, err := s.cfg.Issuer.Slot(ctx, g.holder())
	if err != nil {
		return nil, refuse(codeTokens, "%v", err).later()
	}
	old, refused := s.record(ctx, g, token)
	if refused != nil {
		// No Boot has received it yet.
		s.revoke(ctx, g.admission.Slot, []string{token.Accessor})
		return nil, refused
	}
	s.revoke(ctx, g.admission.Slot, old)
	out.Consul.WorkloadToken = token.Secret
	out.Consul.TokensExpireAt, out.Consul.TokensId = timestamppb.New(token.ExpiresAt), token.Accessor
	return out, nil
}

// sign makes the certificate and the secrets, which need no call to Consul.
func (s *Service) sign(ctx context.Context, g *grant) (*admissionv1.Credentials, error) {
	a, ca, now := g.admission, s.cfg.Root.CA(), s.now()
	der, until, err := ca.SVID(g.key, keys.Subject{Group: a.Group, Slot: a.Slot, Simulated: a.Simulated}, now)
	if err != nil {
		return nil, err
	}
	out := &admissionv1.Credentials{
		Cluster: s.cfg.Cluster, Group: a.Group, Slot: a.Slot, BootId: a.BootID,
		SvidChainPem: append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), ca.PEM()...),
		CaBundlePem:  ca.PEM(), ExpiresAt: timestamppb.New(until), Vip: g.vip, Revision: a.Revision,
		Generation: a.Generation, PolicyEpoch: a.Epoch, ReattestBy: timestamppb.New(a.AttestedAt.Add(policy.ReattestAfter)),
		Simulated: a.Simulated, Consul: &admissionv1.ConsulCredentials{Datacenter: s.cfg.Datacenter},
	}
	return out, s.addSecrets(ctx, g, out)
}

// record adds the token to the admission and returns the accessors to revoke. errTaken inside the
// refusal means that the records differ from those of the decision.
func (s *Service) record(ctx context.Context, g *grant, token tokens.Token) (revoke []string, refused *refusal) {
	key := store.AdmissionKey(g.admission.Slot)
	if g.index == 0 {
		stored, index, err := store.Read[policy.Admission](ctx, s.store, key)
		if err != nil {
			return nil, refuse(codeTokens, "read the slot's admission: %v", err).later()
		}
		if stored.BootID != g.admission.BootID || stored.Generation != g.admission.Generation {
			return nil, refuse(codeStale, "another boot took the slot meanwhile")
		}
		g.admission, g.index = stored, index
	}
	next := g.admission
	now := s.now().UTC()
	next.TokenAccessors, revoke = rotate(g.admission, g.inUse.GetTokensId(), token.Accessor, now)
	next.TokensAt, next.TokenRules, next.ExpiresAt = now, s.cfg.Issuer.Rules(g.holder()), token.ExpiresAt.UTC()
	return revoke, s.replace(ctx, g, next)
}

// replace writes the admission over the one of the decision, while the decision is valid.
func (s *Service) replace(ctx context.Context, g *grant, next policy.Admission) *refusal {
	op, err := store.Put(store.AdmissionKey(next.Slot), next, g.index)
	if err != nil {
		return refuse(codeTokens, "%v", err).later()
	}
	if refused := s.commit(ctx, append([]store.Op{op}, g.checks...)); refused != nil {
		return refused
	}
	s.replaced(next.Slot, g.index)
	return nil
}

func (s *Service) commit(ctx context.Context, ops []store.Op) *refusal {
	switch err := s.store.Commit(ctx, ops...); {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrConflict):
		return refuse(codeStale, "%v", errTaken).later().because(errTaken)
	default:
		return refuse(codeTokens, "record tokens: %v", err).later()
	}
}

// holder returns the holder for whom the token is made.
func (g *grant) holder() tokens.Holder {
	a := g.admission
	return tokens.Holder{Spec: g.spec, Slot: a.Slot, BootID: a.BootID, Simulated: a.Simulated}
}

// keepsToken reports whether the Boot keeps its token. The Boot must report that it uses the newest
// token, the token must have the current rules, and half of its life must be left. Such renewals
// write nothing to Consul.
func (g *grant) keepsToken(rules string, now time.Time) bool {
	has := g.admission.TokenAccessors
	return g.inUse.GetKeepsToken() && g.index != 0 && len(has) > 0 && has[len(has)-1] == g.inUse.GetTokensId() &&
		g.admission.TokenRules == rules && now.Sub(g.admission.TokensAt) < tokens.TTL/2
}

// confirm checks that the decision is still valid when no token is issued. confirm revokes the
// tokens before the token in use.
func (s *Service) confirm(ctx context.Context, g *grant) *refusal {
	has := g.admission.TokenAccessors
	if len(has) == 1 || s.now().Sub(g.admission.TokensAt) < settled {
		// Shortly after a new token was issued, the workload may still use the previous one.
		return s.commit(ctx, append([]store.Op{{Kind: store.OpCheckIndex, Key: store.AdmissionKey(g.admission.Slot), Index: g.index}}, g.checks...))
	}
	next := g.admission
	next.TokenAccessors = has[len(has)-1:]
	if refused := s.replace(ctx, g, next); refused != nil {
		return refused
	}
	s.revoke(ctx, g.admission.Slot, has[:len(has)-1])
	return nil
}

const (
	// settled is the time after which a Boot uses the credentials that it received: renewals come
	// every 5 minutes or less often. An earlier renewal follows a lost answer or a rotation, and
	// the Boot's previous token may still be in use.
	settled = 4 * time.Minute
	// maxTokens bounds the tokens of a Boot while answers get lost.
	maxTokens = 4
)

// rotate adds a token to the tokens of a Boot and returns the accessors to revoke. The token in use
// is always kept, even if many were issued since: all those answers may have been lost. A Boot that
// does not report its token uses the last one if it was settled since. Otherwise it uses one of the
// two that it had when it was last settled.
func rotate(admission policy.Admission, inUse, added string, now time.Time) (keep, revoke []string) {
	have := admission.TokenAccessors
	used := slices.Index(have, inUse)
	last, recent := len(have)-1, now.Sub(admission.TokensAt) < settled
	stays := func(i int) bool {
		switch {
		case admission.TokensAt.IsZero():
			return false // of a Boot that lost the Slot
		case i == used:
			return true
		case !recent:
			return used < 0 && i == last
		case used < 0:
			return i < maxTokens-2 || i == last
		}
		// The newest tokens also stay: a rotation may have just replaced one, and an answer in
		// flight may have carried the other.
		newer := last - i
		if i < used {
			newer--
		}
		return newer < maxTokens-2
	}
	for i, one := range have {
		if stays(i) {
			keep = append(keep, one)
		} else {
			revoke = append(revoke, one)
		}
	}
	return append(keep, added), revoke
}

// revoke revokes tokens at once. A token that cannot be revoked expires automatically.
func (s *Service) revoke(ctx context.Context, slot string, accessors []string) {
	if len(accessors) == 0 {
		return
	}
	if err := s.cfg.Issuer.Revoke(ctx, accessors...); err != nil {
		s.log.Warn("old tokens not revoked; they expire automatically", "slot", slot, "error", err)
	}
}
