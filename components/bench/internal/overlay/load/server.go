package load

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Mode is the first byte of a connection, its purpose.
type Mode byte

const (
	// Bulk bytes are counted and thrown away.
	Bulk Mode = 'b'
	// Ping bytes are sent back.
	Ping Mode = 'p'
)

// chunk is the size of a bulk read and write.
const chunk = 128 << 10

// Server is the far end of all traffic. The zero Server is ready; its methods
// may be called concurrently.
type Server struct {
	received atomic.Int64
	wg       sync.WaitGroup

	mu     sync.Mutex
	open   map[io.Closer]struct{} // listeners and connections; guarded by mu
	closed bool                   // guarded by mu
}

// Count is how much bulk has arrived at a moment.
type Count struct {
	Bytes int64         `json:"bytes"`
	At    time.Duration `json:"at"` // since the process began
}

var began = time.Now()

// Count is the number of bytes of all bulk connections so far.
func (s *Server) Count() Count {
	return Count{Bytes: s.received.Load(), At: time.Since(began)}
}

// Listen serves every connection to ln until Close, which also closes ln.
func (s *Server) Listen(ln net.Listener) {
	s.spawn(ln, func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.spawn(conn, func() {
				var mode [1]byte
				if _, err := io.ReadFull(conn, mode[:]); err == nil {
					s.Serve(conn, Mode(mode[0]))
				}
			})
		}
	})
}

// Serve serves one connection whose mode is known, until it ends.
func (s *Server) Serve(conn io.ReadWriter, mode Mode) {
	buf := make([]byte, chunk)
	for {
		n, err := conn.Read(buf)
		switch mode {
		case Bulk:
			s.received.Add(int64(n))
		case Ping:
			if _, werr := conn.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Close ends everything that Listen serves and waits for it.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// spawn runs f, which lives as long as c; both end with the Server.
func (s *Server) spawn(c io.Closer, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return
	}
	if s.open == nil {
		s.open = make(map[io.Closer]struct{})
	}
	s.open[c] = struct{}{}
	s.wg.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.open, c)
			s.mu.Unlock()
			_ = c.Close()
		}()
		f()
	})
}
