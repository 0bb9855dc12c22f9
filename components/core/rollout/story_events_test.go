package rollout_test

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// event is one line that may be written in a story: SLOTS, SLOT, TIME, N, WORD and REST stand for the arguments of
// does.
type event struct {
	line string
	does func(s *story, arg []string) error
}

// words maps the placeholders of events to expressions.
var words = strings.NewReplacer(
	"SLOTS", `([a-z][a-z0-9*, -]*?)`, "SLOT", `([a-z][a-z0-9-]*-\d+)`, "TIME", `((?:\d+(?:ms|[hms]))+)`, "WORD", `([\w.+-]+)`, "REST", `(.+)`, "N", `(\d+)`)

// expressions are the lines of events and expectations, compiled once: the property test uses each of them thousands
// of times.
var expressions = map[string]*regexp.Regexp{}

func init() {
	for _, e := range slices.Concat(events(), expectations()) {
		expressions[e.line] = regexp.MustCompile("^" + words.Replace(e.line) + "$")
	}
}

// happen carries out one line.
func (s *story) happen(line string) error {
	for _, e := range events() {
		if m := expressions[e.line].FindStringSubmatch(line); m != nil {
			return e.does(s, m[1:])
		}
	}
	return errors.New("nobody knows what that means; story_events_test.go lists what may happen")
}

// events lists every event of a story.
func events() []event {
	return slices.Concat(timeEvents(), operatorEvents(), memberEvents(), platformEvents(), placeEvents(), coordinatorEvents(), versionEvents(), turnEvents())
}

// limit bounds each wait of a story.
const limit = 2 * time.Hour

func timeEvents() []event {
	return []event{
		{"TIME pass(?:es)?", func(s *story, arg []string) error {
			d, err := time.ParseDuration(arg[0])
			s.turn()
			s.pass(d)
			return err
		}},
		{"until the rollout is WORD", func(s *story, arg []string) error {
			if !s.until(limit, func() bool { return string(s.state()) == arg[0] }) {
				return fmt.Errorf("the rollout is %s after %s: %s", s.state(), limit, s.named(s.c.plan.Message))
			}
			return nil
		}},
		{"until SLOT is WORD", func(s *story, arg []string) error {
			if !s.until(limit, func() bool {
				return s.instance(arg[0]).State == group.SlotState(arg[1]) || s.instance(arg[0]).Phase == arg[1]
			}) {
				return fmt.Errorf("%s is %s after %s: %s", arg[0], s.instance(arg[0]).State, limit, s.named(s.c.plan.Message))
			}
			return nil
		}},
		{"TIME later: REST", func(s *story, arg []string) error {
			d, err := time.ParseDuration(arg[0])
			s.w.pending = append(s.w.pending, pending{at: s.w.now.Add(d), apply: func() {
				s.log("(%s)", arg[1])
				if err := s.happen(arg[1]); err != nil {
					s.t.Fatalf("%s: %v", s.where, err)
				}
			}})
			return err
		}},
		{"until the coordinator is dead", func(s *story, _ []string) error {
			if !s.until(limit, func() bool { return s.c.dead }) {
				return errors.New("it lives")
			}
			return nil
		}},
	}
}

