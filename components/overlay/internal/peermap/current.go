package peermap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
)

// ErrNotAdmitted reports a genuine certificate with a Slot and Boot that the peer map
// does not name (PEER_NOT_ADMITTED).
var ErrNotAdmitted = errors.New("peer is not admitted")

// Current is the map in force. Make it with [NewCurrent]; safe for concurrent use.
type Current struct {
	parked   chan struct{} // semaphore
	parkTime time.Duration

	mu      sync.Mutex
	now     Map           // guarded by mu
	changed chan struct{} // closed and renewed by Set; guarded by mu
}

// NewCurrent begins with an empty map. Up to parked connections of Boots that the map
// does not name yet may wait for a newer map, each for parkTime.
func NewCurrent(self *Self, parked int, parkTime time.Duration) *Current {
	return &Current{parked: make(chan struct{}, parked), parkTime: parkTime, now: Map{self: self}, changed: make(chan struct{})}
}

// Set puts a map in force and returns the previous map.
func (c *Current) Set(m Map) (before Map) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.now = c.now, m
	close(c.changed)
	c.changed = make(chan struct{})
	return before
}

// Get gives the map in force, and a channel that closes when another is.
func (c *Current) Get() (Map, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.changed
}

// Parked is how many connections wait for a map.
func (c *Current) Parked() int { return len(c.parked) }

// Admits reports whether the map in force names this Boot.
func (c *Current) Admits(who identity.Verified) bool {
	m, _ := c.Get()
	return m.Admits(who)
}

// Authorize fails with [ErrNotAdmitted] for whom the map does not name. A Boot admitted a
// moment ago often dials before the map that names it arrives here: rather than send it
// away to back off, a few such connections wait for the next map.
func (c *Current) Authorize(ctx context.Context, who identity.Verified) error {
	m, changed := c.Get()
	if m.Admits(who) {
		return nil
	}
	refusal := fmt.Errorf("%w: boot %.12s of %s", ErrNotAdmitted, who.BootID, who.ID)
	select {
	case c.parked <- struct{}{}:
		defer func() { <-c.parked }()
	default:
		return refusal
	}
	ctx, cancel := context.WithTimeout(ctx, c.parkTime)
	defer cancel()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return refusal
		}
		if m, changed = c.Get(); m.Admits(who) {
			return nil
		}
	}
}
