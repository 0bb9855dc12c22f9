package simulated

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/desired"
	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/health"
	"cadre.dev/agent/internal/latest"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/agent/internal/report"
	"cadre.dev/agent/internal/words"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// What a simulation gives an agent, in the agent's own words.
type (
	// Disk is that of a CVM; the zero one is empty.
	Disk = durable.Memory
	// Driver knows the simulated workload. One that is a Changer too can change its set.
	Driver = driver.Driver
	// Changer changes who belongs to the set of the workload.
	Changer = driver.Changer
	// View is what a Driver sees.
	View = driver.View
	// TransferRequest asks for a hand-over of leadership.
	TransferRequest = driver.TransferRequest
	// Transferred is one that was made.
	Transferred = driver.Transferred
	// Commands run hooks, and restart services.
	Commands = lifecycle.Commands
	// Checks run commands of health checks; those of other kinds are not simulated.
	Checks = health.Commands
	// Hook is one of the order at work.
	Hook = lifecycle.HookStatus
)

// Roles of a View, and the errors of a Driver.
const (
	RoleUnknown  = driver.RoleUnknown
	RoleLeader   = driver.RoleLeader
	RoleFollower = driver.RoleFollower
	RoleLearner  = driver.RoleLearner
	RoleNone     = driver.RoleNone
)

// HookHeld is the State of a Hook that holds its step until somebody completes it.
const HookHeld = lifecycle.HookHeld

// Errors of a Driver.
var (
	ErrBusy      = driver.ErrBusy
	ErrUnsafe    = driver.ErrUnsafe
	ErrTransient = driver.ErrTransient
)

// Config of an Agent. All fields but Run and Config are required.
type Config struct {
	// Cluster, Group and Slot that the Boot was admitted as.
	Cluster, Group, Slot string
	// BootAt is when the Boot began; Run is how many processes it had before this one.
	BootAt time.Time
	Run    uint32
	// Config is the configuration that the process before had in force; nil: none.
	Config   []byte
	Disk     *Disk
	Driver   Driver
	Commands Commands
	// Checks run the commands of health checks.
	Checks Checks
	// Configured is called with each configuration that comes in force, as the workload sees it.
	Configured func(*group.AgentConfig)
	// Gone reports that the process has ended: what it still does has no effect.
	Gone func() bool
	Log  *slog.Logger
}

// Agent is one process of an agent that was admitted. What it has in memory is lost with it: make
// a new one. Safe for concurrent use.
type Agent struct {
	cfg     Config
	member  *member.Watcher
	checker *health.Checker
	exec    *lifecycle.Executor
	hub     *control.Hub
	builder *report.Builder
	set     *member.SetChanger
	changed latest.Value[struct{}]
	refused latest.Value[error]
	config  latest.Value[*group.AgentConfig]

	mu   sync.Mutex
	text []byte // guarded by mu; what config was read from
}

