package measure

import (
	"context"
	"errors"
	"time"

	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/session"
)

// ErrNoSession reports a Link that has no Session in use.
var ErrNoSession = errors.New("no session with the peer")

// Link is the measured Link.
type Link interface {
	// Await waits a while for a Session, on a Link that rests.
	Await(context.Context)
	// Used gives the Session in use and how it travels; it fails with [ErrNoSession].
	Used() (*session.Session, link.Kind, error)
	// Retain counts a connection on a Session until release is called, so that it stays.
	Retain(*session.Session) (release func())
	// Moves is how often the Link's path has changed.
	Moves() uint64
}

// Place admits one bench of a node at a time, whichever side begins it. Make it with
// [NewPlace].
type Place struct{ taken chan struct{} }

// NewPlace makes a free Place.
func NewPlace() *Place { return &Place{taken: make(chan struct{}, 1)} }

// placeWait is how long a bench waits for the end of another.
const placeWait = time.Second

// Take takes the place, or returns false if it is taken. A bench may begin a moment
// before the end of the previous one has arrived, so Take waits a little.
func (p *Place) Take() bool {
	wait := time.NewTimer(placeWait)
	defer wait.Stop()
	select {
	case p.taken <- struct{}{}:
		return true
	case <-wait.C:
		return false
	}
}

// Give releases the place.
func (p *Place) Give() { <-p.taken }
