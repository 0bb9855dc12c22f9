package consulproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/overlay"
)

const (
	// silence is how long a connection with open requests may be silent before it is pinged, and
	// answerWithin how long the answer to the ping may take. Together they are less than a second.
	silence      = 500 * time.Millisecond
	answerWithin = 450 * time.Millisecond
	// idleFor is how long a connection without requests is kept; coordinators keep it longer.
	idleFor = 4 * time.Minute
)

var (
	errSilent = fmt.Errorf("no answer to a ping within %v", answerWithin)
	errIdle   = errors.New("no requests")
)

// upstream is one connection to a coordinator. Safe for concurrent use.
type upstream struct {
	id   overlay.ID
	conn *watched
	h2   *http2.ClientConn

	open latestvalue.Value[int] // requests without their whole answer

	mu   sync.Mutex
	why  error         // guarded by mu; valid after left
	left chan struct{} // closed by leave
}

// transport has no connections of its own. A stream more than the coordinator takes waits
// for its turn.
var transport = &http2.Transport{AllowHTTP: true, DisableCompression: true, StrictMaxConcurrentStreams: true}

// connect starts HTTP/2 on conn and waits for proof that the other side answers. It owns conn.
func connect(ctx context.Context, id overlay.ID, conn net.Conn) (*upstream, error) {
	u := &upstream{id: id, conn: &watched{Conn: conn, ended: make(chan struct{})}, left: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var err error
	if u.h2, err = transport.NewClientConn(u.conn); err == nil {
		if err = u.h2.Ping(ctx); err == nil && stop() {
			return u, nil
		}
	}
	u.close()
	return nil, fmt.Errorf("%s: %w", id.Slot, errors.Join(err, context.Cause(ctx)))
}

// ask sends one request. Without an answer, sent reports that the request may have reached the
// coordinator. The answer's body must be closed.
func (u *upstream) ask(req *http.Request) (res *http.Response, sent bool, err error) {
	var begun atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		// The first field comes before the first byte of a request.
		WroteHeaderField: func(string, []string) { begun.Store(true) },
	}))
	u.open.Update(func(n int) int { return n + 1 })
	over := sync.OnceFunc(func() { u.open.Update(func(n int) int { return n - 1 }) })
	res, err = u.h2.RoundTrip(req)
	if err != nil {
		over()
		sent = begun.Load()
		if stream, is := errors.AsType[http2.StreamError](err); is && stream.Code == http2.ErrCodeRefusedStream {
			sent = false // the coordinator reports that it did not process the request
		}
		return nil, sent, err
	}
	res.Body = &ending{ReadCloser: res.Body, over: over}
	return res, true, nil
}

// leave stops new requests on this connection; open requests continue. The first reason counts.
func (u *upstream) leave(why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.left:
	default:
		u.why = why
		close(u.left)
	}
}

func (u *upstream) reason() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.why
}

// watch closes the connection, and with it all requests on it, when ctx ends, when the coordinator
// stops answering, and when it was left and no request is open any more.
func (u *upstream) watch(ctx context.Context) {
	defer u.close()
	timer := time.NewTimer(idleFor)
	defer timer.Stop()
	since := time.Now() // when there was last nothing open
	for {
		open, index := u.open.Get()
		left := u.left
		if open == 0 {
			since = time.Now()
			timer.Reset(idleFor)
			select {
			case <-u.left:
				return
			default:
			}
		} else {
			left = nil
			timer.Reset(time.Until(u.conn.heard(since).Add(silence)))
		}
		select {
		case <-ctx.Done():
			u.leave(context.Cause(ctx))
			return
		case <-u.conn.ended:
			u.leave(u.conn.err)
			return
		case <-left:
			return
		case <-u.open.Changed(index):
		case <-timer.C:
			if open == 0 {
				u.leave(errIdle)
				return
			}
			if time.Since(u.conn.heard(since)) < silence {
				continue
			}
			if err := u.ping(ctx); err != nil {
				u.leave(err)
				return
			}
		}
	}
}

func (u *upstream) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errSilent)
	defer cancel()
	if err := u.h2.Ping(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	return nil
}

// close ends the connection without a goodbye: an unresponsive peer would not read it.
func (u *upstream) close() {
	_ = u.conn.Close()
	if u.h2 != nil {
		_ = u.h2.Close()
	}
}

// watched is a connection that knows when it last brought something and why it ended.
type watched struct {
	net.Conn

	at    atomic.Int64 // Unix nanoseconds
	once  sync.Once
	ended chan struct{}
	err   error // valid after ended
}

// heard is when the last byte came, or since if no byte came after that.
func (w *watched) heard(since time.Time) time.Time {
	if at := time.Unix(0, w.at.Load()); at.After(since) {
		return at
	}
	return since
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.at.Store(time.Now().UnixNano())
	}
	if err != nil {
		w.once.Do(func() {
			w.err = fmt.Errorf("connection ended: %w", err)
			close(w.ended)
		})
	}
	return n, err
}

// ending calls over when the body is closed.
type ending struct {
	io.ReadCloser

	over func()
}

func (e *ending) Close() error {
	defer e.over()
	return e.ReadCloser.Close()
}
