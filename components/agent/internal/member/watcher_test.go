package member

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/raced/synctest"
)

// scripted is a driver with scripted answers that counts its calls.
type scripted struct {
	driver.Driver
	view  func(since time.Duration) driver.View
	err   error // of each call; nil: view answers
	began time.Time
	asked int
}

func (s *scripted) Observe(context.Context) (driver.View, error) {
	s.asked++
	if s.err != nil {
		return driver.View{}, s.err
	}
	return s.view(time.Since(s.began)), nil
}

// TestAHandOverIsSeenAtOnce: a member without a leader is observed often, for a bounded time.
func TestAHandOverIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gone, takes = 10 * time.Second, 10*time.Second + 730*time.Millisecond
		follows := driver.View{Role: driver.RoleFollower, Ready: true, Liveness: driver.LivenessAlive, Leader: "db-0", Epoch: 1}
		s := &scripted{began: time.Now(), view: func(since time.Duration) driver.View {
			switch {
			case since < gone:
				return follows
			case since < takes:
				return driver.View{Role: driver.RoleFollower, Liveness: driver.LivenessAlive, Epoch: 1, Message: "no leader"}
			default:
				return driver.View{Role: driver.RoleLeader, Ready: true, Liveness: driver.LivenessAlive, Leader: "db-1", Epoch: 2}
			}
		}}
		w := NewWatcher(slog.New(slog.DiscardHandler))
		w.SetDriver(s)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = w.Run(ctx) }()
		// The absence is seen within the calm pace before; then the new role at the quick one.
		time.Sleep(takes + quick)
		synctest.Wait()
		if got := w.State().View.Role; got != driver.RoleLeader {
			t.Errorf("%v after it leads the member is seen as %s", quick, got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestABrokenMemberIsNotAskedWithoutEnd, for any report about itself.
func TestABrokenMemberIsNotAskedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{began: time.Now(), view: func(since time.Duration) driver.View {
			return driver.View{Role: driver.RoleFollower, Liveness: driver.LivenessAlive, Message: "behind by " + since.String()}
		}}
		w := NewWatcher(slog.New(slog.DiscardHandler))
		w.SetDriver(s)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = w.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if most := int(time.Hour/busy) + int(quickFor/quick) + 2; s.asked > most || s.asked < most/2 {
			t.Errorf("asked %d times in an hour, want %d at most", s.asked, most)
		}
		cancel()
		synctest.Wait()
	})
}

// TestAFailedObservationIsNoEvidence: the member is not known, and the state has the reason.
func TestAFailedObservationIsNoEvidence(t *testing.T) {
	const reason = "no adapter listens at 127.0.0.1:9900"
	s := &scripted{began: time.Now(), view: func(time.Duration) driver.View {
		return driver.View{Role: driver.RoleFollower, Ready: true, Liveness: driver.LivenessAlive, MayDisrupt: true}
	}}
	w := NewWatcher(slog.New(slog.DiscardHandler))
	w.SetDriver(s)
	w.observe(t.Context())
	if got := w.State(); !got.Known || !got.View.Ready {
		t.Fatalf("%+v", got)
	}
	s.err = errors.New(reason)
	w.observe(t.Context())
	want := driver.View{Role: driver.RoleUnknown, Message: reason, MayDisruptReason: reason}
	if got := w.State(); got.Known || got.At.IsZero() || !got.View.Equal(want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
