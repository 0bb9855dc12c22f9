package session

import (
	"errors"
	"sync"
	"time"
)

// errExpired ends a Session when its certificate expires.
var errExpired = errors.New("peer certificate expired")

// Expiry ends a Session with the Peer's certificate. Safe for concurrent use.
type Expiry struct {
	end func()

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer // nil before Start and after Stop
}

// Start begins with the end of the certificate that the Session was made with.
func (e *Expiry) Start(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at, e.timer = at, time.AfterFunc(time.Until(at), e.end)
}

// Extend moves the end; an earlier one than the present is of an older certificate.
func (e *Expiry) Extend(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// A timer that has fired ends the Session despite later renewals.
	if e.timer != nil && at.After(e.at) && e.timer.Stop() {
		e.at = at
		e.timer.Reset(time.Until(at))
	}
}

// Stop leaves the Session alone.
func (e *Expiry) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// Until is when the Session ends; zero before Start.
func (e *Expiry) Until() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}
