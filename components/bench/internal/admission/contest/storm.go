package contest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/bench/internal/admission/server"
	"cadre.dev/bench/internal/agents"
	"cadre.dev/coordinator/coordinatortest"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// storm is the result of a restart of all agents at once.
type storm struct {
	took used
	// until is when each agent was in, in seconds, sorted.
	until         []float64
	tries, most   int
	refused, lost int
	quotes        int
	told          map[string]int // answers that asked to come back, by code
	overloaded    uint64
	nonces        nonceCheck
}

// storm restarts all agents at once, each with a new Boot key; the leases of the Boots
// before have ended.
func (l *lab) storm(ctx context.Context, latency time.Duration) (s storm, err error) {
	l.machines.SetLatency(0) // keys are derived at the start, and that is not it
	c, err := l.start(ctx, stormCoordinators)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	l.machines.SetLatency(latency)
	before, err := l.generations(ctx)
	if err != nil {
		return s, err
	}
	for _, a := range l.agents {
		if err := a.Restart(); err != nil {
			return s, err
		}
	}
	l.machines.Quotes()
	s.told = map[string]int{}
	if s.took, err = l.during(c, func() error { return l.rush(ctx, c, &s) }); err != nil {
		return s, err
	}
	s.quotes = l.machines.Quotes()
	slices.Sort(s.until)
	var counts coordinatortest.Counts
	if err := c.Call(ctx, "counts", server.Nothing{}, &counts); err != nil {
		return s, err
	}
	s.overloaded = counts.Overloaded
	if err := l.whoHolds(ctx, before, &s); err != nil {
		return s, err
	}
	if s.nonces, err = l.checkNonces(ctx); err != nil {
		return s, err
	}
	if counts.Admitted > s.nonces.spent {
		return s, fmt.Errorf("%d admissions with %d nonces: one was used twice", counts.Admitted, s.nonces.spent)
	}
	l.say("  %d agents in %.1f s (half in %.1f s), %.2f tries each, at most %d; refused %d, lost %d; %d quotes; CPU %.1f s, Consul's %.1f s, agents' %.1f s",
		len(s.until), s.took.wall.Seconds(), percentile(s.until, 50), float64(s.tries)/float64(len(l.agents)), s.most, s.refused, s.lost, s.quotes,
		s.took.ours.Seconds(), s.took.consul.Seconds(), s.took.agents.Seconds())
	for _, code := range slices.Sorted(maps.Keys(s.told)) {
		l.say("    asked to retry: %s %d", code, s.told[code])
	}
	return s, nil
}

// rush is the storm itself.
func (l *lab) rush(ctx context.Context, c *coordinators, s *storm) error {
	limit, cancel := context.WithTimeout(ctx, l.options.StormLimit)
	defer cancel()
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		fatal error
	)
	began := time.Now()
	pick := func() string { return c.addresses[rand.IntN(len(c.addresses))] } //nolint:gosec // a gateway's choice
	for i, a := range l.agents {
		all.Go(func() {
			judge := l.judge
			if i >= stormCoordinators {
				judge = nil
			}
			tries, err := a.AdmitUntil(limit, pick, judge, func(code string) {
				mu.Lock()
				defer mu.Unlock()
				s.told[code]++
			})
			mu.Lock()
			defer mu.Unlock()
			s.tries += tries
			s.most = max(s.most, tries)
			switch {
			case ctx.Err() != nil: // interrupted: no result
			case err == nil:
				s.until = append(s.until, time.Since(began).Seconds())
			case errors.Is(err, agents.ErrEnded):
				s.refused++
				l.say("    refused permanently: %s: %v", a.Slot.Name, err)
			case limit.Err() != nil:
				s.lost++
				l.say("    lost: %s after %d tries: %v", a.Slot.Name, tries, err)
			default:
				fatal = errors.Join(fatal, err)
			}
		})
	}
	all.Wait()
	return errors.Join(fatal, ctx.Err())
}

// generations are the generations of all Slots' admissions.
func (l *lab) generations(ctx context.Context) (map[string]policy.Admission, error) {
	all, _, err := store.ReadAll[policy.Admission](ctx, l.store, store.AdmissionsPrefix)
	out := make(map[string]policy.Admission, len(all))
	for _, a := range all {
		out[a.Value.Slot] = a.Value
	}
	return out, err
}

// whoHolds counts as lost who believes to be in and is not by the records.
func (l *lab) whoHolds(ctx context.Context, before map[string]policy.Admission, s *storm) error {
	after, err := l.generations(ctx)
	if err != nil {
		return err
	}
	for _, a := range l.agents {
		if a.Grant == nil {
			continue
		}
		now := after[a.Slot.Name]
		if now.BootID != a.BootID || now.Generation != before[a.Slot.Name].Generation+1 {
			s.lost++
			l.say("    lost: %s is boot %.12s of generation %d by the records, not %.12s of %d",
				a.Slot.Name, now.BootID, now.Generation, a.BootID, before[a.Slot.Name].Generation+1)
		}
	}
	return nil
}

// nonceCheck counts the nonces of a storm.
type nonceCheck struct{ given, spent int }

// checkNonces compares all nonces that agents received and used with the recorded spent ones. A
// nonce that was used twice is an error, not a missed aim.
func (l *lab) checkNonces(ctx context.Context) (nonceCheck, error) {
	spent, _, err := store.ReadAll[store.SpentNonce](ctx, l.store, store.NoncesPrefix)
	if err != nil {
		return nonceCheck{}, err
	}
	record := make(map[string]store.SpentNonce, len(spent))
	for _, one := range spent {
		record[strings.TrimPrefix(one.Key, store.NoncesPrefix)] = one.Value
	}
	return compareNonces(l.agents, record)
}

func compareNonces(all []*agents.Agent, record map[string]store.SpentNonce) (n nonceCheck, err error) {
	given := map[string]string{}
	for _, a := range all {
		for _, nonce := range a.Nonces {
			text := hex.EncodeToString(nonce)
			if other, twice := given[text]; twice {
				return n, fmt.Errorf("nonce %s was given to %s and to %s", text, other, a.Slot.Name)
			}
			given[text] = a.Slot.Name
		}
		if a.Spent == nil {
			continue
		}
		if got := record[hex.EncodeToString(a.Spent)]; got.BootID != a.BootID || got.Slot != a.Slot.Name {
			return n, fmt.Errorf("the nonce of %s is on record as spent by boot %.12s of slot %q", a.Slot.Name, got.BootID, got.Slot)
		}
	}
	for text, one := range record {
		if given[text] != one.Slot {
			return n, fmt.Errorf("nonce %s was spent for %s and given to %q", text, one.Slot, given[text])
		}
	}
	return nonceCheck{given: len(given), spent: len(record)}, nil
}
