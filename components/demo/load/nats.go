package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"cadre.dev/demo/load/hosts"
)

// NATS is a Target: one stream with three replicas, one message for each write.
type NATS struct {
	servers string
	dialer  natsDialer

	mu         sync.Mutex // guards the following
	duplicates int
}

const (
	natsStream = "load"
	// natsAckWait is how long a publisher waits for one acknowledgement. The leader that stops may lose
	// the acknowledgement of the message in flight; the publisher then sends it again under its id, and
	// the stream keeps one.
	natsAckWait = 300 * time.Millisecond
)

// NewNATS takes the servers' "host:port" addresses, separated by commas; lookup resolves the hosts,
// nil is the system's way.
func NewNATS(endpoints string, lookup func(ctx context.Context, host string) ([]string, error)) (*NATS, error) {
	if endpoints == "" {
		return nil, errors.New("no server is named: give host:port of each")
	}
	return &NATS{servers: endpoints, dialer: hosts.Dialer(lookup)}, nil
}

// natsDialer lets the client leave the names of hosts to the dialer.
type natsDialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d natsDialer) SkipHostLookup() bool { return true }

func (d natsDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return d(ctx, network, address)
}

func (n *NATS) dial() (*nats.Conn, nats.JetStreamContext, error) {
	nc, err := nats.Connect(n.servers, nats.SetCustomDialer(n.dialer), nats.Timeout(time.Second), nats.IgnoreDiscoveredServers(),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 0))
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	js, err := nc.JetStream()
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	return nc, js, nil
}

// Prepare makes the stream.
func (n *NATS) Prepare(ctx context.Context) error {
	nc, js, err := n.dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	_, err = js.AddStream(&nats.StreamConfig{Name: natsStream, Subjects: []string{natsStream}, Replicas: 3}, nats.Context(ctx))
	if err != nil {
		return fmt.Errorf("make the stream: %w", err)
	}
	return nil
}

// Highest is the highest id in the stream; 0 when there is none.
func (n *NATS) Highest(ctx context.Context) (int64, error) {
	var highest int64
	err := n.read(ctx, func(id int64) { highest = max(highest, id) })
	return highest, err
}

// IDs implements Target.
func (n *NATS) IDs(ctx context.Context) (IDs, error) {
	var ids IDs
	all := 0
	err := n.read(ctx, func(id int64) {
		ids.Add(id)
		all++
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.duplicates = all - ids.Len()
	return ids, err
}

// Duplicates is the number of ids that the last call of IDs found more than once.
func (n *NATS) Duplicates() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.duplicates
}

// read calls see with every id in the stream.
func (n *NATS) read(ctx context.Context, see func(id int64)) error {
	nc, js, err := n.dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	info, err := js.StreamInfo(natsStream, nats.Context(ctx))
	if err != nil || info.State.LastSeq == 0 {
		return err
	}
	messages, err := js.SubscribeSync(natsStream, nats.OrderedConsumer())
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	for last := uint64(0); last < info.State.LastSeq; {
		m, err := messages.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("read the stream behind %d of %d: %w", last, info.State.LastSeq, err)
		}
		at, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		id, err := strconv.ParseInt(string(m.Data), 10, 64)
		if err != nil {
			return fmt.Errorf("message %d is of no writer: %w", at.Sequence.Stream, err)
		}
		see(id)
		last = at.Sequence.Stream
	}
	return nil
}

// Connect implements Target.
func (n *NATS) Connect(context.Context) (Conn, error) {
	nc, js, err := n.dial()
	if err != nil {
		return nil, err
	}
	return &natsConn{nc, js}, nil
}

type natsConn struct {
	nc *nats.Conn
	js nats.JetStreamContext
}

// Write publishes id until it is acknowledged, under the same message id. The acknowledgement names no
// server.
func (c *natsConn) Write(ctx context.Context, id int64) (string, error) {
	text := strconv.FormatInt(id, 10)
	for {
		_, err := c.js.Publish(natsStream, []byte(text), nats.MsgId(text), nats.AckWait(natsAckWait), nats.RetryAttempts(0))
		if err == nil || ctx.Err() != nil {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w, and before: %w", ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Healthy: the client finds another server without help.
func (c *natsConn) Healthy() bool { return !c.nc.IsClosed() }

func (c *natsConn) Close(context.Context) { c.nc.Close() }
