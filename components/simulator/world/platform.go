package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/platform"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// ownApp is the coordinators' app.
var ownApp = strings.Repeat("c0", 20)

const (
	// quickBoot is the time from a call until the CVM runs, without a setting in the plan.
	// leastBoot is the shortest drawn boot time.
	quickBoot = 8 * time.Second
	leastBoot = 5 * time.Second
	// callLimit is when a coordinator gives up on a call.
	callLimit = 10 * time.Second
	// hostStartsWithin is when a host starts a stopped CVM, if it does.
	hostStartsWithin = 30 * time.Second
	// settle is how long the platform may hide an effect.
	settle = 3 * time.Minute
	// effectBy bounds the delay of a call's effect. It is less than the platform needs to settle,
	// since coordinators' clocks may be a little ahead. A coordinator cannot know of a later
	// effect.
	effectBy = settle - callLimit + time.Second
)

// platformLink is one process's connection to the platform.
type platformLink struct {
	*cloud.Link[*cvm]

	w *World
	p *process
	// before is the last list, for stale lists; guarded by World.mu.
	before []platform.Instance
}

var _ platform.Platform = (*platformLink)(nil)

func (w *World) linkOf(p *process) *platformLink {
	l := &platformLink{w: w, p: p}
	l.Link = w.cloud.Link(l.carry)
	return l
}

// List may fail, or return the last list again.
func (l *platformLink) List(ctx context.Context, appID string) ([]platform.Instance, error) {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return nil, err
	}
	now, err := l.Link.List(ctx, appID)
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown != nil {
		now = slices.DeleteFunc(slices.Clone(w.shown), func(one platform.Instance) bool { return appID != "" && one.AppID != appID })
	}
	odds, r := w.oddsLocked("list " + l.p.slot)
	chance := r.Float64()
	if chance < odds.BlindList+odds.StaleList {
		w.faults++
	}
	switch {
	case chance < odds.BlindList:
		return nil, errors.New("list: 503: try again")
	case chance < odds.BlindList+odds.StaleList && l.before != nil:
		return l.before, nil
	}
	l.before = now
	return now, err
}

// blind is an error where a request without an effect fails.
func (l *platformLink) blind(what string) error {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	odds, r := w.oddsLocked(what + " " + l.p.slot)
	if r.Float64() >= odds.BlindAsk {
		return nil
	}
	w.faults++
	return fmt.Errorf("%s: 503: try again", what)
}

// Describe and Provision need a connection, and may fail.
func (l *platformLink) Describe(ctx context.Context, vmUUID string) (platform.Instance, error) {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return platform.Instance{}, err
	}
	if err := l.blind("describe"); err != nil {
		return platform.Instance{}, err
	}
	l.w.mu.Lock()
	at, hides := slices.IndexFunc(l.w.shown, func(one platform.Instance) bool { return one.VMUUID == vmUUID }), l.w.shown != nil
	if hides && at >= 0 {
		defer l.w.mu.Unlock()
		return l.w.shown[at], nil
	}
	l.w.mu.Unlock()
	if hides {
		return platform.Instance{}, platform.ErrNotFound
	}
	return l.Link.Describe(ctx, vmUUID)
}

// Provision implements [platform.Platform].
func (l *platformLink) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return platform.Provisioned{}, err
	}
	if err := l.blind("provision"); err != nil {
		return platform.Provisioned{}, err
	}
	return l.Link.Provision(ctx, vmUUID, t)
}

// bootTakes is how long the next boot of a CVM takes.
func (w *World) bootTakes(one *cloud.CVM[*cvm]) time.Duration {
	if w.plan.Takes.Boot == 0 {
		return quickBoot
	}
	return max(w.drawLocked("boot "+one.Name, w.plan.Takes.Boot), leastBoot)
}

// fate is the fate of one call.
type fate struct {
	slow, late      time.Duration
	refused, silent bool
	// as is the caller's error of a refusal; nil: the plain refusal.
	as error
	// applied: it is done at once; else after late, or never where late is 0.
	applied bool
}

