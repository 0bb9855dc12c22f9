package selfreport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Bounds of a workload's report.
const (
	MaxTags   = 8
	MaxTag    = 40
	MaxOutput = 512
)

// Status is the state in a workload's report.
type Status string

// The statuses, with Consul's names.
const (
	Passing  Status = "passing"
	Warning  Status = "warning"
	Critical Status = "critical"
)

// Report is a workload's report of one backend, or one check.
type Report struct {
	Status Status `json:"status"`
	// Tags are lower-case names; one of them may be the role of a route.
	Tags   []string `json:"tags,omitempty"`
	Output string   `json:"output,omitempty"`
}

// State is the state of a backend or check by its workload's report.
type State struct {
	Name string
	// Health is unknown without a valid report. A warning is healthy.
	Health rollout.Health
	Tags   []string
	Output string
}

var (
	// ErrUnknown: workloads report on no such name.
	ErrUnknown = errors.New("is not a name that the workload reports on")
	// ErrInvalid: the report breaks a bound.
	ErrInvalid = errors.New("not taken")
)

// Registry holds the reports of this CVM's workloads. Safe for concurrent use.
type Registry struct {
	changed latestvalue.Value[struct{}]
	keep    keep

	mu      sync.Mutex
	ttls    map[string]time.Duration // guarded by mu; of all names that workloads report on
	reports map[string]timedReport   // guarded by mu
	// before holds the reports of an earlier process of the Boot, until the first Set. Guarded by
	// mu.
	before map[string]storedReport
}

type timedReport struct {
	Report

	at, until time.Time
}

// New returns a Registry that keeps nothing.
func New() *Registry { return newRegistry(keep{}) }

// Open returns a Registry that stores its reports in the file at path, whose folder must be in
// memory. The Registry continues with the reports of an earlier process of the same Boot. It
// ignores an unreadable file.
func Open(path, boot string, log *slog.Logger) *Registry {
	r := newRegistry(keep{path: path, boot: boot, log: log})
	r.before = r.keep.load()
	return r
}

func newRegistry(k keep) *Registry {
	return &Registry{keep: k, ttls: map[string]time.Duration{}, reports: map[string]timedReport{}}
}

// Changes reports each change of States.
func (r *Registry) Changes() *latestvalue.Value[struct{}] { return &r.changed }

// OfBackends returns the backends of the service mesh that workloads report on, each with the time
// that a report holds.
func OfBackends(mesh group.ServiceMesh) map[string]time.Duration {
	ttls := map[string]time.Duration{}
	for _, p := range mesh.Proxies {
		if p.Owner == group.OwnerWorkload {
			ttls[p.Backend] = p.TTL.D()
		}
	}
	return ttls
}

// OfChecks are the checks that workloads answer.
func OfChecks(checks []group.HealthCheck) map[string]time.Duration {
	ttls := map[string]time.Duration{}
	for _, c := range checks {
		if c.TTL != nil {
			ttls[c.Name] = time.Duration(c.TTL.TTLSec) * time.Second
		}
	}
	return ttls
}

// Set names the backends or checks that workloads report, each with the time that a report holds. A
// report of a remaining name expires that long after it was made.
func (r *Registry) Set(ttls map[string]time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before == nil && maps.Equal(r.ttls, ttls) {
		return
	}
	r.ttls = ttls
	now := time.Now()
	for name, w := range r.reports {
		ttl, still := ttls[name]
		if w.until = w.at.Add(ttl); still && now.Before(w.until) {
			r.reports[name] = w
		} else {
			delete(r.reports, name)
		}
	}
	r.takeLocked(r.before, now)
	r.before = nil
	r.saveLocked()
	r.changed.Set(struct{}{})
}

// takeLocked takes over the reports of an earlier process. A report from the future counts from
// now: a clock that was set back gives no report more than its time.
func (r *Registry) takeLocked(before map[string]storedReport, now time.Time) {
	for name, k := range before {
		at := k.At
		if at.After(now) {
			at = now
		}
		if left := r.ttls[name] - now.Sub(at); left > 0 {
			r.reports[name] = timedReport{k.Report, at, now.Add(left)}
		}
	}
}

// Put takes a report: ErrUnknown, ErrInvalid. It holds until the next one, for ttl at most.
func (r *Registry) Put(name string, w Report) (ttl time.Duration, err error) {
	if err := w.check(); err != nil {
		return 0, err
	}
	w.Tags = slices.Compact(slices.Sorted(slices.Values(w.Tags)))
	w.Output = strings.ToValidUTF8(w.Output, "?")
	r.mu.Lock()
	defer r.mu.Unlock()
	ttl, ok := r.ttls[name]
	if !ok {
		return 0, fmt.Errorf("%.60q %w (here: %s)", name, ErrUnknown, strings.Join(slices.Sorted(maps.Keys(r.ttls)), ", "))
	}
	before, had := r.reports[name]
	now := time.Now()
	r.reports[name] = timedReport{w, now, now.Add(ttl)}
	r.saveLocked()
	if !had || before.Status != w.Status || before.Output != w.Output || !slices.Equal(before.Tags, w.Tags) {
		r.changed.Set(struct{}{})
	}
	return ttl, nil
}

func (w Report) check() error {
	var errs []error
	if w.Status != Passing && w.Status != Warning && w.Status != Critical {
		errs = append(errs, fmt.Errorf("status: %w: %.40q is unknown: use %s, %s or %s", ErrInvalid, string(w.Status), Passing, Warning, Critical))
	}
	if len(w.Tags) > MaxTags {
		errs = append(errs, fmt.Errorf("tags: %w: there are %d, at most %d are allowed", ErrInvalid, len(w.Tags), MaxTags))
	}
	for i, tag := range w.Tags {
		if p := group.NameProblem(tag); p != "" || len(tag) > MaxTag {
			errs = append(errs, fmt.Errorf("tags[%d]: %w: %.60q %s", i, ErrInvalid, tag, p))
		}
	}
	if len(w.Output) > MaxOutput {
		errs = append(errs, fmt.Errorf("output: %w: has %d bytes, at most %d are allowed", ErrInvalid, len(w.Output), MaxOutput))
	}
	return errors.Join(errs...)
}

// States returns the states of all names that workloads report on, sorted by name.
func (r *Registry) States() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []State
	for _, name := range slices.Sorted(maps.Keys(r.ttls)) {
		w, has := r.reports[name]
		s := State{Name: name, Health: rollout.Unknown, Output: "the workload has not reported yet"}
		if has {
			s.Health, s.Tags, s.Output = health(w.Status), w.Tags, w.Output
		}
		out = append(out, s)
	}
	return out
}

func health(s Status) rollout.Health {
	if s == Critical {
		return rollout.Unhealthy
	}
	return rollout.Healthy
}

// Run removes expired reports until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	for {
		_, index := r.changed.Get()
		next := r.expire(time.Now())
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-r.changed.Changed(index):
		}
		timer.Stop()
	}
}

// expire drops expired reports and returns the time until the next expiry.
func (r *Registry) expire(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, over := time.Hour, false
	for name, w := range r.reports {
		left := w.until.Sub(now)
		if left <= 0 {
			delete(r.reports, name)
			over = true
			continue
		}
		next = min(next, left)
	}
	if over {
		r.saveLocked()
		r.changed.Set(struct{}{})
	}
	return next
}
