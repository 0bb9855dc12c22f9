package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/exec/logring"
	"cadre.dev/overlay/grpcserver"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// loggingAgent has one service with a log, and one command.
type loggingAgent struct {
	controlv1.UnimplementedAgentServiceServer
	gone chan struct{} // gets a value when a caller that followed has gone
}

func (a *loggingAgent) Logs(r *controlv1.LogsRequest, stream grpc.ServerStreamingServer[controlv1.LogsResponse]) error {
	if r.GetService() == "closed" {
		return status.Error(codes.FailedPrecondition, "service: closed")
	}
	if err := stream.Send(&controlv1.LogsResponse{Data: fmt.Appendf(nil, "%s %d\n", r.GetService(), r.GetLines()), Dropped: 3}); err != nil || !r.GetFollow() {
		return err
	}
	<-stream.Context().Done()
	a.gone <- struct{}{}
	return nil
}

func (a *loggingAgent) RunCommand(r *controlv1.RunCommandRequest, stream grpc.ServerStreamingServer[controlv1.RunCommandResponse]) error {
	if err := stream.Send(&controlv1.RunCommandResponse{Output: []byte(r.GetService() + "/" + r.GetCommand())}); err != nil {
		return err
	}
	return stream.Send(&controlv1.RunCommandResponse{End: &controlv1.CommandEnd{Code: 5, Dropped: 1}})
}

