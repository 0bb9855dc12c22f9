package contest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"time"

	"cadre.dev/bench/internal/overlay/certs"
	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/bench/internal/overlay/place"
	"cadre.dev/lab/worker"
)

// Options select the measurements. Fields without a note are required.
type Options struct {
	Rounds int
	// Window is how long each workload is measured.
	Window time.Duration
	// Only chooses figures and contenders by name; nil means all. A figure brings
	// the contenders and workloads that it compares.
	Only *regexp.Regexp
	// Sockets are the applications'.
	Sockets load.Sockets
	// Rendezvous is the rendezvous server's program.
	Rendezvous string
	// Log takes the workers' output; Debug sets the most detailed level of our own programs.
	Log   *os.File
	Debug bool
	// Progress gets a line for each step.
	Progress io.Writer
}

// Run measures. The Report lists failures, and the other measurements continue. The error is ctx's,
// or a failure that makes all measurements impossible.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Rounds < 1 || o.Window <= 0 {
		return nil, errors.New("at least one round, and a window above zero")
	}
	ca, err := certs.New()
	if err != nil {
		return nil, err
	}
	m := &meeting{
		o: o, env: env{ca: ca, log: o.Log, program: o.Rendezvous, sockets: o.Sockets, debug: o.Debug}, began: time.Now(),
		report: newReport(o.Rounds, o.Sockets), cable: place.Why(),
	}
	m.choose()
	if len(m.contenders)+len(m.solos) == 0 {
		return nil, fmt.Errorf("nothing is called like %v", o.Only)
	}
	for round := 1; round <= o.Rounds; round++ {
		m.round(ctx, round)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	m.compute()
	return m.report, nil
}

// meeting is a run under way.
type meeting struct {
	o     Options
	env   env
	began time.Time
	cable string // why there is no cable; "" when there is

	contenders []Contender
	workloads  map[string]map[Workload]bool // by contender
	ratios     []ratio
	solos      []solo
	report     *Report
}

// choose finds the measurements that Only names.
func (m *meeting) choose() {
	m.workloads = map[string]map[Workload]bool{}
	want := func(contender string, all ...Workload) {
		if m.workloads[contender] == nil {
			m.workloads[contender] = map[Workload]bool{}
		}
		for _, w := range all {
			m.workloads[contender][w] = true
		}
	}
	named := func(name string) bool { return m.o.Only == nil || m.o.Only.MatchString(name) }
	for _, f := range ratios {
		if named(f.name) {
			m.ratios = append(m.ratios, f)
			want(f.ours, f.workload)
			want(f.theirs, f.workload)
		}
	}
	for _, c := range Contenders() {
		if named(c.Name) {
			want(c.Name, Workloads...)
		}
		if m.workloads[c.Name] != nil {
			m.contenders = append(m.contenders, c)
		}
	}
	for _, s := range solos {
		if named(s.name) {
			m.solos = append(m.solos, s)
		}
	}
}

// round measures everything once, in random order.
func (m *meeting) round(ctx context.Context, round int) {
	var steps []func()
	for _, c := range m.contenders {
		steps = append(steps, func() { m.contender(ctx, round, c) })
	}
	for _, s := range m.solos {
		steps = append(steps, func() { m.solo(ctx, round, s) })
	}
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		if ctx.Err() == nil {
			step()
		}
	}
}

// stepTime bounds one contender's or figure's round.
const stepTime = 10 * time.Minute

func (m *meeting) contender(ctx context.Context, round int, c Contender) {
	if m.report.given(c.Name) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stepTime, fmt.Errorf("%s took longer than %v", c.Name, stepTime))
	defer cancel()
	result, err := m.trial(ctx, c)
	switch {
	case err == nil:
		m.report.results[c.Name] = append(m.report.results[c.Name], result)
		m.say(round, "%-20s %s", c.Name, result)
	case errors.Is(err, worker.ErrUnavailable) || c.optional:
		m.report.missing[c.Name] = err.Error()
		m.say(round, "%-20s left out: %v", c.Name, err)
	default:
		m.report.failed[c.Name] = err.Error()
		m.say(round, "%-20s FAILED: %v", c.Name, err)
	}
}

func (m *meeting) trial(ctx context.Context, c Contender) (_ Result, err error) {
	if m.cable != "" {
		return Result{}, fmt.Errorf("%w: %s", worker.ErrUnavailable, m.cable)
	}
	cable, err := place.NewCable(ctx)
	if err != nil {
		return Result{}, err
	}
	r := &rig{env: m.env}
	r.also(cable.Close)
	defer func() { err = errors.Join(err, r.close()) }()
	l, err := c.setUp(ctx, r, cable)
	if err != nil {
		return Result{}, fmt.Errorf("set up: %w", err)
	}
	return l.measure(ctx, paceOf(m.o.Window), m.workloads[c.Name])
}

func (m *meeting) solo(ctx context.Context, round int, s solo) {
	if m.report.given(s.name) {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stepTime, fmt.Errorf("%s took longer than %v", s.name, stepTime))
	defer cancel()
	r := &rig{env: m.env}
	value, detail, err := 0.0, map[string]float64(nil), error(nil)
	if m.cable != "" {
		err = fmt.Errorf("%w: %s", worker.ErrUnavailable, m.cable)
	} else {
		value, detail, err = s.measure(ctx, r, paceOf(m.o.Window))
	}
	err = errors.Join(err, r.close())
	switch {
	case err == nil:
		m.report.samples[s.name] = append(m.report.samples[s.name], sample{value, detail})
		m.say(round, "%-30s %.3g %s %s", s.name, value, s.unit, texts(detail))
	case errors.Is(err, worker.ErrUnavailable):
		m.report.missing[s.name] = err.Error()
		m.say(round, "%-30s not measured: %v", s.name, err)
	default:
		m.report.failed[s.name] = err.Error()
		m.say(round, "%-30s FAILED: %v", s.name, err)
	}
}

// say prints a step, with the time since the start.
func (m *meeting) say(round int, format string, args ...any) {
	_, _ = fmt.Fprintf(m.o.Progress, "[%5.0fs] %d/%d %s\n", time.Since(m.began).Seconds(), round, m.o.Rounds, fmt.Sprintf(format, args...))
}

func texts(detail map[string]float64) string {
	var s string
	for _, name := range slices.Sorted(maps.Keys(detail)) {
		s += fmt.Sprintf(" %s=%.4g", name, detail[name])
	}
	return s
}

// compute makes figures of the measurements.
func (m *meeting) compute() {
	for _, f := range m.ratios {
		m.report.ratio(f)
	}
	for _, s := range m.solos {
		m.report.solo(s)
	}
	for _, c := range m.contenders {
		m.report.contender(c.Name)
	}
}
