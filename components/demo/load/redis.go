package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/demo/load/hosts"
)

// Redis is a Target: one hash, one field for each write. A write counts once a replica has it too (WAIT).
type Redis struct {
	sentinels []string
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	redisMaster = "cadre"
	redisHash   = "load"
	// redisStep bounds one call: the server that a client asks may hang.
	redisStep = time.Second
	// redisMaxReply bounds one part of a reply.
	redisMaxReply = 1 << 20
)

// NewRedis takes the Sentinels' "host:port" addresses, separated by commas; lookup resolves the hosts, nil is
// the system's way.
func NewRedis(endpoints string, lookup func(ctx context.Context, host string) ([]string, error)) (*Redis, error) {
	if endpoints == "" {
		return nil, errors.New("no Sentinel is named: give host:port of each")
	}
	return &Redis{strings.Split(endpoints, ","), hosts.Dialer(lookup)}, nil
}

// redisConn is a connection to the primary, or to a Sentinel.
type redisConn struct {
	conn    net.Conn
	replies *bufio.Reader
	address string
	broken  bool
}

func (r *Redis) open(ctx context.Context, address string) (*redisConn, error) {
	ctx, cancel := context.WithTimeout(ctx, redisStep)
	defer cancel()
	conn, err := r.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &redisConn{conn: conn, replies: bufio.NewReader(conn), address: address}, nil
}

// do makes one call. A reply is a string, an int64, nil or a list of replies.
func (c *redisConn) do(ctx context.Context, args ...string) (any, error) {
	until := time.Now().Add(redisStep)
	if at, set := ctx.Deadline(); set && at.Before(until) {
		until = at
	}
	var call strings.Builder
	fmt.Fprintf(&call, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&call, "$%d\r\n%s\r\n", len(arg), arg)
	}
	err := c.conn.SetDeadline(until)
	if err == nil {
		_, err = io.WriteString(c.conn, call.String())
	}
	if err != nil {
		c.broken = true
		return nil, err
	}
	reply, err := c.reply()
	var said redisError
	c.broken = c.broken || err != nil && !errors.As(err, &said)
	return reply, err
}

// redisError is an error that the server reports.
type redisError string

func (e redisError) Error() string { return string(e) }

func (c *redisConn) reply() (any, error) {
	line, err := c.replies.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty reply")
	}
	kind, text := line[0], line[1:]
	if kind == '+' {
		return text, nil
	}
	if kind == '-' {
		return nil, redisError(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reply %q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case n > redisMaxReply:
		return nil, fmt.Errorf("a reply with %d parts", n)
	case kind == '$':
		value := make([]byte, n+2)
		_, err := io.ReadFull(c.replies, value)
		return string(value[:n]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.reply(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("reply %q", line)
}

// primary is a connection to the server that a Sentinel names and that agrees.
func (r *Redis) primary(ctx context.Context) (*redisConn, error) {
	var errs []error
	for _, sentinel := range r.sentinels {
		c, err := r.named(ctx, sentinel)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("ask %s: %w", sentinel, err))
	}
	return nil, errors.Join(errs...)
}

func (r *Redis) named(ctx context.Context, sentinel string) (*redisConn, error) {
	asked, err := r.open(ctx, sentinel)
	if err != nil {
		return nil, err
	}
	defer asked.Close(ctx)
	reply, err := asked.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redisMaster)
	if err != nil {
		return nil, err
	}
	address, _ := reply.([]any)
	if len(address) != 2 {
		return nil, fmt.Errorf("it names no primary: %v", reply)
	}
	c, err := r.open(ctx, net.JoinHostPort(fmt.Sprint(address[0]), fmt.Sprint(address[1])))
	if err != nil {
		return nil, err
	}
	role, err := c.do(ctx, "ROLE")
	if list, _ := role.([]any); err == nil && (len(list) == 0 || list[0] != "master") {
		err = fmt.Errorf("%s is no primary", c.address)
	}
	if err != nil {
		c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// Prepare finds the primary: nothing is made before the first write.
func (r *Redis) Prepare(ctx context.Context) error {
	c, err := r.primary(ctx)
	if err != nil {
		return err
	}
	c.Close(ctx)
	return nil
}

// Highest is the highest id in the hash; 0 when there is none.
func (r *Redis) Highest(ctx context.Context) (int64, error) {
	ids, err := r.ids(ctx)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return slices.Max(ids), nil
}

// IDs implements Target.
func (r *Redis) IDs(ctx context.Context) (IDs, error) {
	var all IDs
	ids, err := r.ids(ctx)
	for _, id := range ids {
		all.Add(id)
	}
	return all, err
}

func (r *Redis) ids(ctx context.Context) ([]int64, error) {
	c, err := r.primary(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	reply, err := c.do(ctx, "HKEYS", redisHash)
	if err != nil {
		return nil, err
	}
	fields, _ := reply.([]any)
	ids := make([]int64, len(fields))
	for i, field := range fields {
		if ids[i], err = strconv.ParseInt(fmt.Sprint(field), 10, 64); err != nil {
			return nil, fmt.Errorf("field %v is of no writer: %w", field, err)
		}
	}
	return ids, nil
}

// Connect implements Target. It asks until there is a primary.
func (r *Redis) Connect(ctx context.Context) (Conn, error) {
	for {
		c, err := r.primary(ctx)
		if err == nil {
			return &redisWriter{r, c}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, and before: %w", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// redisWriter follows the primary.
type redisWriter struct {
	redis *Redis
	*redisConn
}

// Write sets the field until a replica has confirmed the write, and returns the primary.
func (w *redisWriter) Write(ctx context.Context, id int64) (string, error) {
	for {
		err := w.once(ctx, id)
		if err == nil {
			return w.address, nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("%w, and before: %w", ctx.Err(), err)
		}
		next, err := w.redis.Connect(ctx)
		if err != nil {
			return "", err
		}
		w.Close(ctx)
		w.redisConn = next.(*redisWriter).redisConn //nolint:forcetypeassert // Connect makes no other
	}
}

// once writes and waits. A repeated HSET is sent to the replicas again: a command that changes nothing, such as a
// repeated SADD, is not, and the WAIT behind it on a new connection would confirm nothing.
func (c *redisConn) once(ctx context.Context, id int64) error {
	if _, err := c.do(ctx, "HSET", redisHash, strconv.FormatInt(id, 10), ""); err != nil {
		return err
	}
	have, err := c.do(ctx, "WAIT", "1", "500")
	if n, _ := have.(int64); err == nil && n < 1 {
		return errors.New("no replica has the write")
	}
	return err
}

// Healthy implements Conn.
func (c *redisConn) Healthy() bool { return !c.broken }

// Close implements Conn.
func (c *redisConn) Close(context.Context) { _ = c.conn.Close() }
