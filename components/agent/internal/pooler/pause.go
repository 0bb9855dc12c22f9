package pooler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// pauseWithin is how long open transactions may take to end.
	pauseWithin = 2 * time.Second
	// quietWithin is how long a server's login that is under way is waited for. By Envoy and the
	// overlay a login takes some five round trips, a third of a second and more on a long way.
	quietWithin = pauseWithin - 500*time.Millisecond
	quietLook   = 2 * time.Millisecond
	// insistEvery paces the tries of a RESUME that failed.
	insistEvery = 100 * time.Millisecond
)

var (
	errDown = errors.New("the pooler does not run")
	errBusy = fmt.Errorf("transactions are open for longer than %v", pauseWithin)
	// errReleased ends a pause that is not reached yet.
	errReleased = errors.New("the hold was released before the pause was reached")
)

// pause is a pause that is reached, in progress, or not certainly over. Its fields are guarded by
// the Pooler's mu.
type pause struct {
	until time.Time
	// abort ends the wait for it.
	abort context.CancelCauseFunc
	timer *time.Timer
	// over: PgBouncer must be resumed; true until PgBouncer confirmed it.
	over bool
}

// Pause makes queries wait from now on, until [Pooler.Resume] or for limit, and returns when all
// transactions have ended. That takes at most 2 s: if a transaction is still open then, all clients
// continue and Pause returns an error. A pause in progress gets the new limit.
func (p *Pooler) Pause(ctx context.Context, limit time.Duration) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, pauseWithin, errBusy)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	now, err := p.beginPause(limit, abort) //nolint:contextcheck // its clock outlives this call
	if now == nil {
		return err
	}
	if err = p.pauseNow(ctx); err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // released meanwhile
	}
	p.mu.Lock()
	now.abort = nil
	if err == nil {
		p.stats.Pauses++
	} else {
		p.stats.PausesFailed++
	}
	p.mu.Unlock()
	if err != nil {
		// From another session: the first one waits for its answer.
		_, resumeErr := p.resumeNow(context.WithoutCancel(ctx))
		return errors.Join(fmt.Errorf("pause route %s: %w", p.cfg.Route, err), resumeErr)
	}
	return nil
}

// beginPause has the limit's clock run, before PgBouncer is asked for anything. Nil without
// an error: it is paused already.
func (p *Pooler) beginPause(limit time.Duration, abort context.CancelCauseFunc) (*pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running || !p.stats.Up {
		return nil, fmt.Errorf("pause route %s: %w", p.cfg.Route, errDown)
	}
	until := time.Now().Add(limit)
	if old := p.pause; old != nil && !old.over {
		old.until = until
		old.timer.Reset(limit)
		return nil, nil
	} else if old != nil {
		old.timer.Stop() // this one ends it
	}
	now := &pause{until: until, abort: abort}
	now.timer = time.AfterFunc(limit, func() { p.expire(now) })
	p.pause = now
	return now, nil
}

// pauseAgain pauses a PgBouncer that died within a pause and was restarted: new clients wait for
// the end of that pause. If the pause fails, all clients continue.
func (p *Pooler) pauseAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, pauseWithin, errBusy)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return
	}
	if p.pausedFor() == 0 {
		return
	}
	if err := p.pauseNow(ctx); err != nil {
		_, resumeErr := p.resumeNow(context.WithoutCancel(ctx))
		p.log.Warn("a pooler that died within a pause is not paused again", "error", errors.Join(err, resumeErr))
	}
}