// New makes one; it does nothing before Run. An error says that the disk is not readable.
func New(cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg, member: member.NewWatcher(cfg.Log), checker: health.NewChecker(cfg.Checks, nil, cfg.Log)}
	disk := cfg.Disk.Open(cfg.Gone, cfg.Log)
	var err error
	a.exec, err = lifecycle.New(lifecycle.Config{
		Slot: cfg.Slot, Disk: disk, Member: a.member, Hooks: a.hooks, Commands: cfg.Commands, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	a.set = &member.SetChanger{Watcher: a.member, Config: &a.config, Connected: a.connected, Ended: a.ended, Log: cfg.Log}
	a.builder = report.NewBuilder(report.Sources{
		Conduct: a.conduct, Member: a.member.State, Checks: a.checker.Results, Results: a.exec.Results,
		Epochs: func() map[string]uint32 { return nil }, Backends: func() []words.State { return nil },
		Faults: a.faults, Version: "simulated", BootAt: cfg.BootAt,
	})
	a.hub, err = control.New(control.Config{
		Disk: disk, Report: a.builder.Build, ReportChanged: &a.changed, Run: cfg.Run, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if len(cfg.Config) > 0 {
		err = a.configure(cfg.Config)
	}
	return a, err
}

// Run does what the agent does, but for the sessions, until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	parts := desired.Parts{
		Configure: a.configure,
		Configured: func() bool {
			current, _ := a.config.Get()
			return current != nil
		},
		Order: a.exec.Apply, Refused: &a.refused, Log: a.cfg.Log,
	}
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{
		a.member.Run, a.checker.Run, a.exec.Run, a.hub.Run, a.set.Run, a.watch,
		func(ctx context.Context) error { return desired.Follow(ctx, a.hub.Desired(), parts) },
	} {
		all.Go(func() { _ = part(ctx) }) // each ends with ctx alone
	}
	all.Wait()
}

// Talk is a session with a coordinator, until ctx ends.
func (a *Agent) Talk(ctx context.Context, coordinator string, client controlv1.CoordinatorServiceClient) {
	a.hub.Talk(ctx, a.coordinator(coordinator), client)
}

// Wake is what a coordinator may call during a session. It does not wait.
func (a *Agent) Wake(ctx context.Context, coordinator string, r *controlv1.WakeRequest) error {
	return a.hub.Wake(ctx, a.coordinator(coordinator), r)
}

func (a *Agent) coordinator(slot string) overlay.ID {
	return overlay.ID{Cluster: a.cfg.Cluster, Group: "coordinator", Slot: slot}
}

// Lost closes when a coordinator says that the Boot is its Slot no more.
func (a *Agent) Lost() <-chan struct{} { return a.hub.Ended().Changed(0) }

// Kick has the agent look at its workload now.
func (a *Agent) Kick() { a.member.Kick() }

// Held is the configuration in force, for the next process of the Boot; nil: there is none.
func (a *Agent) Held() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text
}

// Hooks are those of the order at work, or of the last one.
func (a *Agent) Hooks() []Hook {
	status, _ := a.exec.Status()
	return status.Hooks
}

// Complete ends an open hook as the workload or a person does; it reports whether there was one.
func (a *Agent) Complete(hook, token string, result group.HookResult) bool {
	applied, err := a.exec.Complete(hook, token, result)
	return applied && err == nil
}

func (a *Agent) configure(text []byte) error {
	if len(text) == 0 {
		return nil // the coordinator cannot read what belongs to this Boot: the old one stays
	}
	next, _, err := desired.Config(text)
	if err != nil {
		return err
	}
	if next.Slot != a.cfg.Slot {
		return fmt.Errorf("slot: it is for %q, this is %q", next.Slot, a.cfg.Slot)
	}
	old, _ := a.config.Get()
	if old != nil && reflect.DeepEqual(*old, *next) {
		return nil
	}
	a.checker.SetChecks(next.HealthChecks)
	if old == nil {
		a.member.SetDriver(a.cfg.Driver)
	}
	a.mu.Lock()
	a.text = text
	a.mu.Unlock()
	a.config.Set(next)
	a.cfg.Configured(next)
	return nil
}

// watch keeps the healthy streak and asks for a report on every change.
func (a *Agent) watch(ctx context.Context) error {
	for {
		_, members := a.member.Changes().Get()
		_, checks := a.checker.Changes().Get()
		_, steps := a.exec.Changes().Get()
		_, config := a.config.Get()
		a.builder.Note()
		a.changed.Set(struct{}{})
		select {
		case <-ctx.Done():
			return nil
		case <-a.member.Changes().Changed(members):
		case <-a.checker.Changes().Changed(checks):
		case <-a.exec.Changes().Changed(steps):
		case <-a.config.Changed(config):
		}
	}
}

func (a *Agent) hooks() []group.LifecycleHook {
	if c, _ := a.config.Get(); c != nil {
		return c.LifecycleHooks
	}
	return nil
}

func (a *Agent) conduct() string {
	if c, _ := a.config.Get(); c != nil {
		return c.Conduct
	}
	return ""
}

func (a *Agent) faults() []string {
	var out []string
	if err, _ := a.refused.Get(); err != nil {
		out = append(out, err.Error())
	}
	if err := a.set.Fault(); err != nil {
		out = append(out, err.Error())
	}
	return out
}

func (a *Agent) connected() bool {
	sessions, _ := a.hub.Sessions().Get()
	return sessions > 0
}

func (a *Agent) ended() bool {
	why, _ := a.hub.Ended().Get()
	return why != nil
}