func operatorEvents() []event {
	ask := func(s *story, r rollout.Request) {
		if r.ID == "" {
			s.asked++
			r.ID = fmt.Sprintf("q%d", s.asked)
		}
		r.At = s.w.now
		if r.Slot != "" { // like the API
			bound := s.c.store.slots[r.Slot]
			r.VMUUID, r.InstanceID, r.Gone = bound.VMUUID, bound.InstanceID, r.Kind == rollout.RequestReplace && len(s.c.w.listed(r.Slot)) == 0
		}
		s.c.store.requests = append(s.c.store.requests, r)
	}
	return []event{
		{"operator wants revision WORD", func(s *story, arg []string) error {
			s.wants(func(t *group.Template) { t.Compose = storyCompose(arg[0]) })
			return nil
		}},
		{"operator wants check WORD", func(s *story, arg []string) error {
			s.c.spec.HealthChecks = []group.HealthCheck{{Name: arg[0], TCP: &group.TCPCheck{Port: 80}}}
			s.c.spec.Normalize()
			s.wants(func(*group.Template) {})
			s.w.checks[s.c.spec.Revision()] = arg[0]
			return nil
		}},
		{"operator wants N replicas", func(s *story, arg []string) error {
			n, err := strconv.Atoi(arg[0])
			s.c.spec.Replicas = n
			return err
		}},
		{"operator wants N replicas without SLOTS", func(s *story, arg []string) (err error) {
			if s.c.spec.Replicas, err = strconv.Atoi(arg[0]); err == nil {
				s.c.spec.Without, err = s.slots(arg[1])
			}
			return err
		}},
		{"operator pins SLOT to WORD", func(s *story, arg []string) error {
			_, ordinal, err := group.ParseSlot(arg[0])
			pin := s.c.spec
			pin.Template.Compose = storyCompose(arg[1])
			s.c.spec.Instances = []group.InstanceSettings{{Ordinal: ordinal, PinnedRevision: pin.Revision()}}
			return err
		}},
		{"operator gives SLOT the color WORD", func(s *story, arg []string) error {
			return s.ownColor(arg[0], map[string]string{"COLOR": arg[1]})
		}},
		{"operator gives SLOT no color", func(s *story, arg []string) error { return s.ownColor(arg[0], nil) }},
		{"operator gives SLOT the size WORD", func(s *story, arg []string) error { return s.ownSize(arg[0], arg[1]) }},
		{"operator gives SLOT no size", func(s *story, arg []string) error { return s.ownSize(arg[0], "") }},
		{"operator wants os_image WORD", func(s *story, arg []string) error {
			s.wants(func(t *group.Template) { t.OSImage = arg[0] })
			return nil
		}},
		{"operator wants instance_type WORD", func(s *story, arg []string) error {
			s.wants(func(t *group.Template) { t.InstanceType = arg[0] })
			return nil
		}},
		{"operator wants disk_gb N", func(s *story, arg []string) error {
			n, err := strconv.Atoi(arg[0])
			s.wants(func(t *group.Template) { t.DiskGB = n })
			return err
		}},
		{"operator sets REST", func(s *story, arg []string) error { return s.option(arg[0]) }},
		{"operator stops the group", func(s *story, _ []string) error { s.c.spec.Stopped = true; return nil }},
		{"operator starts the group", func(s *story, _ []string) error { s.c.spec.Stopped = false; return nil }},
		{"operator pauses the group", func(s *story, _ []string) error { s.c.pause = &rollout.Override{}; return nil }},
		{"operator resumes the group", func(s *story, _ []string) error { s.c.pause = nil; return nil }},
		{"operator freezes everything", func(s *story, _ []string) error { s.c.freeze = &rollout.Override{}; return nil }},
		{"operator lifts the freeze", func(s *story, _ []string) error { s.c.freeze = nil; return nil }},
		{"operator freezes everything for TIME", func(s *story, arg []string) error {
			d, err := time.ParseDuration(arg[0])
			s.c.freeze = &rollout.Override{By: "op", Reason: "a holiday", Until: s.w.now.Add(d)}
			return err
		}},
		{"operator drains SLOT(?: for TIME)?", func(s *story, arg []string) error {
			return s.override(&s.c.drains, arg[0], arg[1], "its host is mended")
		}},
		{"operator undrains SLOT", func(s *story, arg []string) error { delete(s.c.drains, arg[0]); return nil }},
		{"operator protects SLOT(?: for TIME)?", func(s *story, arg []string) error {
			return s.override(&s.c.protects, arg[0], arg[1], "a report runs on it")
		}},
		{"operator opens gate WORD(?: of SLOT)?(?: for TIME)?", func(s *story, arg []string) error { return s.speak(group.GateOpen, arg[0], arg[1], arg[2]) }},
		{"operator closes gate WORD(?: of SLOT)?(?: for TIME)?", func(s *story, arg []string) error { return s.speak(group.GateClosed, arg[0], arg[1], arg[2]) }},
		{"operator overrides WORD for TIME", func(s *story, arg []string) error { return s.overrideHold(arg[0], arg[1]) }},
		{"operator clears the override of WORD", func(s *story, arg []string) error { delete(s.c.holdOverrides, arg[0]); return nil }},
		{"operator removes the gates", func(s *story, _ []string) error { s.c.spec.Gates = nil; return nil }},
		{"operator excludes SLOT(?: from WORD)?(?: for TIME)?", func(s *story, arg []string) error {
			err := s.override(&s.c.excludes, arg[0], arg[2], "it is measured")
			s.c.excludes[arg[0]].Excludes = group.ExclusionOf(strings.Fields(arg[1]))
			return err
		}},
		{"operator includes SLOT", func(s *story, arg []string) error { delete(s.c.excludes, arg[0]); return nil }},
		{"operator unprotects SLOT", func(s *story, arg []string) error { delete(s.c.protects, arg[0]); return nil }},
		{"operator requests restart of SLOT", func(s *story, arg []string) error {
			ask(s, rollout.Request{Kind: rollout.RequestRestart, Slot: arg[0], Reason: "to see it come back", By: "op"})
			return nil
		}},
		{"operator requests update of SLOT", func(s *story, arg []string) error {
			ask(s, rollout.Request{Kind: rollout.RequestUpdate, Slot: arg[0], Reason: "by hand", By: "op"})
			return nil
		}},
		{"operator requests restart of service WORD in SLOT", func(s *story, arg []string) error {
			ask(s, rollout.Request{Kind: rollout.RequestRestart, Slot: arg[1], Service: arg[0], Reason: "it leaks", By: "op"})
			return nil
		}},
		{"operator requests restart of SLOT as WORD", func(s *story, arg []string) error {
			ask(s, rollout.Request{ID: arg[1], Kind: rollout.RequestRestart, Slot: arg[0], Reason: "to see it come back", By: "op"})
			return nil
		}},
		{"operator restarts SLOT N times", func(s *story, arg []string) error {
			n, err := strconv.Atoi(arg[1])
			for range n {
				ask(s, rollout.Request{Kind: rollout.RequestRestart, Slot: arg[0], By: "op"})
				began := len(s.k.begins)
				if !s.until(limit, func() bool { return len(s.k.begins) > began && s.last(arg[0]).Phase.Ended() }) {
					return errors.New("a restart does not come to its end")
				}
			}
			return err
		}},
		{"operator requests replacement of SLOT", func(s *story, arg []string) error {
			ask(s, rollout.Request{Kind: rollout.RequestReplace, Slot: arg[0], Reason: "its CVM is lost", By: "op"})
			return nil
		}},
		{"operator resolves the operation of SLOT as WORD", func(s *story, arg []string) error {
			ask(s, rollout.Request{Kind: rollout.RequestResolve, Operation: s.last(arg[0]).ID, As: arg[1], Reason: "seen on the platform", By: "op"})
			return nil
		}},
		{"operator lets the rollout go on", func(s *story, _ []string) error {
			ask(s, rollout.Request{Kind: rollout.RequestRetry, Reason: "the cause is mended", By: "op"})
			return nil
		}},
		{"operator promotes stage N", func(s *story, arg []string) error {
			n, err := strconv.Atoi(arg[0])
			ask(s, rollout.Request{Kind: rollout.RequestPromote, Rollout: s.c.plan.Rollout.ID, Stage: n, Reason: "it looks well", By: "op"})
			return err
		}},
		{"operator gives up the disks? of SLOTS", func(s *story, arg []string) (err error) {
			s.c.givenUp, err = s.slots(arg[0])
			return err
		}},
		{"operator deletes the group with its disks", func(s *story, _ []string) error {
			s.c.deleting = &rollout.Deletion{Reason: "not needed", By: "op"}
			return nil
		}},
		{"operator deletes the group and keeps the CVMs", func(s *story, _ []string) error {
			s.c.deleting = &rollout.Deletion{KeepCVMs: true, Reason: "handed over", By: "op"}
			return nil
		}},
	}
}

