package plan

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String is the plan as text that [Parse] reads: a word and its values on each line.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\ncoordinators %d\nheal %s\nrest %s\nstill %s\n", p.Seed, p.Coordinators, p.HealAt, p.Rest, p.Still)
	for _, g := range p.Groups {
		fmt.Fprintf(&b, "group %s %d %s %s", g.Name, g.Replicas, g.Workload, g.Healing)
		if g.Surge > 0 {
			fmt.Fprintf(&b, " surge %d", g.Surge)
		}
		if g.Service {
			b.WriteString(" service")
		}
		if g.Checked {
			b.WriteString(" checked")
		}
		if g.Hook != Unhooked {
			b.WriteString(" hook " + g.Hook)
		}
		if g.Percent > 0 {
			fmt.Fprintf(&b, " percent %d", g.Percent)
		}
		if g.Deadline > 0 {
			fmt.Fprintf(&b, " deadline %s", g.Deadline)
		}
		if g.MinReady > 0 {
			fmt.Fprintf(&b, " min-ready %s", g.MinReady)
		}
		if g.Launch != Unhooked {
			b.WriteString(" launch " + g.Launch)
		}
		if g.Approval > 0 {
			fmt.Fprintf(&b, " approval %s", g.Approval)
		}
		if g.Rollback {
			b.WriteString(" rollback")
		}
		b.WriteString(g.Stages.text() + g.Order.text() + g.Choices.text() + g.Gate.text())
		b.WriteByte('\n')
	}
	for _, m := range p.Moves {
		fmt.Fprintf(&b, "move %s %s %s %d", m.At, m.Group, m.Release, m.Replicas)
		if m.GiveUp {
			b.WriteString(" give-up")
		}
		if m.Checks != OneCheck {
			b.WriteString(" checks " + m.Checks)
		}
		for _, one := range m.words() {
			if *one.text != "" {
				b.WriteString(" " + one.word + " " + *one.text)
			}
		}
		if m.Partition > 0 {
			fmt.Fprintf(&b, " partition %d", m.Partition)
		}
		if m.Opportunistic {
			b.WriteString(" opportunistic")
		}
		if m.Window != "" {
			b.WriteString(" window " + string(m.Window))
		}
		if len(m.Without) > 0 {
			b.WriteString(" without " + strings.Join(m.Without, " "))
		}
		b.WriteByte('\n')
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "fault %s %s %s %s %s\n", f.At, f.Kind, f.Target, f.For, f.By)
	}
	for _, l := range p.Limits {
		fmt.Fprintf(&b, "limits %s %d %d %d\n", l.At, l.Steps, l.Rollouts, l.Creations)
	}
	for _, n := range p.CrashPoints {
		fmt.Fprintf(&b, "crash-point %d\n", n)
	}
	if p.StopFirst {
		b.WriteString("stop-first\n")
	}
	for _, one := range p.Takes.named() {
		if *one.most != 0 {
			fmt.Fprintf(&b, "takes %s %s\n", one.word, *one.most)
		}
	}
	named := p.Odds.named()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if odds := *named[name]; odds != 0 {
			fmt.Fprintf(&b, "odds %s %g\n", name, odds)
		}
	}
	return b.String()
}

// words are the settings of a move that text writes as a word and a value, in order.
func (m *Move) words() []worded {
	return []worded{{"size", &m.Size}, {"image", &m.Image}, {"own", &m.Own}, {"exclude", &m.Exclude}, {"pin", &m.Pin}, {"preserve", &m.Preserve}}
}

type worded struct {
	word string
	text *string
}

// named are the durations by their names in the text.
func (t *Takes) named() []taking {
	return []taking{{"boot", &t.Boot}, {"lag", &t.Lag}, {"election", &t.Election}}
}

type taking struct {
	word string
	most *time.Duration
}

