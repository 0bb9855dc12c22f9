package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"cadre.dev/core/group"
)

// Role of the member in its workload's own cluster.
type Role string

const (
	// RoleUnknown means that the workload did not report a role. The zero value reads as this.
	RoleUnknown Role = "unknown"
	// RoleLeader leads.
	RoleLeader Role = "leader"
	// RoleFollower votes or can be promoted.
	RoleFollower Role = "follower"
	// RoleLearner does not vote.
	RoleLearner Role = "learner"
	// RoleNone is for a workload without roles.
	RoleNone Role = "none"
)

// Liveness is the result of contacting the local process: an answer, a refused connection or no
// answer. Only the first two prove anything about the process.
type Liveness string

const (
	// LivenessUnknown: no answer came in time, which proves nothing. The zero value.
	LivenessUnknown Liveness = ""
	// LivenessAlive: the process answered. An error status, a refused login and a failed TLS
	// handshake are answers.
	LivenessAlive Liveness = "alive"
	// LivenessRefused: the host refused the connection, so that no process listens at the port.
	LivenessRefused Liveness = "refused"
)

// View is the result of one Observe (workload-handover 2.1). Names are Slot names.
type View struct {
	Role Role
	// Liveness is that of the local process, independent of the cluster.
	Liveness Liveness
	// Ready: may receive traffic of its role.
	Ready bool
	// CaughtUp and LagBytes: nil is not known; never substitute zero (R52).
	CaughtUp *bool
	LagBytes *int64
	// Leader as this member sees it; empty when unknown.
	Leader string
	// Epoch is the raft term or timeline: monotonic.
	Epoch uint64
	// Voters as the member's own configuration lists them, sorted (R43).
	Voters []string
	// Learners belong to the same configuration without a vote, sorted.
	Learners []string
	// MemberIDs maps each Slot to the workload's own id of its member: a replacement under the same
	// name has another id. A member with an unknown Slot is listed under its address if the address
	// identifies the Slot, else under its id. Nil for a workload without such ids.
	MemberIDs map[string]string
	// Followers are the members that this leader sees following it now, sorted: they live, even
	// if other sources disagree. Nil if this member does not lead, or cannot observe them.
	Followers []string
	// QuorumMember: this member votes in a majority of Voters.
	QuorumMember bool
	// Busy lists work in progress that a stop would hurt.
	Busy []string
	// Version of the server that runs, and of the data on its disk; empty: not known.
	Version    string
	DataFormat string
	// Message names the missing condition, for people.
	Message string
	// Fault names a fault of the workload while the member is ready, for people. Rollouts and
	// healing ignore it.
	Fault string
	// MayDisrupt is false while the workload reports that this member must not be stopped;
	// MayDisruptReason is the reason.
	MayDisrupt       bool
	MayDisruptReason string
}

// Equal compares everything except LagBytes, which moves all the time.
func (v View) Equal(o View) bool {
	return v.Role == o.Role && v.Liveness == o.Liveness && v.Ready == o.Ready &&
		equalPtr(v.CaughtUp, o.CaughtUp) && v.Leader == o.Leader && v.Epoch == o.Epoch &&
		slices.Equal(v.Voters, o.Voters) && slices.Equal(v.Learners, o.Learners) && maps.Equal(v.MemberIDs, o.MemberIDs) && slices.Equal(v.Followers, o.Followers) && v.QuorumMember == o.QuorumMember &&
		slices.Equal(v.Busy, o.Busy) && v.Version == o.Version && v.DataFormat == o.DataFormat && v.Message == o.Message && v.Fault == o.Fault &&
		v.MayDisrupt == o.MayDisrupt && v.MayDisruptReason == o.MayDisruptReason
}

// TransferRequest asks to move leadership off ExpectedLeader (R54).
type TransferRequest struct {
	// ExpectedLeader must be this member; the transfer is made only while it leads.
	ExpectedLeader string
	// Candidates, best first; only these are chosen.
	Candidates []string
	// Chosen is the choice of Prepare among Candidates; zero: Transfer chooses.
	Chosen Choice
}

// Choice is a candidate that could take over at the time of Prepare. It is a hint: Transfer uses
// the candidate only if it still qualifies.
type Choice struct {
	Candidate string
	// Epoch in which the member led.
	Epoch uint64
}

// Transferred is the confirmed outcome of a Transfer.
type Transferred struct {
	// Moved is true when this call moved leadership. It is false when another member led already,
	// which is success for "move off this member".
	Moved bool
	// Leader now.
	Leader string
	Epoch  uint64
}

