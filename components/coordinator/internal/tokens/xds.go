package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"
)

// XDSTTL is the maximum life of a token for xDS streams. Each token makes Consul sign a certificate
// for each of its services, and its end closes streams.
const XDSTTL = 4 * time.Hour

const kindXDS = "xds"

// Streams describes a token for xDS streams.
type Streams struct {
	// Group of the members whose proxies use it, and Services, their services in the catalog.
	Group    string
	Services []string
	// Coordinator and BootID of its holder: no member ever has it.
	Coordinator, BootID string
	Simulated           bool
}

// XDS issues a token for the proxies of a group. With it a coordinator opens their streams at its
// own Consul, and the token stays there: Consul demands the right to write a service from proxies,
// and this right lets a holder deregister the service on any node. Its rights are those of Consul's
// service identities, without a policy: `service "<service>" write`, the same for
// `<service>-sidecar-proxy`, `service_prefix "" read`, `node_prefix "" read`. The own server knows
// the token when XDS returns.
func (i *Issuer) XDS(ctx context.Context, s Streams) (Token, error) {
	if len(s.Services) == 0 {
		return Token{}, fmt.Errorf("issue token for proxies of %s: it has none", s.Group)
	}
	token := &consul.ACLToken{Description: describeXDS(s), ExpirationTTL: min(i.ttl, XDSTTL)}
	for _, service := range slices.Compact(slices.Sorted(slices.Values(s.Services))) {
		token.ServiceIdentities = append(token.ServiceIdentities, &consul.ACLServiceIdentity{ServiceName: service})
	}
	made, err := i.make(ctx, token)
	if err != nil {
		return Token{}, fmt.Errorf("issue token for proxies of %s: %w", s.Group, err)
	}
	if err := i.awaitHere(ctx, made.Secret); err != nil {
		return Token{}, fmt.Errorf("issue token for proxies of %s: %w", s.Group, errors.Join(err, i.Revoke(context.WithoutCancel(ctx), made.Accessor)))
	}
	return made, nil
}

// describeXDS names the coordinator in the place where describe names a Slot.
func describeXDS(s Streams) string {
	text := fmt.Sprintf("%s%s of %s, boot %.12s, group %s", descriptionMark, kindXDS, s.Coordinator, s.BootID, s.Group)
	if s.Simulated {
		text += ", SIMULATED"
	}
	return text
}

// XDSTokens lists the xDS tokens that a coordinator created, in this Boot or an earlier one. Only
// that coordinator revokes the unknown ones among them (Unrecorded). Tokens of a coordinator that
// never returns expire.
func (i *Issuer) XDSTokens(ctx context.Context, coordinator string) ([]Owned, error) {
	list, _, err := i.client.ACL().TokenList((&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	var out []Owned
	for _, t := range list {
		rest, ok := strings.CutPrefix(t.Description, descriptionMark+kindXDS+" of ")
		if slot, _, _ := strings.Cut(rest, ","); ok && slot == coordinator {
			out = append(out, Owned{Accessor: t.AccessorID, Slot: slot, CreatedAt: t.CreateTime})
		}
	}
	return out, nil
}

// hereWithin bounds the wait until the own server knows a token that the leader created; hereEvery
// is the interval of its checks.
const (
	hereWithin = 5 * time.Second
	hereEvery  = 20 * time.Millisecond
)

// awaitHere waits until the own server knows a token (TOK-13), because it judges streams by its own
// state.
func (i *Issuer) awaitHere(ctx context.Context, secret string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, hereWithin, errors.New("the own server does not know it"))
	defer cancel()
	for {
		_, _, err := i.client.ACL().TokenReadSelf((&consul.QueryOptions{Token: secret, AllowStale: true}).WithContext(ctx))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(hereEvery):
		}
	}
}
