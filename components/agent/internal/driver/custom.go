package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
	"cadre.dev/core/strictjson"
)

// Bounds of the calls to an adapter. A call also ends with its caller's context.
const (
	// CustomBudget is the time for the answer about a member. CustomExecBudget is that of a command,
	// which starts processes first; the agent gives up an observation after 2 s.
	CustomBudget     = observeBudget
	CustomExecBudget = 1800 * time.Millisecond

	customTransferLimit = time.Minute
	// customDrainLimit has room for a broker that moves its partitions away.
	customDrainLimit = 10 * time.Minute
	customSetLimit   = 30 * time.Second
)

// custom drives a workload behind an adapter, which it does not trust: see cadre.dev/core/adapter.
type custom struct {
	self string
	vip  func(string) (netip.Addr, bool)
	// votes, set and stops are the settings voters, set and hand_over.
	votes, stops bool
	set          string
	budget       time.Duration
	flips        flips
	asker        asker
}

var (
	_ Driver  = (*custom)(nil)
	_ Changer = (*custom)(nil)
)

// question is one call of the contract, in both forms.
type question struct{ method, path, command string }

var (
	askMember   = question{"GET", adapter.PathMember, adapter.CommandMember}
	askTransfer = question{"POST", adapter.PathTransfer, adapter.CommandTransfer}
	askDrain    = question{"POST", adapter.PathDrain, adapter.CommandDrain}
	askUndrain  = question{"DELETE", adapter.PathDrain, adapter.CommandUndrain}
	askSet      = question{"POST", adapter.PathSet, adapter.CommandSet}
)

// asker is a way to an adapter.
type asker interface {
	// ask returns the answer's text, of at most adapter.MaxBody bytes; request nil: none. Errors are
	// those of Driver.
	ask(ctx context.Context, q question, request any) ([]byte, error)
	close()
}

func newCustom(cfg Config, settings group.SettingValues) (*custom, error) {
	c := &custom{self: cfg.Self, vip: cfg.VIP, votes: settings["voters"] == "true", set: settings["set"], stops: settings["hand_over"] == group.HandOverEnd, budget: cfg.Budget}
	switch service := settings["exec_service"]; {
	case service == "":
		c.asker, c.budget = newCustomHTTP(settings["http"]), cmp.Or(c.budget, CustomBudget)
	case cfg.Commands == nil:
		return nil, errors.New("workload setting exec_service: no commands can be run here")
	default:
		c.asker, c.budget = newCustomExec(service, cfg.Commands), cmp.Or(c.budget, CustomExecBudget)
	}
	return c, nil
}

func (c *custom) close() { c.asker.close() }

// Observe asks the adapter. An answer that is missing or unsound is an error: a View would say that this
// driver has checked the process, and healing would restart a healthy workload for a broken adapter.
func (c *custom) Observe(ctx context.Context) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	m, err := c.member(ctx)
	v := View{Role: RoleUnknown}
	if err == nil {
		v = c.viewOf(m)
	}
	if why := c.flips.note(v, time.Now()); why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return View{}, unobserved(strings.TrimPrefix(err.Error(), ErrTransient.Error()+": "))
	}
	return v, nil
}

// unobserved is an ErrTransient whose text is a printable reason alone, which names the adapter: the
// workload itself may have answered.
type unobserved string

func (u unobserved) Error() string { return adapter.Text(string(u)) }
func (unobserved) Unwrap() error   { return ErrTransient }

// member is the adapter's checked answer.
func (c *custom) member(ctx context.Context) (adapter.Member, error) {
	var m adapter.Member
	text, err := c.asker.ask(ctx, askMember, nil)
	if err != nil {
		return m, err
	}
	if err := decodeAnswer(text, &m); err != nil {
		return m, err
	}
	return m, unsound(m.CheckOf(c.self, c.votes))
}

func (c *custom) viewOf(m adapter.Member) View {
	v := View{
		Role: Role(m.Role), Ready: m.Ready, CaughtUp: m.CaughtUp, LagBytes: m.LagBytes, Leader: m.Leader, Epoch: m.Epoch,
		Voters: slices.Sorted(slices.Values(m.Voters)), Learners: slices.Sorted(slices.Values(m.Learners)), MemberIDs: m.MemberIDs,
		Followers: slices.Sorted(slices.Values(m.Followers)), QuorumMember: slices.Contains(m.Voters, c.self), Busy: m.Busy,
		Version: m.Version, DataFormat: m.DataFormat, Message: m.Message, Fault: m.Fault,
		MayDisrupt: m.MayDisrupt, MayDisruptReason: m.MayDisruptReason,
	}
	switch m.Liveness {
	case adapter.Alive:
		v.Liveness = LivenessAlive
	case adapter.Refused:
		v.Liveness = LivenessRefused
	}
	return v
}

