package collateral_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
)

// TestATT28_AHangingServiceDelaysNoCaller: fetched collateral is used meanwhile, and a caller
// without any waits as long as its own context.
func TestATT28_AHangingServiceDelaysNoCaller(t *testing.T) {
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
	if _, err := s.get(); err != nil {
		t.Fatal(err)
	}
	hangs.Store(true)
	s.pass(7 * time.Hour)
	began := time.Now()
	for range 20 {
		if _, err := s.get(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("20 callers took %v", took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began = time.Now()
	_, err := s.client.Bundle(ctx, "00000000ffff")
	wantUnavailable(t, "nothing was fetched", err)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a caller with 100 ms was held for %v", took)
	}
}

// TestATT06_AnImportHelpsWhenTheServiceIsCutOff: the service's collateral has expired, and a file
// imported since then counts.
func TestATT06_AnImportHelpsWhenTheServiceIsCutOff(t *testing.T) {
	s := newService(t, nil)
	if _, err := s.get(); err != nil {
		t.Fatal(err)
	}
	s.sim.Set(attestsim.Posture{Down: true})
	s.pass(400 * 24 * time.Hour)
	_, err := s.get()
	wantUnavailable(t, "ended", err)
	imported := collateral.Bundle{Version: 1, TCBInfo: "imported"}
	sources := collateral.Sources{s.client, &collateral.Files{Path: filepath.Join(t.TempDir(), "absent")}, collateral.Static{attestsim.FMSPC(): imported}}
	if b, err := sources.Bundle(context.Background(), attestsim.FMSPC()); err != nil || b.TCBInfo != "imported" {
		t.Errorf("%q, %v", b.TCBInfo, err)
	}
}