func fateOf(odds plan.Odds, r *rand.Rand) fate {
	f := fate{applied: true}
	if r.Float64() < odds.Slow {
		f.slow = time.Duration(r.Int64N(int64(callLimit)))
	}
	chance := r.Float64()
	within := func(p float64) bool {
		hit := chance >= 0 && chance < p
		chance -= p
		return hit
	}
	switch {
	case within(odds.Refused):
		f.applied, f.refused = false, true
	case within(odds.LostAnswer):
		f.silent = true
	case within(odds.Never):
		f.applied, f.silent = false, true
	case within(odds.Late):
		f.applied, f.silent, f.late = false, true, time.Second+time.Duration(r.Int64N(int64(effectBy-time.Second)))
	case within(odds.Busy):
		f.applied, f.refused, f.as = false, true, []error{platform.ErrBusy, platform.ErrThrottled}[r.IntN(2)]
	}
	return f
}

// carry executes one call with an effect by its fate; apply runs under the world's lock.
func (l *platformLink) carry(ctx context.Context, c cloud.Call, apply func() error) error {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return fmt.Errorf("%w: not sent: %w", platform.ErrRefused, err)
	}
	w := l.w
	if c.Verb == cloud.Start {
		c.Verb = cloud.Restart // as in the trace
	}
	slot := strings.TrimPrefix(c.Name, Cluster+"-")
	w.mu.Lock()
	w.calls++
	call := trace.Call{Call: c, ID: w.calls, Latest: time.Since(w.began) + effectBy, Content: w.contentLocked(c.Hash)}
	odds, r := w.oddsLocked(fmt.Sprintf("%s %s", c.Verb, slot))
	f := fateOf(odds, r)
	if w.refusing > 0 {
		f = fate{refused: true} // for minutes, for every call
	}
	if f.slow > 0 || !f.applied || f.silent {
		w.faults++
	}
	event := trace.Event{By: l.p.slot, Group: plan.GroupOf(slot), Slot: slot, Call: call}
	w.noteAsLocked(trace.Called, event)
	w.operators.sent(slot, f)
	var failed error
	effect := func() {
		if failed = apply(); failed == nil {
			w.noteAsLocked(trace.Effected, event)
		} else {
			w.noteAsLocked(trace.Declined, event)
		}
		if c.Verb == cloud.Stop && r.IntN(6) == 0 {
			w.hostStartsLocked(slot, time.Duration(r.Int64N(int64(hostStartsWithin))))
		}
	}
	switch {
	case f.applied:
		effect()
	case f.late > 0:
		time.AfterFunc(f.late, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			effect()
		})
	}
	w.mu.Unlock()
	l.p.stepped("a call")
	return l.answer(ctx, event, f, failed)
}

// hostStartsLocked makes the host start a stopped CVM without a call.
func (w *World) hostStartsLocked(slot string, after time.Duration) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c := w.cvmLocked(slot); c != nil && c.StaysDown() {
			w.noteLocked(trace.Event{Kind: trace.Faulted, By: "fault", Text: "reboot " + slot + " by its host"})
			w.cloud.RebootLocked(c.CVM)
		}
	})
}

// contentLocked is the compose text in the document of that hash.
func (w *World) contentLocked(hash string) string {
	var document struct {
		Compose string `json:"docker_compose_file"`
	}
	if json.Unmarshal(w.cloud.DocumentLocked(hash), &document) != nil {
		return "" // no caller provisioned it
	}
	return document.Compose
}

// answer is the caller's answer, in time or not.
func (l *platformLink) answer(ctx context.Context, event trace.Event, f fate, failed error) error {
	var err error
	event.Outcome = trace.OK
	switch {
	case f.silent || !pause(ctx, f.slow):
		if f.silent {
			pause(ctx, callLimit)
		}
		event.Outcome, err = trace.Unknown, fmt.Errorf("%s %s: no answer", event.Call.Verb, event.Call.Name)
	case f.refused && f.as != nil:
		event.Outcome, err = trace.Refused, fmt.Errorf("%w: %w: not now", f.as, platform.ErrRefused)
	case f.refused:
		event.Outcome, err = trace.Refused, fmt.Errorf("%w: 429: slow down", platform.ErrRefused)
	case failed != nil:
		event.Outcome, err = trace.Refused, failed
	}
	if l.p.dead() {
		return errDead // the caller is dead
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.noteAsLocked(trace.Answered, event)
	return err
}

func (w *World) noteAsLocked(kind trace.Kind, e trace.Event) {
	e.Kind = kind
	w.noteLocked(e)
}
