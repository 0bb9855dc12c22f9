package secrets_test

import (
	"context"
	"testing"

	"cadre.dev/coordinator/internal/testnet"
)

// TOK-10 on real Consul: keys in the pool that are not in force, one of them in use, are removed
// soon after the next leader takes over.
func TestTOK10_NextLeaderFindsKeysThatAreNotInForce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul agents")
	}
	if !testnet.Isolated(t) {
		return
	}
	p := newPool(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := p.lead(ctx, "coordinator-0", func(string) {})
	p.atRest(1)
	cancel()
	<-done
	for _, epoch := range []uint32{7, 8} {
		key, err := p.root.Gossip(t.Context(), epoch)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.client.Operator().KeyringInstall(key.RevealString(), nil); err != nil {
			t.Fatal(err)
		}
		if err := p.client.Operator().KeyringUse(key.RevealString(), nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	done = p.lead(ctx, "coordinator-1", func(string) {})
	defer func() { cancel(); <-done }()
	p.eventually("one key", func() error { return p.oneKey(1) })
	p.atRest(1)
}
