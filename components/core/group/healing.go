package group

import (
	"fmt"
	"slices"
	"time"
)

// AutoHealing makes the leader repair a failed member automatically, by remedies from gentle to
// harsh (R115). Without it an operator repairs members.
type AutoHealing struct {
	// HealthCheck names the check whose failure starts a repair. Absent: only the platform's
	// report, missing heartbeats and the workload driver's report about the process start one.
	HealthCheck string `json:"health_check,omitempty"`
	// Service is the compose service whose workload the agent restarts before the leader restarts
	// the CVM. The service needs an x-cadre key. Absent: the leader restarts the CVM.
	Service string `json:"service,omitempty"`
	// InitialDelaySec after a Boot in which failures do not count, until it is ready (R113); 0..3600, default 300.
	InitialDelaySec *int `json:"initial_delay_sec,omitempty"`
	// Replace: "ask" leaves the last rung, another CVM with an empty disk, to an operator;
	// "auto" takes it. Default "ask".
	Replace string `json:"replace,omitempty"`
	// At is the Revision of a repair whose Slot waits for its update (R116). "newest": the update is the repair, where the
	// update may begin. "running": restarts at the running Revision come first, max_attempts of them. Default "newest".
	At string `json:"at,omitempty"`
}

// Values of AutoHealing.At.
const (
	HealAtNewest  = "newest"
	HealAtRunning = "running"
)

// Values of AutoHealing.Replace.
const (
	ReplaceAsk  = "ask"
	ReplaceAuto = "auto"
)

// RestartPolicy says which failures healing restarts a CVM for, and how often.
type RestartPolicy struct {
	// On lists the faults that start a repair. "unhealthy": a member that runs and fails, or sends
	// no heartbeat. "exit": a CVM that stopped, failed to boot or is gone, also after a reboot of
	// its host. "always" is both, and the default. "never" is neither: the group shows faults and
	// repairs none.
	On []string `json:"on,omitempty"`
	// MaxAttempts in a row, 1..8, default 5. After them the next rung follows, or the Slot
	// is left as it is for an operator (R118).
	MaxAttempts *int `json:"max_attempts,omitempty"`
	// Window of health after which attempts are forgotten; 1m..24h, default 1h.
	Window Duration `json:"window,omitempty"`
}

// Values of RestartPolicy.On.
const (
	OnUnhealthy = "unhealthy"
	OnExit      = "exit"
	OnAlways    = "always"
	OnNever     = "never"
)

// hostReboot is a word of the field that no platform can answer for.
const hostReboot = "host_reboot"

// Defaults and bounds of healing.
const (
	// DefaultInitialDelay leaves a database the time to replay its log.
	DefaultInitialDelay = 5 * time.Minute
	DefaultMaxAttempts  = 5
	DefaultHealWindow   = time.Hour

	maxInitialDelaySec = 3600
	// maxAttemptsBound: with the waits between them, more would take hours.
	maxAttemptsBound = 8
	minHealWindow    = time.Minute
	maxHealWindow    = 24 * time.Hour
)

// Heals records the latest automatic repairs of a Slot. The record stays with the Slot when the
// Slot gets another CVM (R118).
type Heals struct {
	// Attempts in a row, without a whole window of health between; those on one service, that
	// came before, are Services.
	Attempts int `json:"attempts"`
	Services int `json:"services,omitempty"`
	// Boot is the last of the Attempts that its host made, by starting a CVM that had ended: hosts of
	// dstack-vmm do so without a call.
	Boot string `json:"boot,omitempty"`
	// Replacements among them.
	Replacements int `json:"replacements,omitempty"`
	// Shared counts the Attempts that started a stopped CVM while other members were unhealthy as
	// well. They lengthen the wait, and do not count towards max_attempts.
	Shared int `json:"shared,omitempty"`
	// FailedDown are the restarts that were made in this outage while the platform said that the CVM was
	// down, and did not help. Kept here, since of Operations only the newest are kept.
	FailedDown int `json:"failed_down,omitempty"`
	// LastAt is the start of the last attempt, LastKind its operation and LastWhy its reason.
	LastAt   time.Time `json:"last_at"`
	LastKind string    `json:"last_kind"`
	LastWhy  string    `json:"last_why"`
	// RatedAt is when the last repair began that the limiter counts. The limiter does not count the start of a CVM that is down.
	RatedAt time.Time `json:"rated_at,omitzero"`
}

// Rated is when the last repair began that the limiter counts; zero: there was none, as of nil.
func (h *Heals) Rated() time.Time {
	if h == nil {
		return time.Time{}
	}
	return h.RatedAt
}

// Replaced returns the replacements of h, which an update keeps until its Revision is reached. An
// update that fails therefore allows no further replacement in the same window.
func (h *Heals) Replaced() *Heals {
	if h == nil || h.Replacements == 0 {
		return nil
	}
	return &Heals{Attempts: h.Replacements, Replacements: h.Replacements, LastAt: h.LastAt, LastKind: h.LastKind, LastWhy: h.LastWhy}
}

