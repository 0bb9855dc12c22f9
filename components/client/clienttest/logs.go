package clienttest

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// logs are a Server's answers of LogService.
type logs struct {
	logsMu   sync.Mutex
	pieces   map[string][]*apiv1.TailLogsResponse   // guarded by logsMu; by "slot/service"
	commands map[string][]*apiv1.RunCommandResponse // guarded by logsMu; by "slot/service/command"
}

// SetLog sets the pieces of a log, by "slot/service"; the service may be empty.
func (s *Server) SetLog(name string, pieces ...*apiv1.TailLogsResponse) {
	s.logsMu.Lock()
	defer s.logsMu.Unlock()
	if s.pieces == nil {
		s.pieces = map[string][]*apiv1.TailLogsResponse{}
	}
	s.pieces[name] = pieces
}

// SetCommand sets a command's answers, by "slot/service/command".
func (s *Server) SetCommand(name string, answers ...*apiv1.RunCommandResponse) {
	s.logsMu.Lock()
	defer s.logsMu.Unlock()
	if s.commands == nil {
		s.commands = map[string][]*apiv1.RunCommandResponse{}
	}
	s.commands[name] = answers
}

type logService struct {
	apiv1.UnimplementedLogServiceServer
	s *Server
}

func (l logService) mayCall(ctx context.Context) error {
	if values := metadata.ValueFromIncomingContext(ctx, "x-consul-token"); len(values) != 1 || values[0] != Token {
		return status.Error(codes.PermissionDenied, "permission denied by Consul's ACL")
	}
	return nil
}

// TailLogs implements LogService.
func (l logService) TailLogs(r *apiv1.TailLogsRequest, stream grpc.ServerStreamingServer[apiv1.TailLogsResponse]) error {
	if err := l.mayCall(stream.Context()); err != nil {
		return err
	}
	l.s.logsMu.Lock()
	pieces, known := l.s.pieces[r.GetSlot()+"/"+r.GetService()]
	l.s.logsMu.Unlock()
	if !known {
		return status.Errorf(codes.FailedPrecondition, "service: %q is none of those with open logs", r.GetService())
	}
	for _, one := range pieces {
		if err := stream.Send(one); err != nil {
			return err
		}
	}
	if r.GetFollow() {
		<-stream.Context().Done()
	}
	return nil
}

// RunCommand implements LogService.
func (l logService) RunCommand(r *apiv1.RunCommandRequest, stream grpc.ServerStreamingServer[apiv1.RunCommandResponse]) error {
	if err := l.mayCall(stream.Context()); err != nil {
		return err
	}
	l.s.logsMu.Lock()
	answers, known := l.s.commands[r.GetSlot()+"/"+r.GetService()+"/"+r.GetCommand()]
	l.s.logsMu.Unlock()
	if !known {
		return status.Errorf(codes.FailedPrecondition, "EXEC_FORBIDDEN: service %s declares no command %q", r.GetService(), r.GetCommand())
	}
	for _, one := range answers {
		if err := stream.Send(one); err != nil {
			return err
		}
	}
	return nil
}
