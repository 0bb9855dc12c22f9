package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/lifecycle"
)

// callers pauses the clients of this member's role while the role moves, through coordinators.
type callers struct {
	hub *control.Hub
	log *slog.Logger
	// try numbers the holds of this Boot: a hold after its own release counts as late, so no two
	// share a name. Only the executor's goroutine uses it.
	try uint32
}

// newCallers numbers on from the clock: a worker that died may have been the last to hold.
func newCallers(hub *control.Hub, log *slog.Logger) *callers {
	return &callers{hub: hub, log: log, try: uint32(time.Now().Unix())}
}

// Pause implements lifecycle.Callers.
func (c *callers) Pause(ctx context.Context, k lifecycle.Key) string {
	c.try++
	paused, err := c.hub.BeginHandover(ctx, k.Operation, c.try)
	if err != nil {
		return "no coordinator could notify them: " + err.Error()
	}
	c.log.Info("callers are paused for the hand-over", "operation", k.Operation, "attempt", k.Attempt, "callers", len(paused.Paused))
	var out []string
	for _, slot := range slices.Sorted(maps.Keys(paused.NotPaused)) {
		out = append(out, fmt.Sprintf("%s: %s", slot, paused.NotPaused[slot]))
	}
	return strings.Join(out, "; ")
}

// Release implements lifecycle.Callers.
func (c *callers) Release(ctx context.Context, k lifecycle.Key, leader string) {
	if err := c.hub.EndHandover(ctx, k.Operation, c.try, leader); err != nil {
		c.log.Warn("callers are not notified of the end of the hand-over, they resume automatically at its limit", "operation", k.Operation, "error", err)
	}
}
