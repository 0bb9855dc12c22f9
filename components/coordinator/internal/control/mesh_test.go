package control

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "cadre.dev/proto/cadre/control/v1"
	meshv1 "cadre.dev/proto/cadre/mesh/v1"
)

// fakeAgent answers MeshStatus with what it has.
type fakeAgent struct {
	controlv1.AgentServiceClient
	link *meshv1.Link
	err  error
}

func (f *fakeAgent) MeshStatus(context.Context, *controlv1.MeshStatusRequest, ...grpc.CallOption) (*controlv1.MeshStatusResponse, error) {
	return &controlv1.MeshStatusResponse{Links: []*meshv1.Link{f.link}}, f.err
}

func TestTheNewestSessionOfASlotIsAsked(t *testing.T) {
	s, _ := service(t)
	if _, ok := s.Mesh("pg-0"); ok {
		t.Fatal("a slot without a session can be asked")
	}
	sessions := map[string]*session{}
	for _, name := range []string{"older", "newer"} {
		sessions[name] = &session{slot: "pg-0", wake: make(chan struct{}, 1), agent: &fakeAgent{link: &meshv1.Link{Peer: name}}}
		s.add(sessions[name])
	}
	for _, want := range []string{"newer", "older"} {
		asked, ok := s.Mesh("pg-0")
		if !ok {
			t.Fatalf("no session, want the %s one", want)
		}
		out, err := asked.MeshStatus(t.Context(), &controlv1.MeshStatusRequest{})
		if err != nil || out.GetLinks()[0].GetPeer() != want {
			t.Errorf("asked %v, %v, want the %s session", out, err, want)
		}
		s.remove(sessions[want])
	}
	if _, ok := s.Mesh("pg-0"); ok {
		t.Error("a slot whose sessions are over can be asked")
	}
}

// What goes wrong at an agent never looks as if no coordinator answered, and drives
// no terminal.
func TestFaultsOfAnAgent(t *testing.T) {
	s, _ := service(t)
	agent := &fakeAgent{link: &meshv1.Link{}}
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
		asked, _ := s.Mesh("pg-0")
		_, err := asked.MeshStatus(t.Context(), &controlv1.MeshStatusRequest{})
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1000 {
			t.Errorf("%v came back as %v, want %v and %q", c.err, err, c.code, c.says)
		}
	}
	agent.err, agent.link = nil, &meshv1.Link{Standby: make([]string, 1000)}
	asked, _ := s.Mesh("pg-0")
	if _, err := asked.MeshStatus(t.Context(), &controlv1.MeshStatusRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an answer that makes no sense: %v", err)
	}
}
