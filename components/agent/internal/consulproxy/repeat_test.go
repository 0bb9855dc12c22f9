package consulproxy

import (
	"testing"
	"time"
)

func TestRepeatable(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		sent, read   bool
		want         bool
	}{
		{"GET", "/v1/kv/service/db/leader", true, false, true},
		{"HEAD", "/v1/kv/x", true, false, true},
		{"GET", "/v1/kv/x", true, true, false},
		{"PUT", "/v1/session/renew/0d", true, false, true},
		{"PUT", "/v1/session/renew/0d", true, true, false},
		{"PUT", "/v1/session/create", true, false, false},
		{"PUT", "/v1/session/destroy/0d", true, false, false},
		{"PUT", "/v1/kv/service/db/leader", true, false, false},
		{"PUT", "/v1/kv/service/db/leader", false, false, true},
		{"PUT", "/v1/kv/service/db/leader", false, true, false},
		{"DELETE", "/v1/kv/service/db/leader", true, false, false},
		{"DELETE", "/v1/kv/service/db/leader", false, false, true},
		{"PUT", "/v1/txn", true, false, false},
		{"GET", "/v1/session/renew/0d", true, false, true},
		{"POST", "/v1/session/renew/0d", true, false, false},
	} {
		if got := repeatable(tc.method, tc.path, tc.sent, tc.read); got != tc.want {
			t.Errorf("%s %s, sent %v, body read %v: got %v, want %v", tc.method, tc.path, tc.sent, tc.read, got, tc.want)
		}
	}
}

func TestRemaining(t *testing.T) {
	for _, tc := range []struct {
		query   string
		elapsed time.Duration
		want    string
	}{
		{"", time.Second, ""},
		{"recurse&consistent=1", time.Second, "recurse&consistent=1"},
		{"index=7&wait=60s&recurse", 20 * time.Second, "index=7&wait=40s&recurse"},
		{"index=7&wait=60s", 0, "index=7&wait=60s"},
		{"wait=10s&index=7", 10 * time.Second, "wait=10ms&index=7"},
		{"wait=10s&index=7", time.Hour, "wait=10ms&index=7"},
		{"index=7", time.Minute, "index=7&wait=4m0s"},
		{"index=7&wait=0s", time.Minute, "index=7&wait=4m0s"},
		{"hash=ab&wait=2s", time.Second, "hash=ab&wait=1s"},
		{"index=0&wait=2s", time.Second, "index=0&wait=2s"},
		{"wait=2s", time.Second, "wait=2s"},
		{"index=7&wait=soon", time.Second, "index=7&wait=soon"},
	} {
		if got := remaining(tc.query, tc.elapsed); got != tc.want {
			t.Errorf("%q after %v: got %q, want %q", tc.query, tc.elapsed, got, tc.want)
		}
	}
}
