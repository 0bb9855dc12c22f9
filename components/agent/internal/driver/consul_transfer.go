package driver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const consulTransferLimit = 15 * time.Second

// Transfer makes the first candidate that is a healthy voter the raft leader.
func (c *consul) Transfer(ctx context.Context, r TransferRequest) (Transferred, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, consulTransferLimit,
		fmt.Errorf("transfer was not confirmed within %s", consulTransferLimit))
	defer cancel()
	header, err := c.header()
	if err != nil {
		return Transferred{}, err
	}
	var (
		me   consulSelf
		raft consulRaft
		auto consulHealth
	)
	if err := errors.Join(
		c.get(ctx, "/v1/agent/self", header, &me),
		c.get(ctx, "/v1/operator/raft/configuration", header, &raft),
		c.get(ctx, "/v1/operator/autopilot/health", header, &auto),
	); err != nil {
		return Transferred{}, fmt.Errorf("%w: %w", ErrTransient, err)
	}
	epoch := number(me.Stats.Raft.Term)
	switch leader := raft.leader(); {
	case leader == "":
		return Transferred{}, fmt.Errorf("%w: the servers have no leader now", ErrTransient)
	case leader != c.self:
		return Transferred{Leader: leader, Epoch: epoch}, nil
	case r.ExpectedLeader != c.self:
		return Transferred{}, fmt.Errorf("%w: %s leads, but %q was expected to", ErrUnsafe, c.self, r.ExpectedLeader)
	}
	target, id, err := chooseConsul(c.self, r.Candidates, raft, auto)
	if err != nil {
		return Transferred{}, err
	}
	status, answer, err := call(ctx, c.client, http.MethodPost,
		c.base+"/v1/operator/raft/transfer-leader?id="+id, header, nil)
	// After a lost answer the outcome is unknown, and so it is after a 500 if another transfer is
	// running: the servers' state decides.
	if err == nil && status != http.StatusOK && status != http.StatusInternalServerError {
		return Transferred{}, fmt.Errorf("%w: transfer to %s: status %d: %s", ErrUnsafe, target, status, strings.TrimSpace(string(answer)))
	}
	refused := err == nil && status == http.StatusInternalServerError
	return c.confirm(ctx, header, epoch, refused, strings.TrimSpace(string(answer)))
}

// confirm waits until another server leads at a newer term, according to the own raft state and to
// the raft configuration that the new leader serves.
func (c *consul) confirm(ctx context.Context, header http.Header, epoch uint64, refused bool, answer string) (Transferred, error) {
	var (
		out    Transferred
		rounds int
	)
	err := poll(ctx, 20*time.Millisecond, func(ctx context.Context) (bool, error) {
		rounds++
		ctx, cancel := context.WithTimeout(ctx, observeBudget)
		defer cancel()
		var (
			me   consulSelf
			raft consulRaft
		)
		if err := errors.Join(
			c.get(ctx, "/v1/agent/self", header, &me),
			c.get(ctx, "/v1/operator/raft/configuration", header, &raft),
		); err != nil {
			return false, nil // there is no leader to ask for a moment
		}
		leader, term := raft.leader(), number(me.Stats.Raft.Term)
		if leader != "" && leader != c.self && term > epoch && me.Stats.Raft.State != "Leader" {
			out = Transferred{Moved: true, Leader: leader, Epoch: term}
			return true, nil
		}
		const settle = 25 // rounds: half a second
		if refused && rounds > settle && leader == c.self {
			return false, fmt.Errorf("%w: transfer: %s", ErrBusy, answer)
		}
		return false, nil
	})
	return out, err
}

func chooseConsul(self string, candidates []string, raft consulRaft, auto consulHealth) (name, id string, err error) {
	if len(candidates) == 0 {
		return "", "", fmt.Errorf("%w: no transfer candidates were named", ErrUnsafe)
	}
	var reasons []string
	for _, name := range candidates {
		id, voter := raft.voter(name)
		switch {
		case name == self:
		case !voter:
			reasons = append(reasons, name+": not a voter")
		case !auto.server(name).Healthy:
			reasons = append(reasons, name+": autopilot says unhealthy")
		default:
			return name, id, nil
		}
	}
	return "", "", fmt.Errorf("%w: no candidate can take over: %s", ErrUnsafe, strings.Join(reasons, "; "))
}
