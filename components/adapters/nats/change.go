package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

const (
	// changeLimit bounds a change of leadership or of the set; each takes well under a second.
	changeLimit = 8 * time.Second
	// again is the time between two looks.
	again = 50 * time.Millisecond
)

// preferred asks a leader to step down in favour of a server; nats-server knows it since 2.11.
type preferred struct {
	Placement struct {
		Preferred string `json:"preferred"`
	} `json:"placement"`
}

// Transfer lets the meta leader step down in favour of the first candidate that is current, and
// returns once that server says itself that it leads.
func (a *Adapter) Transfer(ctx context.Context, r adapter.TransferRequest) (adapter.Transferred, error) {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	s := a.observe(ctx)
	m := judge(a.cfg.Slot, a.cfg.MaxLag, s)
	switch {
	case r.ExpectedLeader != a.cfg.Slot:
		return adapter.Transferred{}, fmt.Errorf("%w: expected_leader is %q, and this member is %q", serve.ErrUnsafe, r.ExpectedLeader, a.cfg.Slot)
	case m.Role == adapter.RoleFollower && m.Leader != a.cfg.Slot:
		return adapter.Transferred{Leader: m.Leader, Epoch: m.Epoch}, nil
	case m.Role != adapter.RoleLeader:
		return adapter.Transferred{}, fmt.Errorf("whether this member leads is not known: %s", m.Message)
	}
	to, err := choose(r.Candidates, s.self.Meta.Replicas, a.cfg.MaxLag)
	if err != nil {
		return adapter.Transferred{}, err
	}
	c, err := a.system(ctx)
	if err != nil {
		return adapter.Transferred{}, err
	}
	var request preferred
	request.Placement.Preferred = to
	// An error proves nothing: the answer of the former leader may be lost. The servers decide.
	asked := order(ctx, c, subjectMetaStepDown, request)
	var leader string
	if err := a.until(ctx, func(ctx context.Context) bool {
		leader, err = a.elected(ctx)
		return err == nil && leader != s.varz.Name
	}); err != nil {
		return adapter.Transferred{}, errors.Join(fmt.Errorf("the meta leader did not change to %s: %w", to, err), asked)
	}
	now := a.observe(ctx)
	return adapter.Transferred{Moved: true, Leader: slotOf(leader), Epoch: now.term}, nil
}

// choose returns the server of the best candidate that holds the meta group's log.
func choose(candidates []string, peers []peer, maxLag uint64) (string, error) {
	var why []string
	for _, slot := range candidates {
		at := slices.IndexFunc(peers, func(p peer) bool { return p.known() && slotOf(p.Name) == slot && p.lives() })
		switch {
		case at < 0:
			why = append(why, slot+" is no live peer of the meta group")
		case !peers[at].holds(maxLag):
			why = append(why, peers[at].text())
		default:
			return peers[at].Name, nil
		}
	}
	return "", fmt.Errorf("%w: no candidate can lead: %s", serve.ErrUnsafe, strings.Join(why, "; "))
}

// elected returns the server that says of itself that it leads the meta group.
func (a *Adapter) elected(ctx context.Context) (string, error) {
	var mine jsz
	if err := a.get(ctx, "/jsz", &mine); err != nil {
		return "", err
	}
	if mine.Meta == nil || mine.Meta.Leader == "" {
		return "", errors.New("the servers have no meta leader")
	}
	servers, err := a.gather(ctx)
	if err != nil {
		return "", err
	}
	if lead := servers[mine.Meta.Leader]; lead.Meta == nil || lead.Meta.Leader != mine.Meta.Leader {
		return "", fmt.Errorf("%s does not say that it leads", mine.Meta.Leader)
	}
	return mine.Meta.Leader, nil
}

