package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/overlaystatus"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
	"cadre.dev/store"
)

// fakeOverlay is a node with a Link to each Slot of two groups and a coordinator.
type fakeOverlay struct {
	allowed, benched, pinged []string
}

var _ overlaystatus.Asked = (*fakeOverlay)(nil)

func (f *fakeOverlay) OverlayStatus(_ context.Context, r *controlv1.OverlayStatusRequest) (*controlv1.OverlayStatusResponse, error) {
	out := &controlv1.OverlayStatusResponse{}
	for _, l := range []*overlayv1.Link{
		{Peer: "coordinator-1", Group: "coordinator", Coordinator: true}, {Peer: "pg-0", Group: "pg"}, {Peer: "pg-1", Group: "pg"}, {Peer: "web-0", Group: "web"},
	} {
		if r.GetPeer() == "" || r.GetPeer() == l.GetPeer() {
			out.Links = append(out.Links, l)
		}
	}
	return out, nil
}

func (f *fakeOverlay) OverlayPing(_ context.Context, r *controlv1.OverlayPingRequest) (*controlv1.OverlayPingResponse, error) {
	f.pinged = append(f.pinged, r.GetPeer())
	return &controlv1.OverlayPingResponse{Ping: &overlayv1.Ping{Samples: make([]*overlayv1.PingSample, r.GetCount())}}, nil
}

func (f *fakeOverlay) OverlayAllowBench(_ context.Context, r *controlv1.OverlayAllowBenchRequest) (*controlv1.OverlayAllowBenchResponse, error) {
	f.allowed = append(f.allowed, r.GetPeer())
	return &controlv1.OverlayAllowBenchResponse{}, nil
}

func (f *fakeOverlay) OverlayBench(_ context.Context, r *controlv1.OverlayBenchRequest) (*controlv1.OverlayBenchResponse, error) {
	f.benched = append(f.benched, r.GetPeer())
	return &controlv1.OverlayBenchResponse{Bench: &overlayv1.Bench{Bytes: 7, Direction: r.GetDirection()}}, nil
}

// overlayAPI has the groups pg and web with records for pg-0, pg-1 and web-0; the
// agents of the first two are connected.
type overlayAPI struct {
	*api
	own     *fakeOverlay
	agents  map[string]*fakeOverlay
	readsPG string // token that may read pg and write nothing
}

