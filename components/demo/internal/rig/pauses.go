package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// PausedRoutes are the routes whose callers wait while the database's leader hands over, sorted.
var PausedRoutes = []string{masterRoute, pooledRoute}

// Log lines of a hand-over for which callers wait.
const (
	sayAsked    = "callers were asked to wait for a hand-over"
	sayPaused   = "a route is paused"
	sayReleased = "a route is released"
)

// Hold is a route that was held in a caller's CVM, by the log of its agent, which is written
// once the route is held and once it is open again. To is zero while it is held.
type Hold struct {
	Route    string
	From, To time.Time
	// Reason for which it was released.
	Reason string
}

// Holds are the holds of one operation, in a Slot's CVM, in the order in which they began.
func (r *Rig) Holds(ctx context.Context, slot, operation string) ([]Hold, error) {
	lines, err := r.Lines(ctx, r.PlatformName(slot), "cadre", "a route is ", operation)
	if err != nil {
		return nil, err
	}
	return holdsIn(lines), nil
}

// said is the content of an agent's or a coordinator's log line about a hand-over.
type said struct {
	At      time.Time `json:"@timestamp"`
	Message string    `json:"@message"`
	Route   string    `json:"route"`
	Reason  string    `json:"reason"`
	Waiting int       `json:"waiting"`
}

// holdsIn reads the lines of an agent's log that are of one operation.
func holdsIn(lines []string) (out []Hold) {
	for _, line := range lines {
		var one said
		if json.Unmarshal([]byte(line), &one) != nil {
			continue // it is being written
		}
		switch one.Message {
		case sayPaused:
			out = append(out, Hold{Route: one.Route, From: one.At})
		case sayReleased:
			i := slices.IndexFunc(out, func(h Hold) bool { return h.Route == one.Route && h.To.IsZero() })
			if i >= 0 { // a pooler that could not be paused is let go too
				out[i].To, out[i].Reason = one.At, one.Reason
			}
		}
	}
	return out
}

// AwaitAsked waits for the first coordinator that asked callers to wait for an operation, and
// reached at least one.
func (r *Rig) AwaitAsked(ctx context.Context, coordinators []string, operation string) (slot string, err error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		for _, one := range coordinators {
			lines, err := r.Lines(ctx, r.PlatformName(one), coordinatorService, sayAsked, operation)
			if err == nil && slices.ContainsFunc(lines, someWaited) {
				return one, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("no coordinator asked callers to wait for %s", operation), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// someWaited reports that callers wait, according to a coordinator's log line: each coordinator asks
// only the callers of its own sessions, who may be none.
func someWaited(line string) bool {
	var one said
	return json.Unmarshal([]byte(line), &one) == nil && one.Message == sayAsked && one.Waiting > 0
}
