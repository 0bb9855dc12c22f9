package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// keepers3 are three coordinators that keep leases in virtual time. The test sets which Boots each
// of them hears.
type keepers3 struct {
	*small
	stores  []*stopped
	heard   []*heard
	stop    []context.CancelFunc
	running sync.WaitGroup
}

// heard are the Boots whose reports one coordinator receives.
type heard struct {
	mu    sync.Mutex
	boots map[string]bool // guarded by mu
}

func (h *heard) Live(_, boot string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boots[boot]
}

func (h *heard) set(boot string, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boots[boot] = live
}

// stopped is the store as seen by a paused or crashed process: no call returns before the process
// resumes.
type stopped struct {
	store.Store
	mu     sync.Mutex
	resume chan struct{} // guarded by mu; nil: it runs
}

func (s *stopped) wait(ctx context.Context) error {
	s.mu.Lock()
	resume := s.resume
	s.mu.Unlock()
	if resume == nil {
		return ctx.Err()
	}
	select {
	case <-resume:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stopped) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume = make(chan struct{})
}

func (s *stopped) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.resume)
	s.resume = nil
}

func (s *stopped) Commit(ctx context.Context, ops ...store.Op) error {
	return errors.Join(s.wait(ctx), s.Store.Commit(ctx, ops...))
}

func (s *stopped) RenewSession(ctx context.Context, session string) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.RenewSession(ctx, session)
}

func (s *stopped) DestroySession(ctx context.Context, session string) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.DestroySession(ctx, session)
}

func (s *stopped) CreateSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	if err := s.wait(ctx); err != nil {
		return "", err
	}
	return s.Store.CreateSession(ctx, name, ttl)
}

// newKeepers3 runs in a bubble of virtual time.
func newKeepers3(t *testing.T, slots int) *keepers3 {
	k := &keepers3{small: newSmall(t, 3, slots, "demo")}
	for _, s := range k.services {
		own, ears := &stopped{Store: k.store}, &heard{boots: map[string]bool{}}
		s.cfg.Store, s.store, s.cfg.Sessions = own, own, ears
		ctx, cancel := context.WithCancel(t.Context())
		k.stores, k.heard, k.stop = append(k.stores, own), append(k.heard, ears), append(k.stop, cancel)
		k.running.Go(func() { _ = s.KeepLeases(ctx) })
	}
	t.Cleanup(func() {
		for i := range k.stop {
			k.stop[i]()
		}
		k.running.Wait()
	})
	return k
}

// hears sets whether coordinators receive the reports of a Boot.
func (k *keepers3) hears(boot string, live bool, coordinators ...int) {
	for _, i := range coordinators {
		k.heard[i].set(boot, live)
	}
}

// crash ends coordinator i without a clean shutdown.
func (k *keepers3) crash(i int) {
	k.stores[i].pause()
	k.stop[i]()
}

// admitAll admits a Boot to each Slot, at the coordinators in turn; all coordinators hear all
// Boots.
func (k *keepers3) admitAll() []*newcomer {
	k.t.Helper()
	var out []*newcomer
	for i := range k.slots {
		b := k.newcomer(i%3, i)
		if err := b.admit(context.Background()); err != nil {
			k.t.Fatal(err)
		}
		k.hears(b.bootID, true, 0, 1, 2)
		out = append(out, b)
	}
	return out
}

// wantHeld checks that each Boot holds its lease with the session of one of keepers.
func (k *keepers3) wantHeld(boots []*newcomer, keepers ...int) {
	k.t.Helper()
	sessions := map[string]bool{}
	for _, i := range keepers {
		if own := k.services[i].keeper.own(); own != "" {
			sessions[own] = true
		}
	}
	for _, b := range boots {
		if lease := k.lease(b.slot); !lease.LeasedBy(b.bootID) || !sessions[lease.Session] || lease.State != "" {
			k.t.Errorf("lease of pg-%d: %+v, want it held by a session of coordinators %v", b.slot, lease, keepers)
		}
	}
}

