package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/store"
)

// OperatorPolicy is the name of the ACL policy of admins, and begins the names of the policies of
// other roles.
const OperatorPolicy = "cadre-operator"

// operatorMark begins the descriptions of operators' tokens. The token of the trust file has
// OperatorPolicy for a description.
const operatorMark = "operator "

// ErrDenied means that Consul's ACL denies the token this action.
var ErrDenied = errors.New("permission denied by Consul's ACL")

// Operator is the holder of a token that a coordinator creates.
type Operator struct {
	Name     string
	Accessor string
	Role     store.Role
	Groups   []string // of RoleOperate; empty: all
	Expires  time.Time
}

// EnsureOperator creates the token of the trust file with its known SecretID: an admin's, without
// an end. groups are the existing groups; their specs become writable. Idempotent.
func (i *Issuer) EnsureOperator(ctx context.Context, secret string, groups []string) error {
	if known, err := i.known(ctx, secret); err != nil || known {
		return err
	}
	return i.ensureToken(ctx, secret, &consul.ACLToken{Description: OperatorPolicy}, store.RoleAdmin, nil, groups)
}

// EnsureNamed is EnsureOperator for an operator with a record. The token has the accessor and the
// end of the record.
func (i *Issuer) EnsureNamed(ctx context.Context, secret string, o Operator, groups []string) error {
	if known, err := i.known(ctx, secret); err != nil || known {
		return err
	}
	expires := o.Expires
	return i.ensureToken(ctx, secret, &consul.ACLToken{Description: operatorMark + o.Name, AccessorID: o.Accessor, ExpirationTime: &expires}, o.Role, o.Groups, groups)
}

// ensureToken creates a token with a known SecretID and the policy of a role, unless it exists.
func (i *Issuer) ensureToken(ctx context.Context, secret string, token *consul.ACLToken, role store.Role, scope, groups []string) error {
	policies, err := i.operatorPolicies(ctx)
	if err != nil {
		return err
	}
	name := rolePolicy(role, scope)
	for _, p := range policies {
		groups = slices.Concat(groups, groupsIn(p.Rules))
	}
	id, err := i.ensurePolicy(ctx, name, scopeText(scope), store.RoleRules(store.DefaultPrefix, role, scope, groups))
	if err != nil {
		return err
	}
	if known, err := i.known(ctx, secret); err != nil || known {
		return err
	}
	token.SecretID, token.Policies = secret, []*consul.ACLTokenPolicyLink{{ID: id}}
	_, _, err = i.client.ACL().TokenCreate(token, (&consul.WriteOptions{}).WithContext(ctx))
	if err == nil {
		return nil
	}
	if known, readErr := i.known(ctx, secret); readErr == nil && known {
		return nil
	}
	return fmt.Errorf("make token of policy %s: %w", name, err)
}

// rolePolicy returns the name of the policy of a role. Operators of the same groups share one.
func rolePolicy(role store.Role, scope []string) string {
	name := OperatorPolicy
	if role != store.RoleAdmin {
		name += "-" + string(role)
	}
	if len(scope) > 0 {
		sum := sha256.Sum256([]byte(scopeText(scope)))
		name += "-" + hex.EncodeToString(sum[:6])
	}
	return name
}

// scopeText is the description of a policy that is limited to groups; scopeOf parses it.
func scopeText(scope []string) string {
	if len(scope) == 0 {
		return ""
	}
	return scopeMark + strings.Join(sorted(scope), ",")
}

const scopeMark = "groups "

// scopeOf returns the role and the groups of an operators' policy; false: it is another policy.
func scopeOf(p *consul.ACLPolicy) (role store.Role, scope []string, ok bool) {
	if text, limited := strings.CutPrefix(p.Description, scopeMark); limited {
		scope = strings.Split(text, ",")
	}
	for _, role := range store.Roles {
		if p.Name == rolePolicy(role, scope) {
			return role, scope, true
		}
	}
	return "", nil, false
}

