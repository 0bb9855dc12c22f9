package server

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/core/group"
	"cadre.dev/exec/logring"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

const (
	// maxReaders and maxCommands bound the concurrent calls of LogService.
	maxReaders  = 32
	maxCommands = 8
	// ownLog is the service name of a coordinator's own log.
	ownLog = "cadre-coordinator"
)

// LogSources has the logs of this cluster.
type LogSources struct {
	// Own is this coordinator's log; nil: it keeps none.
	Own *logring.Ring
	// Agent returns the agent of a Slot that is connected here.
	Agent func(slot string) (controlv1.AgentServiceClient, bool)
	// Coordinators are all of the cluster, with the instance ids that are known.
	Coordinators func() []peering.Member
}

// logService serves LogService. Its calls last as long as their callers want; the right is asked for
// once more from time to time.
type logService struct {
	apiv1.UnimplementedLogServiceServer
	s *Server
}

// logCall is an act of LogService that its caller may do.
type logCall struct {
	slot, service, by string
	// command is set for an act that runs one.
	command string
}

func (a *logCall) verb() string {
	if a.command != "" {
		return "run"
	}
	return "read-logs"
}

// object names the instance, the service and the command for the audit chain.
func (a *logCall) object() string {
	return strings.Join(strings.Fields(a.slot+" "+a.service+" "+a.command), " ")
}

// begin checks the right for an act on a Slot and takes a place for it. ctx ends with the caller's
// right; end frees the place. This is the one place where such acts begin.
func (l logService) begin(ctx context.Context, act *logCall, key func(group string) string, places chan struct{}) (_ context.Context, end func(), err error) {
	name, _, err := group.ParseSlot(act.slot)
	if err != nil {
		return nil, nil, status.Errorf(codes.InvalidArgument, "slot: %s", err)
	}
	for field, value := range map[string]string{"service": act.service, "command": act.command} {
		if problem := group.NameProblem(value); value != "" && problem != "" {
			return nil, nil, status.Errorf(codes.InvalidArgument, "%s: %.100q %s", field, value, problem)
		}
	}
	c, err := l.s.caller(ctx)
	if err != nil {
		return nil, nil, err
	}
	may := func() error { return c.mayWriteKey(ctx, key(name)) }
	if err := may(); err != nil {
		return nil, nil, err
	}
	if !isCoordinator(act.slot) {
		if _, err := c.mayReadSlot(ctx, act.slot); err != nil {
			return nil, nil, err
		}
	}
	if act.by, err = l.s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return nil, nil, wire(err)
	}
	c.by = act.by
	select {
	case places <- struct{}{}:
	default:
		return nil, nil, status.Errorf(codes.ResourceExhausted, "OVERLOADED: %s serves %d such calls already", l.s.cfg.Slot, cap(places))
	}
	if err := c.enter(ctx, act.verb(), "", act.object(), store.Op{Kind: store.OpCheckAbsent, Key: key(name)}); err != nil {
		<-places
		return nil, nil, wire(err)
	}
	l.s.cfg.Log.Info("an operator acts on an instance", "slot", act.slot, "service", act.service, "command", act.command, "by", act.by)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	go func() {
		ticker := time.NewTicker(recheckEvery)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				if err := may(); status.Code(err) == codes.PermissionDenied {
					cancel(err)
				}
			}
		}
	}()
	return ctx, func() { close(stop); cancel(nil); <-places }, nil
}

// mayWriteKey asks Consul whether the caller may write a key.
func (c *caller) mayWriteKey(ctx context.Context, key string) error {
	ok, err := c.server.cfg.Tokens.MayWrite(ctx, c.token, store.DefaultPrefix+key)
	if err != nil {
		return wire(err)
	}
	if !ok {
		return status.Errorf(codes.PermissionDenied, "this needs the right to write %s%s", store.DefaultPrefix, key)
	}
	return nil
}

// TailLogs implements LogService.
func (l logService) TailLogs(req *apiv1.TailLogsRequest, stream grpc.ServerStreamingServer[apiv1.TailLogsResponse]) error {
	act := logCall{slot: req.GetSlot(), service: req.GetService()}
	ctx, end, err := l.begin(stream.Context(), &act, store.LogsKey, l.s.readers)
	if err != nil {
		return err
	}
	defer end()
	if isCoordinator(act.slot) {
		return l.coordinatorLog(ctx, req, stream)
	}
	agent, ok := l.s.cfg.Logs.Agent(act.slot)
	if !ok {
		return l.notConnected(act.slot)
	}
	in, err := agent.Logs(ctx, &controlv1.LogsRequest{Service: req.GetService(), Lines: req.GetLines(), Follow: req.GetFollow()})
	if err != nil {
		return l.fromAgent(ctx, act.slot, err)
	}
	for {
		r, err := in.Recv()
		if err != nil {
			return l.fromAgent(ctx, act.slot, err)
		}
		if err := stream.Send(&apiv1.TailLogsResponse{Data: r.GetData(), Dropped: r.GetDropped()}); err != nil {
			return err
		}
	}
}

