package consulproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/overlay"
)

// Bounds on the open connections of one CVM's workloads.
const (
	maxConns    = 512
	spareConns  = 64 // for connections that get an error answer
	maxRequests = 1024
	maxHeader   = 16 << 10
	// maxBody is twice Consul's limit for one value.
	maxBody = 1 << 20
	// keepConn is how long a connection without requests is kept.
	keepConn = 10 * time.Minute
)

// Codes in front of the Proxy's own answers.
const (
	codeNotReady      = "CONSUL_PROXY_NOT_READY"
	codeNoCoordinator = "CONSUL_PROXY_NO_COORDINATOR"
	codeUnsure        = "CONSUL_PROXY_UNSURE"
	codeTooMany       = "CONSUL_PROXY_TOO_MANY"
	codeTooLarge      = "CONSUL_PROXY_TOO_LARGE"
	codeInvalid       = "CONSUL_PROXY_INVALID"
)

// Config makes a Proxy. All fields are required.
type Config struct {
	// Address is the loopback host:port for workloads.
	Address string
	// Listen opens the socket; a net.ListenConfig's does.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Log    *slog.Logger
}

// Way is how coordinators are reached. Its functions are called concurrently.
type Way struct {
	// Self is this Slot's name; it decides which coordinator is asked first.
	Self string
	// Coordinators are all of the peer map.
	Coordinators func() []Coordinator
	// Dial opens a stream to the Consul proxy of a coordinator, and waits until ctx ends for a
	// Session with it.
	Dial func(ctx context.Context, id overlay.ID) (net.Conn, error)
}

// Proxy is where the workloads find Consul. Make it with [New]; safe for concurrent use.
type Proxy struct {
	cfg Config
	log *slog.Logger

	state    atomic.Pointer[state]
	current  latestvalue.Value[*upstream] // nil: none
	wanted   chan struct{}                // capacity 1
	waiting  atomic.Int64                 // requests that want a coordinator
	requests atomic.Int64                 // that are open
	clients  latestvalue.Value[int]       // connections of workloads

	mu sync.Mutex
	// When each coordinator last reported no Consul, and when it last did not answer; guarded by
	// mu.
	without, lost map[overlay.ID]time.Time

	parts sync.WaitGroup // Run waits for these
}

// state is either a way or why there is none.
type state struct {
	way    *Way
	reason string
}

// New makes a Proxy that answers with an error until [Proxy.Open].
func New(cfg Config) *Proxy {
	d := &Proxy{cfg: cfg, log: cfg.Log, wanted: make(chan struct{}, 1), without: map[overlay.ID]time.Time{}, lost: map[overlay.ID]time.Time{}}
	d.state.Store(&state{reason: "this boot is not admitted yet"})
	return d
}

// Open has requests carried to coordinators from now on.
func (d *Proxy) Open(way Way) { d.state.Store(&state{way: &way}) }

// Shut answers requests with an error that names the reason from now on, and ends the open ones.
func (d *Proxy) Shut(reason string) {
	d.state.Store(&state{reason: reason})
	if u, _ := d.current.Get(); u != nil {
		u.leave(errors.New(reason))
		u.close()
	}
}

// Unused returns when no workload is connected, or when ctx ends.
func (d *Proxy) Unused(ctx context.Context) {
	for {
		n, index := d.clients.Get()
		if n == 0 {
			return
		}
		if _, _, err := d.clients.Wait(ctx, index); err != nil {
			return
		}
	}
}

// count keeps how many workloads are connected.
func (d *Proxy) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		d.clients.Update(func(n int) int { return n + 1 })
	case http.StateClosed, http.StateHijacked:
		d.clients.Update(func(n int) int { return n - 1 })
	default:
	}
}

