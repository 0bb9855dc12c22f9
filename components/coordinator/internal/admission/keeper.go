package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

const (
	// renewShare of the TTL passes between two renewals, and lookShare between two looks
	// at all leases while nothing changes.
	renewShare = 3
	lookShare  = 12
	// lookPause is the least time between two looks.
	lookPause = 50 * time.Millisecond
	// keepOps bounds the operations of one transaction about leases, keepers how many of
	// them are under way at once.
	keepOps = 60
	keepers = 4
	// triedAgain is how soon a step is tried again that failed once, and so many times
	// later, doubled each time, at most.
	triedAgain = time.Second
	triedMost  = 5
	// sessionLimit bounds the end of the session.
	sessionLimit = 3 * time.Second
)

// keeper holds the leases of the Boots that this coordinator keeps, all by one session.
// Safe for concurrent use.
type keeper struct {
	cfg *Config
	// making holds one place, for who makes the session.
	making chan struct{}

	mu      sync.Mutex
	session string           // guarded by mu; "": there is none
	ended   map[string]bool  // guarded by mu; sessions of this coordinator's past that were ended
	seen    map[string]*seen // guarded by mu; by Slot
	looked  time.Time        // guarded by mu; the last look at all
}

// seen is since when one Slot's lease is as it is, and its Boot silent, as noticed here.
type seen struct {
	index uint64
	since time.Time
	// boot is the one that silent is about, which is zero while it is heard.
	boot   string
	silent time.Time
	// tried is when a step was tried last, times how often, for the lease as it is.
	tried time.Time
	times int
}

func newKeeper(cfg *Config) *keeper {
	return &keeper{cfg: cfg, making: make(chan struct{}, 1), seen: map[string]*seen{}, ended: map[string]bool{}}
}

// own is the session, "" when there is none.
func (k *keeper) own() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session
}

// open is the session, made when there is none.
func (k *keeper) open(ctx context.Context) (string, error) {
	select {
	case k.making <- struct{}{}:
		defer func() { <-k.making }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if session := k.own(); session != "" {
		return session, nil
	}
	session, err := k.cfg.Store.CreateSession(ctx, "cadre boots kept by "+k.cfg.Slot, k.cfg.LeaseTTL)
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.session = session
	return session, nil
}

// renew renews the session if there is one, and forgets it when it has ended.
func (k *keeper) renew(ctx context.Context) error {
	session := k.own()
	if session == "" {
		return nil
	}
	err := k.cfg.Store.RenewSession(ctx, session)
	if errors.Is(err, store.ErrNoSession) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.session == session {
			k.session = ""
			k.cfg.Log.Warn("the session that holds the boots' leases has ended; they are taken again", "session", session)
		}
		return nil
	}
	return err
}

// renewing renews until ctx ends.
func (k *keeper) renewing(ctx context.Context) {
	failing := false
	for {
		wait := k.cfg.LeaseTTL / renewShare
		call, cancel := context.WithTimeout(ctx, wait)
		err := k.renew(call)
		cancel()
		if err != nil {
			wait = k.cfg.LeaseTTL / lookShare
			if !failing && ctx.Err() == nil {
				k.cfg.Log.Warn("leases of boots not renewed", "error", err)
			}
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// end frees everything that is held, for others to take; if it cannot, the TTL does.
func (k *keeper) end(ctx context.Context) {
	session := k.own()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionLimit)
	defer cancel()
	if err := k.cfg.Store.DestroySession(ctx, session); err != nil {
		k.cfg.Log.Warn("session of the boots' leases not ended; it ends by itself", "error", err)
	}
}

// past are the sessions by which an earlier process of this coordinator holds leases.
func (k *keeper) past(v *view.View) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, held := range v.Boots {
		if held.Held() && held.By == k.cfg.Slot && held.Session != k.session && !k.ended[held.Session] && !slices.Contains(out, held.Session) {
			out = append(out, held.Session)
		}
	}
	return out
}

// endPast ends what an earlier process of this coordinator left behind when it died: there
// is one process per Slot, so nobody renews those sessions any more. Consul ends them two
// TTLs after it has a leader again, and after a power loss every Boot would wait for that.
// From then on the leases are as after an end in order: each is its Boot's, if anybody hears
// it, before it is a successor's.
func (k *keeper) endPast(ctx context.Context, v *view.View) {
	for _, session := range k.past(v) {
		call, cancel := context.WithTimeout(ctx, sessionLimit)
		err := k.cfg.Store.DestroySession(call, session)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				k.cfg.Log.Warn("session of this coordinator's last process not ended; it ends by itself", "error", err)
			}
			continue // at the next look, if it is there still
		}
		k.mu.Lock()
		k.ended[session] = true
		k.mu.Unlock()
		k.cfg.Log.Info("leases of this coordinator's last process ended", "session", session)
	}
}

// stood is for how long the lease is as it was read, as far as was noticed here.
func (k *keeper) stood(held view.Boot) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	return now.Sub(k.noticeLocked(held, now).since)
}

