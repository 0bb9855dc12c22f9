package xds

import (
	"net/http"
	"sync"
	"time"
)

// control sets deadlines of one call until the call is over: HTTP/2 bears none after that, and
// those who read and end a stream may be a moment late.
type control struct {
	mu      sync.Mutex
	call    *http.ResponseController // guarded by mu; nil: it is over
	stopped bool                     // guarded by mu; nothing more is read
	leaving bool                     // guarded by mu; the call ends, and its deadline stays
}

func newControl(w http.ResponseWriter) *control {
	return &control{call: http.NewResponseController(w)}
}

// over is to be called before the call's handler returns.
func (c *control) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call = nil
}

// read bounds the next readings; 0: nothing does.
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

// stop has the reading that goes on fail, and all that come.
func (c *control) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.call != nil {
		_ = c.call.SetReadDeadline(time.Unix(1, 0))
	}
}

// write bounds the writing that follows. HTTP/2 ends a stream when the deadline is there, whether
// anything is being written or not: written is to be called after it.
func (c *control) write(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil && !c.leaving {
		_ = c.call.SetWriteDeadline(time.Now().Add(limit))
	}
}

// written has nothing bounded until the next writing.
func (c *control) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil && !c.leaving {
		_ = c.call.SetWriteDeadline(time.Time{})
	}
}

// leave bounds all that is written from now on, and what is being written.
func (c *control) leave(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil && !c.leaving {
		_ = c.call.SetWriteDeadline(time.Now().Add(limit))
	}
	c.leaving = true
}
