package health

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/raced/synctest"
)

func httpPort(t *testing.T) int {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// TestTheWorkloadAnswersItsCheck: its report counts at once, and its silence after the TTL.
func TestTheWorkloadAnswersItsCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks := []group.HealthCheck{{Name: "alive", TTL: &group.TTLCheck{TTLSec: 10}}}
		reports := selfreport.New()
		reports.Set(selfreport.OfChecks(checks))
		c := NewChecker(nil, reports, slog.New(slog.DiscardHandler))
		c.SetChecks(checks)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, 2)
		go func() { _ = reports.Run(ctx); done <- struct{}{} }()
		go func() { _ = c.Run(ctx); done <- struct{}{} }()
		defer func() { cancel(); <-done; <-done }()
		wants := func(when string, health rollout.Health, message string) {
			t.Helper()
			synctest.Wait()
			if got := c.Results(); len(got) != 1 || got[0].Health != health || got[0].Message != message {
				t.Errorf("%s: %+v, want %s %q", when, got, health, message)
			}
		}
		say := func(status selfreport.Status, output string) {
			t.Helper()
			if _, err := reports.Put("alive", selfreport.Report{Status: status, Output: output}); err != nil {
				t.Fatal(err)
			}
		}
		const nothing, silent = "the workload has not reported yet", "the workload has not reported for 10s"
		wants("before the first word", rollout.Unknown, nothing)
		time.Sleep(10*time.Second - time.Nanosecond)
		wants("as long as a word holds", rollout.Unknown, nothing)
		time.Sleep(time.Nanosecond)
		wants("silent", rollout.Unhealthy, silent)
		say(selfreport.Passing, "")
		wants("a word", rollout.Healthy, "")
		time.Sleep(9 * time.Second)
		say(selfreport.Warning, "slow")
		wants("a warning is no failure", rollout.Healthy, "slow")
		since := c.Results()[0].Since
		say(selfreport.Critical, "no disk")
		wants("critical at once", rollout.Unhealthy, "no disk")
		time.Sleep(time.Second)
		say(selfreport.Critical, "still no disk")
		wants("another text", rollout.Unhealthy, "still no disk")
		if got := c.Results()[0].Since; got.Equal(since) || time.Since(got) != time.Second {
			t.Errorf("unhealthy since %s", got)
		}
		say(selfreport.Passing, "")
		time.Sleep(10 * time.Second)
		wants("silent again", rollout.Unhealthy, silent)
	})
}