// coordinatorLog gives this coordinator's own log, or the place of the other one.
func (l logService) coordinatorLog(ctx context.Context, req *apiv1.TailLogsRequest, stream grpc.ServerStreamingServer[apiv1.TailLogsResponse]) error {
	sources := l.s.cfg.Logs
	if s := req.GetService(); s != "" && s != ownLog {
		return status.Errorf(codes.FailedPrecondition, "service: a coordinator has only the log %s, and no %.100q", ownLog, s)
	}
	if req.GetSlot() != l.s.cfg.Slot {
		for _, m := range sources.Coordinators() {
			if m.Slot == req.GetSlot() && m.InstanceID != "" {
				return stream.Send(&apiv1.TailLogsResponse{OtherInstance: m.InstanceID})
			}
		}
		return status.Errorf(codes.NotFound, "slot: %s knows no running coordinator %s", l.s.cfg.Slot, req.GetSlot())
	}
	if sources.Own == nil {
		return status.Error(codes.Unimplemented, "this coordinator keeps no log")
	}
	err := sources.Own.Copy(ctx, int(min(req.GetLines(), math.MaxInt32)), req.GetFollow(), func(dropped uint64, data []byte) error {
		return stream.Send(&apiv1.TailLogsResponse{Data: data, Dropped: dropped})
	})
	return ended(ctx, err)
}

// RunCommand implements LogService.
func (l logService) RunCommand(req *apiv1.RunCommandRequest, stream grpc.ServerStreamingServer[apiv1.RunCommandResponse]) error {
	if isCoordinator(req.GetSlot()) {
		return status.Error(codes.FailedPrecondition, "slot: coordinators run no commands")
	}
	act := logCall{slot: req.GetSlot(), service: req.GetService(), command: req.GetCommand()}
	if act.service == "" || act.command == "" {
		return status.Error(codes.InvalidArgument, "service, command: both are needed")
	}
	ctx, end, err := l.begin(stream.Context(), &act, store.RunKey, l.s.commands)
	if err != nil {
		return err
	}
	defer end()
	agent, ok := l.s.cfg.Logs.Agent(act.slot)
	if !ok {
		return l.notConnected(act.slot)
	}
	in, err := agent.RunCommand(ctx, &controlv1.RunCommandRequest{Service: act.service, Command: act.command, Limit: req.GetLimit()})
	if err != nil {
		return l.fromAgent(ctx, act.slot, err)
	}
	for {
		r, err := in.Recv()
		if err != nil {
			return l.fromAgent(ctx, act.slot, err)
		}
		out := &apiv1.RunCommandResponse{Output: r.GetOutput()}
		if e := r.GetEnd(); e != nil {
			out.End = &apiv1.RunCommandEnd{Code: e.GetCode(), Dropped: e.GetDropped()}
			l.s.cfg.Log.Info("an operator's command ended", "slot", act.slot, "service", act.service, "command", act.command, "by", act.by, "code", e.GetCode())
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

func (l logService) notConnected(slot string) error {
	return status.Errorf(codes.FailedPrecondition,
		"AGENT_NOT_CONNECTED: the agent of %s has no control session with %s; `cadre instance describe %s` shows whether it is admitted", slot, l.s.cfg.Slot, slot)
}

// fromAgent is the answer for an agent's end of a stream; nil at its orderly end. A lost session is
// not a lost coordinator, so callers must not read Unavailable.
func (l logService) fromAgent(ctx context.Context, slot string, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case ctx.Err() != nil:
		return ended(ctx, err)
	case status.Code(err) == codes.Unavailable:
		return status.Errorf(codes.Unknown, "the control session of %s with %s ended", slot, l.s.cfg.Slot)
	case status.Code(err) == codes.Unimplemented:
		return status.Errorf(codes.FailedPrecondition, "the agent of %s does not know this call: it is of an earlier version, or keeps no logs", slot)
	}
	return err
}

// ended is the error of a call whose context may have ended: a lost right, or the caller's own end.
func ended(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		if _, is := status.FromError(cause); is {
			return cause
		}
		return status.FromContextError(cause).Err()
	}
	return err
}
