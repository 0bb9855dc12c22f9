package carrier

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// meter counts the bytes of a connection and remembers the time of the last received
// bytes and the first error.
type meter struct {
	net.Conn
	start   time.Time
	in, out atomic.Uint64
	// heard is when bytes last came, as a duration since start.
	heard atomic.Int64
	fault atomic.Pointer[error]

	mu   sync.Mutex
	held *[]byte // data written while corked, nil while not; guarded by mu
}

func newMeter(conn net.Conn) *meter { return &meter{Conn: conn, start: time.Now()} }

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if n > 0 {
		m.in.Add(uint64(n))
		m.heard.Store(int64(time.Since(m.start)))
	}
	m.note(err)
	return n, err
}

func (m *meter) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held != nil {
		*m.held = append(*m.held, b...)
		return len(b), nil
	}
	return m.writeLocked(b)
}

// cork collects written data until uncork. TLS writes each record of a frame separately;
// together they are one system call.
func (m *meter) cork() {
	m.mu.Lock()
	m.held = buffers.Get().(*[]byte)
	m.mu.Unlock()
}

// uncork writes the collected data, if there is any.
func (m *meter) uncork() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		return nil
	}
	_, err := m.writeLocked(*m.held)
	*m.held = (*m.held)[:0]
	buffers.Put(m.held)
	m.held = nil
	return err
}

func (m *meter) writeLocked(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	m.out.Add(uint64(n))
	m.note(err)
	return n, err
}

func (m *meter) note(err error) {
	if err != nil {
		m.fault.CompareAndSwap(nil, &err)
	}
}

// quiet is how long nothing has come.
func (m *meter) quiet() time.Duration {
	return time.Since(m.start) - time.Duration(m.heard.Load())
}

// firstFault is the error that ended the connection, nil after a local close.
func (m *meter) firstFault() error {
	if p := m.fault.Load(); p != nil {
		return *p
	}
	return nil
}
