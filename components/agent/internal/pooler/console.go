package pooler

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Bounds on PgBouncer's answers.
const (
	maxMessage = 64 << 10
	maxAnswer  = 4 << 20
)

// protocol 3.0, and the request for TLS in its place.
const (
	protocol   = 3 << 16
	sslRequest = 80877103
)

// client implements as much of PostgreSQL's protocol as the console and a first login need. It is
// unusable after an error. Not safe for concurrent use.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// refusal is an error that PgBouncer returned.
type refusal struct{ code, text string }

func (r *refusal) Error() string { return r.text }

// login opens a session. ctx bounds all of it.
func login(ctx context.Context, network, address, user, database string) (*client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := newClient(conn)
	start := binary.BigEndian.AppendUint32(nil, protocol)
	for _, s := range []string{"user", user, "database", database, "application_name", admin} {
		start = append(append(start, s...), 0)
	}
	_, _, err = c.ask(ctx, 0, append(start, 0))
	if err != nil {
		c.close()
		return nil, fmt.Errorf("log in to %s: %w", database, err)
	}
	return c, nil
}

func newClient(conn net.Conn) *client { return &client{conn: conn, in: bufio.NewReader(conn)} }

func (c *client) close() { _ = c.conn.Close() }

// query runs one statement and returns its rows. ctx bounds the query, and its end is returned as
// the error. The answer's tag must be that of the statement: after a WAIT_CLOSE on the same console
// PgBouncer answers a PAUSE at once, with the tag WAIT_CLOSE, while transactions are open.
func (c *client) query(ctx context.Context, text string) ([]map[string]string, error) {
	rows, tag, err := c.ask(ctx, 'Q', append([]byte(text), 0))
	if err == nil && firstWord(tag) != firstWord(text) {
		err = fmt.Errorf("the answer is %q's, not its own", tag)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return rows, nil
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

func (c *client) ask(ctx context.Context, kind byte, body []byte) (rows []map[string]string, tag string, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var message []byte
	if kind != 0 {
		message = append(message, kind)
	}
	message = append(binary.BigEndian.AppendUint32(message, uint32(len(body)+4)), body...)
	if _, err = c.conn.Write(message); err == nil {
		rows, tag, err = c.answer()
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return rows, tag, err
}

// answer reads until the other side is ready for a query; tag names the statement that it ran.
func (c *client) answer() (rows []map[string]string, tag string, err error) {
	var (
		columns []string
		refused error
		size    int
	)
	for {
		kind, body, err := c.message()
		switch size += len(body); {
		case err != nil && refused != nil:
			return nil, "", refused // a login, and the connection is closed after it
		case err != nil:
			return nil, "", err
		case size > maxAnswer:
			return nil, "", fmt.Errorf("an answer of more than %d bytes", maxAnswer)
		}
		switch kind {
		case 'Z':
			return rows, tag, refused
		case 'C':
			tag, _ = cutString(body)
		case 'E':
			refused = parseRefusal(body)
		case 'T':
			columns = parseColumns(body)
		case 'D':
			rows = append(rows, parseRow(columns, body))
		case 'R':
			if len(body) < 4 || binary.BigEndian.Uint32(body) != 0 {
				return nil, "", errors.New("it asks for a password")
			}
		default: // sent in between: parameters, notices
		}
	}
}

func (c *client) message() (kind byte, body []byte, err error) {
	kind, err = c.in.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	length := make([]byte, 4)
	if _, err := io.ReadFull(c.in, length); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(length)
	if n < 4 || n > maxMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes, at most %d are read", n, maxMessage)
	}
	body = make([]byte, n-4)
	_, err = io.ReadFull(c.in, body)
	return kind, body, err
}

// parseColumns gives the names: each is followed by 18 bytes about its type.
func parseColumns(body []byte) []string {
	var out []string
	body = afterCount(body)
	for len(body) > 0 {
		name, rest := cutString(body)
		if len(rest) < 18 {
			break
		}
		out, body = append(out, name), rest[18:]
	}
	return out
}

func parseRow(columns []string, body []byte) map[string]string {
	out := map[string]string{}
	body = afterCount(body)
	for _, column := range columns {
		if len(body) < 4 {
			break
		}
		n := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		if n < 0 {
			continue // null
		}
		if int(n) > len(body) {
			break
		}
		out[column], body = string(body[:n]), body[n:]
	}
	return out
}

func parseRefusal(body []byte) error {
	out := &refusal{}
	for len(body) > 1 {
		field := body[0]
		var value string
		if value, body = cutString(body[1:]); field == 'M' {
			out.text = value
		} else if field == 'C' {
			out.code = value
		}
	}
	return out
}

func cutString(b []byte) (s string, rest []byte) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:]
		}
	}
	return string(b), nil
}

// afterCount skips the field count, because the message's length implies it.
func afterCount(b []byte) []byte { return b[min(2, len(b)):] }

// answersAt reports whether a server of the protocol is at address: it rejects TLS, in one byte.
func answersAt(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, sslRequest)); err != nil {
		return err
	}
	var one [1]byte
	if _, err := io.ReadFull(conn, one[:]); err != nil {
		return err
	}
	if one[0] != 'N' {
		return fmt.Errorf("%s answers %q to a request for TLS, want N: another program has the address", address, one[:])
	}
	return nil
}
