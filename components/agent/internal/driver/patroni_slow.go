package driver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// askReadiness requests GET /readiness once slowAfter has passed: for the holder of the lock the
// answer depends on neither PostgreSQL nor the store. The returned function waits for the status;
// 0: no answer, or no request.
func (p *patroni) askReadiness(ctx context.Context) func() int {
	var (
		status int
		wg     sync.WaitGroup
	)
	wg.Go(func() {
		if pause(ctx, slowAfter, nil) {
			status, _, _ = call(ctx, p.client, http.MethodGet, p.base()+"/readiness", nil, nil)
		}
	})
	return func() int { wg.Wait(); return status }
}

// readBeside reads the cluster's view: at once, or with wait as soon as the caller needs the result
// or slowAfter has passed.
func (p *patroni) readBeside(ctx context.Context, wait bool) func() (patroniCluster, error) {
	var (
		cluster patroniCluster
		err     error
		now     = make(chan struct{})
		wg      sync.WaitGroup
	)
	wg.Go(func() {
		if !wait || pause(ctx, slowAfter, now) {
			cluster, err = p.cluster(ctx)
		}
	})
	return func() (patroniCluster, error) {
		close(now)
		wg.Wait()
		return cluster, err
	}
}

// pause ends with now or after d, and reports whether ctx is still active.
func pause(ctx context.Context, d time.Duration, now <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-now:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// unseen is the View of a member that did not report its state, from its other answers. The lock
// and its own report that it is ready still make it the leader. For any other member it is unknown
// whether it serves, even if its process answers: a slow state is no proof of a fault.
func (p *patroni) unseen(err error, cluster patroniCluster, clusterErr error, readiness int) View {
	v := View{Role: RoleUnknown}
	v.Liveness, _ = livenessOf(err)
	v.Message = "Patroni: " + hint(err)
	if v.Liveness == LivenessUnknown && (clusterErr == nil || readiness != 0) {
		v.Message += ", though it answers other questions"
		// Its state waits for a PostgreSQL that it starts again and again. The last report before a deadline is the
		// reason of a failed update, so each report has the cause.
		if fails := p.failsToStart(); fails != "" {
			v.Liveness, v.CaughtUp, v.Message = LivenessAlive, ptr(false), fails
		}
	}
	v.MayDisruptReason = v.Message
	if clusterErr != nil {
		return v
	}
	mine, _ := cluster.member(p.self)
	v.Leader, v.Epoch = cluster.leader(), mine.Timeline
	if mine.Role == "leader" && readiness == http.StatusOK {
		v.Liveness, v.Role, v.Ready, v.CaughtUp = LivenessAlive, RoleLeader, true, ptr(true)
	}
	return v
}

// withoutCluster returns the View of a member that reported its state while Patroni's store was
// slow. The last view of the cluster is used as far as the members themselves confirm it now: a
// primary on the timeline on which it had the lock, or a member that answers as primary and streams
// to this member. The View forbids a stop meanwhile. Without confirmation the member's role is
// unknown.
func (p *patroni) withoutCluster(ctx context.Context, v View, me patroniStatus, clusterErr error) View {
	_, why := livenessOf(clusterErr)
	if isTimeout(clusterErr) {
		why = fmt.Sprintf("no answer within %s", clusterBudget)
	}
	why = "Patroni has no cluster view: " + why
	p.mu.Lock()
	last, timeline := p.last, p.lastTimeline
	p.mu.Unlock()
	known := v
	leader, err := p.leaderOf(ctx, last, me)
	p.judge(&known, me, leader, err, last)
	follows := err == nil && leader.primary() && leader.Timeline == me.Timeline && leader.streams(p.self)
	if known.Role == RoleLeader && me.Timeline == timeline || known.Role != RoleLeader && follows {
		v = known
	} else {
		v.Liveness = LivenessUnknown
	}
	if v.Message == "" {
		v.Message = why
	}
	v.MayDisrupt, v.MayDisruptReason = false, why
	return v
}

// keep notes the last view of the cluster.
func (p *patroni) keep(cluster patroniCluster, me patroniStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.lastTimeline = cluster, me.Timeline
}
