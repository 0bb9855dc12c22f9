package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/local/internal/cloud"
)

func TestCollateralIsServedToAnybodyAndCanBeChanged(t *testing.T) {
	sim, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, cloud.Settings{})
	r.host.Close()
	r.pccs = sim.NewPCCS(time.Now)
	r.open(cloud.Settings{})
	get := func() (collateral.Bundle, error) {
		t.Helper()
		// A new client each time: an old one would answer from its cache.
		pccs, err := collateral.NewPCCS(collateral.PCCSConfig{URL: r.host.URL})
		if err != nil {
			t.Fatal(err)
		}
		defer pccs.Close()
		return pccs.Bundle(context.Background(), attestsim.FMSPC())
	}
	if _, err := get(); err != nil {
		t.Fatal(err)
	}
	put := func(body string, want int) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPut, r.host.URL+"/_local/collateral", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", testKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("PUT %s: %d, want %d", body, resp.StatusCode, want)
		}
	}
	put(`{"platform":"OutOfDate","advisories":["INTEL-SA-00615"],"age":"48h"}`, http.StatusOK)
	if b, err := get(); err != nil || !strings.Contains(b.TCBInfo, `"INTEL-SA-00615"`) {
		t.Errorf("after a change: %v", err)
	}
	put(`{"down":true}`, http.StatusOK)
	if _, err := get(); err == nil {
		t.Error("a service that is down answered")
	}
	put(`{"age":"long"}`, http.StatusBadRequest)
	put(`{"platform":1}`, http.StatusBadRequest)
}
