package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/raced/synctest"
)

func drainOrder(attempt uint32) *Order {
	return &Order{Key: Key{"op", rollout.VerbDrain, attempt}, ExpectedLeader: self, Candidates: []string{"db-2", "db-1"}}
}

func wait(name string) group.LifecycleHook {
	return group.LifecycleHook{Name: name, Transition: group.PreTerminate, Wait: &group.WaitAction{}}
}

func TestTransferOfADrain(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*fakeDriver)
		order   func(*Order)
		state   rollout.StepState
		moved   bool
		leader  string
		calls   string
	}{
		"leader hands over":                     {prepare: func(d *fakeDriver) { d.leader = self }, state: rollout.StepDone, moved: true, leader: "db-2", calls: "transfer drain"},
		"follower has nothing to hand over":     {state: rollout.StepDone, leader: "db-1", calls: "drain"},
		"no transfer ordered":                   {prepare: func(d *fakeDriver) { d.leader = self }, order: func(o *Order) { o.ExpectedLeader = "" }, state: rollout.StepDone, calls: "drain"},
		"busy is tried again":                   {prepare: func(d *fakeDriver) { d.leader = self; d.fail = []error{driver.ErrBusy} }, state: rollout.StepDone, moved: true, leader: "db-2", calls: "transfer transfer drain"},
		"lost answer is observed, not repeated": {prepare: func(d *fakeDriver) { d.leader = self; d.lost = true }, state: rollout.StepDone, moved: true, leader: "db-2", calls: "transfer drain"},
		"unsafe is not repeated":                {prepare: func(d *fakeDriver) { d.leader = self; d.fail = []error{driver.ErrUnsafe} }, state: rollout.StepFailed, calls: "transfer"},
		"three attempts and no more": {prepare: func(d *fakeDriver) {
			d.leader = self
			d.fail = []error{driver.ErrBusy, driver.ErrTransient, driver.ErrBusy, errors.New("a fourth call")}
		}, state: rollout.StepFailed, calls: "transfer transfer transfer"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, t.TempDir())
			if tc.prepare != nil {
				b.driver.mu.Lock()
				tc.prepare(b.driver)
				b.driver.mu.Unlock()
			}
			o := drainOrder(1)
			if tc.order != nil {
				tc.order(o)
			}
			b.Apply(o)
			got := b.await(o.Key, tc.state)
			if got.Transferred != tc.moved || got.NewLeader != tc.leader || b.driver.did() != tc.calls {
				t.Errorf("result = %+v after %q, want moved %t leader %q after %q", got, b.driver.did(), tc.moved, tc.leader, tc.calls)
			}
		})
	}
}

func TestHookOutcomes(t *testing.T) {
	short := group.Duration(20 * time.Millisecond)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cadre-Hook-Token") == "" || r.Header.Get("Cadre-Operation") != "op" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.WriteHeader(code)
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	hook := func(change func(*group.LifecycleHook)) group.LifecycleHook {
		h := group.LifecycleHook{Name: "h", Transition: group.PreTerminate}
		change(&h)
		return h
	}
	for name, tc := range map[string]struct {
		hook group.LifecycleHook
		want rollout.StepState
		says string
	}{
		"http 2xx continues":               {hook(func(h *group.LifecycleHook) { h.HTTP = &group.HTTPAction{Port: port, Path: "/204"} }), rollout.StepDone, ""},
		"http with the expected status":    {hook(func(h *group.LifecycleHook) { h.HTTP = &group.HTTPAction{Port: port, Path: "/503", Expect: 503} }), rollout.StepDone, ""},
		"http failure abandons by default": {hook(func(h *group.LifecycleHook) { h.HTTP = &group.HTTPAction{Port: port, Path: "/500"} }), rollout.StepAborted, "status 500"},
		"http failure may continue": {hook(func(h *group.LifecycleHook) {
			h.HTTP = &group.HTTPAction{Port: port, Path: "/500"}
			h.DefaultResult = group.HookContinue
		}), rollout.StepDone, ""},
		"http failure may hold": {hook(func(h *group.LifecycleHook) {
			h.HTTP = &group.HTTPAction{Port: port, Path: "/500"}
			h.DefaultResult = group.HookHold
		}), rollout.StepHeld, "HOLD"},
		"no listener until the heartbeat": {hook(func(h *group.LifecycleHook) {
			h.HTTP = &group.HTTPAction{Port: 1, Path: "/"}
			h.HeartbeatTimeout = short
		}), rollout.StepAborted, "no heartbeat"},
		"exec 0 continues":      {hook(func(h *group.LifecycleHook) { h.Exec = &group.ExecAction{Service: "db", Command: "look"} }), rollout.StepDone, ""},
		"exec failure abandons": {hook(func(h *group.LifecycleHook) { h.Exec = &group.ExecAction{Service: "db", Command: "fail"} }), rollout.StepAborted, "code 3: no"},
		"exec that hangs is ended": {hook(func(h *group.LifecycleHook) {
			h.Exec = &group.ExecAction{Service: "db", Command: "sleep"}
			h.MaxDuration = short
		}), rollout.StepAborted, "after 20ms"},
		"wait times out":                         {hook(func(h *group.LifecycleHook) { h.Wait = &group.WaitAction{}; h.HeartbeatTimeout = short }), rollout.StepAborted, "no heartbeat"},
		"driver drain":                           {hook(func(h *group.LifecycleHook) { h.Driver = &group.DriverAction{Do: "drain"} }), rollout.StepDone, ""},
		"driver work that does not exist":        {hook(func(h *group.LifecycleHook) { h.Driver = &group.DriverAction{Do: "dance"} }), rollout.StepAborted, "dance"},
		"hooks of the other transition are idle": {group.LifecycleHook{Name: "h", Transition: group.PostLaunch, Wait: &group.WaitAction{}}, rollout.StepDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, t.TempDir(), tc.hook)
			b.Apply(drainOrder(1))
			got := b.await(drainOrder(1).Key, tc.want)
			if !strings.Contains(got.Message, tc.says) {
				t.Errorf("message = %q, want %q in it", got.Message, tc.says)
			}
			if tc.want == rollout.StepAborted && !strings.Contains(b.driver.did(), "cancel") {
				t.Errorf("calls = %q; an abandoned drain must return to service", b.driver.did())
			}
		})
	}
}