func (k *keeper) noticeLocked(held view.Boot, now time.Time) *seen {
	s, known := k.seen[held.Slot]
	if !known {
		s = &seen{index: held.Index, since: now}
		k.seen[held.Slot] = s
	}
	if s.index != held.Index {
		*s = seen{index: held.Index, since: now, boot: s.boot, silent: s.silent}
	}
	return s
}

// mayTry reports whether the last try is long enough ago, and notes this one.
func (s *seen) mayTry(now time.Time) bool {
	if s.times > 0 && now.Sub(s.tried) < triedAgain<<min(s.times-1, triedMost) {
		return false
	}
	s.tried = now
	s.times++
	return true
}

// duty is one step that is due, and what its transaction consists of.
type duty struct {
	slot string
	step step
	ops  []store.Op
}

// due are the steps that v and the reports ask for, for the groups that changed; every:
// for all. A look at all that comes late finds Boots silent that could not be heard
// meanwhile: their silence begins anew.
func (k *keeper) due(v *view.View, every bool, changed func(group string) bool) []wanted {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	late := now.Sub(k.looked) > k.cfg.LeaseTTL/offerShare
	if every {
		k.looked = now
	}
	var out []wanted
	look := func(w wanted) {
		if w.step = k.stepLocked(&w, now, late); w.step != leave {
			out = append(out, w)
		}
	}
	for slot, a := range v.Admissions {
		if every || changed(a.Value.Group) {
			look(wanted{slot: slot, boot: a.Value.BootID, admission: a, held: v.Boots[slot]})
		}
	}
	if !every {
		return out
	}
	for slot, held := range v.Boots {
		// Of a Slot without an admission nobody else would give it up, and no Boot could have
		// the Slot for as long as this session lives.
		if _, admitted := v.Admissions[slot]; !admitted && held.Held() && held.Session == k.session {
			look(wanted{slot: slot, boot: held.BootID, held: held})
		}
	}
	for slot := range k.seen {
		if _, admitted := v.Admissions[slot]; !admitted && v.Boots[slot].Session != k.session {
			delete(k.seen, slot)
		}
	}
	return out
}

// stepLocked is what is due about the lease of w now.
func (k *keeper) stepLocked(w *wanted, now time.Time, late bool) step {
	w.held.Slot = w.slot
	s := k.noticeLocked(w.held, now)
	live := k.cfg.Sessions.Live(w.slot, w.boot)
	switch {
	case live:
		s.silent = time.Time{}
	case late, s.silent.IsZero(), s.boot != w.boot:
		s.silent = now
	}
	s.boot = w.boot
	o := outlook{
		boot: w.boot, held: w.held, self: k.cfg.Slot, session: k.session, live: live,
		stood: now.Sub(s.since), ttl: k.cfg.LeaseTTL,
	}
	if !live {
		o.silent = now.Sub(s.silent)
	} else if !w.held.Held() || w.held.State == store.LeaseOffered {
		o.rank = rank(w.slot, k.cfg.Slot, k.cfg.Coordinators)
	}
	does := judge(o)
	if does == take && w.admission.Index == 0 || does != leave && !s.mayTry(now) {
		return leave
	}
	return does
}

// wanted is a step with the records that it rests on.
type wanted struct {
	step step
	slot string
	// boot is whose lease it is, or should be.
	boot      string
	admission view.Rec[policy.Admission] // zero: there is none
	held      view.Boot
}

// duty makes the transaction's part of w. It passes while the lease is as it was seen: a
// successor may hold it by the same session. To take it, the Boot must still be the one
// on record, and not revoked.
func (w wanted) duty(self, session string, now time.Time) (duty, error) {
	a := w.admission.Value
	out := duty{slot: w.slot, step: w.step}
	if w.held.Index != 0 { // else there is none, or one that cannot be read here
		out.ops = append(out.ops, store.Op{Kind: store.OpCheckIndex, Key: store.BootLeaseKey(w.slot), Index: w.held.Index})
	}
	if w.admission.Index == 0 {
		out.ops = append(out.ops, store.Op{Kind: store.OpCheckAbsent, Key: store.AdmissionKey(w.slot)})
	}
	var err error
	add := func(op store.Op, bad error) {
		out.ops, err = append(out.ops, op), errors.Join(err, bad)
	}
	switch w.step {
	case offer:
		lease := w.held.BootLease
		lease.State = store.LeaseOffered
		add(lockOp(lease, session))
	case giveUp:
		add(unlockOp(w.held, store.LeaseSilent))
	case take:
		if w.held.Held() && w.held.Session != session {
			add(unlockOp(w.held, w.held.State))
		}
		add(lockOp(store.BootLease{
			Slot: a.Slot, BootID: a.BootID, InstanceID: a.InstanceID, Generation: a.Generation, Since: now.UTC(), By: self,
		}, session))
		out.ops = append(append(out.ops, store.Op{Kind: store.OpCheckIndex, Key: store.AdmissionKey(a.Slot), Index: w.admission.Index}), unrevoked(a)...)
	case leave:
	}
	return out, err
}

