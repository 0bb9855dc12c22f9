package admit_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/agent/internal/credcache"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// A later process of the same Boot continues with the credentials of the first process, and only
// with those.
func TestTOK20_ResumedCredentials(t *testing.T) {
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	client, _ := newClient(t, w, w.Trust())
	first, err := client.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newClient(t, w, w.Trust())
	elsewhere := w.Trust()
	elsewhere.Cluster = "prod"
	ofAnotherCluster := admit.New(admit.Config{Boot: bootOf(t), Trust: elsewhere})
	for name, tc := range map[string]struct {
		client *admit.Client
		change func(*credcache.State, *admissionv1.Credentials)
		want   string
	}{
		"honest":               {client, func(*credcache.State, *admissionv1.Credentials) {}, ""},
		"by another boot":      {other, func(*credcache.State, *admissionv1.Credentials) {}, "another key"},
		"with another cluster": {ofAnotherCluster, func(*credcache.State, *admissionv1.Credentials) {}, "another key"},
		"for another boot":     {client, func(_ *credcache.State, g *admissionv1.Credentials) { g.BootId = "00" }, "another boot"},
		"for another slot":     {client, func(_ *credcache.State, g *admissionv1.Credentials) { g.Slot = "web-1" }, "SVID_ID_INVALID"},
		"under another CA":     {client, func(_ *credcache.State, g *admissionv1.Credentials) { g.CaBundlePem = agenttest.NewWorld(t).CAPEM }, "svid"},
		"ended": {client, func(_ *credcache.State, g *admissionv1.Credentials) {
			g.ExpiresAt = timestamppb.New(time.Now().Add(-time.Second))
		}, "SVID_EXPIRED"},
		"tokens have ended": {client, func(_ *credcache.State, g *admissionv1.Credentials) {
			g.Consul = &admissionv1.ConsulCredentials{TokensExpireAt: timestamppb.New(time.Now().Add(-time.Second))}
		}, ""},
		"no peers":       {client, func(s *credcache.State, _ *admissionv1.Credentials) { s.Peers = nil }, "peer map is empty"},
		"no credentials": {client, func(_ *credcache.State, g *admissionv1.Credentials) { proto.Reset(g) }, "CA bundle"},
	} {
		state, err := first.State()
		if err != nil {
			t.Fatal(err)
		}
		grant := proto.Clone(first.Grant).(*admissionv1.Credentials)
		tc.change(&state, grant)
		if state.Grant, err = proto.Marshal(grant); err != nil {
			t.Fatal(err)
		}
		got, err := tc.client.Resume(state)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if err == nil && (got.ID != first.ID || !got.Since.Equal(first.Since) || !got.ExpiresAt.Equal(first.ExpiresAt) || len(got.Peers) != len(first.Peers)) {
			t.Errorf("%s: %+v, want %+v", name, got, first)
		}
	}
	if _, err := client.Resume(credcache.State{Grant: []byte("nonsense")}); err == nil {
		t.Error("nonsense is resumed")
	}
}

func bootOf(t *testing.T) *admit.Boot {
	t.Helper()
	boot, err := admit.NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	return boot
}
