package rollout_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// story plays one file: the world, the leading coordinator, and the observed events.
type story struct {
	t     testingT
	where string
	// script are the lines of a story that the property test generated.
	script []string
	w      *world
	c      *coordinator
	k      *checker
	// lines happened in this block of the file; mute while the group is set up.
	lines []happened
	mute  bool
	// noted counts the events, muted or not. changed is the time of the last event or record.
	noted   int
	changed time.Time
	// commits are the commits before this block.
	commits int
	base    group.Template
	asked   int
}

// testingT is the shared interface of testing.T and rapid.T here.
type testingT interface {
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

var groupLine = regexp.MustCompile(`^group ([a-z][a-z0-9-]*): (\d+) replicas? of (none|consul|etcd|patroni|custom)((?:, .*)?)$`)

// newStory makes the group of a story, deployed at revision A the day before, unless
// it says "not deployed".
func newStory(t testingT, line string) (*story, error) {
	m := groupLine.FindStringSubmatch(line)
	if m == nil {
		return nil, errors.New(`the world comes first: "group web: 3 replicas of none, max_unavailable 1"`)
	}
	replicas, _ := strconv.Atoi(m[2])
	s := &story{t: t, mute: true}
	s.w = &world{now: storyStart.Add(-24 * time.Hour), kind: m[3], broken: map[string]bool{}, says: map[string]string{}, stuck: map[string]bool{}, nofailover: map[string]bool{}, learners: map[string]bool{}, told: map[string]map[string]string{},
		bootTakes: bootTakes, drain: map[string]drainWay{}, faults: map[string]*fault{}, early: map[string]operation.Part{}, silent: map[string]bool{}, dead: map[string]bool{}, contents: map[string]group.Template{}, checks: map[string]string{}, log: s.log}
	s.k = &checker{w: s.w, taken: map[string]bool{}, effects: map[string]int{}, fails: func(format string, args ...any) {
		text := s.named(fmt.Sprintf(format, args...))
		s.log("%s", text)
		t.Errorf("%s: at %s: %s\n%s", s.where, s.stamp(), text, s.told())
	}}
	s.c = &coordinator{moves: moves{}, writes: map[string]int{}, w: s.w, check: s.k, term: 1, took: s.w.now, timing: rollout.DefaultTiming(), log: s.log, note: s.note, elapse: s.elapse,
		heard: map[string]rollout.Report{}, answers: map[string]operation.CallResult{},
		store: storyStore{slots: map[string]group.SlotRecord{}, policies: map[string]policy.SlotPolicy{}, revisions: map[string]group.RevisionRecord{},
			rollouts: map[string]operation.Rollout{}, operations: map[string]operation.Operation{}}}
	s.k.c, s.w.policies = s.c, s.c.store.policies
	s.w.set = set{disks: map[string]string{}, learners: map[string]bool{}, broke: s.k.broke,
		membership: func(slot string) *group.Membership { return s.c.store.slots[slot].Membership },
		founders:   func() []string { return s.c.spec.Members() }}
	s.c.spec = group.Spec{Name: m[1], Platform: "phala", AppID: storyApp, Replicas: replicas, Workload: group.Workload{Kind: m[3]},
		Template: group.Template{Compose: storyCompose("A"), InstanceType: "tdx.small", OSImage: "dstack-0.5.7"}}
	s.base = s.c.spec.Template
	if m[3] == group.WorkloadCustom {
		s.w.kind = group.WorkloadConsul // its members behave like those
		s.c.spec.Workload.Settings = map[string]string{"http": "127.0.0.1:9900", "voters": "true"}
	}
	deployed := true
	for _, option := range strings.Split(strings.TrimPrefix(m[4], ", "), ", ") {
		if option == "not deployed" {
			deployed = false
		} else if err := s.option(option); err != nil {
			return nil, err
		}
	}
	s.c.spec.Normalize()
	s.wants(func(*group.Template) {})
	if !deployed {
		s.w.now, s.mute = storyStart, false
		return s, nil
	}
	if !s.until(3*time.Hour, func() bool { return s.state() == operation.Complete }) {
		return nil, fmt.Errorf("the group was not deployed in three hours: %s", s.c.plan.Message)
	}
	s.w.now = storyStart.Add(-10 * time.Second)
	s.pass(10 * time.Second)
	s.w.transfers, s.k.begins, s.k.calls, s.commits, s.mute = 0, nil, nil, s.c.store.commits, false
	return s, nil
}

func storyCompose(name string) string {
	return "services:\n  app:\n    image: " + storyImage(name) + "@sha256:" + strings.Repeat("ab", 32) + "\n# " + name + "\n"
}

// storyName of a Revision names its content: B, or B with another shape.
func storyName(t group.Template) string {
	lines := strings.Split(strings.TrimSpace(t.Compose), "\n")
	name := strings.TrimPrefix(lines[len(lines)-1], "# ")
	if t.OSImage != "dstack-0.5.7" {
		name += "+" + t.OSImage
	}
	if t.InstanceType != "tdx.small" {
		name += "+" + t.InstanceType
	}
	if t.DiskGB != 0 {
		name += fmt.Sprintf("+%dGB", t.DiskGB)
	}
	return name
}

// option sets one field of the spec, or one of the coordinator's times.
func (s *story) option(text string) error {
	p := &s.c.spec.UpdatePolicy
	word, value, _ := strings.Cut(text, " ")
	number, notNumber := strconv.Atoi(value)
	length, notLength := time.ParseDuration(value)
	switch word {
	case "":
	case "after":
		s.c.spec.After = strings.Fields(value)
	case "parallel":
		s.c.spec.ManagementPolicy = group.Parallel
	case "most_disruptive_allowed_action":
		p.MostDisruptiveAllowedAction = group.UpdateAction(value)
	case "at":
		s.base.Compose, s.c.spec.Template.Compose = storyCompose(value), storyCompose(value)
	case "irreversible":
		p.Irreversible = value
	case "leader":
		p.Leader = value
	case "hand_over", "set":
		s.c.spec.Workload.Settings[word] = value
	case "step_delay":
		p.StepDelay = group.Duration(length)
		return notLength
	case "window":
		return s.window(value)
	case "minimal_action":
		p.MinimalAction = group.UpdateAction(value)
	case "opportunistic":
		p.Type = group.Opportunistic
	case "proactive":
		p.Type = group.Proactive
	case "on_failure":
		p.OnFailure = group.OnFailure(value)
	case "interruption":
		p.Interruption = value
	case "disk":
		s.c.spec.PreservedState.Disk = value
	case "gate":
		name, rest, _ := strings.Cut(value, " on ")
		work, rest, _ := strings.Cut(rest, " per ")
		per, state, _ := strings.Cut(rest, " default ")
		s.c.spec.Gates = append(s.c.spec.Gates, group.Gate{Name: name, On: strings.Fields(work), Per: per, Default: state})
		s.c.spec.Normalize()
		return group.Validate(s.c.spec)
	case "hosts":
		s.w.hosts = number
		return notNumber
	case "stopping":
		s.c.spec.Platform = group.PlatformVMM
		s.w.stopFirst, s.c.timing.StopFirst = true, true
	case "settle":
		s.c.timing.Settle = length
		return notLength
	case "max_surge":
		if share, ok := strings.CutSuffix(value, "%"); ok {
			percent, err := strconv.Atoi(share)
			p.MaxSurgePercent = &percent
			return err
		}
		p.MaxSurgeFixed = &number
		return notNumber
	case "max_creating":
		p.MaxCreating = &number
		return notNumber
	case "first_ordinal":
		s.c.spec.FirstOrdinal = number
		return notNumber
	case "max_failed":
		p.MaxFailed = number
		return notNumber
	case "max_unavailable":
		p.MaxUnavailableFixed = &number
		return notNumber
	case "color":
		env := map[string]string{"COLOR": value}
		s.base.Env, s.c.spec.Template.Env = env, env
	case "partition":
		p.Partition = number
		return notNumber
	case "exclude":
		for _, ordinal := range strings.Split(value, ",") {
			n, err := strconv.Atoi(ordinal)
			if err != nil {
				return err
			}
			s.c.spec.Instances = append(s.c.spec.Instances, group.InstanceSettings{Ordinal: n, ExcludeFromRollout: true})
		}
	case "heal":
		s.c.spec.AutoHealing = &group.AutoHealing{Replace: value}
	case "heal_at":
		s.c.spec.AutoHealing.At = value
	case "heal_check":
		s.c.spec.AutoHealing.HealthCheck = value
	case "heal_service":
		s.c.spec.AutoHealing.Service = value
	case "leave":
		s.c.spec.AutoHealing = nil
	case "include":
		s.c.spec.Instances = nil
	case "min_ready":
		seconds := int(length / time.Second)
		p.MinReadySeconds = &seconds
		return notLength
	case "healthy_deadline":
		p.HealthyDeadline = group.Duration(length)
		return notLength
	case "progress_deadline":
		p.ProgressDeadline = group.Duration(length)
		return notLength
	case "stage", "bake", "stages":
		return s.stageOption(word, value)
	default:
		return s.placementOption(word, value)
	}
	return nil
}

// wants changes the spec's template.
func (s *story) wants(edit func(*group.Template)) {
	edit(&s.c.spec.Template)
	s.w.contents[s.c.spec.Revision()] = s.c.spec.Template
}

// revision returns the digest of the content with a name, even of unrequested content.
func (s *story) revision(name string) string {
	for digest := range s.w.contents {
		if s.w.name(digest) == name {
			return digest
		}
	}
	spec := s.c.spec
	spec.Template = s.base
	spec.Template.Compose = storyCompose(name)
	return spec.Revision()
}

// pass advances the time.
func (s *story) pass(d time.Duration) {
	for end := s.w.now.Add(d); s.w.now.Before(end); {
		s.next(end)
	}
}

// longestQuiet bounds how far a story goes before its next turn, so that an unannounced event still shows.
const longestQuiet = time.Minute

// next advances to the next moment of a possible event, and no further than end. After a change, or while an Operation
// is open, this is the next second. Otherwise it is one second before the next due time, so that a plan which acts a
// second too early shows as well.
func (s *story) next(end time.Time) {
	ahead := time.Second
	if s.changed.Before(s.w.now) && !s.c.dead && !s.c.working() {
		due := s.c.next(s.w.next(end))
		ahead = max(ahead, min(due.Sub(s.w.now).Truncate(time.Second)-time.Second, longestQuiet))
	}
	s.k.always = ahead > time.Second
	s.w.now = s.w.now.Add(ahead)
	s.turn()
}

// turn is one pass over the world, with its immediate consequences.
func (s *story) turn() {
	commits, noted := s.c.store.commits, s.noted
	s.w.step()
	s.k.settle()
	if !s.c.dead {
		s.c.work()
	}
	if commits != s.c.store.commits || noted != s.noted {
		s.changed = s.w.now
	}
}

// elapse advances the world while the coordinator waits.
func (s *story) elapse(d time.Duration) {
	for end := s.w.now.Add(d); s.w.now.Before(end); {
		s.w.now = s.w.now.Add(time.Second)
		s.w.step()
		s.k.settle()
	}
}

func (s *story) until(limit time.Duration, reached func() bool) bool {
	s.turn()
	for end := s.w.now.Add(limit); !reached(); s.next(end) {
		if !s.w.now.Before(end) {
			return false
		}
	}
	return true
}

func (s *story) state() operation.RolloutState {
	if s.c.plan.Rollout == nil {
		return ""
	}
	return s.c.plan.Rollout.State
}

// succeed makes another coordinator lead: it knows only the records.
func (s *story) succeed(skew time.Duration) {
	c := s.c
	c.term, c.skew, c.dead, c.dies = c.term+1, skew, false, ""
	c.heard, c.answers = map[string]rollout.Report{}, map[string]operation.CallResult{}
	c.took = c.clock()
	s.log("another coordinator leads")
}

// happened is the text about one subject at one instant.
type happened struct{ at, subject, text string }

// log records an event without a subject.
func (s *story) log(format string, args ...any) { s.note("", format, args...) }

// note adds to the text about a subject at this instant: the immediate Phases of a step are one line.
func (s *story) note(subject, format string, args ...any) {
	s.noted++
	if s.mute {
		return
	}
	one := happened{at: s.stamp(), subject: subject, text: s.named(fmt.Sprintf(format, args...))}
	for i, l := range s.lines {
		if subject != "" && l.at == one.at && l.subject == subject {
			s.lines[i].text += ", " + one.text
			return
		}
	}
	s.lines = append(s.lines, one)
}

// stamp is the time since the story began.
func (s *story) stamp() string {
	d := s.w.now.Sub(storyStart)
	if d >= time.Hour {
		return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// named replaces digests by the names of Revisions.
func (s *story) named(text string) string {
	for _, digest := range slices.Sorted(maps.Keys(s.w.contents)) {
		name := s.w.name(digest)
		text = strings.ReplaceAll(strings.ReplaceAll(text, digest, name), digest[:8], name)
	}
	return tickets.ReplaceAllString(text, "--ticket TICKET")
}

// recorded ends a block: its events, and the resulting state.
func (s *story) recorded() []string {
	out := s.peek()
	s.lines, s.k.begins, s.k.calls, s.commits = nil, nil, nil, s.c.store.commits
	return out
}

const indent = "    "

// peek is the record of the block so far.
func (s *story) peek() []string {
	if s.c.plan.Rollout == nil {
		return nil
	}
	var out []string
	alike, first := map[string]int{}, map[string]string{}
	for _, l := range s.lines {
		text := l.text
		if l.subject != "" {
			text = l.subject + ": " + text
		}
		key := text
		if l.subject != "" {
			key = l.subject + stillText(l.text) // the same text again, with other figures only
		}
		if alike[key]++; alike[key] == 1 {
			first[key] = text
		}
		if alike[key] <= 4 {
			out = append(out, fmt.Sprintf("%s%-6s %s", indent, l.at, text))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(alike)) {
		if more := alike[key] - 4; more > 0 {
			out = append(out, fmt.Sprintf("%s... %d more like: %s", indent, more, first[key]))
		}
	}
	return append(out, s.stands()...)
}

// stands describes the state of the group in a few lines.
func (s *story) stands() []string {
	p := s.c.plan
	line := fmt.Sprintf("%s= %s at %s, %d of %d available, %d updated", indent, p.Rollout.State, s.stamp(), p.Status.Available, p.Status.Replicas, p.Status.Updated)
	out := []string{line, indent + "= " + s.named(p.Message)}
	var order []string
	slots := map[string][]string{}
	for _, a := range p.Actions {
		if a.Operation != "" || a.Execute {
			continue
		}
		var names []string
		for _, h := range a.Holds {
			if !slices.Contains(names, h.Predicate) {
				names = append(names, h.Predicate)
			}
		}
		key := strings.Join(names, ", ")
		if slots[string(a.Kind)+" "+key] == nil {
			order = append(order, string(a.Kind)+" "+key)
		}
		slots[string(a.Kind)+" "+key] = append(slots[string(a.Kind)+" "+key], a.Slot)
	}
	for _, key := range order {
		kind, names, _ := strings.Cut(key, " ")
		out = append(out, fmt.Sprintf("%s= held: %s %s by %s", indent, kind, someOf(slots[key]), names))
	}
	return out
}

// someOf returns a list of Slots, shortened if it is long.
func someOf(slots []string) string {
	if len(slots) > 6 {
		return strings.Join(slots[:3], " ") + fmt.Sprintf(" and %d more", len(slots)-3)
	}
	return strings.Join(slots, " ")
}
