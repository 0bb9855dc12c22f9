package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

const (
	// observeBudget bounds one look. The agent waits for 900 ms, and a cluster without a quorum uses the budget up.
	observeBudget = 750 * time.Millisecond
	// changeBudget bounds a change of the voters.
	changeBudget = 20 * time.Second
)

// Adapter answers for one node.
type Adapter struct {
	cfg     Config
	names   names
	self    int32
	version string
}

var _ serve.Workload = (*Adapter)(nil)

// New returns the adapter of a node; an error names each wrong setting.
func New(cfg Config) (*Adapter, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	group, _, _ := cutLast(cfg.Slot)
	a := &Adapter{cfg: cfg, names: names{group: group, base: int32(cfg.NodeBase)}, version: versionOf(cfg.Jars)}
	var known bool
	if a.self, known = a.names.node(cfg.Slot); !known {
		return nil, fmt.Errorf("slot: the ordinal of %q is %d or more", cfg.Slot, groupNodes)
	}
	return a, nil
}

// Member asks the own node, and through it the active controller.
func (a *Adapter) Member(ctx context.Context) (adapter.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	return judge(a.cfg, a.names, a.self, a.version, a.look(ctx)), nil
}

// address is that of the own node.
func (a *Adapter) address() string {
	if a.cfg.Roles == RolesController {
		return a.cfg.Controller
	}
	return a.cfg.Broker
}

func (a *Adapter) look(ctx context.Context) facts {
	var f facts
	c, err := dial(ctx, a.address())
	switch {
	case err == nil:
	case refused(err) && a.cfg.Roles == RolesBoth:
		return a.starting(ctx)
	default:
		f.live = err
		return f
	}
	defer func() { _ = c.Close() }()
	if f.level, f.live = readLevel(c); f.live != nil {
		return f
	}
	// The active controller may not answer, and Kafka answers the requests of one connection in their order.
	var wg sync.WaitGroup
	wg.Go(func() { a.askLeader(ctx, &f) })
	if a.cfg.Roles != RolesController {
		f.nodes, _, _, f.nodesErr = readNodes(c, brokers)
		f.partitions, f.partitionsErr = readPartitions(c, a.self)
	}
	wg.Wait()
	return f
}

// starting looks at a node whose broker's port is closed. That port opens last: a process whose controller answers is
// there.
func (a *Adapter) starting(ctx context.Context) facts {
	early := errors.New("the broker has not started yet")
	f := facts{nodesErr: early, partitionsErr: early, movingErr: early, quorumErr: early}
	c, err := dial(ctx, a.cfg.Controller)
	if err != nil {
		f.live = err
		return f
	}
	defer func() { _ = c.Close() }()
	f.level, f.live = readLevel(c)
	return f
}

// askLeader reads the facts of the active controller.
func (a *Adapter) askLeader(ctx context.Context, f *facts) {
	c, err := a.leader(ctx)
	if err != nil {
		f.quorumErr, f.movingErr = err, err
		return
	}
	defer func() { _ = c.Close() }()
	if f.quorum, f.quorumErr = readQuorum(c); f.quorumErr == nil && a.cfg.Roles != RolesController {
		f.moving, f.movingErr = readMoving(c, a.self)
	}
}

// leader connects to a node whose answers are those of the active controller: a broker forwards, a controller alone
// names the leader.
func (a *Adapter) leader(ctx context.Context) (*conn, error) {
	c, err := dial(ctx, a.address())
	if err != nil || a.cfg.Roles != RolesController {
		return c, err
	}
	defer func() { _ = c.Close() }()
	_, addresses, leader, err := readNodes(c, controllers)
	if err != nil {
		return nil, err
	}
	at, known := addresses[leader]
	if !known {
		return nil, errors.New("no controller leads")
	}
	return dial(ctx, at)
}

// quorum asks the active controller.
func (a *Adapter) quorum(ctx context.Context) (*quorum, error) {
	c, err := a.leader(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return readQuorum(c)
}

// Transfer refuses while this member leads: Kafka has no such call.
func (a *Adapter) Transfer(ctx context.Context, _ adapter.TransferRequest) (adapter.Transferred, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	q, err := a.quorum(ctx)
	if err != nil {
		return adapter.Transferred{}, err
	}
	if q.leader == a.self {
		return adapter.Transferred{}, fmt.Errorf(`%w: Kafka cannot transfer the active controller: set hand_over = "stop"`, serve.ErrUnsafe)
	}
	return adapter.Transferred{Leader: a.names.of(q.leader), Epoch: q.epoch}, nil
}

// Drain has nothing to do: a broker hands its partitions over when it gets SIGTERM.
func (a *Adapter) Drain(context.Context) error { return nil }

// CancelDrain has nothing to do.
func (a *Adapter) CancelDrain(context.Context) error { return nil }

// ChangeSet removes a voter. A controller joins by its own setting controller.quorum.auto.join.enable.
func (a *Adapter) ChangeSet(ctx context.Context, r adapter.SetRequest) error {
	if a.cfg.Roles == RolesBroker {
		return fmt.Errorf("%w: these members are brokers, which have no votes", serve.ErrUnsafe)
	}
	node, known := a.names.node(r.Slot)
	switch {
	case !known:
		return fmt.Errorf("%w: %q is no slot of group %s", serve.ErrUnsafe, r.Slot, a.names.group)
	case r.Do != "remove":
		return fmt.Errorf(`%w: a controller joins when it starts: set = "changes"`, serve.ErrUnsafe)
	}
	ctx, cancel := context.WithTimeout(ctx, changeBudget)
	defer cancel()
	leader, err := a.leader(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = leader.Close() }()
	q, err := readQuorum(leader)
	if err != nil {
		return err
	}
	for _, v := range q.voters {
		if v.node == node && v.directory == cmp.Or(r.Member, v.directory) {
			return remove(leader, v)
		}
	}
	return nil
}

func remove(leader *conn, v replica) error {
	id, err := parseUUID(v.directory)
	if err != nil {
		return err
	}
	q := kmsg.NewPtrRemoveRaftVoterRequest()
	q.VoterID, q.VoterDirectoryID = v.node, id
	a, err := ask[*kmsg.RemoveRaftVoterResponse](leader, q, 0)
	if err != nil {
		return err
	}
	switch err := refusal(a.ErrorCode, a.ErrorMessage); {
	case err == nil, errors.Is(err, kerr.VoterNotFound):
		return nil
	case errors.Is(err, kerr.RequestTimedOut):
		return err // another change may be pending: the agent looks first
	default:
		return fmt.Errorf("%w: %w", serve.ErrUnsafe, err)
	}
}
