package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/raced"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

type storeFault = storetest.Fault

const lost, applied = storetest.UnknownLost, storetest.UnknownApplied

// claims tracks the holder of the Slot, step by step.
type claims struct {
	t      *testing.T
	s      *small
	slot   int
	boots  []*newcomer
	rng    *rand.Rand
	holder string // "" while the lease is free
	before uint64 // generation of the last one
	trace  []string
}

// TestIDN03_TwoKeysOneSlotManySchedules runs two Boots of one Instance, a machine and its copy,
// against three coordinators. The Boots alternate and run at once, with lost leases, pauses,
// heartbeats of coordinators and lost answers. No schedule has two holders, or a holder that took
// the Slot from a Boot with a valid lease. Most of the time goes into signatures and the parsing of
// evidence, so the race detector runs a tenth of the schedules.
func TestIDN03_TwoKeysOneSlotManySchedules(t *testing.T) {
	const steps, slots = 10, 8
	schedules := raced.Tenth(300)
	if n, err := strconv.Atoi(os.Getenv("CADRE_SCHEDULES")); err == nil {
		schedules = n
	}
	s := newSmall(t, 3, slots, "demo")
	var takeovers, refused int
	for seed := range uint64(schedules) {
		if seed%50 == 0 {
			s.sweep()
		}
		c := &claims{t: t, s: s, slot: int(seed % slots), rng: rand.New(rand.NewPCG(seed, 3))}
		c.boots = []*newcomer{s.newcomer(0, c.slot), s.newcomer(1, c.slot)}
		c.endAll()
		for range steps {
			a, b := c.step()
			takeovers, refused = takeovers+a, refused+b
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, c.trace)
			}
		}
	}
	t.Logf("%d schedules of %d steps: %d takeovers, %d claims refused", schedules, steps, takeovers, refused)
	if takeovers == 0 || refused == 0 {
		t.Error("the schedules do not exercise the rule")
	}
}