// wantNoGap fails if the lease of a Slot becomes free at any change before end is called.
func (k *keepers3) wantNoGap(slot int) (end func()) {
	k.store.OnCommit(func(ops []store.Op) storetest.Fault {
		key, free := store.BootLeaseKey(fmt.Sprint("pg-", slot)), false
		for _, op := range ops {
			if op.Key == key && op.Kind == store.OpUnlock {
				free = true
			}
			if op.Key == key && op.Kind == store.OpLock {
				free = false
			}
		}
		if free {
			k.t.Errorf("the lease of %s was free for a moment", key)
		}
		return storetest.None
	})
	return func() { k.store.OnCommit(nil) }
}

// unwritten fails if a record is written before end is called.
func (k *keepers3) unwritten() (end func()) {
	k.t.Helper()
	index := func() uint64 {
		_, index, err := k.store.List(context.Background(), "")
		if err != nil {
			k.t.Fatal(err)
		}
		return index
	}
	before := index()
	return func() {
		k.t.Helper()
		if after := index(); after != before {
			k.t.Errorf("written at index %d, after %d", after, before)
		}
	}
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestLeasesThatAreKeptCostNoWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 12)
		boots := k.admitAll()
		time.Sleep(time.Second)
		end := k.unwritten()
		time.Sleep(10 * time.Minute)
		end()
		k.wantHeld(boots, 0, 1, 2)
	})
}

// The leases of a keeper that ended are taken again: at once after a clean end, and after a crash
// when Consul ends the session. No rival gets the lease in between, even if the Boot is silent.
func TestLeasesOfAKeeperThatEndedAreTakenAgain(t *testing.T) {
	for _, clean := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			k := newKeepers3(t, 60)
			boots := k.admitAll()
			k.hears(boots[0].bootID, false, 2) // kept by 0, heard by 1 alone afterwards
			wait := 2*DefaultLeaseTTL + 2*time.Second
			if clean {
				k.stop[0]()
				wait = 2 * time.Second
			} else {
				k.crash(0)
			}
			rival := k.newcomer(2, 0)
			for began := time.Now(); time.Since(began) < wait; time.Sleep(conflictRetry) {
				if err := rival.again(k.services[2]).admit(t.Context()); code(err) != codeConflict {
					t.Fatalf("a rival after %v: %v", time.Since(began), err)
				}
			}
			k.wantHeld(boots, 1, 2)
			end := k.unwritten()
			time.Sleep(time.Minute)
			end()
		})
	}
}

// startAgain restarts coordinator i as a new process after its crash.
func (k *keepers3) startAgain(i int) {
	time.Sleep(sessionLimit + time.Second) // the old process's last call gets no answer
	k.stores[i].goOn()
	s := k.services[i]
	s.keeper = newKeeper(&s.cfg)
	var ctx context.Context
	ctx, k.stop[i] = context.WithCancel(k.t.Context())
	k.running.Go(func() { _ = s.KeepLeases(ctx) })
}

// After a restart the leases of the coordinator's last process are free at once. The coordinators
// that hear the Boots take them first, without the wait for a TTL. The leases of other keepers
// stay.
func TestACoordinatorThatStartsAgainEndsItsPast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 9)
		boots := k.admitAll()
		time.Sleep(time.Second)
		past, others := k.services[0].keeper.own(), []string{k.services[1].keeper.own(), k.services[2].keeper.own()}
		k.hears(boots[0].bootID, false, 0, 1, 2) // its machine lost power too
		end := k.wantNoGap(1)
		defer end()
		k.crash(0)
		k.startAgain(0)
		began := time.Now()
		time.Sleep(time.Second)
		if err := k.store.RenewSession(t.Context(), past); !errors.Is(err, store.ErrNoSession) {
			t.Errorf("the session of the last process lives: %v", err)
		}
		k.wantHeld(boots[1:], 0, 1, 2)
		if k.services[1].keeper.own() != others[0] || k.services[2].keeper.own() != others[1] {
			t.Error("another coordinator lost its session")
		}
		next := k.newcomer(1, 0)
		for err := next.admit(t.Context()); err != nil; err = next.again(k.services[1]).admit(t.Context()) {
			if waited := time.Since(began); code(err) != codeConflict || waited > maxReclaim+time.Second {
				t.Fatalf("after %v: %v", waited, err)
			}
			time.Sleep(conflictRetry)
		}
		if waited := time.Since(began); waited < maxReclaim {
			t.Errorf("a successor came in after %v, while its predecessor could still be heard", waited)
		}
		k.wantHeld(boots[1:], 0, 1, 2)
	})
}

