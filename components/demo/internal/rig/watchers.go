package rig

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// memberEvery and routeEvery pace the questions to each member and over the route, and so
	// are how exact a moment is. Over the route each is a connection with a handshake of two
	// Envoys, which takes time of the cores that the hand-over needs.
	memberEvery = 10 * time.Millisecond
	routeEvery  = 20 * time.Millisecond
	// lookWithin bounds one question; a route may hold one back for 5 s.
	lookWithin = 10 * time.Second
)

// switched is the watchers' observation of one hand-over.
type switched struct {
	// leader is the Slot that took over. took is the time of its first direct answer that it takes
	// writes, reached the time of the first such answer over the route.
	leader        string
	took, reached time.Time
	// refused are the queries over the route without an answer, stale the queries that a member
	// without writes answered.
	refused, stale int
}

// watchers query, until both moments are known: every member except the leader, over its Peer VIP,
// and the route, over a new connection each time.
type watchers struct {
	from  *inside
	route string

	mu   sync.Mutex
	seen switched             // guarded by mu
	took map[string]time.Time // guarded by mu; by Slot
	over *answered            // guarded by mu; the first of another leader over the route
}

// answered is the member that answered over the route that it takes writes, and the time.
type answered struct {
	slot string
	at   time.Time
}

// watch queries until the new leader was reached or ctx ends, and returns its observations. It
// calls begin once it queries.
func (w *watchers) watch(ctx context.Context, leader string, members []string, begin func() error) (switched, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.took = map[string]time.Time{}
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	reached := make(chan struct{})
	judge := sync.OnceFunc(func() { close(reached) })
	for _, slot := range members {
		if slot != leader {
			all.Go(func() { w.askMember(ctx, slot, judge) })
		}
	}
	all.Go(func() { w.askRoute(ctx, leader, judge) })
	if err := begin(); err != nil {
		return switched{}, err
	}
	select {
	case <-reached:
	case <-ctx.Done():
		return switched{}, errors.Join(errors.New("the route did not reach another leader"), context.Cause(ctx))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen, nil
}

// each calls ask at every beat until it is content or ctx ends.
func each(ctx context.Context, every time.Duration, ask func(context.Context) bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !ask(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// askMember queries one member over an open connection.
func (w *watchers) askMember(ctx context.Context, slot string, judge func()) {
	each(ctx, memberEvery, func(ctx context.Context) bool {
		bounded, cancel := context.WithTimeout(ctx, lookWithin)
		conn, err := w.from.connect(bounded, slot)
		cancel()
		if err != nil {
			return false
		}
		defer hangUpOn(ctx, conn)
		content := false
		each(ctx, memberEvery, func(ctx context.Context) bool {
			bounded, cancel := context.WithTimeout(ctx, lookWithin)
			defer cancel()
			var recovers bool
			if err := conn.QueryRow(bounded, "SELECT pg_is_in_recovery()").Scan(&recovers); err != nil {
				return true // with another connection
			}
			content = !recovers
			return content
		})
		if content {
			at := time.Now()
			w.note(func() { w.took[slot] = at }, judge)
		}
		return content
	})
}

// askRoute queries the member behind the route.
func (w *watchers) askRoute(ctx context.Context, leader string, judge func()) {
	each(ctx, routeEvery, func(ctx context.Context) bool {
		slot, recovers, err := w.askOnce(ctx)
		at := time.Now()
		content := err == nil && !recovers && slot != leader
		w.note(func() {
			switch {
			case ctx.Err() != nil:
			case err != nil:
				w.seen.refused++
			case recovers:
				w.seen.stale++
			case content:
				w.over = &answered{slot, at}
			}
		}, judge)
		return content
	})
}

func (w *watchers) askOnce(ctx context.Context) (slot string, recovers bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	conn, err := w.from.connect(ctx, w.route)
	if err != nil {
		return "", false, err
	}
	defer hangUpOn(ctx, conn)
	err = conn.QueryRow(ctx, "SELECT coalesce(current_setting('cadre.slot', true), ''), pg_is_in_recovery()").Scan(&slot, &recovers)
	return slot, recovers, err
}

// note records an observation, and decides whether it was the last one.
func (w *watchers) note(what func(), judge func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
	if w.over == nil {
		return
	}
	took, is := w.took[w.over.slot]
	if !is {
		return // the route was faster than the look at the member
	}
	w.seen.leader, w.seen.took, w.seen.reached = w.over.slot, took, w.over.at
	judge()
}
