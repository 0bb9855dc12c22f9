package report

import (
	"context"
	"strings"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/health"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Sources are the inputs of a report.
type Sources struct {
	// AgentSpec is the Revision whose driver, hooks and checks are in force; empty: not known. The
	// Builder reads it first, so that the Checks of that Revision are in force by then.
	AgentSpec func() string
	Member    func() member.State
	Checks    func() []health.Result
	Results   func() []lifecycle.Result
	// Epochs of the secrets that this Boot has.
	Epochs func() map[string]uint32
	// Backends are the backends that workloads register.
	Backends func() []selfreport.State
	// Faults are the agent's own faults, for people.
	Faults  func() []string
	Version string
	BootAt  time.Time
}

// Builder makes reports. Safe for concurrent use.
type Builder struct {
	src    Sources
	streak streak
}

// NewBuilder returns a Builder.
func NewBuilder(src Sources) *Builder { return &Builder{src: src} }

// Note takes the present health into the streak; call it on each change.
func (b *Builder) Note() {
	b.streak.add(b.verdict(b.src.Member(), b.src.Checks()), time.Now())
}

// Follow builds a report and notifies changed, at once and after a change of any source, until ctx
// ends; sources are like those of latestvalue.Each.
func (b *Builder) Follow(ctx context.Context, changed *latestvalue.Value[struct{}], sources ...func() <-chan struct{}) {
	latestvalue.Each(ctx, func() {
		b.Note()
		changed.Set(struct{}{})
	}, sources...)
}

// Faults returns the faults for Sources: those of the disk, and the non-nil errs.
func Faults(disk []string, errs ...error) []string {
	for _, err := range errs {
		if err != nil {
			disk = append(disk, err.Error())
		}
	}
	return disk
}

// Build makes the whole current report, without sequence, time, term, state and version.
func (b *Builder) Build() *controlv1.Report {
	agentSpec := b.src.AgentSpec()
	state, checks := b.src.Member(), b.src.Checks()
	lasting := b.streak.add(b.verdict(state, checks), time.Now())
	r := &controlv1.Report{
		AgentSpec: agentSpec, MemberKnown: state.Known, Member: memberView(state),
		HealthyFor:   durationpb.New(lasting),
		AgentVersion: b.src.Version, BootAt: timestamppb.New(b.src.BootAt),
	}
	r.SecretEpochs = b.src.Epochs()
	for _, fault := range b.src.Faults() {
		r.Faults = append(r.Faults, truncateText(fault))
	}
	if fault := state.View.Fault; fault != "" {
		r.Faults = append(r.Faults, truncateText(fault))
	}
	for _, c := range checks {
		r.Checks = append(r.Checks, &controlv1.CheckResult{
			Name: c.Name, Health: healthOf(c.Health), Message: truncateText(c.Message), Since: timestamppb.New(c.Since), Informative: c.Informative, Pending: c.Pending,
		})
	}
	for _, s := range b.src.Backends() {
		r.Backends = append(r.Backends, &controlv1.BackendState{Name: s.Name, Health: healthOf(s.Health), Tags: s.Tags, Output: truncateText(s.Output)})
	}
	for _, s := range b.src.Results() {
		r.Steps = append(r.Steps, stepResult(s))
	}
	return r
}

// verdict is healthy only when every input is, except informative and pending checks; unknown is
// never healthy (R10).
func (b *Builder) verdict(state member.State, checks []health.Result) verdict {
	v := state.View
	seen := state.Known && v.Liveness != driver.LivenessUnknown
	if seen && !v.Ready || v.CaughtUp != nil && !*v.CaughtUp {
		return unhealthy
	}
	out := healthy
	if !seen || v.CaughtUp == nil {
		out = unknown
	}
	for _, c := range checks {
		if c.Informative || c.Pending {
			continue
		}
		switch c.Health {
		case rollout.Unhealthy:
			return unhealthy
		case rollout.Unknown:
			out = unknown
		case rollout.Healthy:
		}
	}
	return out
}

// truncateText bounds a text for people and makes it fit for the wire, which takes UTF-8 only.
func truncateText(s string) string {
	const limit = 512
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