// A lease moves to a coordinator that hears its Boot, and is never free meanwhile.
func TestALeaseMovesToACoordinatorThatHearsItsBoot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 2)
		boots := k.admitAll()
		end := k.wantNoGap(0)
		defer end()
		k.hears(boots[0].bootID, false, 0, 2)
		time.Sleep(3 * DefaultLeaseTTL)
		k.wantHeld(boots[:1], 1)
		// All coordinators hear it again: the lease stays where it is.
		k.hears(boots[0].bootID, true, 0, 2)
		time.Sleep(3 * DefaultLeaseTTL)
		k.wantHeld(boots[:1], 1)
		k.wantHeld(boots[1:], 1)
	})
}

// A silent Boot loses its lease after the TTL, neither earlier nor much later.
func TestASilentBootLosesItsLeaseInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 1)
		boots := k.admitAll()
		time.Sleep(time.Second)
		k.hears(boots[0].bootID, false, 0, 1, 2)
		next, silent := k.newcomer(1, 0), time.Now()
		for err := next.admit(t.Context()); err != nil; err = next.again(k.services[1]).admit(t.Context()) {
			if code(err) != codeConflict || time.Since(silent) > 2*DefaultLeaseTTL {
				t.Fatalf("after %v: %v", time.Since(silent), err)
			}
			time.Sleep(conflictRetry)
		}
		if waited := time.Since(silent); waited < DefaultLeaseTTL {
			t.Errorf("a successor came in after %v", waited)
		}
		if a := k.admission(0); a.BootID != next.bootID || a.Generation != 2 {
			t.Errorf("admission %+v", a)
		}
	})
}

// A paused keeper takes no lease from the others when it resumes.
func TestAPausedKeeperTakesNothingFromTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 9)
		boots := k.admitAll()
		k.stores[0].pause()
		time.Sleep(3 * DefaultLeaseTTL)
		k.wantHeld(boots, 1, 2)
		end := k.unwritten()
		k.stores[0].goOn()
		time.Sleep(time.Minute)
		k.wantHeld(boots, 1, 2)
		end()
	})
}

// The session was destroyed, or Consul was restored. Its leases are free until any coordinator
// takes them again.
func TestALostSessionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 9)
		boots := k.admitAll()
		lost := k.services[0].keeper.own()
		if err := k.store.DestroySession(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultLeaseTTL)
		k.wantHeld(boots, 0, 1, 2)
		b := k.newcomer(0, 0)
		k.hears(boots[0].bootID, false, 0, 1, 2)
		k.endLease(0)
		if err := b.admit(t.Context()); err != nil {
			t.Fatalf("at the coordinator that lost its session: %v", err)
		}
	})
}

// An admission opens a new session at once, without the wait for a renewal.
func TestAnAdmissionReplacesALostSession(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	if err := s.newcomer(0, 0).admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.store.DestroySession(t.Context(), s.services[0].keeper.own()); err != nil {
		t.Fatal(err)
	}
	if err := s.newcomer(0, 1).admit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each lease has a session of its own Boot, as in earlier versions. The coordinator that opened the
// session takes the lease over without a gap. The others take it once the session has expired.
func TestLeasesOfAnEarlierVersionAreTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKeepers3(t, 2)
		boots := k.admitAll()
		for i, by := range []string{"coordinator-2", "coordinator-9"} {
			lease := k.lease(i)
			session, err := k.store.CreateSession(t.Context(), "cadre boot", DefaultLeaseTTL)
			if err != nil {
				t.Fatal(err)
			}
			unlock, err1 := unlockOp(lease, "")
			lease.By = by
			lock, err2 := lockOp(lease.BootLease, session)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if err := k.store.Commit(t.Context(), unlock, lock); err != nil {
				t.Fatal(err)
			}
		}
		end := k.wantNoGap(0)
		defer end()
		time.Sleep(2 * time.Second)
		k.wantHeld(boots[:1], 2)
		rival := k.newcomer(0, 1)
		for range int(3 * DefaultLeaseTTL / conflictRetry) {
			if err := rival.again(k.services[0]).admit(t.Context()); code(err) != codeConflict {
				t.Fatalf("a rival: %v", err)
			}
			time.Sleep(conflictRetry)
		}
		k.wantHeld(boots[1:], 0, 1, 2)
	})
}
