package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

// Config of a Relay. Fields without a note are required.
type Config struct {
	// Consul is the address (host:port) of the gRPC API of the coordinator's own server.
	Consul string
	// Coordinator and BootID of the streams' tokens; Simulated marks the tokens.
	Coordinator, BootID string
	Simulated           bool
	Tokens              Tokens
	// Proxies returns the proxies that each member of a group may be. It must be safe for
	// concurrent use, and fast: each stream and Recheck call it.
	Proxies func(group string) []Identity
	// Holds reports whether a Boot holds the Slot now. It must be as fast.
	Holds  func(slot, boot string) bool
	Limits Limits
	Now    func() time.Time
	Log    *slog.Logger
}

// Relay serves members' proxies. Create it with New, run it once.
type Relay struct {
	cfg    Config
	shares *shares
	keeper *keeper
	consul *http.Transport
	server *http2.Server
	base   *http.Server
	ended  chan struct{} // closed when Run returns

	mu   sync.Mutex
	open map[*stream]struct{} // guarded by mu
}

// Bounds of a member's connection.
const (
	headerLimit = 16 << 10
	idleLimit   = 5 * time.Minute
	// silence is how long a connection may be idle before the Relay checks that it is alive.
	silence = 30 * time.Second
	// window bounds the data in flight for one stream, in each direction.
	window = 64 << 10
)

// New returns a Relay without connections.
func New(cfg Config) *Relay {
	limits := cfg.Limits.complete()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &Relay{
		cfg: cfg, shares: newShares(limits, cfg.Now), keeper: newKeeper(cfg),
		// Streams share connections. Each stream has its own window, and the window of a connection
		// is larger than all of them together, so that an unread stream holds up no other.
		consul: &http.Transport{
			Protocols: &protocols, DisableCompression: true, DialContext: dialer(cfg.Consul).DialContext,
			MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute,
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window},
		},
		server: &http2.Server{
			// Streams above the member's own bound are rejected with the reason.
			MaxConcurrentStreams: uint32(limits.Streams) + 8, IdleTimeout: idleLimit, ReadIdleTimeout: silence,
			WriteByteTimeout: limits.Unread, MaxUploadBufferPerConnection: 4 * window, MaxUploadBufferPerStream: window,
		},
		base:  &http.Server{MaxHeaderBytes: headerLimit, ReadHeaderTimeout: limits.HalfSent, ErrorLog: log.New(io.Discard, "", 0)},
		ended: make(chan struct{}), open: map[*stream]struct{}{},
	}
}

// source is the local address of connections to a Consul on loopback; the Consul proxy's has
// another one.
var source = net.IPv4(127, 0, 0, 9)

func dialer(consul string) *net.Dialer {
	d := &net.Dialer{Timeout: 3 * time.Second}
	if at, err := netip.ParseAddrPort(consul); err == nil && at.Addr().Is4() && at.Addr().IsLoopback() {
		d.LocalAddr = &net.TCPAddr{IP: source}
	}
	return d
}

// Run keeps the streams' tokens until ctx ends. Then it ends streams and revokes tokens.
func (r *Relay) Run(ctx context.Context) error {
	defer r.consul.CloseIdleConnections()
	var ending sync.WaitGroup
	ending.Go(func() {
		<-ctx.Done()
		close(r.ended)
	})
	r.keeper.run(ctx)
	ending.Wait()
	return nil
}

// Serve serves one connection of a member until the connection, ctx or the Relay ends. It owns
// conn. It closes the connection of a member with too many. Safe for concurrent use.
func (r *Relay) Serve(ctx context.Context, c Caller, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	done, ok := r.shares.conn(c.Slot)
	if !ok {
		return
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		select {
		case <-r.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	var streams sync.WaitGroup
	defer streams.Wait()
	defer cancel()
	r.server.ServeConn(conn, &http2.ServeConnOpts{Context: ctx, BaseConfig: r.base, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		streams.Add(1)
		defer streams.Done()
		if r.serve(w, req, c) {
			// A proxy retries on an open connection, and a retry at this coordinator cannot
			// succeed.
			time.AfterFunc(lastWord, cancel)
		}
	})})
}

// Streams returns the number of open streams.
func (r *Relay) Streams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// Recheck ends the streams whose Boot has lost the Slot, or whose proxy the group has lost. Call it
// when the results of Holds or Proxies may have changed.
func (r *Relay) Recheck() {
	r.mu.Lock()
	open := make([]*stream, 0, len(r.open))
	for s := range r.open {
		open = append(open, s)
	}
	r.mu.Unlock()
	proxies := map[string][]Identity{}
	for _, s := range open {
		group := s.caller.Group
		if _, known := proxies[group]; !known {
			proxies[group] = r.cfg.Proxies(group)
		}
		if refused := r.mayBe(s.caller, proxies[group], s.node); refused != nil {
			s.end(refused)
		}
	}
}

