package secrets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/secret"
)

// Keyring is Consul's gossip keyring, on all live members at once. Its calls can be repeated; an
// error means that some member may not have done it.
type Keyring interface {
	// Keys returns the keys of the live members, counted for the requested keys.
	Keys(ctx context.Context, keys []secret.Value) (Keyrings, error)
	Install(ctx context.Context, key secret.Value) error
	Use(ctx context.Context, key secret.Value) error
	Remove(ctx context.Context, key secret.Value) error
}

// Keyrings is the state of the live members' keyrings.
type Keyrings struct {
	Members int
	// Holding and Primary count the members that have, and send with, each requested key, in that
	// order.
	Holding, Primary []int
	// Others are further keys of some member.
	Others []secret.Value
}

// ConsulKeyring uses the keyring through the local server.
type ConsulKeyring struct{ client *consul.Client }

// NewKeyring uses the local Consul at address with the management token.
func NewKeyring(address string, token secret.Value) (*ConsulKeyring, error) {
	client, err := consul.NewClient(&consul.Config{
		Address: address, Token: token.RevealString(),
		// The member list takes no context. Without a time-out, a leader could wait permanently for
		// its own Consul and never release the Lease.
		HttpClient: &http.Client{Timeout: stepTimeout, Transport: &http.Transport{IdleConnTimeout: time.Minute}},
	})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &ConsulKeyring{client: client}, nil
}

// Keys implements Keyring.
func (k *ConsulKeyring) Keys(ctx context.Context, keys []secret.Value) (Keyrings, error) {
	rings, err := k.client.Operator().KeyringList((&consul.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return Keyrings{}, scrub("list gossip keys", err, keys...)
	}
	out := Keyrings{Holding: make([]int, len(keys)), Primary: make([]int, len(keys))}
	for _, ring := range rings {
		if ring.WAN {
			continue // this cluster has one datacenter; its WAN ports are closed
		}
		out.Members += ring.NumNodes
		for i, key := range keys {
			out.Holding[i] += ring.Keys[key.RevealString()]
			out.Primary[i] += ring.PrimaryKeys[key.RevealString()]
		}
		for _, text := range slices.Sorted(maps.Keys(ring.Keys)) {
			other := secret.FromString(text)
			if same := func(one secret.Value) bool { return one.Equal(other) }; !slices.ContainsFunc(keys, same) && !slices.ContainsFunc(out.Others, same) {
				out.Others = append(out.Others, other)
			}
		}
	}
	return out, nil
}

// Install implements Keyring.
func (k *ConsulKeyring) Install(ctx context.Context, key secret.Value) error {
	return scrub("install gossip key", k.client.Operator().KeyringInstall(key.RevealString(), (&consul.WriteOptions{}).WithContext(ctx)), key)
}

// Use implements Keyring.
func (k *ConsulKeyring) Use(ctx context.Context, key secret.Value) error {
	return scrub("use gossip key", k.client.Operator().KeyringUse(key.RevealString(), (&consul.WriteOptions{}).WithContext(ctx)), key)
}

// Remove implements Keyring.
func (k *ConsulKeyring) Remove(ctx context.Context, key secret.Value) error {
	return scrub("remove gossip key", k.client.Operator().KeyringRemove(key.RevealString(), (&consul.WriteOptions{}).WithContext(ctx)), key)
}

// scrub adds the action and removes keys from the text: Consul's answers may contain them, and
// errors go to the log (TOK-07).
func scrub(doing string, err error, keys ...secret.Value) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, key := range keys {
		if !key.IsZero() {
			text = strings.ReplaceAll(text, key.RevealString(), secret.Redacted)
		}
	}
	return fmt.Errorf("%s: %w", doing, errors.New(text))
}