// batches puts duties together into transactions of at most most operations. A check
// that several have stands once.
func batches(all []duty, most int) [][]duty {
	var out [][]duty
	has := map[string]bool{} // operations of the last batch
	for _, d := range all {
		fresh := 0
		for _, op := range d.ops {
			if !has[string(op.Kind)+op.Key] {
				fresh++
			}
		}
		if len(out) == 0 || len(has)+fresh > most {
			out, has = append(out, nil), map[string]bool{}
		}
		for _, op := range d.ops {
			has[string(op.Kind)+op.Key] = true
		}
		out[len(out)-1] = append(out[len(out)-1], d)
	}
	return out
}

func opsOf(batch []duty) []store.Op {
	var out []store.Op
	for _, d := range batch {
		for _, op := range d.ops {
			if !slices.ContainsFunc(out, func(had store.Op) bool { return had.Kind == op.Kind && had.Key == op.Key }) {
				out = append(out, op)
			}
		}
	}
	return out
}

// without leaves out of batch whatever rests on an operation that failed.
func without(batch []duty, conflict *store.ConflictError) []duty {
	return slices.DeleteFunc(slices.Clone(batch), func(d duty) bool {
		return slices.ContainsFunc(d.ops, func(op store.Op) bool {
			return slices.ContainsFunc(conflict.Failed, func(f store.FailedOp) bool { return f.Op.Kind == op.Kind && f.Op.Key == op.Key })
		})
	})
}

// keep does what is due by v, for all groups or those that changed.
func (k *keeper) keep(ctx context.Context, v *view.View, every bool, changed func(group string) bool) {
	due := k.due(v, every, changed)
	if len(due) == 0 {
		return
	}
	session, err := k.open(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.cfg.Log.Warn("no session for the leases of boots", "error", err)
		}
		return
	}
	duties := make([]duty, 0, len(due))
	for _, w := range due {
		d, err := w.duty(k.cfg.Slot, session, k.cfg.Now())
		if err != nil {
			k.cfg.Log.Error("lease of a boot not kept", "slot", w.slot, "error", err)
			continue
		}
		duties = append(duties, d)
	}
	places := make(chan struct{}, keepers)
	var all sync.WaitGroup
	defer all.Wait()
	for _, batch := range batches(duties, keepOps) {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			k.commit(ctx, batch)
		})
	}
}

// commit does the duties of one transaction; those that are in conflict are left to the
// next look: another coordinator was faster, or another Boot, or the Boot is revoked.
func (k *keeper) commit(ctx context.Context, batch []duty) {
	for len(batch) > 0 && ctx.Err() == nil {
		err := k.cfg.Store.Commit(ctx, opsOf(batch)...)
		conflict, ok := errors.AsType[*store.ConflictError](err)
		switch {
		case err == nil:
			k.done(batch)
			return
		case !ok:
			if ctx.Err() == nil {
				k.cfg.Log.Warn("leases of boots not kept, it is tried again", "slots", len(batch), "error", err)
			}
			return
		}
		rest := without(batch, conflict)
		if len(rest) == len(batch) {
			return // a failure that names none of them says nothing about the rest
		}
		if len(rest) == 0 {
			// All of them: it may be the session.
			if err := k.renew(ctx); err != nil && ctx.Err() == nil {
				k.cfg.Log.Warn("leases of boots not renewed", "error", err)
			}
		}
		batch = rest
	}
}

// done says what was done: how many, and which if they are few.
func (k *keeper) done(batch []duty) {
	const few = 5
	slots := map[step][]string{}
	for _, d := range batch {
		slots[d.step] = append(slots[d.step], d.slot)
	}
	for does, what := range map[step]string{take: "taken for live boots", offer: "offered for silent boots", giveUp: "given up for silent boots"} {
		if n := len(slots[does]); n > 0 {
			k.cfg.Log.Info("leases changed", "what", what, "number", n, "slots", slots[does][:min(n, few)])
		}
	}
}

// KeepLeases keeps the leases of those Boots that this coordinator hears from and no
// other one keeps, until ctx ends; then it gives all up at once, and the others take
// them. Every coordinator does so.
func (s *Service) KeepLeases(ctx context.Context) error {
	defer s.keeper.end(ctx)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renewing.Go(func() { s.keeper.renewing(ctx) })
	records := s.cfg.Views.Subscribe()
	defer records.Close()
	tick := time.NewTicker(s.cfg.LeaseTTL / lookShare)
	defer tick.Stop()
	every := true // Boots fall silent, and are heard again, without a change of the records
	for {
		if v, changed := records.Take(); v != nil {
			s.keeper.endPast(ctx, v)
			s.keeper.keep(ctx, v, every || changed.All, func(group string) bool { _, in := changed.Groups[group]; return in })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(lookPause, s.cfg.LeaseTTL/lookShare)):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-records.C():
			// A Boot whose lease lapsed must not wait for the tick.
			every = false
		case <-tick.C:
			every = true
		}
	}
}
