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

// Bounds of the life of a token (TOK-02). Consul knows no shorter one than a minute.
const (
	// TTL is how long the tokens of workloads live at most. What a member may do is not bound
	// by it: a token is of use at the Consul proxy alone, to a Session of the Slot that it was made for,
	// and is deleted when its Boot is not the Slot any more. To make another one costs
	// Consul three writes, which with thousands of members would be all that it does.
	TTL = 24 * time.Hour
	// CoordinatorTTL is how long those of coordinators live.
	CoordinatorTTL = 15 * time.Minute
	minTTL         = time.Minute
)

// callTimeout bounds one call to the local Consul.
const callTimeout = 10 * time.Second

// Issuer makes and revokes tokens. Safe for concurrent use.
type Issuer struct {
	client  *consul.Client
	address string
	ttl     time.Duration
	http    *http.Client

	allowing *allowing

	mu       sync.Mutex
	policies map[string]string // guarded by mu; ids by name, of policies that were there
}

// New talks to the local Consul at address (host:port) with the management token.
// Tokens of workloads live for ttl, those of coordinators for CoordinatorTTL if that is less; one that is zero, negative, shorter
// than Consul can do or longer than TTL is refused: POLICY_INVALID.
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

// Token is one issued token. It ends at ExpiresAt, by itself.
type Token struct {
	Accessor, Secret string
	ExpiresAt        time.Time
}

// Holder is whom tokens are for.
type Holder struct {
	Spec         group.Spec
	Slot, BootID string
	// Simulated marks the tokens: the evidence is under a root that is not Intel's.
	Simulated bool
}

// Rules names what the token of a Boot's workload may do: two of the same name may do the
// same.
func (i *Issuer) Rules(h Holder) string {
	return policyName("workload", h.Slot, workloadRules(h.Spec, h.Slot))
}

// Slot issues the token of an admitted Boot's workload. Earlier ones are untouched; the
// caller records the new one before it gives it away, and revokes the old.
func (i *Issuer) Slot(ctx context.Context, h Holder) (Token, error) {
	return i.issue(ctx, "workload", h, workloadRules(h.Spec, h.Slot), i.ttl)
}

// Coordinator issues a token for the Consul server of a coordinator; simulated
// marks it.
func (i *Issuer) Coordinator(ctx context.Context, slot, bootID string, simulated bool) (Token, error) {
	return i.issue(ctx, "coordinator", Holder{Slot: slot, BootID: bootID, Simulated: simulated}, coordinatorRules(slot), min(i.ttl, CoordinatorTTL))
}

// Revoke deletes tokens by accessor, all at once; one that is gone counts as revoked.
func (i *Issuer) Revoke(ctx context.Context, accessors ...string) error {
	errs := make([]error, len(accessors))
	var wg sync.WaitGroup
	for n, accessor := range accessors {
		if accessor == "" {
			continue
		}
		wg.Go(func() {
			// A pass over a group revokes: its panic is to come back to the pass.
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

// remove deletes something of the ACL system, and believes that it is gone only by a
// consistent read: a leader of Consul that was elected right after its start finds
// nothing, neither this nor our own token, until it has read its log, and answers a
// deletion as if there was nothing to delete.
func remove(del, read func() error) error {
	err := del()
	if !isNotFound(err) {
		return err
	}
	switch err := read(); {
	case isNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("whether it is there is not known: %w", err)
	}
	if err = del(); isNotFound(err) {
		return ErrNotCaughtUp
	}
	return err
}

// ErrNotCaughtUp means that the Consul server that answered has not read its log to the
// end: what it says of tokens is not to be believed. The same call may succeed in a
// moment.
var ErrNotCaughtUp = errors.New("consul has not read its log to the end yet")

// catchUp bounds how long a call waits for a Consul server to read its log, catchUpPoll is between
// two tries.
const (
	catchUp     = 5 * time.Second
	catchUpPoll = 100 * time.Millisecond
)

// CaughtUp does something until Consul's answer to it is to be believed: do answers ErrNotCaughtUp
// where nothing was done. A coordinator that has just booted would refuse the first call of an
// operator otherwise, and clients repeat no call that may have changed something.
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

// issue makes a token with exactly the rights of rules. A policy that this process
// has seen is not asked for again; when it is gone after all, it is made anew.
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

// make has Consul make a token, which must end.
func (i *Issuer) make(ctx context.Context, token *consul.ACLToken) (Token, error) {
	made, _, err := i.client.ACL().TokenCreate(token, (&consul.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return Token{}, err
	}
	if made.ExpirationTime == nil {
		// Nothing that does not end is ever given away.
		return Token{}, errors.Join(errors.New("consul made it without an end"), i.Revoke(ctx, made.AccessorID))
	}
	return Token{Accessor: made.AccessorID, Secret: made.SecretID, ExpiresAt: *made.ExpirationTime}, nil
}

// descriptions of tokens that this package issues begin so.
const descriptionMark = "cadre: "

// describe tells people what a token is, and describedSlot whose it is.
func describe(kind string, h Holder) string {
	text := fmt.Sprintf("%s%s of %s, boot %.12s", descriptionMark, kind, h.Slot, h.BootID)
	if h.Simulated {
		text += ", SIMULATED"
	}
	return text
}

// describedSlot reads the Slot out of the description of a token that was issued for
// one.
func describedSlot(text string) (string, bool) {
	for _, kind := range policyKinds {
		if rest, ok := strings.CutPrefix(text, descriptionMark+kind+" of "); ok {
			slot, _, _ := strings.Cut(rest, ",")
			return slot, true
		}
	}
	return "", false
}

// isNotFound tells that Consul has not got what was named. That it does not know the
// token of whoever asks is another matter: so says a server that has not read its log.
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
