package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// patroniTransferLimit bounds a switchover including its confirmation: Patroni
// demotes as long as PostgreSQL needs for its shutdown checkpoint.
const patroniTransferLimit = 60 * time.Second

// patroniPrepareLimit bounds how long a Transfer is delayed. PostgreSQL finishes a checkpoint even
// if its client has gone.
const patroniPrepareLimit = 30 * time.Second

// patroniChoiceLimit bounds the look for candidates before callers wait. Transfer itself looks for
// a candidate if Prepare found none in time.
const patroniChoiceLimit = 5 * time.Second

// Prepare implements Preparer: a checkpoint, then the choice, which is as young as it can be.
func (p *patroni) Prepare(ctx context.Context, r TransferRequest) (TransferRequest, error) {
	late := p.checkpoint(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, patroniChoiceLimit,
		fmt.Errorf("candidates were not checked within %s", patroniChoiceLimit))
	defer cancel()
	found, err := p.look(ctx, r, nil)
	if err == nil && found.leader == "" {
		r.Chosen = Choice{Candidate: found.target, Epoch: found.epoch}
	}
	return r, errors.Join(err, late)
}

// checkpoint makes the primary write out its changes, through Patroni's own connection. Only
// cadre-patroni offers that, so a missing endpoint is no failure.
func (p *patroni) checkpoint(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patroniPrepareLimit,
		fmt.Errorf("checkpoint was not done within %s", patroniPrepareLimit))
	defer cancel()
	header, err := p.authorization()
	if err != nil {
		return err
	}
	status, answer, err := call(ctx, p.client, http.MethodPost, p.base()+"/checkpoint", header, nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("checkpoint: %w", err)
	case status == http.StatusNotImplemented, status == http.StatusNotFound, status == http.StatusOK:
		return nil
	default:
		return fmt.Errorf("checkpoint: status %d: %s", status, cmp.Or(accessHint(status), strings.TrimSpace(string(answer))))
	}
}

// Transfer makes a switchover to the candidate of Prepare, or to its own choice. Patroni has the
// final decision about a candidate. If Patroni refuses and this member still leads, Transfer
// requests the next candidate, one at a time.
func (p *patroni) Transfer(ctx context.Context, r TransferRequest) (Transferred, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patroniTransferLimit,
		fmt.Errorf("switchover was not confirmed within %s", patroniTransferLimit))
	defer cancel()
	refused := refusals{}
	next := looked{target: r.Chosen.Candidate, epoch: r.Chosen.Epoch}
	if !p.still(ctx, r) {
		next = looked{}
	}
	for {
		if next.target == "" {
			var err error
			if next, err = p.look(ctx, r, refused); err != nil || next.leader != "" {
				return Transferred{Leader: next.leader, Epoch: next.epoch}, err
			}
		}
		out, err := p.switchTo(ctx, next.target, next.epoch)
		if !errors.Is(err, ErrUnsafe) && !errors.Is(err, ErrBusy) {
			return out, err
		}
		refused[next.target] = err
		next = looked{}
	}
}

// refusals are Patroni's own, by candidate, within one Transfer.
type refusals map[string]error

// kind is the error of the Transfer when no candidate is left: a retry may help if Patroni refused
// a candidate only for the moment.
func (r refusals) kind() error {
	for _, err := range r {
		if errors.Is(err, ErrBusy) {
			return ErrBusy
		}
	}
	return ErrUnsafe
}

// looked is the result of a look at the cluster: the candidate that can take over from this member,
// or the current leader if it is another member.
type looked struct {
	target, leader string
	epoch          uint64
}

// look collects all facts for a switchover. The cluster's view is a read of Patroni's store.
func (p *patroni) look(ctx context.Context, r TransferRequest, refused refusals) (looked, error) {
	var me patroniStatus
	statusErr := p.local(ctx, "/patroni", &me)
	cluster, err := p.cluster(ctx)
	if err := errors.Join(statusErr, err); err != nil {
		return looked{}, fmt.Errorf("%w: %w", ErrTransient, err)
	}
	switch leader := cluster.leader(); {
	case leader == "":
		return looked{}, fmt.Errorf("%w: the cluster has no leader now", ErrTransient)
	case leader != p.self:
		return looked{leader: leader, epoch: me.Timeline}, nil
	case r.ExpectedLeader != p.self:
		return looked{}, fmt.Errorf("%w: %s leads, but %q was expected to", ErrUnsafe, p.self, r.ExpectedLeader)
	}
	if why := busy(p.self, me, cluster); len(why) > 0 {
		return looked{}, fmt.Errorf("%w: %s", ErrBusy, why[0])
	}
	target, err := p.choose(ctx, r.Candidates, me, cluster, refused)
	if err != nil {
		return looked{}, err
	}
	return looked{target: target, epoch: me.Timeline}, nil
}

// still reports whether the chosen candidate can take over now, from the two members' own reports,
// requested at once. Patroni itself checks the store before it switches: lock, synchronous replica
// and nofailover tags.
func (p *patroni) still(ctx context.Context, r TransferRequest) bool {
	name := r.Chosen.Candidate
	if name == "" || name == p.self || r.ExpectedLeader != p.self || !slices.Contains(r.Candidates, name) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	var (
		me, their     patroniStatus
		mine, theirs  error
		bothAreAsking sync.WaitGroup
	)
	bothAreAsking.Go(func() { mine = p.local(ctx, "/patroni", &me) })
	bothAreAsking.Go(func() { theirs = p.remote(ctx, name, &their) })
	bothAreAsking.Wait()
	return mine == nil && theirs == nil && me.primary() && me.Timeline == r.Chosen.Epoch && me.streams(name) &&
		len(busy(p.self, me, patroniCluster{})) == 0 && p.follows(me, their) == nil
}