// named are the odds by their names in the text.
func (o *Odds) named() map[string]*float64 {
	return map[string]*float64{
		"lost-answer": &o.LostAnswer, "never": &o.Never, "late": &o.Late, "refused": &o.Refused, "slow": &o.Slow, "busy": &o.Busy, "blind-ask": &o.BlindAsk,
		"blind-list": &o.BlindList, "stale-list": &o.StaleList, "lost-write": &o.LostWrite, "lost-ack": &o.LostAck,
		"hook": &o.Hook, "handover": &o.Handover,
	}
}

// Parse reads a plan. Lines that are empty or begin with # are skipped. The error names every wrong
// line.
func Parse(text string) (Plan, error) {
	var errs []error
	var p Plan
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := p.take(words[0], words[1:]); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %s: %w", n, words[0], err))
		}
	}
	return p, errors.Join(append(errs, lines.Err(), p.whole())...)
}

// whole reports missing parts of a plan, and settings of groups that the plan does not have.
func (p Plan) whole() error {
	var errs []error
	if p.Coordinators < 1 || len(p.Groups) == 0 {
		errs = append(errs, errors.New("a plan has coordinators and a group at least"))
	}
	names := map[string]bool{}
	for _, g := range p.Groups {
		made := slices.ContainsFunc(p.Moves, func(m Move) bool { return m.Group == g.Name && m.At == 0 })
		if g.After != "" && !names[g.After] {
			errs = append(errs, fmt.Errorf("group %s is after %q: name a group of an earlier line", g.Name, g.After))
		}
		if names[g.Name] = true; !made || g.Replicas < 1 {
			errs = append(errs, fmt.Errorf("group %s has replicas, and a move at 0s that makes it", g.Name))
		}
	}
	for _, m := range p.Moves {
		if !names[m.Group] {
			errs = append(errs, fmt.Errorf("move at %s: there is no group %q", m.At, m.Group))
		}
	}
	for _, f := range p.Faults {
		switch of := f.group(); {
		case of == "" || names[of]:
		case f.ofMember():
			errs = append(errs, fmt.Errorf("fault at %s: there is no member %q: name it as group-0", f.At, f.Target))
		default:
			errs = append(errs, fmt.Errorf("fault at %s: there is no group %q", f.At, f.Target))
		}
	}
	return errors.Join(errs...)
}

