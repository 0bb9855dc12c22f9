package admission

import (
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

const (
	// triedAgain is how soon a step is tried again that failed once, and so many times
	// later, doubled each time, at most.
	triedAgain = time.Second
	triedMost  = 5
)

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