// Transfer asks the adapter, and then observes: its answer alone proves no hand-over.
func (c *custom) Transfer(ctx context.Context, r TransferRequest) (Transferred, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, customTransferLimit,
		fmt.Errorf("transfer was not confirmed within %s", customTransferLimit))
	defer cancel()
	before, err := c.Observe(ctx)
	switch {
	case err != nil:
		return Transferred{}, err
	case before.Leader == "":
		return Transferred{}, fmt.Errorf("%w: the leader is not known: %s", ErrTransient, before.Message)
	case before.Leader != c.self:
		return Transferred{Leader: before.Leader, Epoch: before.Epoch}, nil
	case r.ExpectedLeader != c.self:
		return Transferred{}, fmt.Errorf("%w: %s leads, but %q was expected to", ErrUnsafe, c.self, r.ExpectedLeader)
	case len(r.Candidates) == 0:
		return Transferred{}, fmt.Errorf("%w: no transfer candidates were named", ErrUnsafe)
	}
	text, err := c.asker.ask(ctx, askTransfer, adapter.TransferRequest{ExpectedLeader: c.self, Candidates: r.Candidates})
	if err != nil {
		return Transferred{}, err
	}
	var said adapter.Transferred
	if err := decodeAnswer(text, &said); err != nil {
		return Transferred{}, err
	}
	if err := unsound(said.Check()); err != nil {
		return Transferred{}, err
	}
	return c.confirm(ctx, before.Epoch)
}

// confirm waits until this member sees another leader, in a later epoch if the workload has epochs.
func (c *custom) confirm(ctx context.Context, epoch uint64) (Transferred, error) {
	var last View
	var reason string
	err := poll(ctx, 50*time.Millisecond, func(ctx context.Context) (bool, error) {
		v, err := c.Observe(ctx)
		if ctx.Err() != nil {
			return false, nil //nolint:nilerr // an answer that was cut off is no fault of the adapter
		}
		if err != nil {
			reason = err.Error()
			return false, nil //nolint:nilerr // the adapter may answer the next time
		}
		last, reason = v, v.Message
		later := epoch == 0 || v.Epoch > epoch
		return v.Leader != "" && v.Leader != c.self && later, nil
	})
	if err != nil {
		return Transferred{}, fmt.Errorf("%w: the adapter reports a hand-over, and then leader %q in epoch %d, after epoch %d: %s", err, last.Leader, last.Epoch, epoch, reason)
	}
	return Transferred{Moved: true, Leader: last.Leader, Epoch: last.Epoch}, nil
}

// Drain waits while the workload is busy.
func (c *custom) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, customDrainLimit)
	defer cancel()
	var busy error
	err := poll(ctx, time.Second, func(ctx context.Context) (bool, error) {
		busy = c.order(ctx, askDrain, nil)
		if errors.Is(busy, ErrBusy) {
			return false, nil
		}
		return true, busy
	})
	if err != nil && errors.Is(busy, ErrBusy) {
		return fmt.Errorf("%w: %w", busy, err)
	}
	return err
}

// CancelDrain makes one call.
func (c *custom) CancelDrain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, customSetLimit)
	defer cancel()
	return c.order(ctx, askUndrain, nil)
}

// Join has nothing to do where members list a newcomer automatically.
func (c *custom) Join(ctx context.Context, slot string) error {
	if c.set != group.SetAdds {
		return nil
	}
	addr, known := c.vip(slot)
	if !known {
		return fmt.Errorf("%w: the address of %s is not known", ErrTransient, slot)
	}
	return c.change(ctx, adapter.SetRequest{Do: adapter.DoAdd, Slot: slot, Address: addr.String()})
}

// Promote has nothing to do where members vote automatically.
func (c *custom) Promote(ctx context.Context, slot, id string) error {
	if c.set != group.SetAdds {
		return nil
	}
	return c.change(ctx, adapter.SetRequest{Do: adapter.DoPromote, Slot: slot, Member: id})
}

// Leave removes this member itself only where a leader hands nothing over.
func (c *custom) Leave(ctx context.Context, slot, id string) error {
	if slot == c.self && !c.stops {
		return fmt.Errorf("%w: %s is this member itself: another one takes it out", ErrUnsafe, slot)
	}
	return c.change(ctx, adapter.SetRequest{Do: adapter.DoRemove, Slot: slot, Member: id})
}

func (c *custom) change(ctx context.Context, r adapter.SetRequest) error {
	if c.set == group.SetNone {
		return fmt.Errorf("%w: its workload setting set is %q", ErrUnsafe, c.set)
	}
	ctx, cancel := context.WithTimeout(ctx, customSetLimit)
	defer cancel()
	return c.order(ctx, askSet, r)
}

// order is a call whose answer is only whether it was done.
func (c *custom) order(ctx context.Context, q question, request any) error {
	text, err := c.asker.ask(ctx, q, request)
	if err != nil || len(strings.TrimSpace(string(text))) == 0 {
		return err
	}
	return decodeAnswer(text, &struct{}{})
}

// decodeAnswer reads an answer, which the caller has bounded.
func decodeAnswer(text []byte, into any) error {
	return unsound(strictjson.Unmarshal(text, into))
}

// unsound is the error of an answer that is refused for err, with all faults in one printable line: a
// fault may quote the answer.
func unsound(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: the adapter's answer is refused: %s", ErrTransient, adapter.Text(strings.ReplaceAll(err.Error(), "\n", "; ")))
}
