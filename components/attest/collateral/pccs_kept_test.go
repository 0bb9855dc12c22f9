package collateral_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
)

// restarted is another process that has the bundle left by the previous one.
func (s *service) restarted(t testing.TB, left collateral.Bundle) {
	t.Helper()
	var err error
	s.client, err = collateral.NewPCCS(collateral.PCCSConfig{URL: s.server.URL, Now: s.now, Kept: collateral.Static{attestsim.FMSPC(): left}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
}

func wantNumber(t testing.TB, what string, b collateral.Bundle, err error, want string) {
	t.Helper()
	if err != nil || !strings.Contains(b.TCBInfo, `"tcbEvaluationDataNumber":`+want) {
		t.Errorf("%s: %v, want number %s", what, err, want)
	}
}

func TestATT06_ARestartWhileTheServiceIsDownKeepsFetchedCollateral(t *testing.T) {
	s := newService(t, nil)
	left, err := s.get()
	if err != nil {
		t.Fatal(err)
	}
	s.sim.Set(attestsim.Posture{Down: true})
	s.restarted(t, left)
	for range 3 {
		b, err := s.get()
		wantNumber(t, "down", b, err, "17")
	}
	if got := s.sim.Requests(); got != requestsPerBundle+1 {
		t.Errorf("%d requests, want %d: the service is asked first, once", got, requestsPerBundle+1)
	}
	// Fetched collateral goes before kept collateral.
	s.pass(11 * time.Second)
	s.sim.Set(attestsim.Posture{Evaluation: 18})
	b, err := s.get()
	wantNumber(t, "up again", b, err, "18")
	s.restarted(t, left)
	b, err = s.get()
	wantNumber(t, "up at the restart", b, err, "18")
	// Its dates bound its use, as for any other collateral.
	s.sim.Set(attestsim.Posture{Down: true})
	s.restarted(t, left)
	s.pass(400 * 24 * time.Hour)
	_, err = s.get()
	wantUnavailable(t, "ended", err)
}

func TestKeptCollateralMustBeOfTheFamily(t *testing.T) {
	s := newService(t, nil)
	left, err := s.get()
	if err != nil {
		t.Fatal(err)
	}
	s.sim.Set(attestsim.Posture{Down: true})
	left.TCBInfo = strings.Replace(left.TCBInfo, attestsim.FMSPC(), "00000000ffff", 1)
	s.restarted(t, left)
	_, err = s.get()
	wantUnavailable(t, "another family", err)
	s.restarted(t, collateral.Bundle{TCBInfo: "x"})
	_, err = s.get()
	wantUnavailable(t, "rubbish", err)
}

// TestATT28_AServiceThatHangsAtTheStartDelaysCallersOnce: all callers together wait as long as
// one would, then the kept collateral is used.
func TestATT28_AServiceThatHangsAtTheStartDelaysCallersOnce(t *testing.T) {
	var hangs atomic.Bool
	release := make(chan struct{})
	s := newService(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if hangs.Load() {
				<-release
			}
			next.ServeHTTP(w, r)
		})
	})
	defer close(release)
	left, err := s.get()
	if err != nil {
		t.Fatal(err)
	}
	hangs.Store(true)
	s.restarted(t, left)
	began := time.Now()
	for range 20 {
		b, err := s.get()
		wantNumber(t, "hangs", b, err, "17")
		s.pass(2 * time.Second) // as the first one waits
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("20 callers took %v", took)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.client.Bundle(ctx, attestsim.FMSPC()); err != nil {
		t.Errorf("nothing to wait for any more: %v", err)
	}
}
