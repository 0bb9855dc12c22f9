package rig

import (
	"strings"
	"testing"
)

func TestTheRestoreDrillFails(t *testing.T) {
	good := RestoreReport{Halted: "EPOCH_REGRESSION: the records went back; cadre cluster accept-restore"}
	if err := good.Check(); err != nil {
		t.Fatalf("a cluster that halted: %v", err)
	}
	silent, busy := good, good
	silent.Halted, busy.Calls = "EPOCH_REGRESSION", 2
	for want, r := range map[string]RestoreReport{"does not name the way out": silent, "2 calls of the platform": busy} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
