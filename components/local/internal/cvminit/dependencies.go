package cvminit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"cadre.dev/local/internal/compose"
)

// A unit whose dependency failed is tried again, like a repeated `docker compose up`. The pause
// doubles from firstRetry to maxBackoff, and ends early when the dependency recovers.
const (
	firstRetry = time.Second
	// After reportAfter tries the boot is reported as failed. The tries continue.
	reportAfter = 8
)

// awaitDependencies blocks until u may start; false when it never will.
func (s *supervisor) awaitDependencies(ctx context.Context, u *unit) bool {
	for pause := firstRetry; ; pause = min(2*pause, maxBackoff) {
		err := s.await(ctx, u)
		if err == nil {
			s.set(func() { u.why, u.tries = "", 0 })
			return true
		}
		again := false
		s.set(func() {
			again = !s.stopping && s.recoverable(u)
			u.state, u.why, u.final = stateBlocked, err.Error(), !again
			u.tries++
		})
		s.logf("service %s not started: %v", u.svc.Name, err)
		if !again {
			return false
		}
		s.recover(ctx, u, pause)
		s.startAgain(ctx, u)
	}
}

// await blocks until u's dependencies fulfil their conditions, or one failed.
func (s *supervisor) await(ctx context.Context, u *unit) error {
	var failed compose.Dependency
	var err error
	s.waitFor(ctx, func() bool {
		all := true
		for _, d := range u.svc.DependsOn {
			holds, problem := s.judge(d)
			if problem != nil {
				failed, err = d, problem
				return true
			}
			all = all && holds
		}
		return all
	})
	if err == nil {
		return ctx.Err()
	}
	if line := s.lastLine(failed.Service); line != "" {
		err = fmt.Errorf("%w (its last line: %q)", err, line)
	}
	return err
}

// judge says whether d holds, or why it cannot as things are. Called under the lock.
func (s *supervisor) judge(d compose.Dependency) (holds bool, err error) {
	dep := s.find(d.Service)
	switch {
	case s.stopping:
		return false, errors.New("the CVM is stopping")
	case dep.state == stateBlocked:
		return false, fmt.Errorf("depends on %s, which is blocked: %s", d.Service, dep.why)
	}
	ended := fmt.Errorf("depends on %s, which ended with code %d", d.Service, dep.code)
	switch d.Condition {
	case compose.Healthy:
		switch {
		case dep.health == "healthy":
			return true, nil
		case dep.svc.Health == nil:
			return false, fmt.Errorf("depends on %s being healthy, but it has no health check", d.Service)
		case dep.health == "unhealthy":
			return false, fmt.Errorf("depends on %s, which is unhealthy", d.Service)
		case dep.final:
			return false, ended
		}
	case compose.Completed:
		if dep.final && dep.code != 0 {
			return false, ended
		}
		return dep.final || dep.state == stateExited && dep.code == 0, nil
	default:
		if dep.final && !dep.started {
			return false, ended
		}
		return dep.started, nil
	}
	return false, nil
}

// recoverable reports whether u is tried again: u or its dependency has a restart policy. Called
// under the lock.
func (s *supervisor) recoverable(u *unit) bool {
	again := u.svc.Restart != compose.RestartNo
	for _, d := range u.svc.DependsOn {
		dep := s.find(d.Service)
		if d.Condition == compose.Healthy && dep.svc.Health == nil {
			return false // the text names a permanent error
		}
		again = again || dep.svc.Restart != compose.RestartNo || dep.state == stateBlocked && !dep.final
	}
	return again
}

// recover waits out the pause, or until u's dependencies hold, or the CVM stops.
func (s *supervisor) recover(ctx context.Context, u *unit, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	s.waitFor(ctx, func() bool {
		if s.stopping {
			return true
		}
		for _, d := range u.svc.DependsOn {
			if holds, _ := s.judge(d); !holds {
				return false
			}
		}
		return true
	})
}

// startAgain begins u's next try, and restarts its dependencies that have ended.
func (s *supervisor) startAgain(ctx context.Context, u *unit) {
	s.set(func() {
		u.state = stateWaiting
		for _, d := range u.svc.DependsOn {
			dep := s.find(d.Service)
			if _, failed := s.judge(d); failed == nil || !dep.final || s.stopping {
				continue
			}
			dep.final, dep.state = false, stateWaiting
			// This goroutine is counted, so no Wait has returned yet.
			s.running.Go(func() { s.run(ctx, dep) })
		}
	})
}

// lastLine is the end of a service's log, for people; "" when there is none.
func (s *supervisor) lastLine(service string) string {
	const tail, most = 4096, 200
	f, err := os.Open(filepath.Join(s.spec.Logs, service+".log"))
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // read only
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd)
	}
	raw, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(lines[len(lines)-1], ""))
	if runes := []rune(line); len(runes) > most {
		line = string(runes[:most]) + "…"
	}
	return line
}
