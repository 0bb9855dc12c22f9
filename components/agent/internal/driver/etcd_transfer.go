package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const etcdTransferLimit = 15 * time.Second

// Transfer calls MoveLeader at the own endpoint, which must be the leader's.
func (e *etcd) Transfer(ctx context.Context, r TransferRequest) (Transferred, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, etcdTransferLimit,
		fmt.Errorf("transfer was not confirmed within %s", etcdTransferLimit))
	defer cancel()
	c, err := e.local.open()
	if err != nil {
		return Transferred{}, fmt.Errorf("%w: %s", ErrTransient, e.local.refusal(err))
	}
	status, err := statusOf(ctx, c)
	if err != nil {
		return Transferred{}, fmt.Errorf("%w: %s", ErrTransient, e.local.refusal(err))
	}
	list, err := c.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return Transferred{}, fmt.Errorf("%w: %s", ErrTransient, e.local.refusal(err))
	}
	names := map[uint64]string{}
	for _, m := range list.Members {
		names[m.ID] = e.nameOf(m)
	}
	switch {
	case status.Leader == 0:
		return Transferred{}, fmt.Errorf("%w: the members have no leader now", ErrTransient)
	case status.Leader != status.Header.MemberId:
		return Transferred{Leader: names[status.Leader], Epoch: status.RaftTerm}, nil
	case r.ExpectedLeader != e.self:
		return Transferred{}, fmt.Errorf("%w: %s leads, but %q was expected to", ErrUnsafe, e.self, r.ExpectedLeader)
	}
	target, err := e.choose(ctx, r.Candidates, list.Members, status)
	if err != nil {
		return Transferred{}, err
	}
	_, err = c.MoveLeader(ctx, target)
	switch {
	case errors.Is(err, rpctypes.ErrBadLeaderTransferee):
		return Transferred{}, fmt.Errorf("%w: move leader to %s: %w", ErrUnsafe, names[target], err)
	case err != nil && ctx.Err() != nil:
		return Transferred{}, fmt.Errorf("%w: %w", ErrTransient, context.Cause(ctx))
	}
	// After any other error, "not leader" among them, the outcome is unknown: confirm it.
	return e.confirm(ctx, c, status.RaftTerm, names, err)
}

// choose takes the first candidate that is a voter and answers on its own endpoint, under its own
// id, with the same leader and term.
func (e *etcd) choose(ctx context.Context, candidates []string, members []*pb.Member, mine *clientv3.StatusResponse) (uint64, error) {
	if len(candidates) == 0 {
		return 0, fmt.Errorf("%w: no transfer candidates were named", ErrUnsafe)
	}
	var reasons []string
	for _, name := range candidates {
		if name == e.self {
			continue
		}
		found := e.find(members, name)
		err := errors.New("not a member")
		switch {
		case found == nil:
		case found.IsLearner:
			err = errors.New("a learner")
		default:
			err = e.agrees(ctx, name, found.ID, mine)
		}
		if err == nil {
			return found.ID, nil
		}
		reasons = append(reasons, name+": "+err.Error())
	}
	return 0, fmt.Errorf("%w: no candidate can take over: %s", ErrUnsafe, strings.Join(reasons, "; "))
}

func (e *etcd) agrees(ctx context.Context, name string, id uint64, mine *clientv3.StatusResponse) error {
	status, err := e.remoteStatus(ctx, name)
	const trailing = 1000
	switch {
	case err != nil:
		return fmt.Errorf("does not answer: %w", err)
	case status.Header.MemberId != id:
		return fmt.Errorf("at its address answers member %x, not %x", status.Header.MemberId, id)
	case status.Leader != mine.Leader || status.RaftTerm != mine.RaftTerm:
		return errors.New("sees another leader or term")
	case status.RaftAppliedIndex+trailing < mine.RaftIndex:
		return fmt.Errorf("applied %d of %d", status.RaftAppliedIndex, mine.RaftIndex)
	}
	return nil
}

// remoteStatus asks another member's own endpoint through the overlay.
func (e *etcd) remoteStatus(ctx context.Context, name string) (*clientv3.StatusResponse, error) {
	vip, ok := e.vip(name)
	if !ok {
		return nil, errors.New("its address is not known")
	}
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	remote := e.at(vip)
	defer remote.close()
	c, err := remote.open()
	if err != nil {
		return nil, err
	}
	return statusOf(ctx, c)
}

// confirm waits until another member reports that it leads at a newer term.
func (e *etcd) confirm(ctx context.Context, c *clientv3.Client, epoch uint64, names map[uint64]string, called error) (Transferred, error) {
	var (
		out    Transferred
		rounds int
	)
	err := poll(ctx, 20*time.Millisecond, func(ctx context.Context) (bool, error) {
		rounds++
		ctx, cancel := context.WithTimeout(ctx, observeBudget)
		defer cancel()
		status, err := statusOf(ctx, c)
		if err != nil || status.Leader == 0 {
			return false, nil // asked again
		}
		if status.Leader == status.Header.MemberId {
			const settle = 25 // rounds: half a second
			if called != nil && rounds > settle {
				return false, fmt.Errorf("%w: move leader: %w", ErrBusy, called)
			}
			return false, nil
		}
		name := names[status.Leader]
		theirs, err := e.remoteStatus(ctx, name)
		if err != nil || theirs.Leader != theirs.Header.MemberId || theirs.RaftTerm <= epoch {
			return false, nil // asked again
		}
		out = Transferred{Moved: true, Leader: name, Epoch: theirs.RaftTerm}
		return true, nil
	})
	return out, err
}
