package server

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/raced/synctest"
	"cadre.dev/store/storetest"
)

// starting is a coordinator that has not read the records, within virtual time.
func starting(t *testing.T, f func(t *testing.T, s *Server, read func())) {
	synctest.Test(t, func(t *testing.T) {
		views := view.NewWatcher(storetest.NewMemory(), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		f(t, &Server{cfg: Config{Slot: "coordinator-2", Views: views}}, func() { running.Go(func() { _ = views.Run(ctx) }) })
		cancel()
		running.Wait()
	})
}

// TestACallWaitsForTheFirstViewOfTheRecords: a call to a coordinator that has just started is
// served once the coordinator can read the records.
func TestACallWaitsForTheFirstViewOfTheRecords(t *testing.T) {
	starting(t, func(t *testing.T, s *Server, read func()) {
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		defer cancel()
		time.AfterFunc(20*time.Second, read)
		if v, err := s.firstView(ctx); err != nil || v == nil {
			t.Errorf("firstView = %v, %v, want the view that came after 20 s", v, err)
		}
	})
}

// TestACallReturnsThatTheRecordsCannotBeRead: the error comes before the call's own deadline,
// because it would be lost otherwise.
func TestACallReturnsThatTheRecordsCannotBeRead(t *testing.T) {
	for _, own := range []time.Duration{10 * time.Second, time.Millisecond, time.Hour} {
		starting(t, func(t *testing.T, s *Server, _ func()) {
			ctx, cancel := context.WithTimeout(t.Context(), own)
			defer cancel()
			began := time.Now()
			_, err := s.firstView(ctx)
			if status.Code(err) != codes.Unavailable || policy.CodeIn(status.Convert(err).Message()) != string(policy.CodeGateUnreadable) {
				t.Errorf("with %v to go: %v, want %s", own, err, policy.CodeGateUnreadable)
			}
			if waited := time.Since(began); waited > recordsTime || ctx.Err() != nil {
				t.Errorf("waited %v of %v", waited, own)
			}
		})
	}
	starting(t, func(t *testing.T, s *Server, _ func()) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := s.firstView(ctx); status.Code(err) != codes.Canceled {
			t.Errorf("a caller that left: %v", err)
		}
	})
}
