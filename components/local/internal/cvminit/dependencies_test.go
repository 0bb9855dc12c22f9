package cvminit

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/initctl"
	"cadre.dev/raced/synctest"
)

// stage is a supervisor whose services are functions of the test, in virtual time.
type stage struct {
	*supervisor
	cancel context.CancelFunc

	mu   sync.Mutex
	said []initctl.Message
}

type play func(ctx context.Context, s *supervisor, u *unit) int

// newStage runs the services until the test ends.
func newStage(t *testing.T, plays map[string]play, services ...compose.Service) *stage {
	t.Helper()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	log, err := openLog(filepath.Join(dir, "cvm.log"))
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{cancel: cancel, supervisor: &supervisor{
		spec: initctl.Spec{Logs: dir}, conn: initctl.NewConn(ours), log: log, changed: make(chan struct{}),
	}}
	st.carry = func(ctx context.Context, u *unit) (int, error) {
		st.set(func() { u.state, u.started = stateRunning, true })
		return plays[u.svc.Name](ctx, st.supervisor, u), nil
	}
	for _, svc := range services {
		st.units = append(st.units, &unit{svc: svc, state: stateWaiting})
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for conn := initctl.NewConn(theirs); ; {
			var m initctl.Message
			if conn.Receive(&m) != nil {
				return
			}
			st.mu.Lock()
			st.said = append(st.said, m)
			st.mu.Unlock()
		}
	}()
	st.start(ctx, st.units)
	t.Cleanup(func() {
		st.set(func() { st.stopping = true })
		cancel()
		st.running.Wait()
		_ = ours.Close()
		<-heard
		_ = log.Close()
	})
	return st
}

// last is the last message about the boot.
func (st *stage) last() initctl.Message {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.said) == 0 {
		return initctl.Message{}
	}
	return st.said[len(st.said)-1]
}

func (st *stage) runs(name string) bool {
	st.supervisor.mu.Lock()
	defer st.supervisor.mu.Unlock()
	return st.find(name).state == stateRunning
}

func (st *stage) health(u *unit, health string) { st.set(func() { u.health = health }) }

func forever(ctx context.Context, _ *supervisor, _ *unit) int {
	<-ctx.Done()
	return 143
}

var (
	checked = compose.Service{Name: "cadre", Restart: compose.RestartAlways, Health: &compose.Health{}}
	waits   = compose.Service{Name: "web", Restart: compose.RestartAlways, DependsOn: []compose.Dependency{{Service: "cadre", Condition: compose.Healthy}}}
)

// TestAWorkloadRunsHoweverLateItsAgentIs: a check that failed permanently for the engine keeps no
// service down once the agent is there.
func TestAWorkloadRunsHoweverLateItsAgentIs(t *testing.T) {
	for _, late := range []time.Duration{9 * time.Second, 11 * time.Second, time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			agent := func(ctx context.Context, s *supervisor, u *unit) int {
				for at, health := range map[time.Duration]string{10 * time.Second: "unhealthy", late: "healthy"} {
					time.AfterFunc(at, func() {
						if ctx.Err() == nil {
							s.set(func() { u.health = health })
						}
					})
				}
				return forever(ctx, s, u)
			}
			st := newStage(t, map[string]play{"cadre": agent, "web": forever}, checked, waits)
			time.Sleep(late - time.Millisecond)
			synctest.Wait()
			if st.runs("web") {
				t.Errorf("the workload runs before its agent is healthy")
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if last := st.last(); !st.runs("web") || last.Event != initctl.EventUp {
				t.Errorf("agent %s late: the workload does not run, last word %+v", late, last)
			}
		})
	}
}

// TestABootThatFailedIsTriedAgainAndNamesServiceAndLine: callers get a wait first, and an error
// after many tries; both contain the dependency's last line.
func TestABootThatFailedIsTriedAgainAndNamesServiceAndLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := func(ctx context.Context, s *supervisor, u *unit) int {
			s.set(func() { u.health = "unhealthy" })
			return forever(ctx, s, u)
		}
		st := newStage(t, map[string]play{"cadre": agent, "web": forever}, checked, waits)
		lines := strings.Repeat("x", 5000) + "\nagent: coordinators do not answer\n\n"
		if err := os.WriteFile(filepath.Join(st.spec.Logs, "cadre.log"), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		const want = `service web: depends on cadre, which is unhealthy (its last line: "agent: coordinators do not answer")`
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if last := st.last(); last.Event != initctl.EventWaiting || last.Text != want {
			t.Errorf("after a first try: %+v", last)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if last := st.last(); last.Event != initctl.EventBootError || last.Text != want {
			t.Errorf("after many tries: %+v", last)
		}
		if u := st.find("web"); u.tries > 70 || u.tries < 50 {
			t.Errorf("%d tries in an hour, want about one a minute", u.tries)
		}
		st.health(st.find("cadre"), "healthy")
		synctest.Wait()
		if last := st.last(); !st.runs("web") || last.Event != initctl.EventUp {
			t.Errorf("the agent recovered, and the last word is %+v", last)
		}
	})
}

// TestADependencyThatEndedIsStartedAgain: a job that failed for a moment's reason is
// repeated for the service that needs it, as it would be by a second `up`.
func TestADependencyThatEndedIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		job := func(context.Context, *supervisor, *unit) int {
			if runs++; runs < 4 {
				return 1
			}
			return 0
		}
		st := newStage(t, map[string]play{"job": job, "web": forever, "late": forever},
			compose.Service{Name: "job", Restart: compose.RestartNo},
			compose.Service{Name: "web", Restart: compose.RestartAlways, DependsOn: []compose.Dependency{{Service: "job", Condition: compose.Completed}}},
			compose.Service{Name: "late", Restart: compose.RestartNo, DependsOn: []compose.Dependency{{Service: "web", Condition: compose.Started}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs != 4 || !st.runs("web") || !st.runs("late") || st.last().Event != initctl.EventUp {
			t.Errorf("job ran %d times, web %t, late %t, last word %+v", runs, st.runs("web"), st.runs("late"), st.last())
		}
	})
}

// TestWithoutARestartPolicyABootErrorIsFinal: as the compose file says it.
func TestWithoutARestartPolicyABootErrorIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		st := newStage(t, map[string]play{"job": func(context.Context, *supervisor, *unit) int { runs++; return 3 }, "web": forever},
			compose.Service{Name: "job", Restart: compose.RestartNo},
			compose.Service{Name: "web", Restart: compose.RestartNo, DependsOn: []compose.Dependency{{Service: "job", Condition: compose.Completed}}})
		time.Sleep(time.Hour)
		synctest.Wait()
		if last := st.last(); runs != 1 || last.Event != initctl.EventBootError || last.Text != "service web: depends on job, which ended with code 3" {
			t.Errorf("job ran %d times, last word %+v", runs, last)
		}
	})
}

// TestStopEndsTheWaiting: a CVM that stops drops its waits.
func TestStopEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := func(ctx context.Context, s *supervisor, u *unit) int {
			s.set(func() { u.health = "unhealthy" })
			s.waitFor(ctx, func() bool { return s.stopping })
			return 0
		}
		st := newStage(t, map[string]play{"cadre": agent, "web": forever}, checked, waits)
		time.Sleep(time.Hour)
		began := time.Now()
		st.stop(t.Context())
		if took := time.Since(began); took != 0 || !st.find("web").final {
			t.Errorf("stop took %s", took)
		}
	})
}
