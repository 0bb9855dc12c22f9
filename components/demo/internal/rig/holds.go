package rig

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// HeldRoutes are the routes whose callers wait while the database's leader hands over, sorted.
var HeldRoutes = []string{masterRoute, pooledRoute}

// What the logs say of a hand-over that callers wait for.
const (
	sayTold     = `"callers were told to wait for a hand-over"`
	sayHeld     = `"a route is held"`
	sayReleased = `"a route is released"`
)

// Hold is a route that was held in a caller's CVM, by the log of its agent, which is written
// once the route is held and once it is open again. To is zero while it is held.
type Hold struct {
	Route    string
	From, To time.Time
	// Reason for which it was released.
	Reason string
}

// Holds are those of one operation, in a Slot's CVM, in the order in which they began.
func (r *Rig) Holds(ctx context.Context, slot, operation string) ([]Hold, error) {
	lines, err := r.Lines(ctx, r.PlatformName(slot), "cadre", " a route is ", operation)
	if err != nil {
		return nil, err
	}
	return holdsIn(lines)
}

// holdsIn reads the lines of an agent's log that are of one operation.
func holdsIn(lines []string) (out []Hold, err error) {
	for _, line := range lines {
		route := field(line, "route")
		at, err := time.Parse(time.RFC3339, field(line, "time"))
		switch {
		case !strings.Contains(line, sayHeld) && !strings.Contains(line, sayReleased):
			continue
		case route == "" || err != nil:
			return nil, fmt.Errorf("a line of holds that says neither when nor which: %q", line)
		case strings.Contains(line, sayHeld):
			out = append(out, Hold{Route: route, From: at})
			continue
		}
		i := slices.IndexFunc(out, func(h Hold) bool { return h.Route == route && h.To.IsZero() })
		if i < 0 {
			continue // a pooler that could not be paused is let go too
		}
		out[i].To, out[i].Reason = at, field(line, "reason")
	}
	return out, nil
}

// AwaitTold waits for the first coordinator that told callers to wait for an operation, and
// found some that do.
func (r *Rig) AwaitTold(ctx context.Context, coordinators []string, operation string) (slot string, err error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		for _, one := range coordinators {
			lines, err := r.Lines(ctx, r.PlatformName(one), coordinatorService, sayTold, operation)
			if err == nil && slices.ContainsFunc(lines, toldSome) {
				return one, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("no coordinator told callers to wait for %s", operation), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// toldSome reports that callers wait, of whom a coordinator tells in a line: each of them
// tells those that it hears itself, who may be none.
func toldSome(line string) bool {
	waiting := field(line, "waiting")
	return waiting != "" && waiting != "0"
}

// field is what a line of a log says of a key, without quotes; "" when it does not.
func field(line, key string) string {
	found := regexp.MustCompile(`(?:^|\s)` + regexp.QuoteMeta(key) + `=(?:"([^"]*)"|(\S+))`).FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}