// TestHK01_HK02_HooksReachLoopbackOnly: a redirect is the workload's answer and is not
// followed.
func TestHK01_HK02_HooksReachLoopbackOnly(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was asked, with the token %q", r.Header.Get("Cadre-Hook-Token"))
	}))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	b := newBench(t, t.TempDir(), group.LifecycleHook{
		Name: "h", Transition: group.PreTerminate,
		HTTP: &group.HTTPAction{Port: server.Listener.Addr().(*net.TCPAddr).Port, Path: "/@" + strings.TrimPrefix(other.URL, "http://")},
	})
	b.Apply(drainOrder(1))
	if got := b.await(drainOrder(1).Key, rollout.StepAborted); !strings.Contains(got.Message, "status 307") {
		t.Errorf("message = %q", got.Message)
	}
}

func TestHooksRunInOrderAndAreCompleted(t *testing.T) {
	b := newBench(t, t.TempDir(), wait("first"), wait("second"))
	b.Apply(drainOrder(1))
	first := b.hook("first")
	if applied, err := b.Complete("second", first, group.HookContinue); applied || err != nil {
		t.Errorf("complete a hook before its turn = %t, %v; want no effect", applied, err)
	}
	if applied, err := b.Complete("first", "foreign", group.HookAbandon); applied || err != nil {
		t.Errorf("complete with a foreign token = %t, %v; want no effect", applied, err)
	}
	if applied, err := b.Complete("first", first, group.HookContinue); !applied || err != nil {
		t.Errorf("complete = %t, %v; want applied", applied, err)
	}
	second := b.hook("second")
	if applied, err := b.Complete("first", first, group.HookAbandon); applied || err != nil {
		t.Errorf("late completion = %t, %v; want no effect", applied, err)
	}
	if second == first {
		t.Error("two hooks share a token")
	}
	if applied, err := b.Complete("second", second, group.HookContinue); !applied || err != nil {
		t.Errorf("complete = %t, %v; want applied", applied, err)
	}
	b.await(drainOrder(1).Key, rollout.StepDone)
	if s, _ := b.Status(); s.State != Drained {
		t.Errorf("state = %s, want DRAINED", s.State)
	}
}

// TestAHookIsCompletedByItsTokenOnly: a name alone ends nothing and keeps nothing open.
func TestAHookIsCompletedByItsTokenOnly(t *testing.T) {
	b := newBench(t, t.TempDir(), wait("h"))
	b.Apply(drainOrder(1))
	token := b.hook("h")
	if applied, err := b.Complete("h", "", group.HookAbandon); applied || !errors.Is(err, ErrNoToken) {
		t.Errorf("complete without token = %t, %v; want ErrNoToken", applied, err)
	}
	if applied, err := b.Heartbeat("h", ""); applied || !errors.Is(err, ErrNoToken) {
		t.Errorf("heartbeat without token = %t, %v; want ErrNoToken", applied, err)
	}
	if applied, err := b.Complete("h", token, group.HookContinue); !applied || err != nil {
		t.Errorf("complete = %t, %v; want applied", applied, err)
	}
	b.await(drainOrder(1).Key, rollout.StepDone)
}