// operatorPolicies reads the existing policies of operators.
func (i *Issuer) operatorPolicies(ctx context.Context) ([]*consul.ACLPolicy, error) {
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	all, _, err := i.client.ACL().PolicyList(query)
	if err != nil {
		return nil, fmt.Errorf("list policies: %w", err)
	}
	var out []*consul.ACLPolicy
	for _, one := range all {
		if one.Name != OperatorPolicy && !strings.HasPrefix(one.Name, OperatorPolicy+"-") {
			continue
		}
		p, _, err := i.client.ACL().PolicyRead(one.ID, query)
		if err != nil && !isNotFound(err) {
			return nil, fmt.Errorf("read policy %s: %w", one.Name, err)
		}
		if p != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// AllowGroup lets operators of all groups write the spec of a new group, if the caller's token may
// use the operators' switches for it. groups are all existing groups.
//
// Consul's rules cannot express "groups/*/spec", so each group gets a rule with its exact key.
// Consul itself checks the caller's right to request one.
func (i *Issuer) AllowGroup(ctx context.Context, callerToken, name string, groups []string) error {
	ok, err := i.MayWrite(ctx, callerToken, "cadre/v1/control/pause/"+name)
	if err != nil {
		return err
	}
	if !ok {
		return ErrDenied
	}
	return i.allowing.allow(ctx, name, func(others []string) error {
		all := slices.Concat(groups, others, []string{name})
		// One write at a time here. Consul has no check-and-set for policies, so another
		// coordinator may overwrite this write. The loop reads the rules again until they are
		// there.
		for range allowTries {
			there, err := i.addGroups(ctx, all)
			if there || err != nil {
				return err
			}
		}
		return fmt.Errorf("policy %s: other coordinators overwrite it; try again", OperatorPolicy)
	})
}

// allowTries bounds the rewrites of rules that another coordinator removed.
const allowTries = 8

// addGroups adds the missing rules of groups to every policy of operators; existing rules stay.
// there reports that none was missing at the read.
func (i *Issuer) addGroups(ctx context.Context, all []string) (there bool, err error) {
	policies, err := i.operatorPolicies(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range policies {
		all = append(all, groupsIn(p.Rules)...)
	}
	there = true
	for _, p := range policies {
		role, scope, ok := scopeOf(p)
		if !ok {
			continue
		}
		rules := store.RoleRules(store.DefaultPrefix, role, scope, all)
		if rules == p.Rules {
			continue
		}
		there = false
		if _, err = i.ensurePolicy(ctx, p.Name, p.Description, rules); err != nil {
			return false, err
		}
	}
	return there, nil
}

var specRule = regexp.MustCompile(`(?m)^key "cadre/v1/groups/([a-z0-9-]+)/spec"`)

// groupsIn returns the groups in an operators' policy.
func groupsIn(rules string) []string {
	var out []string
	for _, m := range specRule.FindAllStringSubmatch(rules, -1) {
		out = append(out, m[1])
	}
	return out
}

// StrayOperators deletes the operators' tokens that no record names, and returns their number: an
// operator whose record is gone has no access. recorded reads the accessors of the records, after
// the tokens were listed: a record precedes its token. The token of the trust file has no record,
// and stays.
func (i *Issuer) StrayOperators(ctx context.Context, recorded func(context.Context) (map[string]bool, error)) (int, error) {
	all, _, err := i.client.ACL().TokenList((&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return 0, fmt.Errorf("list tokens: %w", err)
	}
	var stray []string
	for _, t := range all {
		if strings.HasPrefix(t.Description, operatorMark) {
			stray = append(stray, t.AccessorID)
		}
	}
	if len(stray) == 0 {
		return 0, nil
	}
	named, err := recorded(ctx)
	if err != nil {
		return 0, err
	}
	stray = slices.DeleteFunc(stray, func(accessor string) bool { return named[accessor] })
	return len(stray), i.Revoke(ctx, stray...)
}

// EndFirst deletes the token of the trust file. It is never created again.
func (i *Issuer) EndFirst(ctx context.Context) error {
	first, err := i.first(ctx)
	if err != nil || first == "" {
		return err
	}
	return i.Revoke(ctx, first)
}

// HasFirst reports whether the token of the trust file exists.
func (i *Issuer) HasFirst(ctx context.Context) (bool, error) {
	first, err := i.first(ctx)
	return first != "", err
}

// first returns the accessor of the token of the trust file; "": there is none.
func (i *Issuer) first(ctx context.Context) (string, error) {
	all, _, err := i.client.ACL().TokenList((&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("list tokens: %w", err)
	}
	for _, t := range all {
		if t.Description == OperatorPolicy {
			return t.AccessorID, nil
		}
	}
	return "", nil
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