// Driver knows one workload. All methods are safe for concurrent use, end with
// ctx, and may be repeated.
type Driver interface {
	// Observe reads the member's state in under a second. A member that is down is a View with that
	// state, not an error; an error means that the driver itself failed, and is no evidence about the
	// member.
	Observe(ctx context.Context) (View, error)
	// Transfer moves leadership off this member and returns when the new leader
	// is confirmed independently of the call's reply. Errors are ErrBusy,
	// ErrUnsafe or ErrTransient.
	Transfer(ctx context.Context, r TransferRequest) (Transferred, error)
	// Drain gets the member ready to be stopped: it no longer leads if it was
	// handed over, and nothing is half done. Membership is not changed.
	Drain(ctx context.Context) error
	// CancelDrain undoes Drain and returns the member to service.
	CancelDrain(ctx context.Context) error
}

var (
	// ErrBusy reports that another change of the workload is in progress; observe, then try again.
	ErrBusy = errors.New("workload is busy")
	// ErrUnsafe reports that the workload refused, or that no candidate qualifies; never force.
	ErrUnsafe = errors.New("workload refuses")
	// ErrTransient reports that no answer came in time; the effect is unknown, observe before
	// repeating.
	ErrTransient = errors.New("workload did not answer")
)

// Config makes a Driver.
type Config struct {
	// Kind and Settings as in group.Workload.
	Kind     string
	Settings map[string]string
	// Self is this Slot's name, which is also the member's name in the workload.
	Self string
	// VIP returns a Slot's virtual address, if it is known.
	VIP func(slot string) (netip.Addr, bool)
	// SlotAt is the inverse of VIP; nil knows no Slot.
	SlotAt func(vip netip.Addr) (slot string, ok bool)
	// Members are the Slots that the group is to have, by its newest configuration; nil knows none.
	Members func() []string
	// Local is the own member's address; the zero value is 127.0.0.1. Several members on one
	// machine (tests) have one address each.
	Local netip.Addr
	// Commands are those of the CVM's services, for an adapter of the exec form; nil: there are none.
	Commands Commands
	// Budget is the time of an adapter for the answer about its member; 0: CustomBudget, or
	// CustomExecBudget.
	Budget time.Duration
	Log    *slog.Logger
}

// New returns the driver of cfg.Kind; empty means "none".
func New(cfg Config) (Driver, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.SlotAt == nil {
		cfg.SlotAt = func(netip.Addr) (string, bool) { return "", false }
	}
	if cfg.Members == nil {
		cfg.Members = func() []string { return nil }
	}
	if !cfg.Local.IsValid() {
		cfg.Local = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	settings, err := group.Workload{Kind: cfg.Kind, Settings: cfg.Settings}.ReadSettings()
	if err != nil {
		return nil, err
	}
	switch cfg.Kind {
	case "", group.WorkloadNone:
		return none{self: cfg.Self}, nil
	case group.WorkloadPatroni:
		return newPatroni(cfg, settings)
	case group.WorkloadConsul:
		return newConsul(cfg, settings)
	case group.WorkloadEtcd:
		return newEtcd(cfg, settings)
	case group.WorkloadCustom:
		return newCustom(cfg, settings)
	default:
		return nil, fmt.Errorf("workload kind %q has no driver in this agent", cfg.Kind)
	}
}

// Preparer is a Driver that can do a part of a Transfer in advance.
type Preparer interface {
	// Prepare returns the request with its choice of candidate. It changes no state that a member
	// or a client sees. If Transfer would fail, Prepare returns the same error; its other errors
	// only cost time.
	Prepare(ctx context.Context, r TransferRequest) (TransferRequest, error)
}

// Prepare does as much of a Transfer as is possible while clients are still served, so that they
// wait less, and returns the request for Transfer. Its duration is not bounded here.
func Prepare(ctx context.Context, d Driver, r TransferRequest) (TransferRequest, error) {
	if p, ok := d.(Preparer); ok {
		return p.Prepare(ctx, r)
	}
	return r, nil
}

// Close closes the connections that d keeps open, if any.
func Close(d Driver) {
	if c, ok := d.(interface{ close() }); ok {
		c.close()
	}
}

// poll calls f at once and then every interval until it reports done, fails, or
// ctx ends; a ctx that ends is ErrTransient with its cause.
func poll(ctx context.Context, every time.Duration, f func(context.Context) (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		done, err := f(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrTransient, context.Cause(ctx))
		}
	}
}

func equalPtr[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func ptr[T any](v T) *T { return &v }
