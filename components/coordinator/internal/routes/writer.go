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

// Writer is a duty of the leader. Its methods are safe for concurrent use.
type Writer struct {
	cfg    Config
	client *consul.Client
	log    *slog.Logger
	failed atomic.Bool

	mu   sync.Mutex
	last done // guarded by mu
}

// Intervals of the loop.
const (
	// resync is the interval of comparing Consul's entries with the desired ones.
	resync = 5 * time.Minute
	// foreignWait is the interval while a foreign entry blocks a change: no event reports its
	// removal.
	foreignWait = 30 * time.Second
	// again is the pause after a conflicting write, until the View has it.
	again = 200 * time.Millisecond
	// errorWait is the pause after an error.
	errorWait = 2 * time.Second
	// passLimit bounds one pass.
	passLimit = time.Minute
)

// New returns a Writer; it does not connect.
func New(cfg Config) (*Writer, error) {
	client, err := consul.NewClient(&consul.Config{Address: cfg.Address, Token: cfg.Token,
		Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, DisableCompression: true}})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &Writer{cfg: cfg, client: client, log: cfg.Log}, nil
}

// Failing reports whether the service layer differs from the specs while this coordinator leads.
func (w *Writer) Failing() bool { return w.failed.Load() }

// done is the result of a pass of this Term.
type done struct {
	inputs inputs
	until  time.Time
	// left is the error about parts that could not be decided.
	left error
}

// Lead works until the Lease or ctx ends.
func (w *Writer) Lead(ctx context.Context, lease store.Lease) {
	defer func() {
		w.failed.Store(false)
		w.remember(done{}) // a new leader compares everything
	}()
	lastLogged := ""
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
			if text := err.Error(); text != lastLogged {
				w.log.Warn("routes are not what the specs ask for", "term", lease.Term(), "error", err)
				lastLogged = text
			}
		default:
			w.failed.Store(false)
			lastLogged = ""
		}
		if in <= errorWait {
			changed = nil // a failed pass is retried at its own interval, also after other changes
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

// pass brings everything to the desired state, and returns the time until the next pass.
func (w *Writer) pass(ctx context.Context, lease store.Lease) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	// A stale View only makes a write fail on its index.
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
	// An unreadable record stops only the parts that may depend on it: a removed permission is
	// still revoked.
	known, missing, unread := v.RoutesKnown()
	decided, undecided := route.DecidePartly(known, missing)
	undecided = errors.Join(unread, undecided)
	wrote, err := w.record(ctx, lease, v, decided.Decided)
	if errors.Is(err, store.ErrConflict) {
		return again, err
	}
	// A part that cannot be recorded does not stop the others.
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

// stands reports whether the result of the last pass is still current for the inputs, and for how
// long.
func (w *Writer) stands(now time.Time, rests inputs) (last done, left time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left = w.last.until.Sub(now)
	return w.last, left, left > 0 && rests.equal(w.last.inputs)
}

// inputs are the inputs of a decision, by the indices of their records.
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
