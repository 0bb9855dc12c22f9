package world

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"cadre.dev/platform"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// ownApp is that of the coordinators.
var ownApp = strings.Repeat("c0", 20)

// appOf is the app that the platform makes for a document: that of its group's name.
func appOf(document []byte) string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(document, &named) // what says no name is of an app without one
	sum := sha256.Sum256([]byte(named.Name))
	return hex.EncodeToString(sum[:20])
}

const (
	// bootTakes is from a call until the CVM runs; quickly enough that a run stays short.
	bootTakes = 8 * time.Second
	// callLimit is when a coordinator gives up on a call.
	callLimit = 10 * time.Second
	// settle is how long the platform may hide an effect.
	settle = 3 * time.Minute
)

// platformLink is one process's way to the platform.
type platformLink struct {
	w *World
	p *process
	// before is what the last list showed, for those that show what was; guarded by World.mu.
	before []platform.Instance
}

var _ platform.Platform = (*platformLink)(nil)

func (l *platformLink) List(ctx context.Context, appID string) ([]platform.Instance, error) {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return nil, err
	}
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	odds, r := w.oddsLocked("list " + l.p.slot)
	chance := r.Float64()
	if chance < odds.BlindList+odds.StaleList {
		w.faults++
	}
	if chance < odds.BlindList {
		return nil, fmt.Errorf("list: 503: try again")
	}
	var out []platform.Instance
	for _, c := range w.sortedLocked() {
		if appID == "" || c.AppID == appID {
			out = append(out, c.Instance)
		}
	}
	if chance < odds.BlindList+odds.StaleList && l.before != nil {
		return l.before, nil
	}
	l.before = out
	return out, nil
}

func (l *platformLink) Describe(ctx context.Context, vmUUID string) (platform.Instance, error) {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return platform.Instance{}, err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if c := l.w.byIDLocked(vmUUID); c != nil {
		return c.Instance, nil
	}
	return platform.Instance{}, platform.ErrNotFound
}

func (l *platformLink) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return platform.Provisioned{}, err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if vmUUID != "" && l.w.byIDLocked(vmUUID) == nil {
		return platform.Provisioned{}, platform.ErrNotFound
	}
	sum := sha256.Sum256(t.AppCompose)
	return platform.Provisioned{ComposeHash: hex.EncodeToString(sum[:]), AppID: appOf(t.AppCompose)}, nil
}

func (l *platformLink) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	w := l.w
	w.mu.Lock()
	w.taken++
	c := &cvm{slot: strings.TrimPrefix(req.Name, Cluster+"-"), Instance: platform.Instance{
		InstanceType: req.Template.InstanceType, OSImage: req.Template.OSImage, DiskGB: req.Template.DiskGB,
		Name: req.Name, VMUUID: fmt.Sprintf("vm-%d", w.taken), InstanceID: fmt.Sprintf("%040d", 100+w.taken), AppID: req.Provisioned.AppID,
	}}
	w.mu.Unlock()
	err := l.call(ctx, trace.Call{Verb: trace.Create, Name: req.Name, VMUUID: c.VMUUID, Hash: req.Provisioned.ComposeHash}, func() error {
		if _, exists := w.cvms[req.Name]; exists {
			return fmt.Errorf("%w: 409: there is a CVM of that name", platform.ErrRefused)
		}
		w.cvms[req.Name] = c
		w.sorted = nil
		w.bootLocked(c, req.Provisioned.ComposeHash)
		return nil
	})
	if err != nil {
		return platform.Instance{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.Instance, nil
}

func (l *platformLink) Update(ctx context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	return l.change(ctx, trace.Call{Verb: trace.Update, VMUUID: req.VMUUID, Hash: req.ComposeHash}, func(c *cvm) { l.w.bootLocked(c, req.ComposeHash) })
}

func (l *platformLink) SetOSImage(ctx context.Context, vmUUID, image string) (platform.Accepted, error) {
	return l.change(ctx, trace.Call{Verb: trace.Image, VMUUID: vmUUID}, func(c *cvm) {
		c.OSImage = image
		l.w.bootLocked(c, c.next)
	})
}

func (l *platformLink) Resize(ctx context.Context, vmUUID string, s platform.Shape) (platform.Accepted, error) {
	return l.change(ctx, trace.Call{Verb: trace.Resize, VMUUID: vmUUID}, func(c *cvm) {
		c.InstanceType, c.DiskGB = cmp.Or(s.InstanceType, c.InstanceType), cmp.Or(s.DiskGB, c.DiskGB)
		l.w.bootLocked(c, c.next)
	})
}

func (l *platformLink) Restart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.change(ctx, trace.Call{Verb: trace.Restart, VMUUID: vmUUID}, func(c *cvm) { l.w.bootLocked(c, c.next) })
}

