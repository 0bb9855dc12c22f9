package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	consul "github.com/hashicorp/consul/api"
)

// Swept is what a sweep found.
type Swept struct {
	// Policies were deleted: their Slot's tokens carry others of the kind.
	Policies int
	// Unbounded are the accessors of tokens that never end and should (TOK-02). They
	// are left alone: somebody made them by hand.
	Unbounded []string
}

// Sweep deletes the policies that no token carries any more and looks for tokens that
// never end. It revokes none: what to do about one that no admission names is for
// whoever reads the admissions (Unrecorded). Only the leader calls it.
func (i *Issuer) Sweep(ctx context.Context) (Swept, error) {
	var out Swept
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	// Policies first: one that is made meanwhile is not in the list.
	policies, _, err := i.client.ACL().PolicyList(query)
	if err != nil {
		return out, fmt.Errorf("list policies: %w", err)
	}
	all, _, err := i.client.ACL().TokenList(query)
	if err != nil {
		return out, fmt.Errorf("list tokens: %w", err)
	}
	carried, kinds := map[string]bool{}, map[string]bool{}
	for _, t := range all {
		for _, p := range t.Policies {
			carried[p.ID], kinds[ofRules(p.Name)] = true, true
		}
		if t.ExpirationTime == nil && !endless(t) {
			out.Unbounded = append(out.Unbounded, t.AccessorID)
		}
	}
	var errs []error
	for _, p := range policies {
		// Those of a Slot without tokens stay: its Boot may be admitted, with this very
		// policy, before the deletion comes to it. After an outage that is all of them.
		if generated(p.Name) && !carried[p.ID] && kinds[ofRules(p.Name)] {
			errs = append(errs, i.deletePolicy(ctx, p))
			out.Policies++
		}
	}
	return out, errors.Join(errs...)
}

// generated reports whether a policy is one of a Slot, by its rules.
func generated(name string) bool {
	at := strings.LastIndexByte(name, '-')
	return at > 0 && len(name)-at == 13 && isHex(name[at+1:]) &&
		slices.ContainsFunc(policyKinds, func(kind string) bool { return strings.HasPrefix(name, policyMark+kind+"-") })
}

// ofRules is the name of a generated policy without the digest of its rules.
func ofRules(name string) string {
	if !generated(name) {
		return ""
	}
	return name[:strings.LastIndexByte(name, '-')]
}

// Accessors and descriptions that Consul gives the tokens that it makes itself.
const (
	anonymousAccessor     = "00000000-0000-0000-0000-000000000002"
	initialManagementText = "Initial Management Token"
)

// endless are the tokens that are meant to stay: Consul's anonymous one without
// rights, the initial management token that no coordinator lets out of its memory,
// and the operators'.
func endless(t *consul.ACLTokenListEntry) bool {
	return t.AccessorID == anonymousAccessor || t.Description == initialManagementText || t.Description == OperatorPolicy
}