// override sets an override on a Slot; without a time it stands until it is withdrawn.
func (s *story) override(on *map[string]*rollout.Override, slot, length, reason string) error {
	override := &rollout.Override{By: "op", Reason: reason}
	if length != "" {
		d, err := time.ParseDuration(length)
		if err != nil {
			return err
		}
		override.Until = s.w.now.Add(d)
	}
	if *on == nil {
		*on = map[string]*rollout.Override{}
	}
	(*on)[slot] = override
	return nil
}

func memberEvents() []event {
	each := func(does func(s *story, c *cvm)) func(*story, []string) error {
		return func(s *story, arg []string) error {
			found, err := s.cvms(arg[0])
			for _, c := range found {
				does(s, c)
			}
			return err
		}
	}
	return []event{
		{"SLOTS falls? silent", each(func(_ *story, c *cvm) { c.silent = true })},
		{"SLOTS cannot attest", each(func(_ *story, c *cvm) { c.unproven = true })},
		{"SLOTS can attest again", each(func(_ *story, c *cvm) { c.unproven = false })},
		{"the guest of SLOTS hangs", each(func(_ *story, c *cvm) { c.silent, c.hung = true, true })},
		{"SLOTS (?:is|are) heard again", each(func(_ *story, c *cvm) { c.silent = false })},
		{"SLOTS (?:is|are) sick", each(func(_ *story, c *cvm) { c.sick = "does not answer" })},
		{"SLOTS (?:is|are) sick, beyond a restart of the service", each(func(_ *story, c *cvm) { c.sick, c.deep = "does not answer", true })},
		{"the check WORD of SLOT fails", func(s *story, arg []string) error {
			return each(func(_ *story, c *cvm) { c.failing = arg[0] })(s, arg[1:])
		}},
		{"the driver of SLOTS gets no answer", each(func(_ *story, c *cvm) { c.mute = true })},
		{"the driver of SLOTS gets answers again", each(func(_ *story, c *cvm) { c.mute = false })},
		{"SLOTS recovers?", each(func(_ *story, c *cvm) { c.sick, c.deep = "", false })},
		{"SLOTS has caught up", each(func(_ *story, c *cvm) { c.lag = 0 })},
		{"SLOT lags by N bytes", func(s *story, arg []string) error {
			n, err := strconv.ParseInt(arg[1], 10, 64)
			return errors.Join(err, each(func(_ *story, c *cvm) { c.lag = n })(s, arg))
		}},
		{"SLOTS reboots? by itself", each(func(s *story, c *cvm) { c.reboot(s.w); c.updatedAt = time.Time{} })},
		{"the agent of SLOT restarts", each(func(s *story, c *cvm) {
			c.boots++
			s.log("the agent of %s starts anew", c.slot)
			c.born(s.w, s.w.now)
		})},
		{"SLOTS must not be disrupted: REST", func(s *story, arg []string) error {
			return each(func(_ *story, c *cvm) { c.refuses = arg[1] })(s, arg)
		}},
		{"SLOTS may be disrupted again", each(func(_ *story, c *cvm) { c.refuses, c.busy = "", "" })},
		{"SLOTS (?:is|are) busy: REST", func(s *story, arg []string) error {
			return each(func(_ *story, c *cvm) { c.busy = arg[1] })(s, arg)
		}},
		{"SLOTS cannot lead", each(func(s *story, c *cvm) { s.w.nofailover[c.slot] = true })},
		{"SLOTS (?:is a learner|are learners)", each(func(s *story, c *cvm) {
			s.w.learners[c.slot] = true
			s.w.voters = slices.DeleteFunc(s.w.voters, func(v string) bool { return v == c.slot })
		})},
		{"SLOT leads", func(s *story, arg []string) error { s.w.lead(arg[0]); return nil }},
		{"revision WORD is broken", func(s *story, arg []string) error { s.w.broken[s.revision(arg[0])] = true; return nil }},
		{"revision WORD is broken: REST", func(s *story, arg []string) error {
			s.w.broken[s.revision(arg[0])], s.w.says[s.revision(arg[0])] = true, arg[1]
			return nil
		}},
		{"revision WORD works", func(s *story, arg []string) error { delete(s.w.broken, s.revision(arg[0])); return nil }},
		{"revision WORD does not boot", func(s *story, arg []string) error { s.w.stuck[s.revision(arg[0])] = true; return nil }},
		{"the key service is away", func(s *story, _ []string) error { s.w.keyless = true; return nil }},
		{"the key service is back", func(s *story, _ []string) error { s.w.keyless = false; return nil }},
		{"drains of SLOT take TIME", func(s *story, arg []string) error {
			d, err := time.ParseDuration(arg[1])
			s.w.drain[arg[0]] = drainWay{takes: d, state: operation.StepDone}
			return err
		}},
		{"hooks of SLOT call the drain off: REST", func(s *story, arg []string) error {
			s.w.drain[arg[0]] = drainWay{state: operation.StepAborted, text: arg[1]}
			return nil
		}},
		{"hooks of SLOT hold the drain: REST", func(s *story, arg []string) error {
			s.w.drain[arg[0]] = drainWay{state: operation.StepHeld, text: arg[1]}
			return nil
		}},
		{"hooks of SLOT are content", func(s *story, arg []string) error { delete(s.w.drain, arg[0]); return nil }},
		{"boots take TIME", func(s *story, arg []string) (err error) {
			s.w.bootTakes, err = time.ParseDuration(arg[0])
			return err
		}},
	}
}

