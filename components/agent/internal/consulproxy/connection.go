package consulproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/overlay"
)

const (
	// waitFor is how long a request waits while there is no coordinator.
	waitFor = 2 * time.Second
	// stagger is how long one coordinator may take to answer before the next one is tried in
	// parallel, and connectFor how long any may take.
	stagger    = 250 * time.Millisecond
	connectFor = 2 * time.Second
	// tryEvery paces the tries while requests wait and no coordinator answers.
	tryEvery = 200 * time.Millisecond
)

var (
	errNone = errors.New("no coordinator answers")
	errLate = fmt.Errorf("%w within %v", errNone, connectFor)
)

// upstream is the connection in use. While there is none it waits for one, for waitFor.
func (d *Proxy) upstream(ctx context.Context) (*upstream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitFor, errNone)
	defer cancel()
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	for {
		u, index := d.current.Get()
		if u != nil {
			select {
			case <-u.left:
			default:
				return u, nil
			}
		}
		select {
		case d.wanted <- struct{}{}:
		default:
		}
		select {
		case <-d.current.Changed(index):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// keepConnected connects to a coordinator when a request needs one, and again when the Proxy leaves
// it, until ctx ends.
func (d *Proxy) keepConnected(ctx context.Context) {
	failed := map[overlay.ID]time.Time{}
	unreached := ""
	for {
		select {
		case <-d.wanted:
		case <-ctx.Done():
			return
		}
		u, err := d.connect(ctx, failed)
		if err != nil {
			if text := err.Error(); ctx.Err() == nil && text != unreached {
				d.log.Warn("no coordinator carries consul requests", "error", err)
				unreached = text
			}
			d.again(ctx)
			continue
		}
		unreached = ""
		d.log.Info("consul requests now go to this coordinator", "coordinator", u.id.Slot)
		d.parts.Go(func() { u.watch(ctx) })
		d.current.Set(u)
		<-u.left // ctx's end is one reason
		d.current.Set(nil)
		if why := u.reason(); !errors.Is(why, errIdle) && ctx.Err() == nil {
			failed[u.id] = time.Now()
			if !errors.Is(why, errWithout) {
				d.lose(u.id)
			}
			d.log.Info("consul requests leave this coordinator", "coordinator", u.id.Slot, "error", why)
		}
		// A request that waited for this connection may have asked once more while it was made. That
		// wish would open the next connection for no request.
		select {
		case <-d.wanted:
		default:
		}
		if d.waiting.Load() > 0 {
			d.want()
		}
	}
}

// again starts another try after a moment, if a request still waits then.
func (d *Proxy) again(ctx context.Context) {
	timer := time.NewTimer(tryEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if d.waiting.Load() > 0 {
		d.want()
	}
}

func (d *Proxy) want() {
	select {
	case d.wanted <- struct{}{}:
	default:
	}
}

// connect tries the coordinators in their order, with overlap, and takes the first answering
// coordinator. It records the failures of the others.
func (d *Proxy) connect(ctx context.Context, failed map[overlay.ID]time.Time) (*upstream, error) {
	way := d.state.Load().way
	if way == nil {
		return nil, errNone
	}
	began := time.Now()
	maps.DeleteFunc(failed, func(_ overlay.ID, at time.Time) bool { return began.Sub(at) >= forgiveAfter })
	todo := Order(way.Self, way.Coordinators(), failed, began)
	if len(todo) == 0 {
		return nil, fmt.Errorf("%w: the peer map has none", errNone)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectFor, errLate)
	defer cancel()
	type result struct {
		id  overlay.ID
		up  *upstream
		err error
	}
	results := make(chan result)
	over := make(chan struct{})
	defer close(over)
	next := time.NewTimer(0)
	defer next.Stop()
	var errs error
	open := map[overlay.ID]bool{}
	for len(open) > 0 || len(todo) > 0 {
		start := next.C
		if len(todo) == 0 {
			start = nil
		}
		select {
		case <-start:
			id := todo[0]
			todo = todo[1:]
			open[id] = true
			next.Reset(stagger)
			d.parts.Go(func() {
				up, err := way.connect(ctx, id)
				select {
				case results <- result{id, up, err}:
				case <-over:
					if err == nil {
						up.close()
					}
				}
			})
		case r := <-results:
			delete(open, r.id)
			if r.err == nil {
				d.lose(slices.Collect(maps.Keys(open))...) // they had longer
				return r.up, nil
			}
			failed[r.id] = time.Now()
			d.lose(r.id)
			errs = errors.Join(errs, r.err)
			next.Reset(0)
		}
	}
	return nil, errs
}

func (w *Way) connect(ctx context.Context, id overlay.ID) (*upstream, error) {
	conn, err := w.Dial(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id.Slot, err)
	}
	return connect(ctx, id, conn)
}
