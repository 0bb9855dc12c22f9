package forward

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"cadre.dev/overlay/internal/carrier"
)

// direction says whether the app that opened a connection is on this machine.
type direction int

const (
	outbound direction = iota
	inbound
)

const (
	// largeBuffer moves bulk data with few calls.
	largeBuffer = 128 << 10
	// smallBuffer is the buffer of an idle connection.
	smallBuffer = 8 << 10
)

var (
	largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
)

// pipe joins one TCP connection and one stream.
type pipe struct {
	conn *net.TCPConn
	st   carrier.Stream
	on   carrier.Session // that st belongs to
	port uint16
	dir  direction
	end  sync.Once
	// answered: the far side has accepted the connection.
	answered atomic.Bool
	// halfClosed: this side has closed its half of conn.
	halfClosed atomic.Bool
}

// run moves bytes both ways until both have ended; a broken direction breaks
// the other. first is called before anything is read from the stream.
func (p *pipe) run(c *count, first func() error) error {
	toStream := make(chan error, 1)
	go func() {
		err := copyBytes(p.st, p.conn, &c.out)
		if err == nil && !p.halfClosed.Load() && wasReset(p.conn) {
			err = syscall.ECONNRESET
		}
		if err == nil {
			err = p.st.CloseWrite()
		}
		if err != nil {
			p.abort()
		}
		toStream <- err
	}()
	err := first()
	if err == nil {
		err = copyBytes(p.conn, p.st, &c.in)
	}
	if err == nil {
		p.halfClosed.Store(true)
		err = p.conn.CloseWrite()
	}
	if err != nil {
		p.abort()
	}
	if other := <-toStream; err == nil {
		err = other
	}
	p.end.Do(func() {
		p.conn.Close()
		p.st.Reset() // nothing when the stream has ended both ways
	})
	return err
}

// abort resets both sides at once.
func (p *pipe) abort() {
	p.end.Do(func() {
		// Without lingering the kernel sends a reset, not a clean end.
		_ = p.conn.SetLinger(0)
		p.conn.Close()
		p.st.Reset()
	})
}

// copyBytes copies until src ends. The buffer grows when reads fill it and
// shrinks when they are small, so that idle connections cost little.
func copyBytes(dst io.Writer, src io.Reader, moved *atomic.Uint64) error {
	small := smallBuffers.Get().(*[smallBuffer]byte)
	defer smallBuffers.Put(small)
	var large *[largeBuffer]byte
	defer func() {
		if large != nil {
			largeBuffers.Put(large)
		}
	}()
	buf := small[:]
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			moved.Add(uint64(n))
		}
		if err == io.EOF { // not wrapped: see io.Reader
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case large == nil && n == len(buf):
			large = largeBuffers.Get().(*[largeBuffer]byte)
			buf = large[:]
		case large != nil && n < smallBuffer/2:
			largeBuffers.Put(large)
			large, buf = nil, small[:]
		}
	}
}

// adopt makes a connection part of the Peer, unless it is closed or has too
// many of that direction already.
func (p *Peer) adopt(pipe *pipe) (*count, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.open[pipe.dir] >= maxConns {
		return nil, false
	}
	p.open[pipe.dir]++
	p.pipes[pipe] = struct{}{}
	p.holdLocked(pipe.on)
	c := p.counterLocked(Port{TCP, pipe.port}, pipe.dir)
	c.streams.Add(1)
	return c, true
}

func (p *Peer) drop(pipe *pipe) {
	p.mu.Lock()
	p.open[pipe.dir]--
	delete(p.pipes, pipe)
	last := p.releaseLocked(pipe.on)
	p.mu.Unlock()
	if last && p.cfg.Unused != nil {
		p.cfg.Unused(pipe.on)
	}
}

// Retain counts one more connection on a Session, for a caller other than an app; Release
// takes it back.
func (p *Peer) Retain(s carrier.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdLocked(s)
}

func (p *Peer) holdLocked(s carrier.Session) {
	p.carried[s]++
	p.touch()
}

// Release ends a Retain.
func (p *Peer) Release(s carrier.Session) {
	p.mu.Lock()
	last := p.releaseLocked(s)
	p.mu.Unlock()
	if last && p.cfg.Unused != nil {
		p.cfg.Unused(s)
	}
}

// releaseLocked reports whether a Session carries nothing any more.
func (p *Peer) releaseLocked(s carrier.Session) (last bool) {
	p.touch()
	p.carried[s]--
	last = p.carried[s] == 0
	if last {
		delete(p.carried, s)
	}
	return last
}

// Carries is how many connections a Session has now.
func (p *Peer) Carries(s carrier.Session) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carried[s]
}
