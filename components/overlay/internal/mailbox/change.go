package mailbox

import "sync"

// change notifies any number of waiters of a change. The zero value is ready.
type change struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait gives a channel that closes at the next note.
func (c *change) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	return c.ch
}

func (c *change) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		close(c.ch)
		c.ch = nil
	}
}