func (l *platformLink) Delete(ctx context.Context, vmUUID string) error {
	_, err := l.change(ctx, trace.Call{Verb: trace.Delete, VMUUID: vmUUID}, func(c *cvm) { l.w.removeLocked(c, deleted) })
	if err == platform.ErrNotFound { //nolint:errorlint // it is ours, unwrapped
		return nil
	}
	return err
}

// change is a call about a CVM that there is.
func (l *platformLink) change(ctx context.Context, call trace.Call, apply func(*cvm)) (platform.Accepted, error) {
	l.w.mu.Lock()
	c := l.w.byIDLocked(call.VMUUID)
	if c != nil {
		call.Name = c.Name
	}
	l.w.mu.Unlock()
	if c == nil {
		return platform.Accepted{}, platform.ErrNotFound
	}
	return platform.Accepted{}, l.call(ctx, call, func() error {
		if l.w.cvms[c.Name] != c {
			return platform.ErrNotFound
		}
		apply(c)
		return nil
	})
}

// ForceRestart is a Restart: guests of this world do not hang.
func (l *platformLink) ForceRestart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.Restart(ctx, vmUUID)
}

func (l *platformLink) Stop(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

// Start is a Restart of what does not run; what runs already goes on.
func (l *platformLink) Start(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return l.change(ctx, trace.Call{Verb: trace.Restart, VMUUID: vmUUID}, func(c *cvm) {
		if !c.Running() && !c.InProgress {
			l.w.bootLocked(c, c.next)
		}
	})
}

func (l *platformLink) Nodes(context.Context) ([]platform.Node, error) { return nil, nil }
func (l *platformLink) Offer(context.Context) (platform.Offer, error)  { return platform.Offer{}, nil }
func (l *platformLink) Settle() time.Duration                          { return settle }

// fate is what becomes of one call.
type fate struct {
	slow, late      time.Duration
	refused, silent bool
	// applied: it is done at once; else after late, or never where that is 0.
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
		// Less than the platform needs to settle: later than that, nobody can know.
		f.applied, f.silent, f.late = false, true, time.Second+time.Duration(r.Int64N(int64(settle-callLimit)))
	}
	return f
}

// call makes one call with an effect; apply runs under the world's lock.
func (l *platformLink) call(ctx context.Context, call trace.Call, apply func() error) error {
	if err := l.w.reach(ctx, l.p, toPlatform); err != nil {
		return fmt.Errorf("%w: not sent: %w", platform.ErrRefused, err)
	}
	w := l.w
	slot := strings.TrimPrefix(call.Name, Cluster+"-")
	w.mu.Lock()
	w.calls++
	call.ID, call.Deadline = w.calls, time.Since(w.began)+callLimit
	odds, r := w.oddsLocked(fmt.Sprintf("%s %s", call.Verb, slot))
	f := fateOf(odds, r)
	if f.slow > 0 || !f.applied || f.silent {
		w.faults++
	}
	event := trace.Event{By: l.p.slot, Group: plan.GroupOf(slot), Slot: slot, Call: call}
	w.noteAsLocked(trace.Called, event)
	var failed error
	effect := func() {
		if failed = apply(); failed == nil {
			w.noteAsLocked(trace.Effected, event)
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

// answer is what the caller learns, in time or not.
func (l *platformLink) answer(ctx context.Context, event trace.Event, f fate, failed error) error {
	var err error
	event.Outcome = trace.OK
	switch {
	case f.silent || !pause(ctx, f.slow):
		if f.silent {
			pause(ctx, callLimit)
		}
		event.Outcome, err = trace.Unknown, fmt.Errorf("%s %s: no answer", event.Call.Verb, event.Call.Name)
	case f.refused:
		event.Outcome, err = trace.Refused, fmt.Errorf("%w: 429: slow down", platform.ErrRefused)
	case failed != nil:
		event.Outcome, err = trace.Refused, failed
	}
	if l.p.dead() {
		return errDead // nobody is there to hear it
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

func (w *World) byIDLocked(vmUUID string) *cvm {
	for _, c := range w.cvms {
		if c.VMUUID == vmUUID {
			return c
		}
	}
	return nil
}
