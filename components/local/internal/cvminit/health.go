package cvminit

import (
	"context"
	"time"
)

// checkHealth runs u's check until ctx ends, in the sandbox whose pid 1 is pid.
// Failures inside the start period do not count; a success ends that period.
func (s *supervisor) checkHealth(ctx context.Context, u *unit, pid int) {
	h := u.svc.Health
	began, failures, passed := time.Now(), 0, false
	for {
		starting := !passed && time.Since(began) < h.StartPeriod
		interval := h.Interval
		if starting {
			interval = min(h.Interval, h.StartInterval)
		}
		timer := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		ok := s.checkOnce(ctx, u, pid)
		if ctx.Err() != nil {
			return
		}
		switch {
		case ok:
			failures, passed = 0, true
		case !passed && time.Since(began) < h.StartPeriod:
			continue
		default:
			failures++
		}
		verdict := ""
		if ok {
			verdict = "healthy"
		} else if failures >= h.Retries {
			verdict = "unhealthy"
		}
		s.set(func() {
			if verdict != "" && u.health != verdict && u.pid == pid {
				u.health = verdict
				s.logf("service %s is %s", u.svc.Name, verdict)
			}
		})
	}
}

func (s *supervisor) checkOnce(ctx context.Context, u *unit, pid int) bool {
	ctx, cancel := context.WithTimeout(ctx, u.svc.Health.Timeout)
	defer cancel()
	cmd, err := s.entering(ctx, u, pid, "", u.svc.Health.Test)
	if err != nil {
		return false
	}
	return s.output(cmd, "").Code == 0
}