func (p *Pooler) pauseNow(ctx context.Context) error {
	c, err := p.console(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	err = pauseOn(ctx, c)
	if refused, is := errors.AsType[*refusal](err); is && strings.Contains(refused.text, "already") {
		// An earlier resume got no answer. The console then reports no open transactions.
		if err := resume(ctx, c); err != nil {
			return err
		}
		err = pauseOn(ctx, c)
	}
	return err
}

func pauseOn(ctx context.Context, c *client) error {
	if err := quiet(ctx, c); err != nil {
		return err
	}
	_, err := c.query(ctx, "PAUSE")
	return err
}

// quiet prevents new logins to servers, and waits until none is in progress. PAUSE would break off
// such a login, and PgBouncer would take that for a failure: after the RESUME it would wait before
// the next login, and reject every query until then.
func quiet(ctx context.Context, c *client) error {
	// A full pool starts no login. Every resume restores the pool's size, in this worker or the
	// next.
	if _, err := c.query(ctx, "SET default_pool_size = 0"); err != nil {
		return err
	}
	tick := time.NewTicker(quietLook)
	defer tick.Stop()
	for began := time.Now(); ; {
		rows, err := c.query(ctx, "SHOW POOLS")
		if err != nil {
			return err
		}
		logins := 0
		for _, row := range rows {
			logins += number(row, "sv_login")
		}
		if logins == 0 || time.Since(began) > quietWithin {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Resume resumes queries and returns how many clients waited. Without a pause it does nothing. If
// PgBouncer rejects a command, the Pooler retries until it succeeds, even after Resume returned an
// error.
func (p *Pooler) Resume(ctx context.Context) (waited int, err error) {
	p.mu.Lock()
	now := p.pause
	if now != nil {
		now.over = true
		if now.abort != nil {
			now.abort(errReleased)
		}
	}
	p.mu.Unlock()
	if now == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*commandWithin, errSilent)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		p.insist(now) //nolint:contextcheck // it outlives this call
		return 0, context.Cause(ctx)
	}
	return p.resumeNow(ctx)
}

// resumeNow needs the turn. If it fails, another goroutine retries.
func (p *Pooler) resumeNow(ctx context.Context) (waited int, err error) {
	p.mu.Lock()
	now := p.pause
	if now != nil {
		now.over = true
	}
	p.mu.Unlock()
	if now == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandWithin, errSilent)
	defer cancel()
	c, err := p.console(ctx)
	if err == nil {
		defer c.close()
		if rows, err := c.query(ctx, "SHOW POOLS"); err == nil {
			for _, row := range rows {
				waited += number(row, "cl_waiting")
			}
		}
		err = resume(ctx, c)
	}
	if err == nil {
		p.endPause(now)
		return waited, nil
	}
	p.insist(now) //nolint:contextcheck // it outlives this call
	return waited, fmt.Errorf("resume route %s: %w", p.cfg.Route, err)
}

// resume ends a pause; without one it is done already.
func resume(ctx context.Context, c *client) error {
	if _, err := c.query(ctx, "SET default_pool_size = "+strconv.Itoa(poolSize)); err != nil { // see quiet
		return err
	}
	_, err := c.query(ctx, "RESUME")
	if refused, is := errors.AsType[*refusal](err); is && strings.Contains(refused.text, "not paused") {
		return nil
	}
	return err
}

// endPause forgets a pause that is over; nil: whichever there is.
func (p *Pooler) endPause(now *pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pause != nil && (now == nil || p.pause == now) {
		p.pause.timer.Stop()
		p.pause = nil
	}
}

// insist has the RESUME tried again soon.
func (p *Pooler) insist(now *pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running && p.pause == now {
		now.timer.Stop()
		now.timer = time.AfterFunc(insistEvery, func() { p.expire(now) })
	}
}

// expire is the pause's own time limit, for a pause that no caller ended.
func (p *Pooler) expire(now *pause) {
	p.mu.Lock()
	if p.pause != now || !p.running || !now.over && time.Now().Before(now.until) {
		p.mu.Unlock()
		return // it is over, or got more time
	}
	first := !now.over
	if first {
		p.stats.PausesExpired++
	}
	now.over = true
	// Run waits for it.
	p.parts.Go(func() {
		waited, err := p.Resume(context.Background())
		if first || err == nil {
			p.log.Warn("a pause ended by its limit", "connections", waited, "error", err)
		}
	})
	p.mu.Unlock()
}

// pausedFor is how long the pause that there is may still last; 0: none.
func (p *Pooler) pausedFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pause == nil || p.pause.over {
		return 0
	}
	return max(0, time.Until(p.pause.until))
}

// Reconnect has servers that are connected now replaced, each when its transaction is over:
// the leader may be another, and the one before may still answer, as a follower.
func (p *Pooler) Reconnect(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandWithin, errSilent)
	defer cancel()
	c, err := p.console(ctx)
	if err == nil {
		defer c.close()
		_, err = c.query(ctx, "RECONNECT")
	}
	if err != nil {
		return fmt.Errorf("reconnect route %s: %w", p.cfg.Route, err)
	}
	return nil
}
