package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cadre.dev/exec/call"
	"cadre.dev/exec/declared"
)

// startWithin is how long an operator's command waits for a service that takes no commands yet.
const startWithin = 3 * time.Second

// errUnknownText: the measured compose text is not known yet.
var errUnknownText = errors.New("the measured compose file of this CVM is not known yet")

// askToKeep asks the services whose logs the measured text opens to keep their output. A service
// looks for that when its container starts, which is after this CVM's admission.
func (r *Runner) askToKeep(services []string) {
	for _, name := range services {
		path := filepath.Join(r.dir, name, call.KeepLogsName)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o644) //nolint:gosec // the service reads it as another user
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			r.log.Error("the output of a service is not kept", "service", name, "error", err)
		}
	}
}

// Logs gives send the last lines of the output that a service keeps, with follow also the later
// ones until ctx ends or the service's container does. Empty: the one service whose logs the
// measured text opens. The output may hold secrets, and no error has any of it.
func (r *Runner) Logs(ctx context.Context, service string, lines int, follow bool, send func(dropped uint64, data []byte) error) error {
	text := r.declared.Load()
	if text == nil {
		return errUnknownText
	}
	open := strings.Join(append(slices.Clone(text.Logs), OwnLog), ", ")
	if service == "" {
		if len(text.Logs) != 1 {
			return fmt.Errorf("service: name one of those with open logs: %s", open)
		}
		service = text.Logs[0]
	}
	if !slices.Contains(text.Logs, service) {
		return fmt.Errorf("service: %q is none of those with open logs: %s; `%s: { logs: true }` in the measured compose file opens them", service, open, declared.Key)
	}
	err := call.Logs(ctx, filepath.Join(r.dir, service), call.LogRequest{Lines: lines, Follow: follow}, send)
	if errors.Is(err, call.ErrNotThere) {
		return fmt.Errorf("service %s keeps no output now: its container is not running yet, or has ended", service)
	}
	return err
}

// OwnLog is the name of the agent's own log among those of services.
const OwnLog = "cadre-agent"

// RunForOperator runs a command that the measured text declares for operators, for at most limit,
// and gives take its output. An error means that the command did not run, or that it was killed
// since ctx ended.
func (r *Runner) RunForOperator(ctx context.Context, service, command string, limit time.Duration, take func([]byte) error) (call.Reply, error) {
	text := r.declared.Load()
	if text == nil {
		return call.Reply{}, errUnknownText
	}
	argv := text.Run[service][command]
	switch {
	case text.Run[service] == nil:
		return call.Reply{}, fmt.Errorf("EXEC_FORBIDDEN: service %q declares no commands for operators in the measured compose file; services that do: %s", service, orNone(names(text.Run)))
	case argv == nil:
		return call.Reply{}, fmt.Errorf("EXEC_FORBIDDEN: service %s declares no command %q for operators in the measured compose file; it declares: %s", service, command, orNone(text.Run.Names(service)))
	}
	var reply call.Reply
	try := func() (err error) {
		reply, err = call.Stream(ctx, filepath.Join(r.dir, service), call.Request{Argv: argv, Time: limit}, take)
		return err
	}
	// The container may have just started.
	up, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err := untilThere(up, try)
	switch {
	case errors.Is(err, call.ErrNotThere):
		return reply, fmt.Errorf("service %s takes no commands: its container is not running yet, or has ended", service)
	case err != nil:
		return reply, fmt.Errorf("command %s/%s: %w", service, command, err)
	case reply.End == call.NotStarted:
		return reply, fmt.Errorf("command %s/%s was not started: %s", service, command, reply.Problem)
	}
	return reply, nil
}

func names(commands declared.Commands) string {
	var out []string
	for name := range commands {
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}
