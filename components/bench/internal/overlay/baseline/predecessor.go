package baseline

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pion/ice/v3"
	"github.com/quic-go/quic-go"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/lab/worker"
)

// PredecessorConfig is the config of the role "predecessor", one end of its
// tunnel.
type PredecessorConfig struct {
	load.Sockets
	// Client makes this end dial; its applications connect to At.
	Client bool   `json:"client"`
	At     string `json:"at,omitempty"`
	// To is where the other end's applications are taken.
	To  string    `json:"to,omitempty"`
	TLS TLSConfig `json:"tls"`
}

// ICEOffer is the message of one end to the other.
type ICEOffer struct {
	Ufrag      string   `json:"ufrag"`
	Pwd        string   `json:"pwd"`
	Candidates []string `json:"candidates"`
}

// Predecessor is the role "predecessor": one ICE agent, its connection object wrapped as a packet
// connection, QUIC on that, a QUIC stream for each application's connection. "offer" gathers,
// "connect" takes the other end's offer and returns once QUIC is connected, with the address to
// connect to.
func Predecessor(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	p := &predecessor{life: ctx}
	if err := json.Unmarshal(raw, &p.config); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	var err error
	if p.tls, err = p.config.TLS.config(); err != nil {
		return worker.Actor{}, err
	}
	p.tls.NextProtos = []string{"predecessor"}
	p.agent, err = ice.NewAgent(&ice.AgentConfig{
		NetworkTypes: []ice.NetworkType{ice.NetworkTypeUDP4}, CandidateTypes: []ice.CandidateType{ice.CandidateTypeHost},
	})
	if err != nil {
		return worker.Actor{}, fmt.Errorf("make ICE agent: %w", err)
	}
	return worker.Actor{
		Methods: map[string]worker.Method{
			"offer":   worker.Typed(func(ctx context.Context, _ load.Nothing) (ICEOffer, error) { return p.offer(ctx) }),
			"connect": worker.Typed(p.connect),
		},
		Close: p.close,
	}, nil
}

type predecessor struct {
	life   context.Context //nolint:containedctx // the worker's own, which methods outlive their call by
	config PredecessorConfig
	tls    *tls.Config
	agent  *ice.Agent
	conn   *quic.Conn // nil before connect
	wait   func()     // for the forwarder; nil before connect
}

func (p *predecessor) offer(ctx context.Context) (ICEOffer, error) {
	found := make(chan string, 64)
	if err := p.agent.OnCandidate(func(c ice.Candidate) {
		if c == nil {
			close(found)
			return
		}
		found <- c.Marshal()
	}); err != nil {
		return ICEOffer{}, err
	}
	if err := p.agent.GatherCandidates(); err != nil {
		return ICEOffer{}, fmt.Errorf("gather candidates: %w", err)
	}
	ufrag, pwd, err := p.agent.GetLocalUserCredentials()
	if err != nil {
		return ICEOffer{}, err
	}
	o := ICEOffer{Ufrag: ufrag, Pwd: pwd}
	for {
		select {
		case c, more := <-found:
			if !more {
				return o, nil
			}
			o.Candidates = append(o.Candidates, c)
		case <-ctx.Done():
			return ICEOffer{}, context.Cause(ctx)
		}
	}
}

// settings are the predecessor's own.
func settings() *quic.Config {
	return &quic.Config{
		KeepAlivePeriod: 10 * time.Second, MaxIdleTimeout: time.Minute,
		InitialStreamReceiveWindow: 4 << 20, MaxStreamReceiveWindow: 16 << 20,
		InitialConnectionReceiveWindow: 8 << 20, MaxConnectionReceiveWindow: 32 << 20,
	}
}

func (p *predecessor) connect(ctx context.Context, remote ICEOffer) (string, error) {
	for _, text := range remote.Candidates {
		c, err := ice.UnmarshalCandidate(text)
		if err != nil {
			return "", fmt.Errorf("read candidate: %w", err)
		}
		if err := p.agent.AddRemoteCandidate(c); err != nil {
			return "", fmt.Errorf("add candidate: %w", err)
		}
	}
	var path *ice.Conn
	var err error
	if p.config.Client {
		path, err = p.agent.Dial(ctx, remote.Ufrag, remote.Pwd)
	} else {
		path, err = p.agent.Accept(ctx, remote.Ufrag, remote.Pwd)
	}
	if err != nil {
		return "", fmt.Errorf("find path: %w", err)
	}
	packets := packetConn{path}
	if !p.config.Client {
		ln, err := quic.Listen(packets, p.tls, settings())
		if err != nil {
			return "", fmt.Errorf("listen: %w", err)
		}
		p.conn, err = ln.Accept(ctx)
		if err != nil {
			return "", fmt.Errorf("accept: %w", err)
		}
		f := &forwarder{}
		f.wg.Go(func() { p.acceptStreams(f) })
		p.wait = f.wg.Wait
		return "", nil
	}
	p.conn, err = quic.Dial(ctx, packets, path.RemoteAddr(), p.tls, settings())
	if err != nil {
		return "", fmt.Errorf("dial: %w", err)
	}
	ln, err := p.config.Listen(ctx, p.config.At)
	if err != nil {
		return "", fmt.Errorf("listen for applications: %w", err)
	}
	f := newForwarder(p.life, ln, func(conn *net.TCPConn) { //nolint:contextcheck // it outlives the call that starts it
		stream, err := p.conn.OpenStreamSync(p.life)
		if err != nil {
			return
		}
		join(conn, both{stream}, conn.CloseWrite, stream.Close)
	})
	p.wait = f.wg.Wait
	return f.address, nil
}

func (p *predecessor) acceptStreams(f *forwarder) {
	for {
		stream, err := p.conn.AcceptStream(p.life)
		if err != nil {
			return
		}
		f.wg.Go(func() {
			conn, err := p.config.Dial(p.life, p.config.To)
			if err != nil {
				_ = both{stream}.Close()
				return
			}
			join(conn, both{stream}, conn.CloseWrite, stream.Close)
			_ = conn.Close()
		})
	}
}

func (p *predecessor) close() {
	var err error
	if p.conn != nil {
		err = p.conn.CloseWithError(0, "")
	}
	_ = errors.Join(err, p.agent.Close()) // the process ends now
	if p.wait != nil {
		p.wait()
	}
}

// both closes a stream in both directions.
type both struct{ *quic.Stream }

func (b both) Close() error {
	b.CancelRead(0)
	b.CancelWrite(0)
	return nil
}

// packetConn is the wrapping that costs the predecessor its speed: QUIC sees no
// UDP socket below it, so every packet is one system call.
type packetConn struct{ *ice.Conn }

func (p packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := p.Read(b)
	return n, p.RemoteAddr(), err
}

func (p packetConn) WriteTo(b []byte, _ net.Addr) (int, error) { return p.Write(b) }