func platformEvents() []event {
	faulty := func(f fault) func(*story, []string) error {
		return func(s *story, arg []string) error {
			one := f
			if len(arg) > 1 {
				one.text = arg[1]
			}
			slots, err := s.slots(arg[0])
			for _, slot := range slots {
				copied := one
				s.w.faults[slot] = &copied
			}
			return err
		}
	}
	each := func(does func(s *story, c *cvm)) func(*story, []string) error {
		return func(s *story, arg []string) error {
			found, err := s.cvms(arg[0])
			for _, c := range found {
				does(s, c)
			}
			return err
		}
	}
	return []event{
		{"the platform's list does not answer", func(s *story, _ []string) error { s.w.blind = true; return nil }},
		{"the platform's list answers again", func(s *story, _ []string) error { s.w.blind = false; return nil }},
		{"platform answers 500 to the next call of SLOTS, without effect", faulty(fault{outcome: operation.OutcomeUnknown, text: "500", times: 1})},
		{"platform answers 500 to the next call of SLOTS, which takes effect", faulty(fault{outcome: operation.OutcomeUnknown, text: "500", effect: true, times: 1})},
		{"the answer to the next call of SLOTS is lost", faulty(fault{outcome: operation.OutcomeUnknown, text: "timed out", effect: true, times: 1, takes: callTimesOutIn})},
		{"platform refuses every call of SLOTS: REST", faulty(fault{outcome: operation.OutcomeRefused, times: -1})},
		{"platform refuses the next call of SLOTS: REST", faulty(fault{outcome: operation.OutcomeRefused, times: 1})},
		{"platform is busy with calls of SLOTS: REST", faulty(fault{outcome: operation.OutcomeBusy, times: -1})},
		{"calls of SLOTS succeed again", func(s *story, arg []string) error {
			slots, err := s.slots(arg[0])
			for _, slot := range slots {
				delete(s.w.faults, slot)
			}
			return err
		}},
		{"the next call of SLOTS times out, and its effect shows after TIME", func(s *story, arg []string) error {
			late, err := time.ParseDuration(arg[1])
			return errors.Join(err, faulty(fault{outcome: operation.OutcomeUnknown, effect: true, late: late, times: 1, takes: callTimesOutIn})(s, []string{arg[0], "timed out"}))
		}},
		{"platform does not offer revision WORD: REST", func(s *story, arg []string) error {
			s.c.refused = map[string]string{s.revision(arg[0]): arg[1]}
			return nil
		}},
		{"platform does not offer the size WORD to SLOT", func(s *story, arg []string) error {
			s.c.refused = map[string]string{rollout.RefusedSize(arg[1], arg[0]): "instance_type " + arg[0] + ": choose another one"}
			return nil
		}},
		{"platform offers every revision again", func(s *story, _ []string) error { s.c.refused = nil; return nil }},
		{"the host starts SLOT right before its next call to WORD(, unseen)?", func(s *story, arg []string) error {
			s.w.early[arg[0]], s.w.unseen = operation.Part(arg[1]), arg[2] != ""
			return nil
		}},
		{"host WORD does not answer", func(s *story, arg []string) error { s.w.silent[arg[0]] = true; return nil }},
		{"host WORD dies", func(s *story, arg []string) error { s.w.silent[arg[0]], s.w.dead[arg[0]] = true, true; return nil }},
		{"host WORD answers again", func(s *story, arg []string) error {
			delete(s.w.silent, arg[0])
			for _, c := range s.w.cvms {
				if s.w.dead[arg[0]] && c.node == arg[0] {
					c.halt()
					c.hostStarts(s.w)
				}
			}
			delete(s.w.dead, arg[0])
			return nil
		}},
		{"the host starts SLOTS", each(func(s *story, c *cvm) { c.hostStarts(s.w) })},
		{"the WORD call of SLOT is (refused|lost|late|without answer|busy)", func(s *story, arg []string) error {
			f := map[string]fault{
				"refused": {outcome: operation.OutcomeRefused, text: "no such image"}, "lost": {outcome: operation.OutcomeUnknown, text: "no route", takes: callTimesOutIn},
				"late":           {outcome: operation.OutcomeUnknown, text: "timed out", effect: true, late: 30 * time.Second, takes: callTimesOutIn},
				"without answer": {outcome: operation.OutcomeUnknown, text: "500", effect: true},
				"busy":           {outcome: operation.OutcomeBusy, text: "the node is full", times: -1},
			}[arg[2]]
			f.part, f.times = operation.Part(arg[0]), cmp.Or(f.times, 1)
			s.w.faults[arg[1]] = &f
			return nil
		}},
		{"the CVMs? of SLOTS exits?, and its host gives up", each(func(_ *story, c *cvm) { c.halt(); c.status = "exited" })},
		{"the CVMs? of SLOTS crash(?:es)?", each(func(_ *story, c *cvm) { c.halt() })},
		{"platform lists SLOTS as stopped", each(func(_ *story, c *cvm) { c.status, c.inProgress = "stopped", false })},
		{"platform lists SLOTS as running", each(func(s *story, c *cvm) { c.status = "running"; c.reboot(s.w) })},
		{"platform lists SLOTS as WORD", func(s *story, arg []string) error {
			return each(func(_ *story, c *cvm) { c.status, c.inProgress = arg[1], true })(s, arg)
		}},
		{"platform says that SLOT does not boot: REST", func(s *story, arg []string) error {
			return each(func(_ *story, c *cvm) { c.bootError, c.inProgress = arg[1], false })(s, arg)
		}},
		{"the CVMs? of SLOTS vanish(?:es)?", each(func(_ *story, c *cvm) { c.gone = true })},
		{"the CVM of SLOT is listed again", func(s *story, arg []string) error {
			for _, c := range s.w.cvms {
				if c.slot == arg[0] {
					c.gone, c.silent = false, false
				}
			}
			return nil
		}},
		{"the younger CVM of SLOT vanishes", func(s *story, arg []string) error {
			for _, c := range slices.Backward(s.w.cvms) {
				if c.slot == arg[0] && !c.gone {
					c.gone = true
					return nil
				}
			}
			return errors.New("there is none")
		}},
		{"somebody makes another CVM with the name of SLOT", func(s *story, arg []string) error {
			was := s.w.of(arg[0])
			if was == nil {
				return errors.New("it has none")
			}
			c := s.w.make(arg[0], was.content)
			c.inProgress, c.boot, c.upAt = false, "stranger", s.w.now
			return nil
		}},
	}
}