// TestHeartbeatExtendsOnlyTheHeartbeat runs on a virtual clock: late heartbeats of a busy machine
// prove nothing about the executor.
func TestHeartbeatExtendsOnlyTheHeartbeat(t *testing.T) {
	h := wait("h")
	h.HeartbeatTimeout, h.MaxDuration = group.Duration(60*time.Millisecond), group.Duration(300*time.Millisecond)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, dir, h)
		b.Apply(drainOrder(1))
		token := b.hook("h")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_, _ = b.Heartbeat("h", token)
				case <-ctx.Done():
					return
				}
			}
		})
		got := b.await(drainOrder(1).Key, rollout.StepAborted)
		cancel()
		wg.Wait()
		if !strings.Contains(got.Message, "not done after 300ms") {
			t.Errorf("message = %q, want the absolute cap", got.Message)
		}
	})
}

// TestACompletionInTimeCounts: when a hook's timer is handled late, a completion reported as applied
// stays applied, and a waiting heartbeat has extended the time.
func TestACompletionInTimeCounts(t *testing.T) {
	for range 20 { // select chooses at random among ready cases
		synctest.Test(t, func(t *testing.T) {
			h := &openHook{spec: wait("h"), token: "t", complete: make(chan group.HookResult, 1), heartbeat: make(chan struct{}, 1)}
			e := &Executor{cfg: Config{Log: slog.New(slog.DiscardHandler)}, open: h}
			s := &step{exec: e}
			if applied, err := e.Heartbeat("h", "t"); !applied || err != nil {
				t.Fatalf("heartbeat = %t, %v", applied, err)
			}
			began := time.Now()
			// The heartbeat waits while the timer has already fired.
			got, err := s.awaitHook(t.Context(), h, 0, time.Second)
			if err != nil || !strings.Contains(got.message, "no heartbeat") {
				t.Fatalf("outcome = %+v, %v", got, err)
			}
			if len(h.heartbeat) != 0 {
				t.Error("the hook timed out over a heartbeat that waited")
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("took %s", took)
			}
			if applied, _ := e.Complete("h", "t", group.HookContinue); applied {
				t.Error("a hook that timed out was completed")
			}

			e.open = h
			if applied, err := e.Complete("h", "t", group.HookContinue); !applied || err != nil {
				t.Fatalf("complete = %t, %v", applied, err)
			}
			if got := e.timedOut(h, "late"); got.result != group.HookContinue {
				t.Errorf("outcome = %+v, want the caller's result", got)
			}
		})
	}
}

func TestHoldWaitsForPeople(t *testing.T) {
	b := newBench(t, t.TempDir(), wait("h"))
	o := drainOrder(1)
	o.Deadline = time.Now().Add(150 * time.Millisecond)
	b.Apply(o)
	token := b.hook("h")
	if _, err := b.Complete("h", token, group.HookHold); err != nil {
		t.Fatal(err)
	}
	b.await(o.Key, rollout.StepHeld)
	if applied, err := b.Complete("h", token, group.HookAbandon); !applied || err != nil {
		t.Errorf("complete a held hook = %t, %v; want applied", applied, err)
	}
	b.await(o.Key, rollout.StepAborted)
}

func TestCancelDrainReturnsToService(t *testing.T) {
	b := newBench(t, t.TempDir(), wait("h"))
	b.Apply(drainOrder(1))
	b.hook("h")
	cancel := &Order{Key: Key{"op", rollout.VerbCancelDrain, 1}}
	b.Apply(cancel)
	b.await(cancel.Key, rollout.StepDone)
	if got := b.driver.did(); got != "cancel" {
		t.Errorf("calls = %q, want exactly one cancel", got)
	}
	if s, _ := b.Status(); s.State != InService {
		t.Errorf("state = %s, want IN_SERVICE", s.State)
	}
}

// TestR80_ADrainWithoutHooksHandsOver: the second order about a member that is healed though a hook
// called its drain off.
func TestR80_ADrainWithoutHooksHandsOver(t *testing.T) {
	b := newBench(t, t.TempDir(), group.LifecycleHook{Name: "h", Transition: group.PreTerminate, Exec: &group.ExecAction{Service: "db", Command: "fail"}})
	b.driver.lead(self)
	b.Apply(drainOrder(1))
	b.await(drainOrder(1).Key, rollout.StepAborted)
	again := drainOrder(2)
	again.WithoutHooks = true
	b.Apply(again)
	if got := b.await(again.Key, rollout.StepDone); !got.Transferred || b.driver.did() != "cancel transfer drain" {
		t.Errorf("%+v after %q", got, b.driver.did())
	}
}

func TestOrderThatVanishesReturnsToService(t *testing.T) {
	b := newBench(t, t.TempDir(), wait("h"))
	b.Apply(drainOrder(1))
	b.hook("h")
	b.Apply(nil)
	next := &Order{Key: Key{"op-2", rollout.VerbPostLaunch, 1}}
	b.Apply(next)
	b.await(next.Key, rollout.StepDone)
	if got := b.driver.did(); got != "cancel" {
		t.Errorf("calls = %q, want exactly one cancel", got)
	}
	for _, r := range b.Results() {
		if r.Key == drainOrder(1).Key {
			t.Errorf("the drain that was called off has a result: %+v", r)
		}
	}
}