// read returns the View of the current records.
func (s *small) read() *view.View {
	s.t.Helper()
	v, err := view.Read(context.Background(), s.store)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// endAll frees the Slot from the last schedule.
func (c *claims) endAll() {
	c.s.silence()
	c.s.endLease(c.slot)
	c.before = max(c.s.admission(c.slot).Generation, c.s.lease(c.slot).Generation)
}

func (c *claims) note(format string, args ...any) {
	c.trace = append(c.trace, fmt.Sprintf(format, args...))
}

func (c *claims) step() (takeovers, refused int) {
	switch c.rng.IntN(8) {
	case 7: // the keeper of all leases ends, and other coordinators may take them in some schedules
		c.note("keeper ends")
		if lease := c.s.lease(c.slot); lease.Leased() {
			if err := c.s.store.DestroySession(context.Background(), lease.Session); err != nil {
				c.t.Error(err)
			}
		}
		c.holder = ""
		if c.rng.IntN(2) == 0 {
			c.note("time passes")
			_ = c.s.services[0].keeper.stood(c.s.lease(c.slot))
			c.s.now.Add(int64(DefaultLeaseTTL))
			c.s.silence()
		}
	case 0: // the lease ends: pause, partition or crash of its Boot
		c.note("lease ends")
		c.s.endLease(c.slot)
		c.holder = ""
		c.s.silence()
	case 1: // a coordinator hears a Boot and carries out the due step of its lease
		b := c.boots[c.rng.IntN(2)]
		c.note("heartbeat of %.6s", b.bootID)
		c.s.setLive(b.bootID, true)
		c.heartbeat(b)
	case 2: // the answer of the next transaction gets lost
		c.note("a lost answer")
		var once sync.Once
		fault := []storeFault{lost, applied}[c.rng.IntN(2)]
		c.s.store.OnCommit(func([]store.Op) (now storeFault) {
			once.Do(func() { now = fault })
			return now
		})
		c.claim(c.rng.IntN(2))
		c.s.store.OnCommit(nil)
	case 3, 4: // both at once, at any coordinators
		return c.both()
	default:
		return c.claim(c.rng.IntN(2))
	}
	c.check()
	return 0, 0
}

// heartbeat carries out the step of KeepLeases for one Slot, by the current records.
func (c *claims) heartbeat(b *newcomer) {
	a := c.s.admission(c.slot)
	if a.BootID != b.bootID {
		return
	}
	c.s.services[c.rng.IntN(3)].keeper.keep(context.Background(), c.s.read(), true, nil)
	c.learn()
}

// claim is one attempt of one Boot.
func (c *claims) claim(i int) (takeovers, refused int) {
	// As an agent does, the Boot makes a new key if its old ID may not return.
	b := c.boots[i].again(c.s.services[c.rng.IntN(3)])
	lease := c.s.lease(c.slot)
	err := b.admit(context.Background())
	c.note("%.6s: %v", b.bootID, code(err))
	switch {
	case err == nil && lease.Leased() && lease.BootID != b.bootID:
		c.t.Errorf("%.6s took the slot from %.6s, whose lease had not ended", b.bootID, lease.BootID)
	case err == nil:
		if c.holder != b.bootID {
			takeovers = 1
		}
	case code(err) == codeStale:
		c.boots[i] = c.s.newcomer(c.rng.IntN(3), c.slot)
		refused = 1
	case code(err) == codeConflict:
		refused = 1
	}
	c.learn()
	c.check()
	return takeovers, refused
}

func (c *claims) both() (takeovers, refused int) {
	lease := c.s.lease(c.slot)
	var wg sync.WaitGroup
	var errs [2]error
	for i := range c.boots {
		b := c.boots[i].again(c.s.services[c.rng.IntN(3)])
		wg.Go(func() { errs[i] = b.admit(context.Background()) })
	}
	wg.Wait()
	c.note("both: %v %v", code(errs[0]), code(errs[1]))
	if errs[0] == nil && errs[1] == nil {
		c.t.Error("both were admitted")
	}
	for i, err := range errs {
		if err == nil && lease.Leased() && lease.BootID != c.boots[i].bootID {
			c.t.Errorf("%.6s took the slot from %.6s, whose lease had not ended", c.boots[i].bootID, lease.BootID)
		}
		if code(err) == codeStale {
			c.boots[i] = c.s.newcomer(c.rng.IntN(3), c.slot)
		}
		if err != nil {
			refused++
		} else {
			takeovers++
		}
	}
	c.learn()
	c.check()
	return takeovers, refused
}

// learn reads the current holder of the lease.
func (c *claims) learn() {
	lease := c.s.lease(c.slot)
	c.holder = ""
	if lease.Leased() {
		c.holder = lease.BootID
	}
}

// check is the invariant between steps.
func (c *claims) check() {
	lease, a := c.s.lease(c.slot), c.s.admission(c.slot)
	if lease.Leased() && (a.BootID != lease.BootID || a.Generation != lease.Generation) {
		c.t.Errorf("the lease is of %.6s (generation %d), the admission of %.6s (%d)", lease.BootID, lease.Generation, a.BootID, a.Generation)
	}
	holders := 0
	for _, b := range c.boots {
		if lease.LeasedBy(b.bootID) {
			holders++
		}
	}
	if holders > 1 {
		c.t.Error("two holders")
	}
	if a.Generation < c.before {
		c.t.Errorf("generation %d after %d", a.Generation, c.before)
	}
	c.before = a.Generation
	if err := c.s.decisions(c.slot).Verify(); a.BootID != "" && err != nil {
		c.t.Error(err)
	}
}

// TestIDN03_AClaimNamesBothBoots checks the refusal and the decisions.
func TestIDN03_AClaimNamesBothBoots(t *testing.T) {
	s := newSmall(t, 2, 1, "demo")
	first, clone := s.newcomer(0, 0), s.newcomer(1, 0)
	if err := first.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The second coordinator has never heard the first Boot: the lease suffices.
	if err := clone.admit(t.Context()); code(err) != codeConflict {
		t.Fatalf("the clone: %v", err)
	}
	d := s.decisions(0)
	last := d.Last()
	if last.What != policy.DecidedConflict || last.BootID != clone.bootID || last.HolderBootID != first.bootID || last.HolderInstanceID != first.instance {
		t.Errorf("decision %+v", last)
	}
	if got := d.Checks[len(d.Checks)-1]; got.Name != policy.CheckLease || got.Outcome != policy.CheckFailed || got.Code != codeConflict {
		t.Errorf("checks %+v", d.Checks)
	}
	for _, check := range d.Checks[:len(d.Checks)-1] {
		if check.Outcome != policy.CheckOK {
			t.Errorf("check %+v", check)
		}
	}
	// The holder attests again meanwhile, and stays.
	if err := first.again(s.services[1]).admit(t.Context()); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if a := s.admission(0); a.Generation != 1 || a.AttestedAt.IsZero() || a.Claims.InstanceID != first.instance || a.Claims.ComposeText != "" {
		t.Errorf("admission %+v", a)
	}
}

// A former holder does not get the Slot again under its old Boot ID, and does not hold the lease.
func TestIDN04_OlderGenerationsAreRefused(t *testing.T) {
	s := newSmall(t, 2, 1, "demo")
	zombie, next := s.newcomer(0, 0), s.newcomer(1, 0)
	if err := zombie.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.endLease(0)
	if err := next.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := zombie.again(s.services[0]).admit(t.Context()); code(err) != codeStale {
		t.Errorf("while the slot is leased: %v", err)
	}
	s.endLease(0)
	if err := zombie.again(s.services[1]).admit(t.Context()); code(err) != codeStale {
		t.Errorf("while the slot is free: %v", err)
	}
	if s.lease(0).LeasedBy(zombie.bootID) {
		t.Error("it holds the lease again")
	}
	why, err := Ended(t.Context(), s.store, "pg", "pg-0", zombie.bootID)
	if err != nil || why.Code != codeStale {
		t.Errorf("admission status %+v, %v", why, err)
	}
	if a := s.admission(0); a.Generation != 2 || a.BootID != next.bootID {
		t.Errorf("admission %+v", a)
	}
}

// Many clones are refused, each under its own key, until their refusals fill the last decisions.
// The replaced and the evicted Boot still cannot return.
func TestIDN04_AFloodOfClonesBringsNoBootBack(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	replaced, evicted := s.newcomer(0, 0), s.newcomer(0, 0)
	if err := replaced.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.endLease(0)
	if err := evicted.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.services[0].Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "stolen"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * policy.MaxDecisions {
		clone := policy.DecisionEntry{What: policy.DecidedConflict, Code: codeConflict, BootID: fmt.Sprint("clone", i)}
		if err := s.services[0].recordDecision(t.Context(), "pg-0", clone, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string]*newcomer{"replaced": replaced, "evicted": evicted} {
		if err := b.again(s.services[0]).admit(t.Context()); code(err) != codeStale {
			t.Errorf("the %s boot comes back: %v", name, err)
		}
	}
	if why, err := Ended(t.Context(), s.store, "pg", "pg-0", evicted.bootID); err != nil || why.Code != policy.CodePeerRevoked {
		t.Errorf("the evicted boot gets %+v, %v", why, err)
	}
	if err := s.decisions(0).Verify(); err != nil {
		t.Error(err)
	}
}