func coordinatorEvents() []event {
	return []event{
		{"the leader changes", func(s *story, _ []string) error { s.succeed(0); return nil }},
		{"the leader changes, its clock is TIME (?:ahead)", func(s *story, arg []string) error {
			d, err := time.ParseDuration(arg[0])
			s.succeed(d)
			return err
		}},
		{"the leader changes, its clock is TIME behind", func(s *story, arg []string) error {
			d, err := time.ParseDuration(arg[0])
			s.succeed(-d)
			return err
		}},
		{"the coordinator will die before its next call", func(s *story, _ []string) error { s.c.dies = "before"; return nil }},
		{"the coordinator will die after its next call", func(s *story, _ []string) error { s.c.dies = "after"; return nil }},
		{"the coordinator will die when a step is done", func(s *story, _ []string) error { s.c.dies = "done"; return nil }},
		{"provisioning takes TIME", func(s *story, arg []string) (err error) {
			s.c.provisioning, err = time.ParseDuration(arg[0])
			return err
		}},
	}
}

// slots returns the Slots that a text names: "web-0", "web-0, web-2", "web-*".
func (s *story) slots(text string) ([]string, error) {
	if text == s.c.spec.Name+"-*" {
		return s.c.spec.Members(), nil
	}
	var out []string
	for _, slot := range regexp.MustCompile(`,\s*|\s+and\s+`).Split(text, -1) {
		if _, _, err := group.ParseSlot(slot); err != nil {
			return nil, err
		}
		out = append(out, slot)
	}
	return out, nil
}

