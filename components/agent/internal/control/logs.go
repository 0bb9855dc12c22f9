package control

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/agent/internal/command"
	"cadre.dev/exec/call"
	"cadre.dev/exec/logring"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const (
	// maxLogs and maxCommands bound the concurrent calls of all coordinators.
	maxLogs     = 8
	maxCommands = 4
	// commandTime is a command's time if the caller gives none, and maxCommandTime the longest.
	commandTime    = time.Minute
	maxCommandTime = 10 * time.Minute
	// outOfTime is the code of a command that was killed since its time was up, as of timeout(1).
	outOfTime  = 124
	signalBase = 128
)

// Operators gives coordinators the logs of services, and runs operators' commands.
type Operators interface {
	Logs(ctx context.Context, service string, lines int, follow bool, send func(dropped uint64, data []byte) error) error
	RunForOperator(ctx context.Context, service, command string, limit time.Duration, take func([]byte) error) (call.Reply, error)
}

// logCalls serves the calls about logs and commands, for all sessions. The bounds are channels of
// the calls that are under way.
type logCalls struct {
	services Operators
	own      *logring.Ring
	reading  chan struct{}
	running  chan struct{}
}

func newLogCalls(services Operators, own *logring.Ring) *logCalls {
	return &logCalls{services: services, own: own, reading: make(chan struct{}, maxLogs), running: make(chan struct{}, maxCommands)}
}

// begin takes a place; done frees it.
func begin(places chan struct{}, what string) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, status.Errorf(codes.ResourceExhausted, "this agent serves %d %s already: end one of them, or repeat the call later", cap(places), what)
	}
}

// Logs implements AgentService.
func (w *wakeServer) Logs(r *controlv1.LogsRequest, stream grpc.ServerStreamingServer[controlv1.LogsResponse]) error {
	l := w.hub.logs
	done, err := begin(l.reading, "readers of logs")
	if err != nil {
		return err
	}
	defer done()
	lines := int(min(r.GetLines(), math.MaxInt32))
	send := func(dropped uint64, data []byte) error {
		return stream.Send(&controlv1.LogsResponse{Data: data, Dropped: dropped})
	}
	switch {
	case r.GetService() == command.OwnLog && l.own != nil:
		return callError(stream.Context(), l.own.Copy(stream.Context(), lines, r.GetFollow(), send))
	case l.services == nil || r.GetService() == command.OwnLog:
		return status.Error(codes.Unimplemented, "this agent keeps no logs")
	}
	return callError(stream.Context(), l.services.Logs(stream.Context(), r.GetService(), lines, r.GetFollow(), send))
}

// RunCommand implements AgentService.
func (w *wakeServer) RunCommand(r *controlv1.RunCommandRequest, stream grpc.ServerStreamingServer[controlv1.RunCommandResponse]) error {
	l := w.hub.logs
	if l.services == nil {
		return status.Error(codes.Unimplemented, "this agent runs no commands")
	}
	limit := commandTime
	if r.GetLimit() != nil {
		limit = r.GetLimit().AsDuration()
	}
	if limit <= 0 || limit > maxCommandTime {
		return status.Errorf(codes.InvalidArgument, "limit: is %s, must be more than nothing and at most %s", limit, maxCommandTime)
	}
	done, err := begin(l.running, "commands of operators")
	if err != nil {
		return err
	}
	defer done()
	began := time.Now()
	reply, err := l.services.RunForOperator(stream.Context(), r.GetService(), r.GetCommand(), limit, func(data []byte) error {
		return stream.Send(&controlv1.RunCommandResponse{Output: data})
	})
	if err != nil {
		w.hub.cfg.Log.Warn("a command of an operator did not run to its end", "service", r.GetService(), "command", r.GetCommand(), "peer", w.from.Slot, "error", err)
		return callError(stream.Context(), err)
	}
	end := &controlv1.CommandEnd{Code: exitCode(reply), Dropped: reply.Dropped}
	w.hub.cfg.Log.Info("a command of an operator ended", "service", r.GetService(), "command", r.GetCommand(), "peer", w.from.Slot, "code", end.GetCode(), "took", time.Since(began).Round(time.Millisecond).String())
	return stream.Send(&controlv1.RunCommandResponse{End: end})
}

// exitCode is the code of a command's end as shells give it.
func exitCode(r call.Reply) uint32 {
	switch r.End {
	case call.Exited:
		return uint32(r.Code) & 0xff
	case call.Signalled:
		return signalBase + uint32(r.Code)&0x7f
	case call.TimedOut, call.NotStarted:
	}
	return outOfTime
}

// callError gives an error that is not a status yet its code.
func callError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, is := status.FromError(err); is {
		return err
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if errors.Is(err, call.ErrBusy) {
		return status.Error(codes.ResourceExhausted, "the service "+err.Error()+": repeat the call later")
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}
