package catalog_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/catalog"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// warnings forwards the records logged at WARN.
type warnings struct {
	slog.Handler
	each chan slog.Record
}

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	w.each <- r
	return nil
}

// A flapping member is written at the pace of its Slot, each time with the newest state. The delay
// is logged once.
func TestAFlappingMemberIsWrittenAtAPace(t *testing.T) {
	w := newWorld(t)
	w.admit("b1")
	start := time.Now()
	var ahead atomic.Int64
	logged := warnings{slog.DiscardHandler, make(chan slog.Record, 100)}
	c := w.coordinatorAt(w.server.Addr, true, func(cfg *catalog.Config) {
		cfg.Now = func() time.Time { return start.Add(time.Duration(ahead.Load())) }
		cfg.Log = slog.New(logged)
	})
	flip := func(n uint64) (status string) {
		if n%2 == 0 {
			c.report("b1", n, controlv1.Role_ROLE_FOLLOWER, controlv1.Health_HEALTH_UNHEALTHY)
			return consul.HealthCritical
		}
		c.report("b1", n, controlv1.Role_ROLE_FOLLOWER, controlv1.Health_HEALTH_HEALTHY)
		return consul.HealthPassing
	}
	for n := range uint64(8) {
		status := flip(n + 1)
		w.await("a burst is written at once", func(s state) bool { return s.status == status })
	}
	before := w.index()
	flip(9)
	var held slog.Record
	select {
	case held = <-logged.each:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is held back")
	}
	named := false
	held.Attrs(func(a slog.Attr) bool { named = named || a.Key == "slot" && a.Value.String() == slot; return true })
	if now := w.index(); !named || now != before || w.state().status != consul.HealthCritical {
		t.Errorf("index %d, was %d; logged %q", now, before, held.Message)
	}
	flip(10)
	flip(11)
	c.report("b1", 12, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	ahead.Store(int64(time.Second))
	c.writer.Note(slot)
	after := w.await("its newest word", func(s state) bool { return s.status == consul.HealthPassing })
	if len(after.tags) != 1 || after.tags[0] != "leader" {
		t.Errorf("it is written as %+v", after)
	}
	if more := len(logged.each); more != 0 {
		t.Errorf("logged %d times more", more)
	}
}