func TestCTL18_FinishedOrderIsAnsweredNotRepeated(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, dir)
	b.driver.lead(self)
	b.Apply(drainOrder(1))
	want := b.await(drainOrder(1).Key, rollout.StepDone)
	b.stop()

	rebooted := newBench(t, dir)
	rebooted.driver.lead(self) // a promotion without an order: not this Boot's drain
	rebooted.Apply(drainOrder(1))
	got := rebooted.await(drainOrder(1).Key, rollout.StepDone)
	if got != want {
		t.Errorf("result after a reboot = %+v, want %+v", got, want)
	}
	rebooted.Apply(drainOrder(2))
	rebooted.await(drainOrder(2).Key, rollout.StepDone)
	if calls := rebooted.driver.did(); calls != "transfer drain" {
		t.Errorf("calls = %q, want those of the second attempt only", calls)
	}
}

// TestHK05_AHookOfAnOrderThatHasEndedIsNotRunAgain, by a Boot that finds the order repeated;
// it is run with the Operation and attempt that it belongs to.
func TestHK05_AHookOfAnOrderThatHasEndedIsNotRunAgain(t *testing.T) {
	calls := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls <- r.Header.Get("Cadre-Operation") + "/" + r.Header.Get("Cadre-Attempt")
	}))
	defer server.Close()
	dir, hook := t.TempDir(), group.LifecycleHook{
		Name: "h", Transition: group.PreTerminate, HTTP: &group.HTTPAction{Port: server.Listener.Addr().(*net.TCPAddr).Port, Path: "/"},
	}
	b := newBench(t, dir, hook)
	b.Apply(drainOrder(1))
	b.await(drainOrder(1).Key, rollout.StepDone)
	b.stop()
	rebooted := newBench(t, dir, hook)
	rebooted.Apply(drainOrder(1))
	rebooted.await(drainOrder(1).Key, rollout.StepDone)
	rebooted.Apply(drainOrder(2))
	rebooted.await(drainOrder(2).Key, rollout.StepDone)
	if first, second := <-calls, <-calls; first != "op/1" || second != "op/2" || len(calls) > 0 {
		t.Errorf("the hook was run for %s and %s, and %d times more", first, second, len(calls))
	}
}

func TestRegainedLeadershipIsHandedOverAgain(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.driver.lead(self)
	b.Apply(drainOrder(1))
	first := b.await(drainOrder(1).Key, rollout.StepDone)
	b.driver.lead(self)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for again := first; !again.At.After(first.At); again = b.await(drainOrder(1).Key, rollout.StepDone, rollout.StepRunning) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("leadership that came back was kept (R86)")
		}
	}
	b.await(drainOrder(1).Key, rollout.StepDone)
	if got := b.driver.did(); got != "transfer drain transfer drain" {
		t.Errorf("calls = %q, want a second hand-over", got)
	}
}

// Of the orders of a process that lives for months only the one at work is remembered.
func TestRegainsOfOtherOrdersAreForgotten(t *testing.T) {
	b := newBench(t, t.TempDir())
	regains := map[Key]int{}
	for attempt := range uint32(3) {
		order := drainOrder(attempt + 1)
		at := b.reconcile(t.Context(), nil, order, regains)
		<-at.done
		if _, counted := regains[order.Key]; len(regains) != 1 || !counted {
			t.Errorf("after %v: %v", order.Key, regains)
		}
	}
}

func TestResultsAreBounded(t *testing.T) {
	dir := t.TempDir()
	r, err := openResults(durable.OpenDisk(dir, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(3 * resultsKept) {
		if err := r.put(Result{Key: Key{"op", rollout.VerbDrain, i}, State: rollout.StepDone}); err != nil {
			t.Fatal(err)
		}
	}
	again, err := openResults(durable.OpenDisk(dir, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if len(again.list) != resultsKept || again.list[resultsKept-1].Attempt != 3*resultsKept-1 {
		t.Errorf("%d results with last attempt %d, want the newest %d", len(again.list), again.list[len(again.list)-1].Attempt, resultsKept)
	}
}

func TestAServiceIsRestartedOnce(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // and the next process answers from its memory
		b := newBench(t, dir)
		for service, want := range map[string]rollout.StepState{"db": rollout.StepDone, "none": rollout.StepFailed} {
			o := Order{Key: Key{Operation: "op-" + service, Verb: rollout.VerbRestartService, Attempt: 1}, Service: service}
			b.Apply(&o)
			b.await(o.Key, want)
		}
		b.stop()
	}
}
