package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	consul "github.com/hashicorp/consul/api"
)

// A Slot's policy is named by the digest of its rules, so it never changes: a token's rights are
// fixed at its issue, and the text of a known policy need not be read again. The next version of
// the spec gets another policy with the next renewal.
const policyMark = "cadre-"

func policyName(kind, slot, rules string) string {
	sum := sha256.Sum256([]byte(rules))
	return policyMark + kind + "-" + slot + "-" + hex.EncodeToString(sum[:6])
}

// policyKinds are the kinds of a Slot's policies. "agent" is from an earlier version, for the
// Consul agent of a member: none is created any more, and existing ones are recognised and revoked.
var policyKinds = []string{"agent", "workload"}

// ofSlot reports whether a policy was created for the Slot.
func ofSlot(name, slot string) bool {
	for _, kind := range policyKinds {
		rest, ok := strings.CutPrefix(name, policyMark+kind+"-"+slot)
		// A name without a digest is from a version that changed policies in place.
		if ok && (rest == "" || len(rest) == 13 && rest[0] == '-' && isHex(rest[1:])) {
			return true
		}
	}
	return false
}

func isHex(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil
}

// policy returns the id of the named policy with exactly these rules. cached reports that the id
// came from the cache, without a request to Consul.
func (i *Issuer) policy(ctx context.Context, name, rules string) (id string, cached bool, err error) {
	i.mu.Lock()
	id, cached = i.policies[name]
	i.mu.Unlock()
	if cached {
		return id, true, nil
	}
	if id, err = i.ensurePolicy(ctx, name, "", rules); err != nil {
		return "", false, err
	}
	i.mu.Lock()
	i.policies[name] = id
	i.mu.Unlock()
	return id, false, nil
}

func (i *Issuer) forget(name string) {
	i.mu.Lock()
	delete(i.policies, name)
	i.mu.Unlock()
}

// ensurePolicy creates the named policy, or replaces its rules.
func (i *Issuer) ensurePolicy(ctx context.Context, name, description, rules string) (string, error) {
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	write := (&consul.WriteOptions{}).WithContext(ctx)
	have, _, err := i.client.ACL().PolicyReadByName(name, query)
	if err != nil && !isNotFound(err) {
		return "", fmt.Errorf("read policy %s: %w", name, err)
	}
	if have == nil {
		made, _, err := i.client.ACL().PolicyCreate(&consul.ACLPolicy{Name: name, Description: description, Rules: rules}, write)
		if err == nil {
			return made.ID, nil
		}
		// Another coordinator created it first.
		have, _, _ = i.client.ACL().PolicyReadByName(name, query)
		if have == nil {
			return "", fmt.Errorf("make policy %s: %w", name, err)
		}
	}
	if have.Rules != rules {
		have.Rules = rules
		if _, _, err := i.client.ACL().PolicyUpdate(have, write); err != nil {
			return "", fmt.Errorf("update policy %s: %w", name, err)
		}
	}
	return have.ID, nil
}

// Retire revokes everything issued for a Slot: its tokens by accessor, and its policies. A missing
// one counts as revoked.
func (i *Issuer) Retire(ctx context.Context, slot string, accessors ...string) error {
	errs := []error{i.Revoke(ctx, accessors...)}
	all, _, err := i.client.ACL().PolicyList((&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("list policies: %w", err))...)
	}
	for _, p := range all {
		if ofSlot(p.Name, slot) {
			errs = append(errs, i.deletePolicy(ctx, p))
		}
	}
	return errors.Join(errs...)
}

func (i *Issuer) deletePolicy(ctx context.Context, p *consul.ACLPolicyListEntry) error {
	i.forget(p.Name)
	err := remove(func() error {
		_, err := i.client.ACL().PolicyDelete(p.ID, (&consul.WriteOptions{}).WithContext(ctx))
		return err
	}, func() error {
		_, _, err := i.client.ACL().PolicyRead(p.ID, (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		return err
	})
	if err != nil {
		return fmt.Errorf("delete policy %s: %w", p.Name, err)
	}
	return nil
}