// take reads the values of one line.
func (p *Plan) take(word string, values []string) (err error) {
	f := fields{values: values}
	switch word {
	case "seed":
		p.Seed = f.number()
	case "coordinators":
		p.Coordinators = int(f.number())
	case "group":
		p.Groups = append(p.Groups, Group{Name: f.word(), Replicas: int(f.number()), Workload: f.oneOf(workloads), Healing: f.oneOf(healings)})
		if f.next("surge") {
			p.Groups[len(p.Groups)-1].Surge = int(f.number())
		}
		p.Groups[len(p.Groups)-1].Service = f.next("service")
		p.Groups[len(p.Groups)-1].Checked = f.next("checked")
		if f.next("hook") {
			p.Groups[len(p.Groups)-1].Hook = f.oneOf(hooks)
		}
		if f.next("percent") {
			p.Groups[len(p.Groups)-1].Percent = int(f.number())
		}
		if f.next("deadline") {
			p.Groups[len(p.Groups)-1].Deadline = f.time()
		}
		if f.next("min-ready") {
			p.Groups[len(p.Groups)-1].MinReady = f.time()
		}
		if f.next("launch") {
			p.Groups[len(p.Groups)-1].Launch = f.oneOf(hooks)
		}
		if f.next("approval") {
			p.Groups[len(p.Groups)-1].Approval = f.time()
		}
		p.Groups[len(p.Groups)-1].Rollback = f.next("rollback")
		for _, one := range p.Groups[len(p.Groups)-1].named() {
			if f.next(one.word) {
				*one.most = f.time()
			}
		}
		p.Groups[len(p.Groups)-1].Order.take(&f)
		p.Groups[len(p.Groups)-1].Choices.take(&f)
		p.Groups[len(p.Groups)-1].Gate.take(&f)
	case "heal":
		p.HealAt = f.time()
	case "rest":
		p.Rest = f.time()
	case "still":
		p.Still = f.time()
	case "move":
		m := Move{At: f.time(), Group: f.word(), Release: f.word(), Replicas: int(f.number()), GiveUp: f.next("give-up")}
		if f.next("checks") {
			m.Checks = f.oneOf(checks)
		}
		for _, one := range m.words() {
			if f.next(one.word) {
				*one.text = f.word()
			}
		}
		if f.next("partition") {
			m.Partition = int(f.number())
		}
		m.Opportunistic = f.next("opportunistic")
		if f.next("window") {
			m.Window = Spans(f.word())
			if _, err := m.Window.Each(); err != nil {
				f.fail(err)
			}
		}
		if f.next("without") {
			m.Without, f.values = f.values, nil
		}
		p.Moves = append(p.Moves, m)
	case "fault":
		p.Faults = append(p.Faults, Fault{At: f.time(), Kind: FaultKind(f.word()), Target: f.word(), For: f.time(), By: f.time()})
		all := slices.Concat(kinds, asks, operators, exclusions, gates, passes, []FaultKind{Shut})
		if kind := p.Faults[len(p.Faults)-1].Kind; !slices.Contains(all, kind) {
			f.fail(fmt.Errorf("%q is no fault: there are %v", kind, all))
		}
	case "limits":
		p.Limits = append(p.Limits, Limits{At: f.time(), Steps: int(f.number()), Rollouts: int(f.number()), Creations: int(f.number())})
	case "crash-point":
		p.CrashPoints = append(p.CrashPoints, int(f.number()))
	case "stop-first":
		p.StopFirst = true
	case "takes":
		named := p.Takes.named()
		word := f.word()
		at := slices.IndexFunc(named, func(one taking) bool { return one.word == word })
		if at < 0 {
			f.fail(fmt.Errorf("%q takes no time of its own", word))
			break
		}
		*named[at].most = f.time()
	case "odds":
		name := f.word()
		odds, known := p.Odds.named()[name]
		if !known {
			f.fail(fmt.Errorf("%q is unknown: there are %v", name, slices.Sorted(maps.Keys(p.Odds.named()))))
			break
		}
		*odds = f.share()
	default:
		return errors.New("the word is unknown")
	}
	return f.end()
}

// fields reads values one by one; the first wrong value is the error.
type fields struct {
	values []string
	err    error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) word() string {
	if len(f.values) == 0 {
		f.fail(errors.New("a value is missing"))
		return ""
	}
	first := f.values[0]
	f.values = f.values[1:]
	return first
}

// next consumes the word if it comes next.
func (f *fields) next(word string) bool {
	if len(f.values) == 0 || f.values[0] != word {
		return false
	}
	f.values = f.values[1:]
	return true
}

func (f *fields) oneOf(words []string) string {
	word := f.word()
	if !slices.Contains(words, word) {
		f.fail(fmt.Errorf("%q is none of %v", word, words))
	}
	return word
}

func (f *fields) number() uint64 {
	n, err := strconv.ParseUint(f.word(), 10, 64)
	if err != nil {
		f.fail(err)
	}
	return n
}

func (f *fields) share() float64 {
	n, err := strconv.ParseFloat(f.word(), 64)
	if err != nil || n < 0 || n > 1 {
		f.fail(errors.New("it must be 0 to 1"))
	}
	return n
}

func (f *fields) time() time.Duration {
	d, err := time.ParseDuration(f.word())
	if err != nil {
		f.fail(err)
	}
	return d
}

func (f *fields) end() error {
	if len(f.values) > 0 {
		f.fail(fmt.Errorf("%q is too much", f.values))
	}
	return f.err
}