// InitialDelay is how long failures after a Boot do not count, at most.
func InitialDelay(s Spec) time.Duration {
	if s.AutoHealing == nil || s.AutoHealing.InitialDelaySec == nil {
		return DefaultInitialDelay
	}
	return time.Duration(clamp(*s.AutoHealing.InitialDelaySec, 0, maxInitialDelaySec)) * time.Second
}

// MaxAttempts is how often in a row a CVM is restarted to heal it.
func MaxAttempts(s Spec) int {
	if n := s.RestartPolicy.MaxAttempts; n != nil {
		return *n
	}
	return DefaultMaxAttempts
}

// HealWindow is how long a Slot is available until earlier attempts are forgotten.
func HealWindow(s Spec) time.Duration {
	if s.RestartPolicy.Window > 0 {
		return s.RestartPolicy.Window.D()
	}
	return DefaultHealWindow
}

// ServiceRestarts is how often in a row a service is restarted before the CVM is.
const ServiceRestarts = 2

// HealsOn reports whether such failures are healed.
func (s Spec) HealsOn(failure string) bool {
	on := s.RestartPolicy.On
	return s.AutoHealing != nil && (len(on) == 0 || slices.Contains(on, OnAlways) || slices.Contains(on, failure))
}

// idleHealing rejects remedies that could never be used. With "never" every remedy is unused on
// purpose, and applies again as written once "never" is removed.
func (v *validator) idleHealing(s Spec, block string) {
	h, rests := s.AutoHealing, slices.Contains(s.RestartPolicy.On, OnNever)
	if !rests && !s.HealsOn(OnUnhealthy) {
		const inside = "is about members that run and do not work, which restart_policy.on leaves alone: add %q there, or remove this"
		if h.HealthCheck != "" {
			v.add(block+".health_check", "", inside, OnUnhealthy)
		}
		if h.Service != "" {
			v.add(block+".service", "R115", inside, OnUnhealthy)
		}
	}
	if !rests && !s.HealsOn(OnExit) && h.Replace == ReplaceAuto {
		v.add(block+".replace", "R115", "is %q: only a CVM that is gone or stays down is replaced, and restart_policy.on leaves those alone: add %q there, or write %q", ReplaceAuto, OnExit, ReplaceAsk)
	}
	if h.Service != "" && h.HealthCheck == "" && !HasDriver(s) {
		v.add(block+".service", "R115", "is never restarted: workload %q has no driver that says that it is down; name a health_check whose failure is healed", s.Workload.Kind)
	}
}

func (v *validator) healing(s Spec) {
	const block, policy = "auto_healing_policies", "restart_policy"
	p := s.RestartPolicy
	if h := s.AutoHealing; h != nil {
		if !v.accepted {
			v.idleHealing(s, block)
		}
		if name := h.HealthCheck; name != "" && !slices.ContainsFunc(s.HealthChecks, func(c HealthCheck) bool { return c.Name == name }) {
			v.add(block+".health_check", "", "%q is the name of no health_check of this group", name)
		}
		if name := h.Service; name != "" && NameProblem(name) != "" {
			v.add(block+".service", "R115", "%s: name a service of the compose text", NameProblem(name))
		}
		if n := h.InitialDelaySec; n != nil && (*n < 0 || *n > maxInitialDelaySec) {
			v.add(block+".initial_delay_sec", "R113", "is %d: must be 0 to %d", *n, maxInitialDelaySec)
		}
		if h.Replace != "" && h.Replace != ReplaceAsk && h.Replace != ReplaceAuto {
			v.add(block+".replace", "R115", "%q is unknown: use %q or %q", h.Replace, ReplaceAsk, ReplaceAuto)
		}
		if h.At != "" && h.At != HealAtNewest && h.At != HealAtRunning {
			v.add(block+".at", "R116", "%q is unknown: use %q or %q", h.At, HealAtNewest, HealAtRunning)
		}
	} else if len(p.On) > 0 || p.MaxAttempts != nil || p.Window != 0 {
		v.add(policy, "", "says how often healing restarts a CVM, and nothing is healed without auto_healing_policies: add `auto_healing_policies {}`, or remove it")
	}
	for i, on := range p.On {
		path := fmt.Sprintf("%s.on[%d]", policy, i)
		switch {
		case on == hostReboot:
			v.add(path, "", "%q is not reported by any platform: use %q, which a reboot of the host shows as", on, OnExit)
		case on != OnUnhealthy && on != OnExit && on != OnAlways && on != OnNever:
			v.add(path, "", "%q is unknown: use %q, %q, %q or %q", on, OnUnhealthy, OnExit, OnAlways, OnNever)
		case len(p.On) > 1 && (on == OnAlways || on == OnNever):
			v.add(path, "", "%q excludes the others: remove it, or the others", on)
		case slices.Contains(p.On[:i], on):
			v.add(path, "", "%q stands twice", on)
		}
	}
	if n := p.MaxAttempts; n != nil && (*n < 1 || *n > maxAttemptsBound) {
		v.add(policy+".max_attempts", "R118", "is %d: must be 1 to %d", *n, maxAttemptsBound)
	}
	if d := p.Window.D(); d != 0 && (d < minHealWindow || d > maxHealWindow) {
		v.add(policy+".window", "R118", "is %s: must be %s to %s", d, minHealWindow, maxHealWindow)
	}
}
