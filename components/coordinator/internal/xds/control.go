package xds

import (
	"net/http"
	"sync"
	"time"
)

// control sets deadlines of one call until the call is over. HTTP/2 permits no deadline after that,
// and the goroutines that read and end a stream may be late.
type control struct {
	mu      sync.Mutex
	call    *http.ResponseController // guarded by mu; nil: the call is over
	stopped bool                     // guarded by mu; no more reads
	leaving bool                     // guarded by mu; the call ends, and its deadline stays
}

func newControl(w http.ResponseWriter) *control {
	return &control{call: http.NewResponseController(w)}
}

// over must be called before the call's handler returns.
func (c *control) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call = nil
}

// read bounds the next reads; 0: no bound.
func (c *control) read(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call == nil || c.stopped {
		return
	}
	until := time.Time{}
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	_ = c.call.SetReadDeadline(until)
}

// stop makes the current read and all later ones fail.
func (c *control) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.call != nil {
		_ = c.call.SetReadDeadline(time.Unix(1, 0))
	}
}

// write bounds the next write. HTTP/2 ends a stream at its deadline even without a write in
// progress, so written must be called afterwards.
func (c *control) write(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil && !c.leaving {
		_ = c.call.SetWriteDeadline(time.Now().Add(limit))
	}
}

// written removes the bound until the next write.
func (c *control) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil && !c.leaving {
		_ = c.call.SetWriteDeadline(time.Time{})
	}
}

// leave bounds all writes from now on, including one in progress.
func (c *control) leave(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil && !c.leaving {
		_ = c.call.SetWriteDeadline(time.Now().Add(limit))
	}
	c.leaving = true
}
