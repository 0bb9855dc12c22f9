package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
)

// Bounds of a token's life (TOK-02). Consul's minimum is a minute.
const (
	// TTL is the maximum life of workloads' tokens. It does not bound a member's access: a token
	// works only at the Consul proxy, in a Session of its own Slot, and is deleted when its Boot
	// loses the Slot. A shorter life would cost too much: each token costs Consul three writes, and
	// thousands of members would use all of its capacity.
	TTL = 24 * time.Hour
	// CoordinatorTTL is the life of coordinators' tokens.
	CoordinatorTTL = 15 * time.Minute
	minTTL         = time.Minute
)

// callTimeout bounds one call to the local Consul.
const callTimeout = 10 * time.Second

// Issuer creates and revokes tokens. Safe for concurrent use.
type Issuer struct {
	client  *consul.Client
	address string
	ttl     time.Duration
	http    *http.Client

	allowing *allowing

	mu       sync.Mutex
	policies map[string]string // guarded by mu; ids by name, of known policies
}

// New returns an Issuer for the local Consul at address (host:port) with the management token.
// Workloads' tokens live for ttl, those of coordinators for at most CoordinatorTTL. A ttl outside
// of Consul's minimum and TTL is rejected with POLICY_INVALID.
func New(address, managementToken string, ttl time.Duration) (*Issuer, error) {
	if ttl < minTTL || ttl > TTL {
		return nil, fmt.Errorf("%s: life of tokens is %v, want %v to %v", policy.CodePolicyInvalid, ttl, minTTL, TTL)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute, DisableCompression: true}
	client, err := consul.NewClient(&consul.Config{Address: address, Token: managementToken, Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &Issuer{
		client: client, address: address, ttl: ttl, allowing: newAllowing(), policies: map[string]string{},
		http: &http.Client{Timeout: callTimeout, Transport: transport},
	}, nil
}

// Token is one issued token. Consul expires it at ExpiresAt.
type Token struct {
	Accessor, Secret string
	ExpiresAt        time.Time
}

// Holder is the holder of a new token.
type Holder struct {
	Spec         group.Spec
	Slot, BootID string
	// Simulated marks the tokens: the root of the evidence is not Intel's.
	Simulated bool
}

// Rules names the rights of a Boot's workload: equal names mean equal rights.
func (i *Issuer) Rules(h Holder) string {
	return policyName("workload", h.Slot, workloadRules(h.Spec, h.Slot))
}

// Slot issues the token of an admitted Boot's workload. Earlier tokens stay valid: the caller
// records the new token before delivering it, and revokes the old ones.
func (i *Issuer) Slot(ctx context.Context, h Holder) (Token, error) {
	return i.issue(ctx, "workload", h, workloadRules(h.Spec, h.Slot), i.ttl)
}

// Coordinator issues a token for the Consul server of a coordinator; simulated marks it.
func (i *Issuer) Coordinator(ctx context.Context, slot, bootID string, simulated bool) (Token, error) {
	return i.issue(ctx, "coordinator", Holder{Slot: slot, BootID: bootID, Simulated: simulated}, coordinatorRules(slot), min(i.ttl, CoordinatorTTL))
}

// Revoke deletes tokens by accessor, concurrently. A missing token counts as revoked.
func (i *Issuer) Revoke(ctx context.Context, accessors ...string) error {
	errs := make([]error, len(accessors))
	var wg sync.WaitGroup
	for n, accessor := range accessors {
		if accessor == "" {
			continue
		}
		wg.Go(func() {
			// A pass over a group revokes tokens, and a panic must reach that pass.
			if err := contain.Call(func() error { return i.revoke(ctx, accessor) }); err != nil {
				errs[n] = fmt.Errorf("revoke token %s: %w", accessor, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (i *Issuer) revoke(ctx context.Context, accessor string) error {
	return remove(func() error {
		_, err := i.client.ACL().TokenDelete(accessor, (&consul.WriteOptions{}).WithContext(ctx))
		return err
	}, func() error {
		_, _, err := i.client.ACL().TokenRead(accessor, (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		return err
	})
}

// remove deletes an object of the ACL system, and trusts only a consistent read for its absence. A
// leader of Consul that was elected right after its start knows no objects until it has read its
// log, and answers a deletion as if there was nothing to delete.
func remove(del, read func() error) error {
	err := del()
	if !isNotFound(err) {
		return err
	}
	switch err := read(); {
	case isNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("it is unknown whether it exists: %w", err)
	}
	if err = del(); isNotFound(err) {
		return ErrNotCaughtUp
	}
	return err
}

// ErrNotCaughtUp means that the answering Consul server has not read its log to the end: its
// answers about tokens are unreliable. A retry may succeed in a moment.
var ErrNotCaughtUp = errors.New("consul has not read its log to the end yet")

// catchUp bounds a call's wait for a Consul server to read its log; catchUpPoll is the pause
// between two tries.
const (
	catchUp     = 5 * time.Second
	catchUpPoll = 100 * time.Millisecond
)

// CaughtUp retries do while it returns ErrNotCaughtUp, which means that nothing was done. Without
// it a coordinator that has just booted would reject an operator's first call, and clients do not
// retry calls that change records.
func CaughtUp(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for {
		err := do()
		if !errors.Is(err, ErrNotCaughtUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(catchUpPoll):
		}
	}
}

// issue creates a token with exactly the rights of rules. The id of a known policy comes from the
// cache. If that policy is gone, issue creates it again.
func (i *Issuer) issue(ctx context.Context, kind string, h Holder, rules string, ttl time.Duration) (Token, error) {
	name := policyName(kind, h.Slot, rules)
	id, cached, err := i.policy(ctx, name, rules)
	if err != nil {
		return Token{}, err
	}
	out, err := i.create(ctx, id, describe(kind, h), ttl)
	if err != nil && cached && ctx.Err() == nil {
		i.forget(name)
		if id, _, err = i.policy(ctx, name, rules); err == nil {
			out, err = i.create(ctx, id, describe(kind, h), ttl)
		}
	}
	if err != nil {
		return Token{}, fmt.Errorf("issue token of policy %s: %w", name, err)
	}
	return out, nil
}

func (i *Issuer) create(ctx context.Context, policyID, description string, ttl time.Duration) (Token, error) {
	return i.make(ctx, &consul.ACLToken{Description: description, Policies: []*consul.ACLTokenPolicyLink{{ID: policyID}}, ExpirationTTL: ttl})
}

// make creates a token that must have an end.
func (i *Issuer) make(ctx context.Context, token *consul.ACLToken) (Token, error) {
	made, _, err := i.client.ACL().TokenCreate(token, (&consul.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return Token{}, err
	}
	if made.ExpirationTime == nil {
		// A token without an end is never delivered.
		return Token{}, errors.Join(errors.New("consul created it without an expiry"), i.Revoke(ctx, made.AccessorID))
	}
	return Token{Accessor: made.AccessorID, Secret: made.SecretID, ExpiresAt: *made.ExpirationTime}, nil
}

// descriptionMark begins the descriptions of tokens from this package.
const descriptionMark = "cadre: "

// describe returns the description of a token for human readers; describedSlot parses its Slot.
func describe(kind string, h Holder) string {
	text := fmt.Sprintf("%s%s of %s, boot %.12s", descriptionMark, kind, h.Slot, h.BootID)
	if h.Simulated {
		text += ", SIMULATED"
	}
	return text
}

// describedSlot parses the Slot from the description of a Slot's token.
func describedSlot(text string) (string, bool) {
	for _, kind := range policyKinds {
		if rest, ok := strings.CutPrefix(text, descriptionMark+kind+" of "); ok {
			slot, _, _ := strings.Cut(rest, ",")
			return slot, true
		}
	}
	return "", false
}

// isNotFound reports that the named object does not exist. It is false when Consul does not know
// the caller's own token, as a server that has not read its log answers.
func isNotFound(err error) bool {
	status, ok := errors.AsType[consul.StatusError](err)
	switch {
	case !ok:
		return false
	case status.Code == http.StatusNotFound:
		return true
	}
	return status.Code == http.StatusForbidden && strings.Contains(status.Body, "ACL not found") &&
		(strings.Contains(status.Body, "does not exist") || strings.Contains(status.Body, "expired"))
}
