package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// LogOptions select a log and its lines.
type LogOptions struct {
	// Slot of an instance or of a coordinator.
	Slot string
	// Service of the instance; cadre-agent for its agent. Empty: the one service whose logs are
	// open, or the coordinator.
	Service string
	// Lines is how many of the last lines; 0: all that are kept.
	Lines int
	// Follow continues with later lines until ctx ends, or the container or its agent does.
	Follow bool
}

// errElsewhere: a coordinator named another one as the right one, which denied it.
var errElsewhere = errors.New("the coordinators do not agree which one it is; repeat the call in a moment")

// Logs gives take a log in pieces, which take must not keep. dropped is the number of bytes that
// were lost before data, because the reader was too slow. Logs returns nil at the log's end, take's
// error, or ctx's cause. For a coordinator's log it connects to that coordinator.
func (c *Client) Logs(ctx context.Context, o LogOptions, take func(dropped uint64, data []byte) error) error {
	doing := "read the logs of " + o.Slot
	other, err := c.logsHere(ctx, o, doing, take)
	if err != nil || other == "" {
		return err
	}
	opts := c.opts
	opts.Instance = other
	there, err := Dial(c.ctx, opts)
	if err != nil {
		return err
	}
	defer there.Close() //nolint:errcheck // read to its end, or given up
	if other, err = there.logsHere(ctx, o, doing, take); err == nil && other != "" {
		return fmt.Errorf("%s: %w", doing, errElsewhere)
	}
	return err
}

// logsHere asks the connected coordinator; other is the instance id of the coordinator that has the
// log.
func (c *Client) logsHere(ctx context.Context, o LogOptions, doing string, take func(uint64, []byte) error) (other string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apiv1.NewLogServiceClient(c.conn).TailLogs(ctx, &apiv1.TailLogsRequest{Slot: o.Slot, Service: o.Service, Lines: uint32(max(o.Lines, 0)), Follow: o.Follow})
	if err != nil {
		return "", c.wrap(doing, err)
	}
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return "", nil
		case err != nil && ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil:
			return "", c.wrap(doing, err)
		case r.GetOtherInstance() != "":
			return r.GetOtherInstance(), nil
		}
		if err := take(r.GetDropped(), r.GetData()); err != nil {
			return "", err
		}
	}
}

// CommandEnd is how a command ended.
type CommandEnd struct {
	// Code is the command's exit code; 128 and the number of the signal that ended it; 124: it was
	// killed since its time was up.
	Code int `json:"code"`
	// Dropped is the number of bytes of output above 1 MiB, which are lost.
	Dropped uint64 `json:"dropped,omitempty"`
}

// RunCommand runs a command that the measured compose text of an instance declares for operators,
// for at most limit (10 minutes; 0: one minute), and gives take its output. The command is killed
// when ctx ends or take fails. After an error it is unknown whether the command ran.
func (c *Client) RunCommand(ctx context.Context, slot, service, command string, limit time.Duration, take func(data []byte) error) (CommandEnd, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	doing := fmt.Sprintf("run %s in %s of %s", command, service, slot)
	req := &apiv1.RunCommandRequest{Slot: slot, Service: service, Command: command}
	if limit != 0 {
		req.Limit = durationpb.New(limit)
	}
	stream, err := apiv1.NewLogServiceClient(c.conn).RunCommand(ctx, req)
	if err != nil {
		return CommandEnd{}, c.wrap(doing, err)
	}
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return CommandEnd{}, fmt.Errorf("%s: the answer has no end", doing)
		case err != nil && ctx.Err() != nil:
			return CommandEnd{}, context.Cause(ctx)
		case err != nil:
			return CommandEnd{}, c.wrap(doing, err)
		case r.GetEnd() != nil:
			return CommandEnd{Code: int(r.GetEnd().GetCode()), Dropped: r.GetEnd().GetDropped()}, nil
		}
		if err := take(r.GetOutput()); err != nil {
			return CommandEnd{}, err
		}
	}
}