// switchTo requests a switchover. The reply of POST /switchover comes 0.7 s or more after the new
// primary took over, and may say "status unknown" while the switchover continues; so switchTo
// watches the target's own answer in parallel.
func (p *patroni) switchTo(ctx context.Context, target string, epoch uint64) (Transferred, error) {
	reply := make(chan error, 1)
	asking, stopAsking := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { reply <- p.askSwitchover(asking, target) })
	out, err := p.confirm(ctx, target, epoch, reply)
	stopAsking() // the rest of the reply brings no news
	wg.Wait()
	return out, err
}

// choose takes the first candidate that streams from this leader, is close to
// it now, may be promoted, and was not refused before.
func (p *patroni) choose(ctx context.Context, candidates []string, me patroniStatus, cluster patroniCluster, refused refusals) (string, error) {
	if len(candidates) == 0 {
		return "", fmt.Errorf("%w: no transfer candidates were named", ErrUnsafe)
	}
	var reasons []string
	for _, name := range candidates {
		if name == p.self {
			continue
		}
		err := refused[name]
		if err == nil {
			err = cluster.eligible(name, me)
		}
		if err == nil {
			var their patroniStatus
			probe, cancel := context.WithTimeout(ctx, observeBudget)
			err = p.remote(probe, name, &their)
			cancel()
			if err != nil {
				err = fmt.Errorf("its Patroni does not answer: %w", err)
			} else {
				err = p.follows(me, their)
			}
			if behind := me.XLog.Location - max(their.XLog.Received, their.XLog.Replayed); err == nil && behind > cluster.config.maximumLag() {
				err = fmt.Errorf("it has received %d bytes too little, and Patroni's maximum_lag_on_failover is %d", behind, cluster.config.maximumLag())
			}
		}
		if err == nil {
			return name, nil
		}
		reasons = append(reasons, name+": "+err.Error())
	}
	return "", fmt.Errorf("%w: no candidate can take over: %s", refused.kind(), strings.Join(reasons, "; "))
}

// follows returns why a member with the report their is too far from this leader to take over; nil
// when it is not.
func (p *patroni) follows(me, their patroniStatus) error {
	switch lag := me.XLog.Location - their.XLog.Replayed; {
	case their.Timeline != me.Timeline:
		return fmt.Errorf("it is on timeline %d, not %d", their.Timeline, me.Timeline)
	case lag > p.maxLag:
		return fmt.Errorf("it is %d bytes behind", lag)
	}
	return nil
}

// askSwitchover returns nil when the outcome must be read from the members, an
// error when Patroni certainly refused.
func (p *patroni) askSwitchover(ctx context.Context, target string) error {
	header, err := p.authorization()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	status, answer, err := call(ctx, p.client, http.MethodPost, p.base()+"/switchover", header,
		map[string]string{"leader": p.self, "candidate": target})
	text := strings.TrimSpace(string(answer))
	switch {
	case err != nil:
		return nil //nolint:nilerr // unknown: the members' own reports decide
	case status == http.StatusOK, status == http.StatusServiceUnavailable && strings.Contains(text, "unknown"):
		return nil
	case status == http.StatusServiceUnavailable:
		return fmt.Errorf("%w: switchover: %s", ErrBusy, text)
	default: // 412 no good candidate or leader mismatch, 400, 401, 403
		return fmt.Errorf("%w: switchover: status %d: %s", ErrUnsafe, status, cmp.Or(accessHint(status), text))
	}
}

// confirm watches until another member holds the lock and itself reports that it is primary on a
// newer timeline.
func (p *patroni) confirm(ctx context.Context, target string, epoch uint64, reply <-chan error) (Transferred, error) {
	var (
		out     Transferred
		refused error
		rounds  int
	)
	err := poll(ctx, 20*time.Millisecond, func(ctx context.Context) (bool, error) {
		rounds++
		select {
		case refused = <-reply:
		default:
		}
		if refused != nil || rounds%10 == 0 {
			leader := p.lockHolder(ctx)
			if refused != nil && leader == p.self {
				return false, refused
			}
			if leader != "" && leader != p.self {
				target = leader // may be another than asked for; it still moved
			}
		}
		timeline, leads := p.leads(ctx, target)
		if !leads || timeline <= epoch {
			return false, nil
		}
		out = Transferred{Moved: refused == nil, Leader: target, Epoch: timeline}
		return true, nil
	})
	return out, err
}

// leads asks target whether it is primary and holds the lock.
func (p *patroni) leads(ctx context.Context, target string) (timeline uint64, leads bool) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	base, err := p.remoteBase(target)
	if err != nil {
		return 0, false
	}
	// GET /primary answers with the same body as /patroni; 200 only while the lock is held.
	var s patroniStatus
	status, err := getJSON(ctx, p.client, base+"/primary", nil, &s)
	return s.Timeline, err == nil && status == http.StatusOK && s.primary()
}

func (p *patroni) lockHolder(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	var c patroniCluster
	if err := p.local(ctx, "/cluster", &c); err != nil {
		return ""
	}
	return c.leader()
}