func (s *story) cvms(text string) ([]*cvm, error) {
	slots, err := s.slots(text)
	var out []*cvm
	for _, slot := range slots {
		c := s.w.of(slot)
		if c == nil {
			return nil, fmt.Errorf("%s has no CVM", slot)
		}
		out = append(out, c)
	}
	return out, err
}

// instance returns the status of a Slot.
func (s *story) instance(slot string) group.InstanceStatus {
	for _, i := range s.c.plan.Status.Instances {
		if i.Slot == slot {
			return i
		}
	}
	return group.InstanceStatus{State: "unknown"}
}

// action returns the planned Action of a Slot.
func (s *story) action(slot string) (rollout.Action, bool) {
	for _, a := range s.c.plan.Actions {
		if a.Slot == slot {
			return a, true
		}
	}
	return rollout.Action{}, false
}

// ownColor gives a Slot its own env values.
func (s *story) ownColor(slot string, env map[string]string) error {
	return s.ownSettings(slot, func(own *group.InstanceSettings) { own.Env = env })
}

func (s *story) ownSize(slot, size string) error {
	return s.ownSettings(slot, func(own *group.InstanceSettings) { own.InstanceType = size })
}

// ownSettings changes the settings of one Slot, and keeps those of the others.
func (s *story) ownSettings(slot string, edit func(own *group.InstanceSettings)) error {
	_, ordinal, err := group.ParseSlot(slot)
	own := s.c.spec.Instance(ordinal)
	edit(&own)
	s.c.spec.Instances = slices.DeleteFunc(slices.Clone(s.c.spec.Instances), func(i group.InstanceSettings) bool { return i.Ordinal == ordinal })
	if len(own.Env) > 0 || own.InstanceType != "" {
		s.c.spec.Instances = append(s.c.spec.Instances, own)
	}
	return err
}
