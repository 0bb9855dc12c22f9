package xds

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// prefix is the size of the header of a gRPC message: whether it is compressed, and its length.
const prefix = 5

// upload is the request body for Consul, built from a member's messages. One goroutine at a time
// calls Read.
type upload struct {
	ctx    context.Context //nolint:containedctx // it is the stream's own life
	shares *shares
	slot   string
	body   io.Reader
	// control bounds each read of body.
	control *control

	ready []byte // unread bytes

	mu      sync.Mutex
	refused *refusal      // guarded by mu; why no more is forwarded
	closed  chan struct{} // closed by Close, under mu
}

// message reads the next message; io.EOF when the member sends no more.
func (u *upload) message(begun bool) ([]byte, error) {
	limit := time.Duration(0)
	if begun {
		limit = u.shares.limits.HalfSent
	}
	u.control.read(limit)
	var head [prefix]byte
	if _, err := io.ReadFull(u.body, head[:1]); err != nil {
		return nil, err
	}
	u.control.read(u.shares.limits.HalfSent)
	if _, err := io.ReadFull(u.body, head[1:]); err != nil {
		return nil, broken(err)
	}
	if head[0] != 0 {
		return nil, refuse(codes.Unimplemented, "the message is compressed, and none may be")
	}
	size := binary.BigEndian.Uint32(head[1:])
	done, refused := u.shares.read(int(size))
	if refused != nil {
		return nil, refused
	}
	defer done()
	// The buffer grows with the received bytes: a large announced size alone reserves no memory.
	var message bytes.Buffer
	if _, err := io.CopyN(&message, u.body, int64(size)); err != nil {
		return nil, broken(err)
	}
	return message.Bytes(), u.pace(message.Len())
}

// pace waits while the member is above its rate.
func (u *upload) pace(size int) error {
	wait := u.shares.sent(u.slot, size)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-u.ctx.Done():
		return context.Cause(u.ctx)
	case <-u.closed:
		return errClosed
	}
}

var errClosed = errors.New("consul reads no more of it")

// broken is the error for the end of a member's messages within one.
func broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// say makes message the next one to be read.
func (u *upload) say(message []byte) {
	u.ready = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	if len(u.ready) == 0 {
		message, err := u.message(false)
		if err == nil {
			message, err = later(message)
		}
		if err != nil {
			return 0, u.end(err)
		}
		u.say(message)
	}
	n := copy(p, u.ready)
	u.ready = u.ready[n:]
	return n, nil
}

// end records why a stream is broken off.
func (u *upload) end(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.closed: // not the member's fault
	default:
		u.refused = asRefusal(err)
	}
	return err
}

// why returns why no more was forwarded; nil: nothing was refused.
func (u *upload) why() *refusal {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused
}

// Close implements io.Closer. A Read that waits for the member returns, because closing Consul's
// answer waits for it.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.closed:
	default:
		close(u.closed)
		u.control.stop()
	}
	return nil
}

// asRefusal returns the status for a fault in a member's messages.
func asRefusal(err error) *refusal {
	if refused, is := errors.AsType[*refusal](err); is {
		return refused
	}
	if errors.Is(err, errMalformed) {
		return refuse(codes.InvalidArgument, "%v", err)
	}
	code := codes.Canceled // the stream or the member's connection ended
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		code = codes.InvalidArgument // the message was incomplete or empty
	}
	return refuse(code, "the stream broke off: %.200s", err.Error())
}
