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
	fmt.Fprintf(&b, "seed %d\ncoordinators %d\nreplicas %d\nworkload %s\nhealing %s\nheal %s\nrest %s\nstill %s\n",
		p.Seed, p.Coordinators, p.Replicas, p.Workload, p.Healing, p.HealAt, p.Rest, p.Still)
	for _, m := range p.Moves {
		fmt.Fprintf(&b, "move %s %s %d\n", m.At, m.Release, m.Replicas)
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "fault %s %s %d %s %s\n", f.At, f.Kind, f.Target, f.For, f.By)
	}
	named := p.Odds.named()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if odds := *named[name]; odds != 0 {
			fmt.Fprintf(&b, "odds %s %g\n", name, odds)
		}
	}
	return b.String()
}

// named are the odds by the names that text has for them.
func (o *Odds) named() map[string]*float64 {
	return map[string]*float64{
		"lost-answer": &o.LostAnswer, "never": &o.Never, "late": &o.Late, "refused": &o.Refused, "slow": &o.Slow,
		"blind-list": &o.BlindList, "stale-list": &o.StaleList, "lost-write": &o.LostWrite, "lost-ack": &o.LostAck,
	}
}

// Parse reads a plan. Lines that are empty or begin with # are passed over. The error names
// every line that is wrong.
func Parse(text string) (Plan, error) {
	var errs []error
	p := Plan{Healing: Unhealed}
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
	if errs = append(errs, lines.Err()); p.Coordinators < 1 || p.Replicas < 1 || len(p.Moves) == 0 {
		errs = append(errs, errors.New("a plan has coordinators, replicas and a move at least"))
	}
	return p, errors.Join(errs...)
}

// take reads the values of one line.
func (p *Plan) take(word string, values []string) (err error) {
	f := fields{values: values}
	switch word {
	case "seed":
		p.Seed = f.number()
	case "coordinators":
		p.Coordinators = int(f.number())
	case "replicas":
		p.Replicas = int(f.number())
	case "workload":
		p.Workload = f.word()
	case "healing":
		if p.Healing = f.word(); !slices.Contains(healings, p.Healing) {
			f.fail(fmt.Errorf("%q is none of %v", p.Healing, healings))
		}
	case "heal":
		p.HealAt = f.time()
	case "rest":
		p.Rest = f.time()
	case "still":
		p.Still = f.time()
	case "move":
		p.Moves = append(p.Moves, Move{At: f.time(), Release: f.word(), Replicas: int(f.number())})
	case "fault":
		p.Faults = append(p.Faults, Fault{At: f.time(), Kind: FaultKind(f.word()), Target: int(f.number()), For: f.time(), By: f.time()})
		if kind := p.Faults[len(p.Faults)-1].Kind; !slices.Contains(kinds, kind) {
			f.fail(fmt.Errorf("%q is no fault: there are %v", kind, kinds))
		}
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

// fields reads values one by one; the first that is wrong is the error.
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
