package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// fault is the outcome of a platform call.
type fault struct {
	outcome operation.Outcome
	text    string
	effect  bool
	late    time.Duration
	takes   time.Duration
	part    operation.Part // only a call for that part; "": any
	times   int            // the number of calls with this fault; negative: all
}

// pending is an effect that shows later.
type pending struct {
	at    time.Time
	slot  string
	apply func()
}

// listed is the platform's listing of every CVM.
func (w *world) listed(slot string) (found []rollout.Instance) {
	for _, c := range w.cvms {
		if c.slot != slot || c.gone || w.silent[c.node] {
			continue
		}
		found = append(found, rollout.Instance{
			VMUUID: c.uuid, InstanceID: c.instance, AppID: storyApp, Name: c.slot, Status: c.status, Node: c.node, InProgress: c.inProgress,
			ComposeHash: w.hashOf(c.content), BootError: c.bootError, UpdatedAt: c.updatedAt,
			Shape: operation.Shape{InstanceType: c.content.InstanceType, OSImage: c.content.OSImage, DiskGB: max(c.content.DiskGB, defaultDisk)},
		})
	}
	return found
}

var storyApp = strings.Repeat("a", 40)

// defaultDisk is the disk of a CVM that was made without a wanted disk.
const defaultDisk = 20

// hashOf is the compose hash: it excludes the rest of a template.
func (w *world) hashOf(t group.Template) string {
	lines := strings.Split(strings.TrimSpace(t.Compose), "\n")
	name := strings.TrimPrefix(lines[len(lines)-1], "# ")
	return strings.Repeat(fmt.Sprintf("%02x", name[0]), 32)
}

// call is one platform call: the coordinator's answer, and its delay. effective is called for each effect of the call,
// at once or late.
func (w *world) call(part operation.Part, slot, uuid, revision string, effective func()) (result operation.CallResult, took time.Duration) {
	w.startEarly(part, slot, true)
	f := w.faults[slot]
	if f != nil && f.part != "" && f.part != part {
		f = nil
	}
	switch {
	case f == nil:
		f = &fault{outcome: operation.OutcomeDone, effect: true}
	case f.times > 0:
		if f.times--; f.times == 0 {
			delete(w.faults, slot)
		}
	}
	// A driver makes no second CVM of one name: it needs an answer of each host that may have one.
	for _, host := range slices.Sorted(maps.Keys(w.silent)) {
		if part == operation.PartCreate && !slices.Contains(w.notOn, host) {
			f = &fault{outcome: operation.OutcomeBusy, text: "the name may be on " + host}
		}
	}
	if c := w.of(slot); c != nil && c.uuid == uuid && w.silent[c.node] {
		f = &fault{outcome: operation.OutcomeUnknown, text: "no route to " + c.node, takes: callTimesOutIn}
	}
	result.Outcome, result.Message = f.outcome, f.text
	own := w.ownSize
	if !f.effect {
		return result, f.takes
	}
	if c := w.of(slot); w.stopFirst && part == operation.PartCompose && c != nil && c.status != "stopped" {
		c.content.Compose, c.half = w.contents[revision].Compose, true // a host writes a part before it looks
		result.Outcome, result.Message = operation.OutcomeBusy, "the CVM must be stopped"
		return result, f.takes
	}
	if f.late > 0 {
		w.pending = append(w.pending, pending{at: w.now.Add(f.late), slot: slot, apply: func() {
			effective()
			w.effect(part, slot, uuid, revision, own)
			w.log("the call for %s shows its effect", slot)
		}})
		return result, f.takes
	}
	effective()
	if made := w.effect(part, slot, uuid, revision, own); made != nil {
		result.VMUUID, result.InstanceID = made.uuid, made.instance
	}
	return result, f.takes
}

// startEarly makes the host start a CVM right before its call for part.
func (w *world) startEarly(part operation.Part, slot string, unseen bool) {
	if w.early[slot] == part && w.unseen == unseen {
		delete(w.early, slot)
		w.of(slot).hostStarts(w)
	}
}

// outstanding: a call for the Slot will still have an effect.
func (w *world) outstanding(slot string) bool {
	return slices.ContainsFunc(w.pending, func(p pending) bool { return p.slot == slot })
}

// effect carries out a call.
func (w *world) effect(part operation.Part, slot, uuid, revision, own string) *cvm {
	wanted := w.contents[revision]
	wanted.InstanceType = cmp.Or(own, wanted.InstanceType)
	if part == operation.PartCreate {
		made := w.make(slot, wanted)
		made.ownSize = own
		return made
	}
	i := slices.IndexFunc(w.cvms, func(c *cvm) bool { return c.uuid == uuid && !c.gone })
	if i < 0 {
		return nil
	}
	c := w.cvms[i]
	switch part {
	case operation.PartStop:
		force, boot := w.force, c.boots
		w.pending = append(w.pending, pending{at: w.now.Add(stopTakes), apply: func() {
			if c.boots == boot && (force || !c.hung) {
				c.halt()
			}
		}})
	case operation.PartCompose:
		c.content.Compose = wanted.Compose
		if w.stopFirst {
			c.content, c.ownSize, c.half = wanted, own, false
			break
		}
		c.reboot(w)
	case operation.PartOSImage:
		c.content.OSImage = wanted.OSImage
		c.reboot(w)
	case operation.PartResources:
		c.ownSize, c.content.InstanceType, c.content.DiskGB = own, wanted.InstanceType, wanted.DiskGB
		c.reboot(w)
	case operation.PartRestart:
		if c.hung && !w.force && !w.stopFirst || w.stopFirst && c.status != "stopped" {
			break
		}
		if w.stopFirst && c.half {
			w.set.broke("the files of %s are half written, and it is started", c.slot)
		}
		c.silent, c.hung = c.silent && !c.hung, false
		c.reboot(w)
	case operation.PartDelete:
		c.status, c.inProgress = "terminating", true
		w.pending = append(w.pending, pending{at: w.now.Add(deleteTakes), apply: func() { c.gone = true }})
	case operation.PartCreate:
	}
	return nil
}
