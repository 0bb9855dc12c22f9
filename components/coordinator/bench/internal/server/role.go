package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"cadre.dev/core/policy"
	"cadre.dev/demo/worker"
)

// Name of the role.
const Name = "coordinators"

// Config of the role.
type Config struct {
	// Consul is the address of its API, Token its management token.
	Consul, Token string
	// PCCS is where collateral is fetched, RootPEM what quotes must lead to.
	PCCS    string
	RootPEM []byte
	Images  policy.ImagePolicy
	// Guests are the sockets of the coordinators' guest agents: one coordinator each.
	Guests []string
}

// Nothing is for calls without arguments or results.
type Nothing struct{}

// Counts are what happened since the start.
type Counts struct {
	Admitted, Renewed int
	// Refused by code.
	Refused map[string]int
	// Overloaded first contacts were closed at once.
	Overloaded uint64
}

// Role is the role: "addresses" of the coordinators' listeners in their order,
// "await" a view with so many Slots and Boots' control sessions on each, "counts".
func Role(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var cfg Config
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var all []*coordinator
	closeAll := func() {
		for _, c := range all {
			c.close()
		}
	}
	for n := range cfg.Guests {
		c, err := start(ctx, cfg, n, log)
		if err != nil {
			closeAll()
			return worker.Actor{}, err
		}
		all = append(all, c)
	}
	return worker.Actor{Close: closeAll, Methods: map[string]worker.Method{
		"addresses": worker.Typed(func(context.Context, Nothing) ([]string, error) {
			var out []string
			for _, c := range all {
				out = append(out, c.node.ListenAddr().String())
			}
			return out, nil
		}),
		"await": worker.Typed(func(ctx context.Context, a Await) (Nothing, error) {
			for _, c := range all {
				if err := c.await(ctx, a); err != nil {
					return Nothing{}, err
				}
			}
			return Nothing{}, nil
		}),
		"counts": worker.Typed(func(context.Context, Nothing) (Counts, error) {
			out := Counts{Refused: map[string]int{}}
			for _, c := range all {
				c.metrics.addTo(&out)
				out.Overloaded += c.node.Stats().Overloaded
			}
			return out, nil
		}),
	}}, nil
}