// mayBe returns nil if a caller may have a stream of the proxy in n.
func (r *Relay) mayBe(c Caller, proxies []Identity, n node) *refusal {
	if !r.cfg.Holds(c.Slot, c.Boot) {
		return refuse(codes.PermissionDenied, "this boot is not %s now", c.Slot)
	}
	if err := judge(c, proxies, n); err != nil {
		return refuse(codes.PermissionDenied, "%v", err)
	}
	return nil
}

// method is the only served method, and path its HTTP/2 path.
const (
	method = "envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	path   = "/" + method
)

// pause delays a refusal, and so bounds the rate of a caller that retries constantly.
const pause = 500 * time.Millisecond

// lastWord is how long a connection stays open after a redirect, so that the proxy receives it.
const lastWord = 100 * time.Millisecond

// serve serves one call of a member, and reports whether the member must go to another coordinator.
func (r *Relay) serve(w http.ResponseWriter, req *http.Request, c Caller) (elsewhere bool) {
	refused, begun := r.answer(w, req, c)
	level := slog.LevelDebug
	if !ordinary(refused.code) && r.shares.news(c.Slot, refused.text) {
		level = slog.LevelWarn
	}
	r.cfg.Log.Log(req.Context(), level, "stream of a proxy ended", "slot", c.Slot, "code", refused.code.String(), "reason", refused.text)
	if !begun && refused.code != codes.OK {
		r.hold(req.Context())
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(farewell))
	refused.write(w.Header(), begun)
	if !begun {
		w.WriteHeader(http.StatusOK)
	}
	return refused.elsewhere
}

// ordinary ends happen at every start of a Consul or of a proxy.
func ordinary(c codes.Code) bool {
	return c == codes.OK || c == codes.Unavailable || c == codes.Aborted || c == codes.Canceled
}

func (r *Relay) hold(ctx context.Context) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-r.ended:
	}
}

// answer makes all cheap checks first. It returns how the stream ended; begun: a part of the answer
// was sent.
func (r *Relay) answer(w http.ResponseWriter, req *http.Request, c Caller) (refused *refusal, begun bool) {
	if refused := r.shares.open(c.Slot); refused != nil {
		return refused, false
	}
	if req.Method != http.MethodPost || req.URL.Path != path || req.URL.RawQuery != "" {
		return refuse(codes.Unimplemented, "%.120q is not served here: proxies get their configuration with %s, all else of Consul is at its HTTP API", req.URL.Path, method), false
	}
	done, refused := r.shares.stream(c.Slot)
	if refused != nil {
		return refused, false
	}
	defer done()
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	s := &stream{relay: r, caller: c, cancel: cancel, control: newControl(w)}
	defer s.control.over()
	up := &upload{ctx: ctx, shares: r.shares, slot: c.Slot, body: req.Body, control: s.control, closed: make(chan struct{})}
	message, err := up.message(true)
	if err != nil {
		return asRefusal(err), false
	}
	n, rest, err := first(message)
	if err != nil {
		return refuse(codes.InvalidArgument, "%v", err), false
	}
	s.node = n
	proxies := r.cfg.Proxies(c.Group)
	if refused := r.mayBe(c, proxies, n); refused != nil {
		return refused, false
	}
	token, err := r.token(ctx, c.Group, services(proxies))
	if err != nil {
		return unavailable("no token was to be had", err), false
	}
	defer r.keeper.release(token)
	defer r.note(s)()
	// Recheck misses a caller that lost its Slot before the stream was registered.
	if refused := r.mayBe(c, r.cfg.Proxies(c.Group), n); refused != nil {
		return refused, false
	}
	life := time.AfterFunc(r.keeper.until(token), func() {
		s.end(refuse(codes.Unavailable, "the coordinator's token for this stream ends; open another stream"))
	})
	defer life.Stop()
	up.say(withNode(n, rest))
	return s.relayed(ctx, w, up, token)
}

func (r *Relay) token(ctx context.Context, group string, services []string) (*token, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, issueLimit, errors.New("consul made none in time"))
	defer cancel()
	return r.keeper.take(ctx, group, services)
}

// note registers a stream for Recheck until the returned function is called.
func (r *Relay) note(s *stream) (forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[s] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, s)
	}
}

func unavailable(what string, err error) *refusal {
	return &refusal{code: codes.Unavailable, text: fmt.Sprintf("%s: %.300s", what, err.Error()), elsewhere: true}
}
