package simulated

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/desired"
	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/health"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/agent/internal/report"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// The parts that a simulation gives an agent, under the agent's own names.
type (
	// Disk is that of a CVM; the zero one is empty.
	Disk = durable.Memory
	// Driver observes the simulated workload. A Driver that is also a Changer can change its set.
	Driver = driver.Driver
	// Changer changes the membership of the workload's set.
	Changer = driver.Changer
	// View is the result of a Driver's observation.
	View = driver.View
	// TransferRequest asks for a hand-over of leadership.
	TransferRequest = driver.TransferRequest
	// Transferred is the result of a Transfer.
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

	LivenessAlive   = driver.LivenessAlive
	LivenessRefused = driver.LivenessRefused
)

// HookHeld is the State of a Hook that holds its step until it is completed.
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
	// Gone reports that the process has ended: its further calls have no effect.
	Gone func() bool
	Log  *slog.Logger
}

// Agent is one process of an admitted agent. Its memory ends with it: make a new one. Safe for
// concurrent use.
type Agent struct {
	cfg     Config
	member  *member.Watcher
	checker *health.Checker
	exec    *lifecycle.Executor
	hub     *control.Hub
	builder *report.Builder
	set     *member.SetChanger
	changed latestvalue.Value[struct{}]
	config  desired.InForce
}

// New makes an Agent; it does nothing before Run. An error means that the disk is not readable.
func New(cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg, member: member.NewWatcher(cfg.Log), checker: health.NewChecker(cfg.Checks, nil, cfg.Log)}
	a.config = desired.InForce{Slot: func() string { return cfg.Slot }, Apply: a.apply, Applied: cfg.Configured, Log: cfg.Log}
	disk := cfg.Disk.Open(cfg.Gone, cfg.Log)
	var err error
	a.exec, err = lifecycle.New(lifecycle.Config{
		Slot: cfg.Slot, Disk: disk, Member: a.member, Hooks: a.config.Hooks, Commands: cfg.Commands, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	a.builder = report.NewBuilder(report.Sources{
		AgentSpec: a.config.AgentSpec, Member: a.member.State, Checks: a.checker.Results, Results: a.exec.Results,
		Epochs: func() map[string]uint32 { return nil }, Backends: func() []selfreport.State { return nil },
		Faults:  func() []string { return report.Faults(disk.Faults(), a.config.Fault(), a.set.Fault()) },
		Version: "simulated", BootAt: cfg.BootAt,
	})
	a.hub, err = control.New(control.Config{
		Disk: disk, Report: a.builder.Build, ReportChanged: &a.changed, Run: cfg.Run, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	a.set = &member.SetChanger{
		Watcher: a.member, Config: &a.config.Value, Connected: a.hub.Connected, Log: cfg.Log,
		Ended: func() bool { why, _ := a.hub.Ended().Get(); return why != nil },
	}
	return a, a.config.Configure(cfg.Config)
}

// Run runs all parts of the agent except the sessions, until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{
		a.member.Run, a.checker.Run, a.exec.Run, a.hub.Run, a.set.Run,
		func(ctx context.Context) error { return a.config.Follow(ctx, a.hub.Desired(), a.exec.Apply) },
	} {
		all.Go(func() { _ = part(ctx) }) // each ends with ctx alone
	}
	all.Go(func() {
		a.builder.Follow(ctx, &a.changed, a.member.Changes().Next, a.checker.Changes().Next, a.exec.Changes().Next, a.config.Next)
	})
	all.Wait()
}

// Talk is a session with a coordinator, until ctx ends.
func (a *Agent) Talk(ctx context.Context, coordinator string, client controlv1.CoordinatorServiceClient) {
	a.hub.Talk(ctx, a.coordinator(coordinator), client)
}

// Wake is the call of a coordinator during a session. It does not wait.
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

// Config is the configuration in force, for the next process of the Boot; nil: there is none.
func (a *Agent) Config() []byte { return a.config.Text() }

// Hooks are those of the present order, or of the last one.
func (a *Agent) Hooks() []Hook {
	status, _ := a.exec.Status()
	return status.Hooks
}

// Complete ends an open hook as the workload or a person does; it reports whether there was one.
func (a *Agent) Complete(hook, token string, result group.HookResult) bool {
	applied, err := a.exec.Complete(hook, token, result)
	return applied && err == nil
}

// apply applies next to the checks and then sets the workload's driver, if next has any. Without
// its checks, a new driver's Boot would seem healthy.
func (a *Agent) apply(old, next *group.AgentConfig) error {
	a.checker.SetChecks(next.HealthChecks)
	if old == nil {
		a.member.SetDriver(a.cfg.Driver)
	}
	return nil
}
