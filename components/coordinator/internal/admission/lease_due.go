package admission

import (
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

const (
	// triedAgain is the retry delay after the first failure of a step. The delay doubles with each
	// further failure, at most triedMost times.
	triedAgain = time.Second
	triedMost  = 5
)

// seen records since when one Slot's lease is unchanged, and since when its Boot is silent, as
// observed by this coordinator.
type seen struct {
	index uint64
	since time.Time
	// boot is the Boot that silent refers to. silent is zero while the Boot sends reports.
	boot   string
	silent time.Time
	// tried is the time of the last try, and times the number of tries, for the unchanged lease.
	tried time.Time
	times int
}

// stood returns how long the lease is unchanged, as observed by this coordinator.
func (k *keeper) stood(lease view.Boot) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	return now.Sub(k.noticeLocked(lease, now).since)
}

func (k *keeper) noticeLocked(lease view.Boot, now time.Time) *seen {
	s, known := k.seen[lease.Slot]
	if !known {
		s = &seen{index: lease.Index, since: now}
		k.seen[lease.Slot] = s
	}
	if s.index != lease.Index {
		*s = seen{index: lease.Index, since: now, boot: s.boot, silent: s.silent}
	}
	return s
}

// mayTry reports whether the last try is long enough ago, and records this one.
func (s *seen) mayTry(now time.Time) bool {
	if s.times > 0 && now.Sub(s.tried) < triedAgain<<min(s.times-1, triedMost) {
		return false
	}
	s.tried = now
	s.times++
	return true
}

// due returns the steps that follow from v and the reports, for the changed groups, or for all
// groups if every is set. If a round over all groups was late, reports may have been missed
// meanwhile, so the silence of each Boot starts again.
func (k *keeper) due(v *view.View, every bool, changed func(group string) bool) []wanted {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	late := now.Sub(k.lastRound) > k.cfg.LeaseTTL/offerShare
	if every {
		k.lastRound = now
	}
	var out []wanted
	evaluate := func(w wanted) {
		if w.step = k.stepLocked(&w, now, late); w.step != leave {
			out = append(out, w)
		}
	}
	for slot, a := range v.Admissions {
		if every || changed(a.Value.Group) {
			evaluate(wanted{slot: slot, boot: a.Value.BootID, admission: a, lease: v.Boots[slot]})
		}
	}
	if !every {
		return out
	}
	for slot, lease := range v.Boots {
		// No other coordinator would give up the lease of a Slot without an admission. The Slot
		// would stay closed for as long as this session lives.
		if _, admitted := v.Admissions[slot]; !admitted && lease.Leased() && lease.Session == k.session {
			evaluate(wanted{slot: slot, boot: lease.BootID, lease: lease})
		}
	}
	for slot := range k.seen {
		if _, admitted := v.Admissions[slot]; !admitted && v.Boots[slot].Session != k.session {
			delete(k.seen, slot)
		}
	}
	return out
}

// stepLocked returns the due step of the lease of w.
func (k *keeper) stepLocked(w *wanted, now time.Time, late bool) step {
	w.lease.Slot = w.slot
	s := k.noticeLocked(w.lease, now)
	live := k.cfg.Sessions.Live(w.slot, w.boot)
	switch {
	case live:
		s.silent = time.Time{}
	case late, s.silent.IsZero(), s.boot != w.boot:
		s.silent = now
	}
	s.boot = w.boot
	o := outlook{
		boot: w.boot, lease: w.lease, self: k.cfg.Slot, session: k.session, live: live,
		stood: now.Sub(s.since), ttl: k.cfg.LeaseTTL,
	}
	if !live {
		o.silent = now.Sub(s.silent)
	} else if !w.lease.Leased() || w.lease.State == store.LeaseOffered {
		o.rank = rank(w.slot, k.cfg.Slot, k.cfg.Coordinators)
	}
	does := judge(o)
	if does == take && w.admission.Index == 0 || does != leave && !s.mayTry(now) {
		return leave
	}
	return does
}

// wanted is a step with the records behind it.
type wanted struct {
	step step
	slot string
	// boot is the Boot that holds the lease, or should hold it.
	boot      string
	admission view.Rec[policy.Admission] // zero: the Slot has no admission
	lease     view.Boot
}
