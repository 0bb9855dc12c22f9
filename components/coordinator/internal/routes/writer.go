package routes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/route"
	"cadre.dev/store"
)

// Config of a Writer. All fields are required.
type Config struct {
	// Address (host:port) of the local Consul, and the management token.
	Address, Token string
	Store          store.Store
	Views          *view.Watcher
	Now            func() time.Time
	Log            *slog.Logger
}

// Writer is the leader's duty. Its methods are safe for concurrent use.
type Writer struct {
	cfg    Config
	client *consul.Client
	log    *slog.Logger
	failed atomic.Bool

	mu   sync.Mutex
	last done // guarded by mu
}

// Paces of the loop.
const (
	// resync is how often Consul is asked whether its entries are what they should be.
	resync = 5 * time.Minute
	// foreignWait is how often it is asked while somebody else's entry is in the way: nothing
	// tells when that goes.
	foreignWait = 30 * time.Second
	// again follows what somebody else wrote meanwhile: the View will have it then.
	again = 200 * time.Millisecond
	// errorWait follows what could not be done.
	errorWait = 2 * time.Second
	// passLimit bounds one look and its writes.
	passLimit = time.Minute
)

// New makes a Writer; it does not connect.
func New(cfg Config) (*Writer, error) {
	client, err := consul.NewClient(&consul.Config{Address: cfg.Address, Token: cfg.Token,
		Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, DisableCompression: true}})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &Writer{cfg: cfg, client: client, log: cfg.Log}, nil
}

// Failing reports whether something of the service layer is not as the specs ask for, while
// this coordinator leads.
func (w *Writer) Failing() bool { return w.failed.Load() }

// done is what a pass of this Term has brought about.
type done struct {
	inputs inputs
	until  time.Time
	// left is what could not be decided.
	left error
}

// Lead works until the Lease or ctx ends.
func (w *Writer) Lead(ctx context.Context, lease store.Lease) {
	defer func() {
		w.failed.Store(false)
		w.remember(done{}) // a new leader looks at everything
	}()
	told := ""
	for ctx.Err() == nil {
		_, changed := w.cfg.Views.Latest()
		in, err := w.pass(ctx, lease)
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrFenced):
			return
		case errors.Is(err, store.ErrConflict), errors.Is(err, errChanged):
			in = again
		case err != nil:
			w.failed.Store(true)
			if text := err.Error(); text != told {
				w.log.Warn("routes are not what the specs ask for", "term", lease.Term(), "error", err)
				told = text
			}
		default:
			w.failed.Store(false)
			told = ""
		}
		if in <= errorWait {
			changed = nil // what failed is tried at its own pace, whatever else changes
		}
		timer := time.NewTimer(in)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass brings everything to what it should be, and says when to look again.
func (w *Writer) pass(ctx context.Context, lease store.Lease) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	// What is behind in the View makes a write fail on its index, and nothing else.
	v, _ := w.cfg.Views.Latest()
	if v == nil {
		var err error
		if v, err = view.Read(ctx, w.cfg.Store); err != nil {
			return errorWait, err
		}
	}
	now, rests := w.cfg.Now(), inputsOf(v)
	if last, left, stands := w.stands(now, rests); stands {
		return left, last.left
	}
	// A record that cannot be read stops nothing but what may rest on it: who may not call any
	// more is taken away all the same.
	known, missing, unread := v.RoutesKnown()
	decided, undecided := route.DecidePartly(known, missing)
	undecided = errors.Join(unread, undecided)
	wrote, err := w.record(ctx, lease, v, decided.Decided)
	if errors.Is(err, store.ErrConflict) {
		return again, err
	}
	// A part that cannot be recorded keeps nobody from calling the others.
	left, failed := w.configure(ctx, decided)
	if err = errors.Join(err, failed); err != nil {
		return errorWait, errors.Join(undecided, left, err)
	}
	holds := resync
	if left != nil {
		holds, undecided = foreignWait, errors.Join(undecided, left)
	}
	if !wrote {
		w.remember(done{inputs: rests, until: now.Add(holds), left: undecided})
	}
	return holds, undecided
}

func (w *Writer) remember(last done) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = last
}

// stands reports whether what was brought about last is still what a decision by rests would
// bring about, and for how long that counts.
func (w *Writer) stands(now time.Time, rests inputs) (last done, left time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left = w.last.until.Sub(now)
	return w.last, left, left > 0 && rests.equal(w.last.inputs)
}

// inputs is what a decision rests on, by the indices of the records.
type inputs struct {
	accepted, stored, routes, meshes, bad map[string]uint64
}

func inputsOf(v *view.View) inputs {
	out := inputs{map[string]uint64{}, map[string]uint64{}, map[string]uint64{}, map[string]uint64{}, map[string]uint64{}}
	for name, a := range v.Accepted {
		out.accepted[name] = a.Index
	}
	for name, s := range v.Specs {
		if out.accepted[name] == 0 {
			out.stored[name] = s.Index
		}
	}
	for name, r := range v.Routes {
		out.routes[name] = r.Index
	}
	for name, m := range v.ServiceMeshes {
		out.meshes[name] = m.Index
	}
	for _, b := range v.Bad {
		out.bad[b.Key] = b.Index
	}
	return out
}

func (i inputs) equal(o inputs) bool {
	return maps.Equal(i.accepted, o.accepted) && maps.Equal(i.stored, o.stored) && maps.Equal(i.routes, o.routes) &&
		maps.Equal(i.meshes, o.meshes) && maps.Equal(i.bad, o.bad)
}
