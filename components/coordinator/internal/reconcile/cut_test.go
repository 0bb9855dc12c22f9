package reconcile_test

import (
	"testing"
	"time"

	"cadre.dev/core/group"
)

// stop makes the platform report a Slot's CVM as stopped, and silences its agent.
func (w *world) stop(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cloud.HaltLocked(w.memberLocked(slot).cvm)
}

// TestTheEndOfAConnectionHasThePlatformAsked: a stopped CVM is started directly after the last
// connection of its agent ended, or otherwise after a missed heartbeat. A CVM that runs according
// to the platform is left alone. So is a CVM whose agent reconnects.
func TestTheEndOfAConnectionHasThePlatformAsked(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		leader := w.coordinator("coordinator-0")
		s := spec("one")
		s.AutoHealing = &group.AutoHealing{}
		w.apply(s)
		w.until("creation", 2*time.Minute, w.complete("one"))
		connect := func(slot string) func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			return leader.Connect(slot, w.memberLocked(slot).boot)
		}
		ends := map[string]func(){}
		for _, slot := range []string{"pg-0", "pg-1", "pg-2"} {
			ends[slot] = connect(slot)
		}
		again := func(call string, within time.Duration) time.Duration {
			began := time.Now()
			w.until(call, within, func() bool { return len(w.made(call)) > 0 })
			return time.Since(began)
		}
		tick(t.Context(), time.Minute)
		ends["pg-0"]()
		tick(t.Context(), time.Second)
		connect("pg-0")
		tick(t.Context(), time.Minute)
		if made := append(w.made("restart"), w.made("start")...); len(made) > 0 {
			t.Fatalf("a connection ended, and %v", made)
		}

		w.stop("pg-1")
		ends["pg-1"]()
		if took := again("start demo-pg-1", time.Minute); took > 200*time.Millisecond {
			t.Errorf("started after %s", took)
		}
		w.until("it is back", 2*time.Minute, w.complete("one"))
		w.stop("pg-2")
		if took := again("start demo-pg-2", time.Minute); took < 6*time.Second || took > 10*time.Second {
			t.Errorf("without an end started after %s", took)
		}
	})
}
