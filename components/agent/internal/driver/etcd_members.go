package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var _ Changer = (*etcd)(nil)

// etcdChangeLimit bounds one change of the members: a commit, and etcd's own wait for it.
const etcdChangeLimit = 8 * time.Second

// etcdID is a member's id as etcdctl writes it.
func etcdID(m *pb.Member) string { return fmt.Sprintf("%x", m.ID) }

// Join lists slot's address as a learner. The address is all that etcd knows of a member
// before it starts.
func (e *etcd) Join(ctx context.Context, slot string) error {
	return e.change(ctx, slot, "", func(ctx context.Context, c *clientv3.Client, list []*pb.Member, found *pb.Member) error {
		if found != nil {
			return nil
		}
		peer, err := e.peerURL(slot, list)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTransient, err)
		}
		_, err = c.MemberAddAsLearner(ctx, []string{peer})
		return err
	})
}

// Promote gives slot its vote; etcd refuses it while slot lags behind.
func (e *etcd) Promote(ctx context.Context, slot, id string) error {
	return e.change(ctx, slot, id, func(ctx context.Context, c *clientv3.Client, _ []*pb.Member, found *pb.Member) error {
		switch {
		case found == nil:
			return fmt.Errorf("%w: %s %s is no member", ErrUnsafe, slot, id)
		case !found.IsLearner:
			return nil
		}
		_, err := c.MemberPromote(ctx, found.ID)
		if errors.Is(err, rpctypes.ErrMemberNotLearner) {
			return nil
		}
		return err
	})
}

// Leave removes slot from the list; a running member then exits automatically.
func (e *etcd) Leave(ctx context.Context, slot, id string) error {
	if slot == e.self {
		return fmt.Errorf("%w: %s is this member itself: another one takes it out", ErrUnsafe, slot)
	}
	return e.change(ctx, slot, id, func(ctx context.Context, c *clientv3.Client, _ []*pb.Member, found *pb.Member) error {
		if found == nil {
			return nil
		}
		_, err := c.MemberRemove(ctx, found.ID)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return err
	})
}

// change makes one change, based on a list of members confirmed by a majority. Its errors state the
// caller's next step.
func (e *etcd) change(ctx context.Context, slot, id string, do func(context.Context, *clientv3.Client, []*pb.Member, *pb.Member) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, etcdChangeLimit, fmt.Errorf("the members did not decide within %s", etcdChangeLimit))
	defer cancel()
	c, err := e.local.open()
	if err != nil {
		return fmt.Errorf("%w: %s", ErrTransient, e.local.refusal(err))
	}
	list, err := c.MemberList(ctx)
	var found *pb.Member
	if err == nil {
		found, err = e.incarnation(list.Members, slot, id)
	}
	if err == nil {
		err = do(ctx, c, list.Members, found)
	}
	switch {
	case err == nil, errors.Is(err, ErrUnsafe), errors.Is(err, ErrTransient):
		return err
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady), errors.Is(err, rpctypes.ErrUnhealthy),
		errors.Is(err, rpctypes.ErrMemberNotEnoughStarted), errors.Is(err, rpctypes.ErrTooManyLearners):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrTransient, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %s", ErrTransient, e.local.refusal(err))
}

// incarnation returns slot's member with that id, or nil. Without an id it returns the member with
// the name. An id that belongs to another Slot is an error: slot must not change it.
func (e *etcd) incarnation(list []*pb.Member, slot, id string) (*pb.Member, error) {
	if id == "" {
		return e.find(list, slot), nil
	}
	for _, m := range list {
		if etcdID(m) != id {
			continue
		}
		if name, known := e.slotOf(m); known && name != slot {
			return nil, fmt.Errorf("%w: member %s is %s, not %s", ErrUnsafe, id, name, slot)
		}
		return m, nil
	}
	return nil, nil
}

// find is the member that is named as slot, or that has its address and no name.
func (e *etcd) find(list []*pb.Member, slot string) *pb.Member {
	for _, m := range list {
		if e.nameOf(m) == slot {
			return m
		}
	}
	return nil
}

// slotOf returns the Slot of a member: its name, or, if it is listed without a name, the Slot of
// its address. If no Peer has that address, for example after its Boot ended, the name is the
// address: the coordinators can map the address to its Slot.
func (e *etcd) slotOf(m *pb.Member) (name string, known bool) {
	if m.Name != "" {
		return m.Name, true
	}
	name = etcdID(m)
	for _, peer := range m.PeerURLs {
		u, err := url.Parse(peer)
		if err != nil {
			continue
		}
		at, err := netip.ParseAddr(u.Hostname())
		if err != nil {
			continue
		}
		if slot, ok := e.slotAt(at); ok {
			return slot, true
		}
		name = at.String()
	}
	return name, false
}

// peerURL is where slot will listen for the others: as this member does, at slot's address.
func (e *etcd) peerURL(slot string, list []*pb.Member) (string, error) {
	vip, ok := e.vip(slot)
	if !ok {
		return "", fmt.Errorf("the address of %s is not known yet", slot)
	}
	own := e.find(list, e.self)
	if own == nil || len(own.PeerURLs) == 0 {
		return "", fmt.Errorf("%s is not among the members itself", e.self)
	}
	u, err := url.Parse(own.PeerURLs[0])
	if err != nil {
		return "", fmt.Errorf("own peer URL: %w", err)
	}
	u.Host = net.JoinHostPort(vip.String(), u.Port())
	return u.String(), nil
}
