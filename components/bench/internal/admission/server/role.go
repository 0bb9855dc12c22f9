package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"cadre.dev/coordinator/coordinatortest"
	"cadre.dev/lab/worker"
)

// Name of the role.
const Name = "coordinators"

// Nothing is for calls without arguments or results.
type Nothing struct{}

// Role is the role: "addresses" of the coordinators' listeners in their order,
// "await" a view with so many Slots and Boots' control sessions on each, "counts".
func Role(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var cfg coordinatortest.Config
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var all []*coordinatortest.Coordinator
	closeAll := func() {
		for _, c := range all {
			c.Close()
		}
	}
	for n := range cfg.Guests {
		c, err := coordinatortest.Start(ctx, cfg, n, log)
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
				out = append(out, c.Address())
			}
			return out, nil
		}),
		"await": worker.Typed(func(ctx context.Context, a coordinatortest.Await) (Nothing, error) {
			for _, c := range all {
				if err := c.Await(ctx, a); err != nil {
					return Nothing{}, err
				}
			}
			return Nothing{}, nil
		}),
		"counts": worker.Typed(func(context.Context, Nothing) (coordinatortest.Counts, error) {
			var out coordinatortest.Counts
			for _, c := range all {
				c.AddTo(&out)
			}
			return out, nil
		}),
	}}, nil
}
