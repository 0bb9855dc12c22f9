package consulproxy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAKilledEnvoyComesBack while requests run, at the caller and at the backend: it is said in
// the log, and is over soon.
func TestAKilledEnvoyComesBack(t *testing.T) {
	l := newLayer(t, database(1, "web"), web(), other())
	server, _ := l.member("pg", 0, "leader")
	caller, _ := l.member("web", 0, "none")
	master := address(l.mesh("web", 1, 2), "pg-master")
	l.answers(caller, master, "pg-0")
	server.live(backendProxy)
	load := l.load(caller, master)
	for _, killed := range []struct {
		m     *machine
		proxy string
	}{{caller, callerProxy}, {server, backendProxy}} {
		before := killed.m.live(killed.proxy)
		load.await(t, 5)
		begin := time.Now()
		killed.m.order("kill", killed.proxy)
		said := killed.m.said.await(t, 1, "an envoy ended, it is restarted", "proxy="+killed.proxy)
		if !strings.Contains(said, "signal: killed") {
			t.Errorf("the log does not say how it ended: %s", said)
		}
		eventually(t, "another envoy is live", func() error {
			now, err := killed.m.proxy(killed.proxy)
			if err == nil && (now.State != "live" || now.PID == before.PID || now.Restarts != before.Restarts+1) {
				err = fmt.Errorf("it is %+v, and was %+v", now, before)
			}
			return err
		})
		live := time.Since(begin)
		load.await(t, 5)
		t.Logf("%s of %s killed: live again after %v; requests: %s", killed.proxy, killed.m.name, live, load)
		if gap := load.gap(); gap > limit {
			t.Errorf("no request was answered for %v", gap)
		}
	}
	if failed := load.stop(); failed == 0 {
		t.Error("no request failed: none ran when an envoy was killed")
	}
}

// The coordinator that gives a caller's Envoy its configuration dies. Requests continue with
// Envoy's present configuration, and Envoy receives the next change from another coordinator.
func TestAProxyFollowsADeadCoordinator(t *testing.T) {
	l := newLayer(t, database(2, "web"), web(), other())
	var members []*machine
	for n, role := range []string{"leader", "follower"} {
		m, _ := l.member("pg", n, role)
		members = append(members, m)
	}
	caller, _ := l.member("web", 0, "none")
	master := address(l.mesh("web", 1, 2), "pg-master")
	l.answers(caller, master, "pg-0", "pg-1")
	before := caller.live(callerProxy)

	const carried = "an envoy's configuration comes from a coordinator"
	count := len(caller.said.lines(carried))
	dead := l.named(caller.said.await(t, 1, carried))
	load := l.load(caller, master)
	load.await(t, 5)
	begin := time.Now()
	dead.way.Route(l.gateway().Name(dead.name), "127.0.0.1:1")
	dead.way.Cut()
	dead.server.Kill()
	next := l.named(caller.said.await(t, count+1, carried))
	t.Logf("%s is dead, %s gives the configuration after %v", dead.slot, next.slot, time.Since(begin))
	if next == dead {
		t.Fatalf("%s is dead and gives configurations", dead.slot)
	}
	load.await(t, 20)
	if failed := load.stop(); failed > 0 {
		t.Errorf("%s", load)
	}
	t.Logf("requests meanwhile: %s", load)

	begin = time.Now()
	members[0].say("follower", true)
	members[1].say("leader", true)
	l.answers(caller, master, "pg-1")
	t.Logf("a change of role arrives after %v", time.Since(begin))
	if now := caller.live(callerProxy); now.PID != before.PID || now.Restarts != before.Restarts {
		t.Errorf("the envoy is another one: %+v, was %+v", now, before)
	}
}

// named is the coordinator that a line of a log names.
func (l *layer) named(line string) *layerCoordinator {
	l.t.Helper()
	for _, c := range l.coordinators {
		if strings.Contains(line, "coordinator="+c.slot) {
			return c
		}
	}
	l.t.Fatalf("no coordinator is named: %s", line)
	return nil
}

// load asks, one request after the other, until stop.
type load struct {
	end  chan struct{}
	over sync.WaitGroup

	mu       sync.Mutex
	answered int           // guarded by mu
	failed   int           // guarded by mu
	last     time.Time     // guarded by mu; of an answer
	longest  time.Duration // guarded by mu; between two answers
	why      error         // guarded by mu; of the first that failed
}

// load begins one; it ends with the test.
func (l *layer) load(m *machine, at string) *load {
	o := &load{end: make(chan struct{}), last: time.Now()}
	o.over.Go(func() {
		for {
			select {
			case <-o.end:
				return
			default:
			}
			_, err := m.request(at)
			o.mu.Lock()
			if err != nil {
				o.failed++
				if o.why == nil {
					o.why = err
				}
			} else {
				o.answered++
				o.longest = max(o.longest, time.Since(o.last))
				o.last = time.Now()
			}
			o.mu.Unlock()
		}
	})
	l.t.Cleanup(func() { o.stop() })
	return o
}

// stop ends it and gives how many failed.
func (o *load) stop() int {
	o.mu.Lock()
	select {
	case <-o.end:
	default:
		close(o.end)
	}
	o.mu.Unlock()
	o.over.Wait()
	return o.failed
}

// await waits for so many more answers.
func (o *load) await(t *testing.T, more int) {
	t.Helper()
	o.mu.Lock()
	from := o.answered
	o.mu.Unlock()
	eventually(t, "requests are answered", func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.answered < from+more {
			return fmt.Errorf("%d of %d; the first that failed: %v", o.answered-from, more, o.why) //nolint:errorlint // it may be nil
		}
		return nil
	})
}

func (o *load) gap() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.longest
}

func (o *load) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%d answered, %d failed, longest gap %v, first failure %v", o.answered, o.failed, o.longest, o.why)
}