// Run serves until ctx ends. It returns an error when the socket cannot be opened or fails.
func (d *Proxy) Run(ctx context.Context) error {
	l, err := d.cfg.Listen(ctx, "tcp", d.cfg.Address)
	if err != nil {
		return fmt.Errorf("listen for the workloads' consul requests: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer d.parts.Wait()
	defer cancel()
	d.parts.Go(func() { d.keepConnected(ctx) })
	server := &http.Server{
		Handler: d, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: keepConn,
		Protocols: new(http.Protocols), ConnContext: aboveBound, ConnState: d.count,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(&bounded{Listener: l}); ctx.Err() == nil {
		return fmt.Errorf("serve the workloads' consul requests: %w", err)
	}
	return nil
}

// ServeHTTP answers one request of a workload, exactly once.
func (d *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer d.requests.Add(-1)
	if d.requests.Add(1) > maxRequests {
		refuse(w, http.StatusTooManyRequests, codeTooMany, fmt.Sprintf("%d requests are open in this machine; close some or ask again later", maxRequests))
		return
	}
	if r.Context().Value(aboveKey{}) != nil {
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusTooManyRequests, codeTooMany, fmt.Sprintf("%d connections are open in this machine; close some", maxConns))
		return
	}
	if s := d.state.Load(); s.way == nil {
		refuse(w, http.StatusServiceUnavailable, codeNotReady, s.reason)
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/") || r.Method == http.MethodConnect {
		refuse(w, http.StatusBadRequest, codeInvalid, "the request names no path: ask as in GET /v1/kv/name")
		return
	}
	if r.ContentLength > maxBody {
		tooLarge(w)
		return
	}
	c := &call{method: r.Method, url: *r.URL, header: passed(r.Header), length: r.ContentLength, began: time.Now()}
	if c.header.Get("User-Agent") == "" {
		c.header["User-Agent"] = noUserAgent
	}
	if r.ContentLength != 0 {
		// An answer that comes before the body's end does not wait for that.
		_ = http.NewResponseController(w).EnableFullDuplex()
		c.body = &counted{Reader: http.MaxBytesReader(w, r.Body, maxBody), stop: func() {
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		}}
	}
	res, err := d.answer(r.Context(), c)
	if c.body.cut() && r.ProtoMajor == 1 {
		// The connection ends with the body. Without this header, a client would send its next
		// request on it and get no answer.
		w.Header().Set("Connection", "close")
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	defer res.Body.Close() //nolint:errcheck // read to its end or given up
	d.pass(w, r, res)
}

// fail returns the reason for a missing answer. Clients of Consul retry after a 500, because its
// servers answer a 500 while they have no leader; they take any other code for an answer.
func (d *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client is gone
	case large:
		tooLarge(w)
	case errors.Is(err, errUnsure):
		refuse(w, http.StatusInternalServerError, codeUnsure, err.Error())
	default:
		refuse(w, http.StatusInternalServerError, codeNoCoordinator, fmt.Sprintf("No cluster leader: %v within %v", err, waitFor))
	}
}

// pass writes a coordinator's answer.
func (d *Proxy) pass(w http.ResponseWriter, r *http.Request, res *http.Response) {
	for name, values := range passed(res.Header) {
		w.Header()[name] = values
	}
	if length := res.Header["Content-Length"]; r.Method == http.MethodHead {
		w.Header()["Content-Length"] = length
	} else if res.ContentLength >= 0 && res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	status := res.StatusCode
	if elsewhere(status) {
		status = http.StatusInternalServerError // see fail
	}
	w.WriteHeader(status)
	var out io.Writer = w
	if res.ContentLength < 0 {
		out = &flushing{w: w, to: http.NewResponseController(w)}
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		// Half an answer must not look like one.
		panic(http.ErrAbortHandler)
	}
}

// flushing flushes each write at once.
type flushing struct {
	w  io.Writer
	to *http.ResponseController
}

func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.to.Flush()
	}
	return n, err
}

// noUserAgent is an empty user agent, to replace this program's own.
var noUserAgent = []string{""}

// passed are the fields that are of the message and not of one connection.
func passed(in http.Header) http.Header {
	out := in.Clone()
	for _, list := range in["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			out.Del(textproto.TrimString(name))
		}
	}
	for _, name := range []string{"Connection", "Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Content-Length"} {
		out.Del(name)
	}
	return out
}

func tooLarge(w http.ResponseWriter) {
	refuse(w, http.StatusRequestEntityTooLarge, codeTooLarge, fmt.Sprintf("a request's body may have %d bytes", maxBody))
}

// refuse answers in text, as Consul does.
func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s: %s", code, text)
}

// bounded is a listener that marks the connections above its bound. Each gets an error answer to
// its first request; while many of them are open, further connections get none.
type bounded struct {
	net.Listener

	open atomic.Int64
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := b.open.Add(1)
		over := sync.OnceFunc(func() { b.open.Add(-1) })
		if n <= maxConns+spareConns {
			return &counting{Conn: c, above: n > maxConns, over: over}, nil
		}
		_ = c.Close()
		over()
	}
}

type counting struct {
	net.Conn

	above bool // the bound
	over  func()
}

func (c *counting) Close() error {
	defer c.over()
	return c.Conn.Close()
}

// aboveKey is of the context of requests on a connection that is above the bound.
type aboveKey struct{}

func aboveBound(ctx context.Context, c net.Conn) context.Context {
	if counted, is := c.(*counting); is && counted.above {
		return context.WithValue(ctx, aboveKey{}, true)
	}
	return ctx
}
