package tokens

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/store"
)

// OperatorPolicy is the name of the operators' ACL policy.
const OperatorPolicy = "cadre-operator"

// ErrDenied means that Consul's ACL denies the token this action.
var ErrDenied = errors.New("permission denied by Consul's ACL")

// EnsureOperator creates the operators' token with its known SecretID. groups are the existing
// groups; their specs become writable. Idempotent.
func (i *Issuer) EnsureOperator(ctx context.Context, secret string, groups []string) error {
	if known, err := i.known(ctx, secret); err != nil || known {
		return err
	}
	return i.ensureToken(ctx, secret, OperatorPolicy, operatorRules(sorted(groups)))
}

// AllowGroup lets holders of the operators' policy write the spec of a new group, if the caller's
// token may use the operators' switches for it. groups are all existing groups.
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

// addGroups adds the missing rules of groups; existing rules stay. there reports that none was
// missing at the read.
func (i *Issuer) addGroups(ctx context.Context, all []string) (there bool, err error) {
	have, _, err := i.client.ACL().PolicyReadByName(OperatorPolicy, (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil && !isNotFound(err) {
		return false, fmt.Errorf("read policy %s: %w", OperatorPolicy, err)
	}
	if have != nil {
		named := groupsIn(have.Rules)
		if !slices.ContainsFunc(all, func(g string) bool { return !slices.Contains(named, g) }) {
			return true, nil
		}
		all = append(all, named...)
	}
	_, err = i.ensurePolicy(ctx, OperatorPolicy, operatorRules(sorted(all)))
	return false, err
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

// MayWrite asks Consul whether a token may write a KV key.
func (i *Issuer) MayWrite(ctx context.Context, token, key string) (may bool, err error) {
	err = CaughtUp(ctx, func() error { may, err = i.mayWrite(ctx, token, key); return err })
	return may, err
}

func (i *Issuer) mayWrite(ctx context.Context, token, key string) (bool, error) {
	body, err := json.Marshal([]map[string]string{{"Resource": "key", "Segment": key, "Access": "write"}})
	if err != nil {
		return false, fmt.Errorf("encode authorization request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+i.address+"/v1/internal/acl/authorize", bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("make authorization request: %w", err)
	}
	req.Header.Set("X-Consul-Token", token)
	resp, err := i.http.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask consul about a token: %w: %w", store.ErrUnavailable, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return false, fmt.Errorf("read authorization answer: %w", err)
	}
	if resp.StatusCode == http.StatusForbidden {
		return false, i.confirmRefusal(ctx, token)
	}
	var answers []struct{ Allow bool }
	if resp.StatusCode != http.StatusOK || json.Unmarshal(raw, &answers) != nil || len(answers) != 1 {
		return false, fmt.Errorf("ask consul about a token: status %d: %.200s", resp.StatusCode, raw)
	}
	return answers[0].Allow, nil
}

// confirmRefusal returns nil if the token does not exist. Otherwise the refusal came from a server
// that has not read its log yet, most often our own, and the result is ErrNotCaughtUp.
func (i *Issuer) confirmRefusal(ctx context.Context, token string) error {
	_, err := i.NameOf(ctx, token)
	switch {
	case err == nil:
		return ErrNotCaughtUp
	case errors.Is(err, ErrDenied):
		return nil
	}
	return err
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
