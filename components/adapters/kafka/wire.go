package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswer bounds an answer: the metadata of some hundred thousand partitions.
const maxAnswer = 64 << 20

// conn is one connection to one node, for requests one after the other. A client library would ask for metadata on
// its own, which a controller's port refuses and logs as an error.
type conn struct {
	net.Conn
	in   *bufio.Reader
	sent int32
}

// dial connects to a node; all requests end with ctx.
func dial(ctx context.Context, address string) (*conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		err = c.SetDeadline(end)
	}
	return &conn{Conn: c, in: bufio.NewReader(c)}, err
}

// refused: no process listens.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// ask sends one request in a version that Kafka 4.0 and newer know.
func ask[A kmsg.Response](c *conn, q kmsg.Request, version int16) (A, error) {
	var none A
	q.SetVersion(version)
	c.sent++
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("cadre")).AppendRequest(nil, q, c.sent)); err != nil {
		return none, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return none, err
	}
	size, id := binary.BigEndian.Uint32(head[:4]), int32(binary.BigEndian.Uint32(head[4:]))
	switch {
	case size < 4 || size > maxAnswer:
		return none, fmt.Errorf("an answer of %d bytes", size)
	case id != c.sent:
		return none, fmt.Errorf("the answer to request %d, not to %d", id, c.sent)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return none, err
	}
	a, ok := q.ResponseKind().(A)
	if !ok {
		return none, fmt.Errorf("%T has no answer of that kind", q)
	}
	if a.IsFlexible() && a.Key() != int16(kmsg.ApiVersions) { // whose header never has tags
		var err error
		if body, err = withoutTags(body); err != nil {
			return none, err
		}
	}
	return a, a.ReadFrom(body)
}

var errTags = errors.New("an answer whose header cannot be read")

// withoutTags skips the tags of an answer's header.
func withoutTags(body []byte) ([]byte, error) {
	number := func() (uint64, error) {
		n, used := binary.Uvarint(body)
		if used <= 0 {
			return 0, errTags
		}
		body = body[used:]
		return n, nil
	}
	count, err := number()
	for ; count > 0 && err == nil; count-- {
		var size uint64
		if _, err = number(); err == nil {
			size, err = number()
		}
		if err == nil && size > uint64(len(body)) {
			err = errTags
		}
		if err == nil {
			body = body[size:]
		}
	}
	return body, err
}

// refusal is the error of an answer; nil for the code 0.
func refusal(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil || message == nil || *message == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *message)
}
