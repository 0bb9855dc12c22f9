package simulator_test

import (
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// shows are the events that scenarios must show, by their names. A scenario without its event is
// useless, even if it keeps all promises.
var shows = map[string]func(trace.Trace) bool{
	"behind-gates": func(out trace.Trace) bool {
		begins := func(name string, kind operation.Kind, actor operation.Actor, from, to time.Duration) int {
			begun := map[string]bool{}
			for _, e := range out {
				if op := e.Operation; op != nil && e.Group == name && op.Kind == kind && op.Actor == actor && e.At >= from && e.At < to {
					begun[op.ID] = true
				}
			}
			return len(begun)
		}
		const rolls, heals, scales = operation.ActorRollout, operation.ActorHealing, operation.ActorScaling
		opened := count(out, func(e trace.Event) bool {
			return e.Gate != nil && e.Gate.State == group.GateOpen && e.Gate.Ticket != ""
		})
		return begins("pg", operation.Create, scales, 0, 10*time.Second) == 0 && begins("pg", operation.Restart, heals, 2*time.Minute, 3*time.Minute) == 1 &&
			begins("kv", operation.Update, rolls, 3*time.Minute, 4*time.Minute) == 0 && begins("kv", operation.Update, rolls, 0, time.Hour) == 3 && opened >= 6
	},
	"by-priority": func(out trace.Trace) bool {
		var order []string
		for _, e := range updates(out) {
			if op := e.Operation; op.Actor == operation.ActorRollout && !op.Before.Unavailable {
				order = append(order, e.Group)
			}
		}
		return strings.HasPrefix(strings.Join(order, " "), "app kv kv app pg")
	},
	"deleted-and-made-anew": func(out trace.Trace) bool {
		made := count(out, func(e trace.Event) bool { return e.Spec != nil && e.Group == "kv" && !e.Deleted })
		gone := count(out, func(e trace.Event) bool { return e.Spec != nil && e.Group == "kv" && e.Deleted })
		return gone == 1 && made >= 2 && effects(cloud.Delete, 0, "kv-0", "kv-1", "kv-2")(out)
	},
	"deleted-for-good": func(out trace.Trace) bool {
		last := out[len(out)-1]
		_, says := last.Resting["pg"]
		return !says && len(last.CVMs) == 1 && count(out, func(e trace.Event) bool { return e.Spec != nil && e.Deleted }) == 1
	},
	"deletion-taken-back": func(out trace.Trace) bool {
		gone := count(out, func(e trace.Event) bool { return e.Kind == trace.Effected && e.Call.Verb == cloud.Delete })
		spared := count(out, func(e trace.Event) bool { return e.Ending != nil && e.Deleted })
		return spared == 1 && gone > 0 && gone < 3
	},
	"retried": func(out trace.Trace) bool {
		failed, goesOn := false, false
		for _, e := range out {
			if r := e.Rollout; r != nil && !e.Deleted {
				goesOn = goesOn || failed && r.State == operation.Running
				failed = r.State == operation.FailedState
			}
		}
		return asked(out, store.RequestRetry) == 1 && goesOn && len(firsts(updates(out))) == 3
	},
	"undone": func(out trace.Trace) bool {
		return count(out, func(e trace.Event) bool { return strings.HasPrefix(e.Text, "goes back to ") }) == 1
	},
	"resolved": func(out trace.Trace) bool { return asked(out, store.RequestResolve) > 1 },
	"counts-after-min-ready": func(out trace.Trace) bool {
		begun := firsts(slices.DeleteFunc(slices.Clone(out), func(e trace.Event) bool { return e.Kind != trace.Called || e.Call.Verb != cloud.Update }))
		// A member that came back a moment ago may be taken itself: no other member is missing
		// then.
		waited := len(begun) == 3 && (begun[0].Slot == "pg-0" || begun[0].At > 2*time.Minute+40*time.Second)
		return waited && begun[1].At-begun[0].At > 40*time.Second && begun[2].At-begun[1].At > 40*time.Second
	},
	"preserved-and-let-go": func(out trace.Trace) bool {
		early := count(out, func(e trace.Event) bool {
			return e.Kind == trace.Effected && e.Call.Verb == cloud.Delete && e.Slot == "kv-3" && e.At < 5*time.Minute
		})
		return early == 0 && effects(cloud.Delete, 5*time.Minute, "kv-3")(out) && effects(cloud.Delete, 0, "kv-2", "kv-4")(out)
	},
	"preserved-for-good": func(out trace.Trace) bool { return !calls(cloud.Delete, 1)(out) },
	"launched-with-hooks": func(out trace.Trace) bool {
		return count(out, func(e trace.Event) bool { return e.Kind == trace.Launched }) >= 10 && dying(out) > 0
	},
	"taken-when-touched": func(out trace.Trace) bool {
		return effects(cloud.Update, 0, "pg-1", "pg-2")(out) && effects(cloud.Update, 7*time.Minute, "pg-0", "pg-3")(out) &&
			count(out, func(e trace.Event) bool { return e.Kind == trace.Effected && e.Call.Verb == cloud.Update }) == 4
	},
	"waits-to-be-touched":      func(out trace.Trace) bool { return !calls(cloud.Update, 1)(out) },
	"agents-die-at-their-work": func(out trace.Trace) bool { return dying(out) > 2 },
	"approved-first": func(out trace.Trace) bool {
		begun := firsts(updates(out))
		return len(begun) == 3 && begun[0].At >= 3*time.Minute+30*time.Second &&
			count(out, func(e trace.Event) bool { return e.Kind == trace.Called && e.At < time.Minute }) == 0
	},
	"half-done-before-an-extra-member": func(out trace.Trace) bool { return effects(cloud.Create, 0, "pg-2")(between(out, "pg-1")) },
	"half-done-before-a-third-voter":   func(out trace.Trace) bool { return effects(cloud.Create, 0, "kv-2")(between(out, "kv-0")) },
	"half-done-before-a-newcomers-vote": func(out trace.Trace) bool {
		return slices.ContainsFunc(between(out, "kv-0"), func(e trace.Event) bool { return e.Kind == trace.Listed && len(e.Voters) == 3 })
	},
	"half-done-beside-one-that-is-down": func(out trace.Trace) bool { return effects(cloud.Restart, 0, "pg-0")(between(out, "pg-2")) },
	"hands-over-between-two-parts": func(out trace.Trace) bool {
		return count(between(out, "pg-1"), func(e trace.Event) bool {
			return e.Operation != nil && e.Operation.Phase == operation.Draining && strings.HasPrefix(e.Operation.Reason, "leads again ")
		}) > 1
	},
	"started-by-its-host-before-a-stop":   startedByItsHost,
	"another-size-behind-an-extra-member": effects(cloud.Create, 3*time.Minute, "pg-1"),
	"shows-what-it-was-not-given": func(out trace.Trace) bool {
		made := count(out, func(e trace.Event) bool { return e.Kind == trace.Effected && e.Call.Verb == cloud.Create })
		back := slices.IndexFunc(out, func(e trace.Event) bool { return e.Spec != nil && e.At > 3*time.Minute })
		return made == 1 && back > 0 && effects(cloud.Create, 0, "pg-0")(out[:back]) && len(updates(out)) == 0 &&
			count(out[back:], func(e trace.Event) bool { return e.Kind == trace.Called && e.Call.Verb == cloud.Update }) == 1
	},
}

// startedByItsHost: a host starts a CVM whose start was called, had no effect yet, and may still have one.
func startedByItsHost(out trace.Trace) bool {
	open := map[string]trace.Call{} // by Slot
	for _, e := range out {
		slot, byHost := strings.CutSuffix(strings.TrimPrefix(e.Text, "reboot "), " by its host")
		switch call, is := open[slot]; {
		case e.Kind == trace.Called && e.Call.Verb == cloud.Restart:
			open[e.Slot] = e.Call
		case e.Kind == trace.Effected:
			delete(open, e.Slot)
		case e.Kind == trace.Faulted && byHost && is && e.At < call.Latest:
			return true
		}
	}
	return false
}

// between are the events between the two parts of a Slot's step, which changes its size first.
func between(out trace.Trace, slot string) trace.Trace {
	part := func(verb cloud.Verb) int {
		return slices.IndexFunc(out, func(e trace.Event) bool { return e.Kind == trace.Effected && e.Call.Verb == verb && e.Slot == slot })
	}
	from, to := part(cloud.Resize), part(cloud.Update)
	if from < 0 || to < from {
		return nil
	}
	return out[from:to]
}

// firsts are the first events of each Slot.
func firsts(all []trace.Event) (out []trace.Event) {
	for _, e := range all {
		if !slices.ContainsFunc(out, func(one trace.Event) bool { return one.Slot == e.Slot }) {
			out = append(out, e)
		}
	}
	return out
}

func count(out trace.Trace, is func(trace.Event) bool) (n int) {
	for _, e := range out {
		if is(e) {
			n++
		}
	}
	return n
}

// asked counts the operator's requests of that kind.
func asked(out trace.Trace, kind store.RequestKind) int {
	return count(out, func(e trace.Event) bool { return e.Asked != nil && !e.Deleted && e.Asked.Kind == kind })
}

// dying counts the agents that died at a point of their work.
func dying(out trace.Trace) int {
	return count(out, func(e trace.Event) bool { return strings.Contains(e.Text, " dies after ") })
}

// effects reports that a call of that verb had its effect on each of the Slots, at after or later.
func effects(verb cloud.Verb, after time.Duration, slots ...string) func(trace.Trace) bool {
	return func(out trace.Trace) bool {
		for _, slot := range slots {
			if count(out, func(e trace.Event) bool {
				return e.Kind == trace.Effected && e.Call.Verb == verb && e.Slot == slot && e.At >= after
			}) == 0 {
				return false
			}
		}
		return true
	}
}
