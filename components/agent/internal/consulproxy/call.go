package consulproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"cadre.dev/overlay"
)

const (
	// withoutFor is how long the Proxy avoids a coordinator that reported no Consul, and lostFor a
	// coordinator that did not answer: by then its Session has ended.
	withoutFor = time.Second
	lostFor    = 10 * time.Second
	// moves bounds how often one request goes from one coordinator to the next.
	moves = 8
	// whole is how much of an answer to a repeatable request is buffered before its first byte is
	// passed on: the client does not notice if a coordinator dies within that much.
	whole = 64 << 10
)

// errWithout is why a coordinator is left that answers, and cannot ask its Consul.
var errWithout = errors.New("it cannot reach its consul")

// errUnsure reports a request that may have had its effect: its coordinator went away
// before the answer came.
var errUnsure = errors.New("the coordinator went away before it answered, and the request may have had its effect")

// call is one request of a workload, until it is answered.
type call struct {
	method string
	url    url.URL
	header http.Header
	body   *counted // nil: none
	length int64    // of body; -1: not known
	began  time.Time
}

// request returns the request for the present try.
func (c *call) request(ctx context.Context) *http.Request {
	u := c.url
	u.Scheme, u.Host = "http", "consul"
	u.RawQuery = remaining(u.RawQuery, time.Since(c.began))
	req := (&http.Request{Method: c.method, URL: &u, Host: u.Host, Header: c.header, ContentLength: c.length}).WithContext(ctx)
	if c.body != nil {
		req.Body = c.body
	}
	return req
}

func (c *call) repeatable(sent bool) bool {
	return repeatable(c.method, c.url.Path, sent, c.body != nil && c.body.touched.Load())
}

// answer has one coordinator after the other asked until there is an answer, whose body
// must be closed. The error is [errUnsure], errNone, why ctx ended, or of c's body.
func (d *Proxy) answer(ctx context.Context, c *call) (*http.Response, error) {
	asked := map[overlay.ID]bool{}
	for move := 0; ; move++ {
		u, err := d.upstream(ctx)
		if err != nil {
			return nil, err
		}
		res, sent, err := u.ask(c.request(ctx))
		if err == nil && c.repeatable(true) {
			err = c.take(res)
		}
		last := move+1 >= moves
		switch {
		case err == nil && elsewhere(res.StatusCode):
			if moved := d.moveOn(u, fmt.Errorf("%w: it answers %s", errWithout, res.Status)); !moved || last || asked[u.id] || !c.repeatable(true) {
				return res, nil
			}
			_ = res.Body.Close()
		case err == nil:
			return res, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case c.body.failed() != nil:
			return nil, c.body.failed()
		default:
			u.leave(err)
			switch {
			case !c.repeatable(sent):
				return nil, fmt.Errorf("%w: %s: %w", errUnsure, u.id.Slot, err)
			case last:
				return nil, fmt.Errorf("%w: %s: %w", errNone, u.id.Slot, err)
			}
		}
		asked[u.id] = true
	}
}

// elsewhere reports an answer of a coordinator that cannot ask its Consul; another one can.
func elsewhere(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable
}

// moveOn moves requests from u, which cannot reach its Consul, to another coordinator. It keeps u
// if all other coordinators with a Session recently reported the same, as they do while Consul has
// no leader: otherwise all members would move from one coordinator to the next, again and again.
func (d *Proxy) moveOn(u *upstream, why error) (moved bool) {
	way := d.state.Load().way
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-u.left:
		return true // it is left already
	default:
	}
	if way == nil {
		return false
	}
	now := time.Now()
	d.without[u.id] = now
	for _, c := range way.Coordinators() {
		if c.Up && c.ID != u.id && now.Sub(d.without[c.ID]) >= withoutFor && now.Sub(d.lost[c.ID]) >= lostFor {
			u.leave(why)
			return true
		}
	}
	return false
}

// lose notes that coordinators do not answer.
func (d *Proxy) lose(ids ...overlay.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.lost[id] = time.Now()
	}
}

// take reads the answer to its end, or to the bound, before the client gets a byte of it.
func (c *call) take(res *http.Response) error {
	if c.method == http.MethodHead {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(res.Body, whole))
	if err != nil {
		_ = res.Body.Close()
		return err
	}
	if len(head) < whole {
		res.ContentLength = int64(len(head))
	}
	res.Body = &joined{Reader: io.MultiReader(bytes.NewReader(head), res.Body), Closer: res.Body}
	return nil
}

type joined struct {
	io.Reader
	io.Closer
}

// counted is a request's body that records whether any of it was read. Read and Close may run
// concurrently, also with its other methods.
type counted struct {
	io.Reader

	// stop has a Read under way, and all later ones, fail at once.
	stop    func()
	touched atomic.Bool
	err     atomic.Pointer[error] // of Read; io.EOF too
}

func (c *counted) Read(p []byte) (int, error) {
	c.touched.Store(true)
	n, err := c.Reader.Read(p)
	if err != nil {
		c.err.Store(&err)
	}
	return n, err
}

// Close keeps an unread body open for the next coordinator. A body that was read in part is closed,
// without waiting for its rest.
func (c *counted) Close() error {
	if c.touched.Load() && c.err.Load() == nil {
		c.stop()
	}
	return nil
}

// cut reports that reading of the body stopped early: its answer came before its end.
func (c *counted) cut() bool {
	if c == nil || !c.touched.Load() {
		return false
	}
	err := c.err.Load()
	return err == nil || !errors.Is(*err, io.EOF)
}

// failed is why reading the body ended before its end; nil: it did not.
func (c *counted) failed() error {
	if c == nil {
		return nil
	}
	if err := c.err.Load(); err != nil && !errors.Is(*err, io.EOF) && !errors.Is(*err, os.ErrDeadlineExceeded) {
		return *err
	}
	return nil
}
