package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	consul "github.com/hashicorp/consul/api"
)

// Swept is the result of a sweep.
type Swept struct {
	// Policies is the number of deleted ones: their Slot's tokens carry others of the kind.
	Policies int
	// Unbounded are the accessors of tokens without an end (TOK-02). The sweep leaves them alone,
	// because they were created outside of Cadre.
	Unbounded []string
}

// Sweep deletes the policies that no token carries any more, and looks for tokens without an end.
// It revokes no token: the reader of the admissions handles unrecorded ones (Unrecorded). Only the
// leader calls it.
func (i *Issuer) Sweep(ctx context.Context) (Swept, error) {
	var out Swept
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	// Policies are listed first, so that a policy created during the sweep is not in the list.
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
		// The policies of a Slot without tokens stay: its Boot may be admitted with this very
		// policy before the deletion. After an outage no Slot has tokens.
		if generated(p.Name) && !carried[p.ID] && kinds[ofRules(p.Name)] {
			errs = append(errs, i.deletePolicy(ctx, p))
			out.Policies++
		}
	}
	return out, errors.Join(errs...)
}

// generated reports whether a policy is a Slot's and named by its rules.
func generated(name string) bool {
	at := strings.LastIndexByte(name, '-')
	return at > 0 && len(name)-at == 13 && isHex(name[at+1:]) &&
		slices.ContainsFunc(policyKinds, func(kind string) bool { return strings.HasPrefix(name, policyMark+kind+"-") })
}

// ofRules returns the name of a generated policy without the digest of its rules.
func ofRules(name string) string {
	if !generated(name) {
		return ""
	}
	return name[:strings.LastIndexByte(name, '-')]
}

// Accessors and descriptions of Consul's own tokens.
const (
	anonymousAccessor     = "00000000-0000-0000-0000-000000000002"
	initialManagementText = "Initial Management Token"
)

// endless reports whether a token may have no end: Consul's anonymous one without rights, the
// initial management token, which stays in the coordinators' memory, and the operators' token.
func endless(t *consul.ACLTokenListEntry) bool {
	return t.AccessorID == anonymousAccessor || t.Description == initialManagementText || t.Description == OperatorPolicy
}
