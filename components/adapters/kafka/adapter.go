package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

const (
	// observeBudget bounds one look; the contract gives a second.
	observeBudget = 900 * time.Millisecond
	// changeBudget bounds a change of the voters.
	changeBudget = 20 * time.Second
)

// Adapter answers for one node.
type Adapter struct {
	cfg     Config
	names   names
	self    int32
	version string
	// at is the address of node.
	at string
	// node answers from its own memory; forwarding passes requests to the active controller, which may not answer, and
	// Kafka answers the requests of one connection in their order.
	node, forwarding *kgo.Client
	// controller is the own controller of a node that is a broker too; else nil.
	controller *kgo.Client

	mu sync.Mutex
	// leading is the client of the active controller at leadingAt, for nodes without a broker that forwards.
	leading   *kgo.Client
	leadingAt string
}

var _ serve.Workload = (*Adapter)(nil)

// New returns the adapter of a node; an error names what is wrong with the settings.
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
	a.at = cfg.Broker
	if cfg.Roles == RolesController {
		a.at = cfg.Controller
	}
	var err, more error
	a.node, err = dial(a.at)
	a.forwarding, more = dial(a.at)
	err = errors.Join(err, more)
	if cfg.Roles == RolesBoth {
		a.controller, more = dial(cfg.Controller)
		err = errors.Join(err, more)
	}
	if err != nil {
		return nil, fmt.Errorf("make clients: %w", err)
	}
	return a, nil
}

// Close ends the connections.
func (a *Adapter) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range []*kgo.Client{a.node, a.forwarding, a.controller, a.leading} {
		if c != nil {
			c.Close()
		}
	}
}

// Member asks the own node, and through it the active controller.
func (a *Adapter) Member(ctx context.Context) (adapter.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	return judge(a.cfg, a.names, a.self, a.version, a.look(ctx)), nil
}

func (a *Adapter) look(ctx context.Context) facts {
	var f facts
	if f.level, f.live = readLive(ctx, a.node, a.at); refused(f.live) && a.controller != nil {
		// The broker's port opens last. A process whose controller answers is there.
		if f.level, f.live = readLive(ctx, a.controller, a.cfg.Controller); f.live == nil {
			f.nodesErr = errors.New("the broker has not started yet")
			f.partitionsErr, f.movingErr, f.quorumErr = f.nodesErr, f.nodesErr, f.nodesErr
			return f
		}
	}
	if f.live != nil {
		return f
	}
	var wg sync.WaitGroup
	wg.Go(func() { f.quorum, f.quorumErr = a.quorum(ctx) })
	if a.cfg.Roles != RolesController {
		wg.Go(func() { f.moving, f.movingErr = readMoving(ctx, a.forwarding, a.self) })
		wg.Go(func() { f.nodes, _, _, f.nodesErr = readNodes(ctx, a.node, brokers) })
		wg.Go(func() { f.partitions, f.partitionsErr = readPartitions(ctx, a.node, a.self) })
	}
	wg.Wait()
	return f
}

// quorum asks the active controller: a broker forwards, a controller alone names it.
func (a *Adapter) quorum(ctx context.Context) (*quorum, error) {
	c, err := a.leader(ctx)
	if err != nil {
		return nil, err
	}
	return readQuorum(ctx, c)
}

// leader is the client whose requests reach the active controller.
func (a *Adapter) leader(ctx context.Context) (*kgo.Client, error) {
	if a.cfg.Roles != RolesController {
		return a.forwarding, nil
	}
	_, addresses, leader, err := readNodes(ctx, a.node, controllers)
	if err != nil {
		return nil, err
	}
	at, known := addresses[leader]
	if !known {
		return nil, errors.New("no controller leads")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leading != nil && a.leadingAt == at {
		return a.leading, nil
	}
	c, err := dial(at)
	if err != nil {
		return nil, err
	}
	if a.leading != nil {
		// A request of another look may use it: it fails, and the next look asks again.
		a.leading.Close()
	}
	a.leading, a.leadingAt = c, at
	return c, nil
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
	q, err := readQuorum(ctx, leader)
	if err != nil {
		return err
	}
	for _, v := range q.voters {
		if v.node == node && v.directory == cmp.Or(r.Member, v.directory) {
			return remove(ctx, leader, v)
		}
	}
	return nil
}

func remove(ctx context.Context, leader *kgo.Client, v replica) error {
	id, err := parseUUID(v.directory)
	if err != nil {
		return err
	}
	q := kmsg.NewPtrRemoveRaftVoterRequest()
	q.VoterID, q.VoterDirectoryID = v.node, id
	a, err := ask[*kmsg.RemoveRaftVoterResponse](ctx, leader, q)
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