func newOverlayAPI(t *testing.T) *overlayAPI {
	t.Helper()
	m := &overlayAPI{api: newAPI(t), own: &fakeOverlay{}, agents: map[string]*fakeOverlay{"pg-0": {}, "pg-1": {}}}
	m.cfg.Overlay = m.own
	m.cfg.Agents = func(slot string) (overlaystatus.Asked, bool) {
		a, ok := m.agents[slot]
		return a, ok
	}
	for _, name := range []string{"pg", "web"} {
		text := strings.ReplaceAll(string(specJSON(t)), `"pg"`, `"`+name+`"`)
		if _, err := m.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: name, SpecJson: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	for slot, text := range map[string]string{
		"pg-0": `{"group":"pg","slot":"pg-0","ordinal":0,"vip":"127.50.1.1"}`, "pg-1": `{"group":"pg","slot":"pg-1","ordinal":1,"vip":"127.50.1.2"}`,
		"web-0": `{"group":"web","slot":"web-0","ordinal":0,"vip":"127.50.1.3"}`,
	} {
		if err := m.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.SlotKey(strings.Split(slot, "-")[0], slot), Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	rules := `key_prefix "cadre/v1/" { policy = "read" }
key_prefix "cadre/v1/groups/" { policy = "deny" }
key "cadre/v1/groups/pg/spec" { policy = "read" }
key_prefix "cadre/v1/groups/pg/" { policy = "read" }`
	acl := m.consul.ACL()
	if _, _, err := acl.PolicyCreate(&consul.ACLPolicy{Name: "reads-pg", Rules: rules}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, err := acl.TokenCreate(&consul.ACLToken{Policies: []*consul.ACLLink{{Name: "reads-pg"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.readsPG = token.SecretID
	return m
}

func (m *overlayAPI) bench(t *testing.T, token, slot, peer string) error {
	t.Helper()
	_, err := m.BenchPeer(as(t.Context(), token), &apiv1.BenchPeerRequest{
		Slot: slot, Peer: peer, Direction: overlayv1.Direction_DIRECTION_SEND, Duration: durationpb.New(time.Second),
	})
	return err
}

func names(links []*overlayv1.Link) []string {
	var out []string
	for _, l := range links {
		out = append(out, l.GetPeer())
	}
	return out
}

func TestOverlayIsShownToReaders(t *testing.T) {
	m := newOverlayAPI(t)
	for _, c := range []struct {
		who, token, slot string
		want             []string
		code             codes.Code
	}{
		{"an operator asks the coordinator", operatorToken, "", []string{"coordinator-1", "pg-0", "pg-1", "web-0"}, codes.OK},
		{"a reader of pg asks the coordinator", m.readsPG, "", []string{"coordinator-1", "pg-0", "pg-1"}, codes.OK},
		{"a reader of pg asks it by name", m.readsPG, "coordinator-0", []string{"coordinator-1", "pg-0", "pg-1"}, codes.OK},
		{"a reader of pg asks pg-0", m.readsPG, "pg-0", []string{"coordinator-1", "pg-0", "pg-1", "web-0"}, codes.OK},
		{"a reader of pg asks web-0", m.readsPG, "web-0", nil, codes.PermissionDenied},
		{"another coordinator", operatorToken, "coordinator-2", nil, codes.FailedPrecondition},
		{"no such slot", operatorToken, "pg-7", nil, codes.NotFound},
		{"no slot at all", operatorToken, "pg", nil, codes.InvalidArgument},
		{"an agent that is away", operatorToken, "web-0", nil, codes.FailedPrecondition},
	} {
		t.Run(c.who, func(t *testing.T) {
			got, err := m.GetOverlay(as(t.Context(), c.token), &apiv1.GetOverlayRequest{Slot: c.slot})
			if status.Code(err) != c.code || !slices.Equal(names(got.GetLinks()), c.want) {
				t.Errorf("got %v, %v; want %v, %v", names(got.GetLinks()), err, c.want, c.code)
			}
		})
	}
	ctx := as(t.Context(), m.readsPG)
	if got, err := m.GetOverlay(ctx, &apiv1.GetOverlayRequest{Peer: "pg-1"}); err != nil || got.GetSlot() != "coordinator-0" || !slices.Equal(names(got.GetLinks()), []string{"pg-1"}) {
		t.Errorf("one link: %v, %v", got, err)
	}
	_, err := m.GetOverlay(ctx, &apiv1.GetOverlayRequest{Peer: "web-0"})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "known peers: coordinator-1, pg-0, pg-1") {
		t.Errorf("a link that the caller may not see: %v", err)
	}
}

func TestPingNeedsTheRightToRead(t *testing.T) {
	m := newOverlayAPI(t)
	ctx := as(t.Context(), m.readsPG)
	got, err := m.PingPeer(ctx, &apiv1.PingPeerRequest{Slot: "pg-0", Peer: "pg-1"})
	if err != nil || got.GetSlot() != "pg-0" || len(got.GetPing().GetSamples()) != defaultPings || !slices.Equal(m.agents["pg-0"].pinged, []string{"pg-1"}) {
		t.Errorf("ping from pg-0: %v, %v, asked for %v", got, err, m.agents["pg-0"].pinged)
	}
	if got, err := m.PingPeer(ctx, &apiv1.PingPeerRequest{Peer: "pg-1", Count: 2}); err != nil || len(got.GetPing().GetSamples()) != 2 {
		t.Errorf("ping from the coordinator: %v, %v", got, err)
	}
	for peer, want := range map[string]codes.Code{"web-0": codes.NotFound, "": codes.InvalidArgument} {
		if _, err := m.PingPeer(ctx, &apiv1.PingPeerRequest{Peer: peer}); status.Code(err) != want {
			t.Errorf("ping of %q: %v, want %v", peer, err, want)
		}
	}
	if !slices.Equal(m.own.pinged, []string{"pg-1"}) {
		t.Errorf("the coordinator pinged %v", m.own.pinged)
	}
}

func TestBenchNeedsTheRightToWriteBothGroups(t *testing.T) {
	m := newOverlayAPI(t)
	for _, pair := range [][2]string{{"pg-0", "pg-1"}, {"", "pg-0"}, {"", "coordinator-1"}, {"pg-0", "coordinator-0"}} {
		if err := m.bench(t, m.readsPG, pair[0], pair[1]); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a reader's bench %v: %v", pair, err)
		}
	}
	if len(m.agents["pg-0"].benched)+len(m.agents["pg-1"].allowed)+len(m.own.benched) != 0 {
		t.Error("a refused bench did something")
	}
	for _, c := range []struct {
		slot, peer string
		code       codes.Code
		allowed    *fakeOverlay // the node that gets the instruction, for slot
		benched    *fakeOverlay
	}{
		{"pg-0", "pg-1", codes.OK, m.agents["pg-1"], m.agents["pg-0"]},
		{"pg-1", "coordinator-0", codes.OK, m.own, m.agents["pg-1"]},
		{"", "pg-0", codes.OK, nil, m.own},
		{"", "coordinator-1", codes.OK, nil, m.own},
		{"pg-0", "coordinator-1", codes.FailedPrecondition, nil, nil},
		{"pg-0", "web-0", codes.FailedPrecondition, nil, nil},
		{"pg-0", "junk", codes.InvalidArgument, nil, nil},
	} {
		for _, one := range []*fakeOverlay{m.own, m.agents["pg-0"], m.agents["pg-1"]} {
			*one = fakeOverlay{}
		}
		if err := m.bench(t, operatorToken, c.slot, c.peer); status.Code(err) != c.code {
			t.Errorf("bench from %q with %s: %v, want %v", c.slot, c.peer, err, c.code)
		}
		for _, one := range []*fakeOverlay{m.own, m.agents["pg-0"], m.agents["pg-1"]} {
			if (len(one.allowed) > 0) != (one == c.allowed) || one == c.allowed && one.allowed[0] != c.slot {
				t.Errorf("bench from %q with %s: a node was instructed to take part with %v", c.slot, c.peer, one.allowed)
			}
			if (len(one.benched) > 0) != (one == c.benched) {
				t.Errorf("bench from %q with %s: begun with %v at the wrong node", c.slot, c.peer, one.benched)
			}
		}
	}
	_, err := m.BenchPeer(as(t.Context(), operatorToken), &apiv1.BenchPeerRequest{Peer: "pg-0", Direction: 1, Duration: durationpb.New(time.Hour)})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bench of an hour: %v", err)
	}
}