// serve connects a client with the services that register adds.
func serve(t *testing.T, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpcserver.New(grpcserver.Limits{Calls: 100})
	register(server)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

type logAPI struct {
	*overlayAPI
	agent  *loggingAgent
	client apiv1.LogServiceClient
}

func newLogAPI(t *testing.T) *logAPI {
	t.Helper()
	a := &logAPI{overlayAPI: newOverlayAPI(t), agent: &loggingAgent{gone: make(chan struct{}, maxReaders)}}
	agent := controlv1.NewAgentServiceClient(serve(t, func(s *grpc.Server) { controlv1.RegisterAgentServiceServer(s, a.agent) }))
	own := &logring.Ring{}
	_, _ = own.Write([]byte("first\nsecond\n"))
	a.cfg.Logs = LogSources{
		Own:   own,
		Agent: func(slot string) (controlv1.AgentServiceClient, bool) { return agent, slot == "pg-0" },
		Coordinators: func() []peering.Member {
			return []peering.Member{{Slot: "coordinator-0", InstanceID: "c0"}, {Slot: "coordinator-1", InstanceID: "c1"}, {Slot: "coordinator-2"}}
		},
	}
	a.client = apiv1.NewLogServiceClient(serve(t, func(s *grpc.Server) { apiv1.RegisterLogServiceServer(s, logService{s: a.Server}) }))
	return a
}

// token makes a token that may read all records and write one key.
func (a *logAPI) token(t *testing.T, key string) string {
	t.Helper()
	rules := `key_prefix "cadre/v1/" { policy = "read" }` + "\n" + fmt.Sprintf("key %q { policy = \"write\" }", store.DefaultPrefix+key)
	name := "logs-" + strings.NewReplacer("/", "-").Replace(key)
	if _, _, err := a.consul.ACL().PolicyCreate(&consul.ACLPolicy{Name: name, Rules: rules}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, err := a.consul.ACL().TokenCreate(&consul.ACLToken{Policies: []*consul.ACLLink{{Name: name}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

func (a *logAPI) logs(ctx context.Context, token string, req *apiv1.TailLogsRequest) (out []*apiv1.TailLogsResponse, err error) {
	stream, err := a.client.TailLogs(withToken(ctx, token), req)
	for err == nil {
		var r *apiv1.TailLogsResponse
		if r, err = stream.Recv(); err == nil {
			out = append(out, r)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

func TestLogsNeedTheRightToWriteTheirKey(t *testing.T) {
	a := newLogAPI(t)
	logs, runs := a.token(t, store.LogsKey("pg")), a.token(t, store.RunKey("pg"))
	out, err := a.logs(t.Context(), logs, &apiv1.TailLogsRequest{Slot: "pg-0", Service: "db", Lines: 7})
	if err != nil || len(out) != 1 || string(out[0].GetData()) != "db 7\n" || out[0].GetDropped() != 3 {
		t.Errorf("%v, %v", out, err)
	}
	if out, err = a.logs(t.Context(), operatorToken, &apiv1.TailLogsRequest{Slot: "coordinator-0", Lines: 1}); err != nil || len(out) != 1 || string(out[0].GetData()) != "second\n" {
		t.Errorf("the coordinator's own log: %v, %v", out, err)
	}
	if out, err = a.logs(t.Context(), operatorToken, &apiv1.TailLogsRequest{Slot: "coordinator-1"}); err != nil || len(out) != 1 || out[0].GetOtherInstance() != "c1" {
		t.Errorf("another coordinator: %v, %v", out, err)
	}
	for name, c := range map[string]struct {
		token string
		req   *apiv1.TailLogsRequest
		code  codes.Code
	}{
		"a reader":                {a.readsPG, &apiv1.TailLogsRequest{Slot: "pg-0"}, codes.PermissionDenied},
		"a member":                {a.workload, &apiv1.TailLogsRequest{Slot: "pg-0"}, codes.PermissionDenied},
		"no token":                {"", &apiv1.TailLogsRequest{Slot: "pg-0"}, codes.Unauthenticated},
		"an unknown token":        {"00000000-0000-4000-8000-000000000000", &apiv1.TailLogsRequest{Slot: "pg-0"}, codes.PermissionDenied},
		"the right to run":        {runs, &apiv1.TailLogsRequest{Slot: "pg-0"}, codes.PermissionDenied},
		"another group":           {logs, &apiv1.TailLogsRequest{Slot: "web-0"}, codes.PermissionDenied},
		"a coordinator":           {logs, &apiv1.TailLogsRequest{Slot: "coordinator-0"}, codes.PermissionDenied},
		"another coordinator":     {logs, &apiv1.TailLogsRequest{Slot: "coordinator-1"}, codes.PermissionDenied},
		"an absent slot":          {logs, &apiv1.TailLogsRequest{Slot: "pg-9"}, codes.NotFound},
		"no slot":                 {logs, &apiv1.TailLogsRequest{}, codes.InvalidArgument},
		"a huge service":          {logs, &apiv1.TailLogsRequest{Slot: "pg-0", Service: strings.Repeat("x", 1<<16)}, codes.InvalidArgument},
		"a path":                  {logs, &apiv1.TailLogsRequest{Slot: "pg-0", Service: "../db"}, codes.InvalidArgument},
		"no agent":                {logs, &apiv1.TailLogsRequest{Slot: "pg-1"}, codes.FailedPrecondition},
		"closed logs":             {logs, &apiv1.TailLogsRequest{Slot: "pg-0", Service: "closed"}, codes.FailedPrecondition},
		"an unknown coordinator":  {operatorToken, &apiv1.TailLogsRequest{Slot: "coordinator-2"}, codes.NotFound},
		"a coordinator's service": {operatorToken, &apiv1.TailLogsRequest{Slot: "coordinator-0", Service: "consul"}, codes.FailedPrecondition},
	} {
		if out, err := a.logs(t.Context(), c.token, c.req); status.Code(err) != c.code || len(out) > 0 {
			t.Errorf("%s: %v, %v, want %v", name, out, err, c.code)
		}
	}
}

func TestCommandsNeedTheRightToWriteTheirKey(t *testing.T) {
	a := newLogAPI(t)
	logs, runs := a.token(t, store.LogsKey("pg")), a.token(t, store.RunKey("pg"))
	run := func(token string, req *apiv1.RunCommandRequest) (out []*apiv1.RunCommandResponse, err error) {
		stream, err := a.client.RunCommand(withToken(t.Context(), token), req)
		for err == nil {
			var r *apiv1.RunCommandResponse
			if r, err = stream.Recv(); err == nil {
				out = append(out, r)
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return out, err
	}
	good := &apiv1.RunCommandRequest{Slot: "pg-0", Service: "db", Command: "vacuum"}
	out, err := run(runs, good)
	if err != nil || len(out) != 2 || string(out[0].GetOutput()) != "db/vacuum" || out[1].GetEnd().GetCode() != 5 || out[1].GetEnd().GetDropped() != 1 {
		t.Errorf("%v, %v", out, err)
	}
	for name, c := range map[string]struct {
		token string
		req   *apiv1.RunCommandRequest
		code  codes.Code
	}{
		"the right to logs": {logs, good, codes.PermissionDenied},
		"another group":     {runs, &apiv1.RunCommandRequest{Slot: "web-0", Service: "db", Command: "x"}, codes.PermissionDenied},
		"a coordinator":     {operatorToken, &apiv1.RunCommandRequest{Slot: "coordinator-0", Service: "db", Command: "x"}, codes.FailedPrecondition},
		"no command":        {runs, &apiv1.RunCommandRequest{Slot: "pg-0", Service: "db"}, codes.InvalidArgument},
		"no agent":          {runs, &apiv1.RunCommandRequest{Slot: "pg-1", Service: "db", Command: "x"}, codes.FailedPrecondition},
	} {
		if out, err := run(c.token, c.req); status.Code(err) != c.code || len(out) > 0 {
			t.Errorf("%s: %v, %v, want %v", name, out, err, c.code)
		}
	}
}

// Readers are bounded, and an agent's stream ends with its reader.
func TestReadersOfLogsAreBounded(t *testing.T) {
	a := newLogAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxReaders {
		stream, err := a.client.TailLogs(withToken(ctx, operatorToken), &apiv1.TailLogsRequest{Slot: "pg-0", Follow: true})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.logs(t.Context(), operatorToken, &apiv1.TailLogsRequest{Slot: "pg-0"}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one reader more: %v", err)
	}
	cancel()
	for range maxReaders {
		<-a.agent.gone
	}
}

// withToken gives a call that goes over a connection its token.
func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, tokenHeader, token)
}