// until looks again until done, and fails with the end of ctx.
func (a *Adapter) until(ctx context.Context, done func(context.Context) bool) error {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for !done(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// led is a group that this server leads and another server could lead.
type led struct{ account, name, subject string }

// Drain moves the leadership of streams and consumers to other servers, in the accounts of Config. A
// group without another current replica stays. The other accounts' groups move when the server stops.
func (a *Adapter) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	for _, login := range a.cfg.Accounts {
		if err := a.drainAccount(ctx, login); err != nil {
			return fmt.Errorf("account %s: %w", login.Account, err)
		}
	}
	return nil
}

func (a *Adapter) drainAccount(ctx context.Context, login Login) error {
	groups, err := a.led(ctx, login.Account)
	if err != nil || len(groups) == 0 {
		return err
	}
	c, err := a.connect(ctx, login.User, login.PasswordFile)
	if err != nil {
		return err
	}
	defer c.Close()
	var last error
	// A stepdown can fail for a moment, while a replica catches up with the last message.
	err = a.until(ctx, func(ctx context.Context) bool {
		for _, g := range groups {
			if last = order(ctx, c, g.subject, struct{}{}); last != nil {
				break
			}
		}
		if last == nil || ctx.Err() == nil {
			groups, last = a.led(ctx, login.Account)
		}
		return last == nil && len(groups) == 0
	})
	if err != nil && len(groups) > 0 {
		return errors.Join(fmt.Errorf("%s is still led here: %w", groups[0].name, err), last)
	}
	return errors.Join(err, last)
}

// led lists the groups of an account that this server leads and another one could lead.
func (a *Adapter) led(ctx context.Context, name string) ([]led, error) {
	var v varz
	var mine jsz
	if err := errors.Join(a.get(ctx, "/varz", &v), a.get(ctx, "/jsz?consumers=true&acc="+url.QueryEscape(name), &mine)); err != nil {
		return nil, err
	}
	var groups []led
	movable := func(r *raft) bool {
		return r != nil && r.Leader == v.Name && slices.ContainsFunc(r.Replicas, func(p peer) bool { return p.holds(a.cfg.MaxLag) })
	}
	for _, account := range mine.Accounts {
		if account.Name != name {
			continue
		}
		for _, s := range account.Streams {
			if movable(s.Cluster) {
				groups = append(groups, led{name, "stream " + s.Name, fmt.Sprintf(subjectStreamStepDown, s.Name)})
			}
			for _, c := range s.Consumers {
				if movable(c.Cluster) {
					groups = append(groups, led{name, "consumer " + s.Name + "/" + c.Name, fmt.Sprintf(subjectConsumerSteDown, s.Name, c.Name)})
				}
			}
		}
	}
	return groups, nil
}

// CancelDrain has nothing to do: the server may be elected again at any time.
func (a *Adapter) CancelDrain(context.Context) error { return nil }

// remove names a peer by its id, which spares a successor under the same slot.
type remove struct {
	Peer string `json:"peer"`
	ID   string `json:"peer_id"`
}

// ChangeSet removes a dead server. A server joins the meta group without help, so that "add" and
// "promote" have no effect.
func (a *Adapter) ChangeSet(ctx context.Context, r adapter.SetRequest) error {
	switch r.Do {
	case "add", "promote":
		return nil
	case "remove":
	default:
		return fmt.Errorf("%w: do is %q, and must be add, promote or remove", serve.ErrUnsafe, r.Do)
	}
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	if r.Slot == a.cfg.Slot && r.Member == "" {
		return fmt.Errorf("%w: %s is this server: another one removes it", serve.ErrUnsafe, r.Slot)
	}
	s := a.observe(ctx)
	m := judge(a.cfg.Slot, a.cfg.MaxLag, s)
	switch {
	case m.Role == adapter.RoleUnknown:
		return errors.New(m.Message)
	case r.Member != "" && r.Member == s.id:
		return fmt.Errorf("%w: %s is this server: another one removes it", serve.ErrUnsafe, r.Slot)
	}
	lead, answered := s.servers[s.self.Meta.Leader]
	if !answered || lead.Meta == nil {
		return fmt.Errorf("the meta leader %s gave no answer", s.self.Meta.Leader)
	}
	victim, err := victimOf(r, *lead.Meta)
	if err != nil || victim == "" {
		return err
	}
	c, err := a.system(ctx)
	if err != nil {
		return err
	}
	asked := order(ctx, c, subjectServerRemove, remove{ID: victim})
	if errors.Is(asked, serve.ErrBusy) {
		return asked
	}
	// An error proves nothing, and success may come before the list changes.
	err = a.until(ctx, func(ctx context.Context) bool {
		now := a.observe(ctx)
		lead := now.servers[s.self.Meta.Leader]
		return lead.Meta != nil && !slices.ContainsFunc(lead.Meta.Replicas, func(p peer) bool { return p.ID == victim })
	})
	if err != nil {
		return errors.Join(fmt.Errorf("the meta group still lists %s (%s): %w", r.Slot, victim, err), asked)
	}
	return nil
}

// victimOf returns the id of the peer that r removes; "": the meta group does not list it. A live
// server is spared where more than two vote: it would lose its streams, and it would come back.
func victimOf(r adapter.SetRequest, list meta) (string, error) {
	byID := map[string]peer{}
	for _, p := range list.Replicas {
		if r.Member != "" && p.ID == r.Member || r.Member == "" && p.known() && slotOf(p.Name) == r.Slot {
			byID[p.ID] = p
		}
	}
	ids := slices.Sorted(maps.Keys(byID))
	switch {
	case r.Member == "" && slotOf(list.Leader) == r.Slot:
		return "", fmt.Errorf("%w: %s leads the meta group: leadership moves first", serve.ErrUnsafe, r.Slot)
	case len(ids) == 0:
		return "", nil
	case len(ids) > 1:
		return "", fmt.Errorf("%w: %s has the ids %s: name one as member", serve.ErrUnsafe, r.Slot, strings.Join(ids, ", "))
	}
	p := byID[ids[0]]
	if p.known() && slotOf(p.Name) != r.Slot {
		return "", fmt.Errorf("%w: %s is the server %s, not %s", serve.ErrUnsafe, p.ID, p.Name, r.Slot)
	}
	if p.lives() && list.Size > 2 {
		return "", fmt.Errorf("%w: %s still answers, and is removed once its machine is gone", serve.ErrUnsafe, p.Name)
	}
	return p.ID, nil
}
