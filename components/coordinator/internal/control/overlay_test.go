package control

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "cadre.dev/proto/cadre/control/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

// fakeAgent answers OverlayStatus with its link and err.
type fakeAgent struct {
	controlv1.AgentServiceClient
	link *overlayv1.Link
	err  error
}

func (f *fakeAgent) OverlayStatus(context.Context, *controlv1.OverlayStatusRequest, ...grpc.CallOption) (*controlv1.OverlayStatusResponse, error) {
	return &controlv1.OverlayStatusResponse{Links: []*overlayv1.Link{f.link}}, f.err
}

func TestTheNewestSessionOfASlotIsAsked(t *testing.T) {
	s, _ := service(t)
	if _, ok := s.Overlay("pg-0"); ok {
		t.Fatal("a slot without a session can be asked")
	}
	sessions := map[string]*session{}
	for _, name := range []string{"older", "newer"} {
		sessions[name] = &session{slot: "pg-0", wake: make(chan struct{}, 1), agent: &fakeAgent{link: &overlayv1.Link{Peer: name}}}
		s.add(sessions[name])
	}
	for _, want := range []string{"newer", "older"} {
		asked, ok := s.Overlay("pg-0")
		if !ok {
			t.Fatalf("no session, want the %s one", want)
		}
		out, err := asked.OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{})
		if err != nil || out.GetLinks()[0].GetPeer() != want {
			t.Errorf("asked %v, %v, want the %s session", out, err, want)
		}
		s.remove(sessions[want])
	}
	if _, ok := s.Overlay("pg-0"); ok {
		t.Error("a slot whose sessions are over can be asked")
	}
}

// A fault of an agent never looks like a missing answer of the coordinator, and its text contains
// no terminal control codes.
func TestFaultsOfAnAgent(t *testing.T) {
	s, _ := service(t)
	agent := &fakeAgent{link: &overlayv1.Link{}}
	s.add(&session{slot: "pg-0", wake: make(chan struct{}, 1), agent: agent})
	for _, c := range []struct {
		err  error
		code codes.Code
		says string
	}{
		{status.Error(codes.NotFound, "PEER_UNKNOWN: no peer\x1b[2J"), codes.NotFound, "pg-0: PEER_UNKNOWN: no peer?[2J"},
		{status.Error(codes.Unavailable, "closed"), codes.FailedPrecondition, "AGENT_GONE"},
		{status.Error(codes.Unimplemented, "?"), codes.FailedPrecondition, "AGENT_TOO_OLD"},
		{status.Error(codes.DeadlineExceeded, "?"), codes.FailedPrecondition, "AGENT_SILENT"},
		{status.Error(codes.PermissionDenied, strings.Repeat("x", 10_000)), codes.FailedPrecondition, "AGENT_GONE"},
	} {
		agent.err = c.err
		asked, _ := s.Overlay("pg-0")
		_, err := asked.OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{})
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1000 {
			t.Errorf("%v came back as %v, want %v and %q", c.err, err, c.code, c.says)
		}
	}
	agent.err, agent.link = nil, &overlayv1.Link{Standby: make([]string, 1000)}
	asked, _ := s.Overlay("pg-0")
	if _, err := asked.OverlayStatus(t.Context(), &controlv1.OverlayStatusRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an answer that makes no sense: %v", err)
	}
}
