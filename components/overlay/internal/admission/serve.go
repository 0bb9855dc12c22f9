package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/limit"
)

// linger is how long the caller has to read the last answer.
const linger = 2 * time.Second

// Config makes a [Server]. All fields are required.
type Config struct {
	// Places is how many first contacts may be served at once, each for Time while others
	// find a place too. Line is how many more may wait for such a place, for LineTime.
	Places         int
	Time, LineTime time.Duration
	Line           int
	// Silent is the time for which a contact without a first message keeps its place
	// against waiting callers; a Boot sends that message at once. Exchange is the same time
	// for a contact after its first message.
	Silent, Exchange time.Duration
	// Serve serves the stream of one. conn closes when it returns, and ctx ends when the
	// contact's time is up.
	Serve    func(ctx context.Context, conn net.Conn, state tls.ConnectionState)
	Counters *counters.Counters
	Log      *slog.Logger
}

// Server takes first contacts. Make it with [NewServer]; safe for concurrent use.
type Server struct {
	cfg     Config
	limiter *limit.Limiter
}

// NewServer makes a server; Take serves its contacts.
func NewServer(cfg Config) *Server {
	return &Server{cfg: cfg, limiter: limit.New(cfg.Places, cfg.Line, cfg.LineTime)}
}

// Waiting is how many first contacts stand in line.
func (s *Server) Waiting() int { return s.limiter.Waiting() }

// Take serves a first contact: one stream, to one place, for a limited time (OVL-06). A
// thousand Boots that start together wait in line and cost one handshake each, instead of
// one for each rejection. It closes conn.
func (s *Server) Take(ctx context.Context, conn *tls.Conn) {
	raw := conn.NetConn()
	defer raw.Close()
	place, ok := s.limiter.Enter(ctx, s.cfg.Silent, func() { raw.Close() })
	if !ok {
		s.cfg.Counters.Overloaded.Add(1)
		return
	}
	defer place.Leave()
	s.cfg.Counters.Admissions.Add(1)
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Time, errors.New("first contact took too long"))
	defer cancel()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	mux, err := yamux.Server(conn, Mux(s.cfg.Log))
	if err != nil {
		return
	}
	defer mux.Close()
	st, err := mux.AcceptStreamWithContext(ctx)
	if err != nil {
		return
	}
	// Any further stream is refused from here on.
	if err := mux.GoAway(); err != nil {
		return
	}
	s.cfg.Serve(ctx, &spoken{Conn: st, place: place, patience: s.cfg.Exchange}, conn.ConnectionState())
	// The caller closes after it has read its answer; closing first could drop an answer
	// that is still on its way.
	_ = st.Close()
	lingers := time.NewTimer(linger)
	defer lingers.Stop()
	select {
	case <-mux.CloseChan():
	case <-lingers.C:
	case <-ctx.Done():
	}
}

// spoken keeps a caller's place for longer once it has said something.
type spoken struct {
	net.Conn
	place    *limit.Place
	patience time.Duration
	once     sync.Once
}

func (s *spoken) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.once.Do(func() { s.place.GotOn(s.patience) })
	}
	return n, err
}
