package carrier

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// yamuxHeader is the length of a yamux frame header: version, type, flags,
	// stream, length.
	yamuxHeader = 12
	// aheadLimit bounds the waiting bytes while the connection is busy: below the limit,
	// yamux may add one more frame.
	aheadLimit = 16 << 10
	// slowWrite is the write time from which a path counts as slow. Waiting data delays
	// later data. So on a slow path frames are short, and none is taken ahead, until
	// slowMemory writes in a row were fast.
	slowWrite  = 2 * time.Millisecond
	slowMemory = 32
	// oneRecord is the most that TLS sends as one record.
	oneRecord = 16 << 10
)

// buffers hold the data on its way to the connection; an idle Session has none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// join sits between yamux and TLS. yamux writes a data frame as two calls, header
// and body; each call would become a TLS record and a system call of its own. join
// holds such a header back and writes it with the body.
//
// yamux waits for each write, and a writer of the stream waits for yamux. So join takes a
// large frame and writes it from a goroutine of its own, which lives while there is a
// frame to write. Meanwhile yamux prepares the next frame.
//
// Only yamux's one sending goroutine writes here.
type join struct {
	net.Conn
	// beneath is the connection below TLS.
	beneath *meter
	// spawn runs a function as part of the Session, if it is not over; ended is called
	// once at the end of yamux, and must not wait.
	spawn func(func()) bool
	ended func()

	head [yamuxHeader]byte // a header; its body comes next
	held bool              // head is one

	mu      sync.Mutex
	taken   sync.Cond // signaled when the goroutine has taken next, and when it ends
	next    *[]byte   // the frame that it takes next, nil for none; guarded by mu
	writing bool      // it runs; guarded by mu
	err     error     // the error that ended the connection; guarded by mu

	slow atomic.Int32 // how many fast writes are to come before the path is fast
}

// chunk bounds a frame, so that streams take turns and a reader is not kept waiting
// for the end of a long one.
func (j *join) chunk() int {
	if j.slow.Load() > 0 {
		return shortChunk
	}
	return longChunk
}

func newJoin(conn net.Conn, beneath *meter, spawn func(func()) bool, ended func()) *join {
	j := &join{Conn: conn, beneath: beneath, spawn: spawn, ended: ended}
	j.taken.L = &j.mu
	return j
}

func (j *join) Write(b []byte) (int, error) {
	const typeData = 0
	if !j.held && len(b) == yamuxHeader && b[1] == typeData && binary.BigEndian.Uint32(b[8:]) > 0 {
		j.held = true
		return copy(j.head[:], b), nil
	}
	var head []byte
	if j.held {
		j.held, head = false, j.head[:]
	}
	if err := j.take(head, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// take writes a small frame at once if the connection is free, and leaves others to the
// goroutine.
func (j *join) take(head, body []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.fullLocked() && j.err == nil {
		j.taken.Wait()
	}
	if j.err != nil {
		return j.err
	}
	if j.next == nil {
		j.next = buffers.Get().(*[]byte)
	}
	*j.next = append(append(*j.next, head...), body...)
	switch {
	case j.writing:
	case len(*j.next) <= oneRecord || j.slow.Load() > 0:
		return j.putLocked()
	case !j.spawn(j.drain):
		return net.ErrClosed
	default:
		j.writing = true
	}
	return nil
}

// fullLocked reports whether no more frames fit for now.
func (j *join) fullLocked() bool {
	if j.slow.Load() > 0 {
		return j.writing
	}
	return j.next != nil && len(*j.next) >= aheadLimit
}

// drain writes until there is nothing left to write.
func (j *join) drain() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.next != nil && j.err == nil {
		_ = j.putLocked() // yamux gets the error of its next write
	}
	j.writing = false
	j.taken.Signal()
}

// putLocked writes the next frame. It releases the lock meanwhile.
func (j *join) putLocked() error {
	buf := j.next
	j.next = nil
	j.taken.Signal()
	j.mu.Unlock()
	err := j.put(*buf)
	*buf = (*buf)[:0]
	buffers.Put(buf)
	j.mu.Lock()
	j.err = err
	return err
}

func (j *join) put(b []byte) error {
	begin := time.Now()
	// Only a dead or stalled connection takes so long.
	_ = j.beneath.SetWriteDeadline(begin.Add(writeTimeout))
	if len(b) > oneRecord {
		j.beneath.cork()
	}
	_, err := j.Conn.Write(b)
	if e := j.beneath.uncork(); err == nil {
		err = e
	}
	if err != nil {
		j.beneath.Close() // the lost frame may be the last one for a long time
	}
	if time.Since(begin) > slowWrite {
		j.slow.Store(slowMemory)
	} else if left := j.slow.Load(); left > 0 {
		j.slow.Store(left - 1)
	}
	return err
}

// Close is called by yamux at its end. It skips the TLS close message: sending it could
// block on a far side that reads no bytes, and the end of a Session means the same with
// or without it.
func (j *join) Close() error {
	j.mu.Lock()
	if j.err == nil {
		j.err = net.ErrClosed
	}
	j.taken.Signal()
	j.mu.Unlock()
	j.ended()
	return j.beneath.Close()
}
