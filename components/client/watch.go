package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// View is a group at one moment.
type View struct {
	Status group.Status `json:"status"`
	Plan   rollout.Plan `json:"plan"`
	At     time.Time    `json:"at"`
}

// Watch calls see with the group's view at once and after each change, until see returns false or
// an error, or ctx ends. It outlives coordinators: while none answers it calls lost (may be nil)
// and reconnects with back-off. index is that of a stored spec, 0 for none: a coordinator that has
// not seen the group yet is asked again for a while.
func (c *Client) Watch(ctx context.Context, name string, index uint64, see func(View) (bool, error), lost func(error)) error {
	pause := 200 * time.Millisecond
	heardBy := time.Now().Add(propagationLimit)
	for {
		got, err := c.watchOnce(ctx, name, see)
		if err == nil || errors.Is(err, errStop) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch k := KindOf(err); {
		case k == Internal && status.Code(errors.Unwrap(err)) == codes.Internal:
			// A coordinator between two leaders of its store answers like this; another may not.
			if lost != nil {
				lost(err)
			}
		case k == NotFound && index > 0 && time.Now().Before(heardBy):
		case k != Unavailable && k != Timeout:
			return err
		case lost != nil:
			lost(err)
		}
		if got {
			pause = 200 * time.Millisecond
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// propagationLimit is the maximum time until every coordinator has seen a write.
const propagationLimit = 15 * time.Second

var errStop = errors.New("stop")

func (c *Client) watchOnce(ctx context.Context, name string, see func(View) (bool, error)) (got bool, err error) {
	doing := "watch group " + name
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.api.WatchGroup(ctx, &apiv1.WatchGroupRequest{Group: name})
	if err != nil {
		return false, c.wrap(doing, err)
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = status.Error(codes.Unavailable, "the coordinator ended the stream")
			}
			return got, c.wrap(doing, err)
		}
		got = true
		v := View{At: r.GetAt().AsTime()}
		if err := decode(doing, r.GetStatusJson(), &v.Status); err != nil {
			return got, err
		}
		if err := decode(doing, r.GetPlanJson(), &v.Plan); err != nil {
			return got, err
		}
		more, err := see(v)
		if err != nil {
			return got, err
		}
		if !more {
			return got, errStop
		}
	}
}

// Look returns the group's current view. Kind NotFound when the group does not exist. Kind
// Unavailable when no coordinator answered within the client's call timeout, even if ctx lasts
// longer.
func (c *Client) Look(ctx context.Context, name string) (View, error) { return c.look(ctx, name, nil) }

// look is Look, and reports each unanswered try to lost (may be nil).
func (c *Client) look(ctx context.Context, name string, lost func(error)) (View, error) {
	within, cancel := c.bound(ctx)
	defer cancel()
	var v View
	var last *Error
	err := c.Watch(within, name, 0, func(seen View) (bool, error) {
		v = seen
		return false, nil
	}, func(err error) {
		errors.As(err, &last)
		call(lost, err)
	})
	if err != nil && within.Err() != nil && ctx.Err() == nil && last != nil {
		away := *last
		away.Kind = Unavailable
		return v, &away
	}
	return v, err
}

// WaitOptions are the target and the callbacks of Wait. The functions may be nil; all are called
// from one goroutine.
type WaitOptions struct {
	// Index of the awaited spec; statuses of older ones do not count.
	Index uint64
	// Revision of the spec; empty: the current one.
	Revision string
	// Follow continues after the verdict, until ctx ends.
	Follow bool
	// See receives each view, Lost each loss of the connection, Tick a call each second.
	See  func(View)
	Lost func(error)
	Tick func()
}

// pauseGrace is how long a pause must show before it counts: a coordinator may not have seen a
// recent resume yet.
const pauseGrace = 3 * time.Second

// Wait watches until Outcome has a verdict or ctx ends, and then returns the verdict or the cause.
func (c *Client) Wait(ctx context.Context, name string, o WaitOptions) error {
	watching, stop := context.WithCancel(ctx)
	views, lost, ended := make(chan View), make(chan error), make(chan error, 1)
	go func() {
		ended <- c.Watch(watching, name, o.Index, func(v View) (bool, error) {
			select {
			case views <- v:
				return true, nil
			case <-watching.Done():
				return false, nil
			}
		}, func(err error) {
			select {
			case lost <- err:
			case <-watching.Done():
			}
		})
	}()
	finish := func(verdict error) error {
		stop()
		<-ended
		return verdict
	}
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	var paused *RolloutError
	var pausedAt time.Time
	for {
		select {
		case v := <-views:
			call(o.See, v)
			done, err := Outcome(v, o.Index, o.Revision)
			stopped := (*RolloutError)(nil)
			if errors.As(err, &stopped) && stopped.State == operation.PausedState {
				if paused == nil {
					pausedAt = time.Now()
				}
				paused = stopped
				continue
			}
			paused = nil
			if !o.Follow && (done || err != nil) {
				return finish(err)
			}
		case err := <-lost:
			call(o.Lost, err)
		case <-beat.C:
			if o.Tick != nil {
				o.Tick()
			}
			if paused != nil && !o.Follow && time.Since(pausedAt) >= pauseGrace {
				return finish(paused)
			}
		case err := <-ended:
			stop()
			if err == nil {
				err = context.Cause(ctx)
			}
			return err
		}
	}
}

func call[T any](fn func(T), v T) {
	if fn != nil {
		fn(v)
	}
}
