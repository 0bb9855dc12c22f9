package desired

import (
	"context"
	"log/slog"

	"cadre.dev/agent/internal/latest"
	"cadre.dev/agent/internal/lifecycle"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Parts do what is wanted. All fields are required.
type Parts struct {
	// Configure puts a configuration in force; an error leaves the old one.
	Configure func(config []byte) error
	// Configured reports that one is in force.
	Configured func() bool
	// Order takes what is ordered; nil: nothing is. It may be repeated.
	Order func(*lifecycle.Order)
	// Refused is set to why the newest configuration is not in force; nil: it is.
	Refused *latest.Value[error]
	Log     *slog.Logger
}

// Follow hands each newest desired state to the parts, idempotently, until ctx ends.
func Follow(ctx context.Context, wanted *latest.Value[*controlv1.Desired], parts Parts) error {
	var index uint64
	for {
		d, now, err := wanted.Wait(ctx, index)
		if err != nil {
			return nil //nolint:nilerr // only ctx ends it
		}
		index = now
		if d == nil {
			continue
		}
		// A configuration that cannot be read leaves the old one in force; the
		// order does not depend on it and is still obeyed.
		err = parts.Configure(d.GetConfigJson())
		parts.Refused.Set(err)
		if err != nil {
			parts.Log.Error("configuration is refused, the old one stays", "version", d.GetVersion(), "error", err)
		}
		if !parts.Configured() {
			continue // no driver and no hooks yet: nothing could be carried out
		}
		parts.Order(Order(d.GetOperation()))
	}
}
