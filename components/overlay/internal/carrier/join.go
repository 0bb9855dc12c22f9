package carrier

import (
	"encoding/binary"
	"errors"
	"net"
)

// yamuxHeader is the length of a yamux frame header: version, type, flags,
// stream, length.
const yamuxHeader = 12

// join sits between yamux and TLS. yamux writes a data frame as two calls,
// header and body; each call would become a TLS record and a system call of
// its own. join holds such a header back and writes it with the body.
//
// Only yamux's one sending goroutine writes here.
type join struct {
	net.Conn
	// beneath is the connection below TLS.
	beneath *meter
	buf     []byte
	// held tells that buf begins with a header whose body comes next.
	held bool
}

func (j *join) Write(b []byte) (int, error) {
	if j.held {
		j.held = false
		j.buf = append(j.buf[:yamuxHeader], b...)
		j.beneath.cork()
		n, err := j.Conn.Write(j.buf)
		err = errors.Join(err, j.beneath.uncork())
		return max(0, n-yamuxHeader), err
	}
	const typeData = 0
	if len(b) == yamuxHeader && b[1] == typeData && binary.BigEndian.Uint32(b[8:]) > 0 {
		j.buf = append(j.buf[:0], b...)
		j.held = true
		return len(b), nil
	}
	return j.Conn.Write(b)
}

// Close does not say goodbye in TLS: that could wait for a far side that takes
// no bytes, and the end of a Session means the same with or without it.
func (j *join) Close() error { return j.beneath.Close() }
