package desired

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// InForce is this Boot's configuration in force; its Value is nil before the first. All exported
// fields are required, and do not change once it is in use. Only one goroutine at a time may call
// Configure; all other methods are safe for concurrent use.
type InForce struct {
	latestvalue.Value[*group.AgentConfig]

	// Slot that a configuration must be for.
	Slot func() string
	// Apply applies next to the parts, before it is in force; old is the previous configuration,
	// nil if there is none. An error leaves old in force.
	Apply func(old, next *group.AgentConfig) error
	// Applied runs once the configuration is in force.
	Applied func(*group.AgentConfig)
	Log     *slog.Logger

	text    atomic.Pointer[[]byte]
	refused latestvalue.Value[error]
}

// Configure puts the configuration of text in force. After an error the old one stays in force. The
// same holds for an empty text: the coordinator cannot read this Boot's configuration.
func (f *InForce) Configure(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	next, ignored, err := Config(text)
	if err != nil {
		return err
	}
	if slot := f.Slot(); next.Slot != slot {
		return fmt.Errorf("slot: it is for %q, this is %q", next.Slot, slot)
	}
	old, _ := f.Get()
	if old != nil && reflect.DeepEqual(*old, *next) {
		return nil
	}
	if err := f.Apply(old, next); err != nil {
		return err
	}
	f.text.Store(&text)
	f.Set(next)
	f.Applied(next)
	f.Log.Info("configuration applied", "slot", next.Slot, "workload", next.Workload.Kind,
		"hooks", len(next.LifecycleHooks), "checks", len(next.HealthChecks))
	if ignored != nil {
		f.Log.Info("configuration is of a newer coordinator, fields unknown to this agent are ignored", "error", ignored)
	}
	return nil
}

// Follow applies each newest desired state, idempotently, until ctx ends: it puts the configuration
// in force, and calls order with the order, nil if there is none. order may be called repeatedly.
func (f *InForce) Follow(ctx context.Context, wanted *latestvalue.Value[*controlv1.Desired], order func(*lifecycle.Order)) error {
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
		err = f.Configure(d.GetConfigJson())
		f.refused.Set(err)
		if err != nil {
			f.Log.Error("configuration is refused, the old one stays", "version", d.GetVersion(), "error", err)
		}
		if current, _ := f.Get(); current == nil {
			continue // no driver and no hooks yet: nothing could be carried out
		}
		order(Order(d.GetOperation()))
	}
}

// Fault is why the newest configuration is not in force; nil: it is.
func (f *InForce) Fault() error {
	if err, _ := f.refused.Get(); err != nil {
		return fmt.Errorf("the newest configuration is not in force: %w", err)
	}
	return nil
}

// Text that the configuration was read from; nil: there is none.
func (f *InForce) Text() []byte {
	if text := f.text.Load(); text != nil {
		return *text
	}
	return nil
}

// Hooks are those of the configuration.
func (f *InForce) Hooks() []group.LifecycleHook {
	if c, _ := f.Get(); c != nil {
		return c.LifecycleHooks
	}
	return nil
}

// AgentSpec is the Revision that the configuration is of; empty: not known.
func (f *InForce) AgentSpec() string {
	if c, _ := f.Get(); c != nil {
		return c.AgentSpec
	}
	return ""
}
