package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/exec/call"
	"cadre.dev/exec/declared"
)

const (
	// retry is the pause between calls to a service that takes no commands yet.
	retry = 200 * time.Millisecond
	// stopWithin is a workload's time to end on a restart, unless the compose text sets it; then
	// the workload is killed.
	stopWithin = 30 * time.Second
	// mostStop bounds the compose text's value: the leader gives such a restart 3 minutes until the
	// member is ready, and then restarts the CVM.
	mostStop = 2 * time.Minute
	// backWithin is how long the agent waits for a service that takes no commands: its container
	// may be starting. The next remedy helps a service that is not.
	backWithin = 30 * time.Second
)

// Runner has commands run. Safe for concurrent use.
type Runner struct {
	dir      string
	log      *slog.Logger
	declared atomic.Pointer[declared.Declared] // nil until Declare
	stops    atomic.Pointer[map[string]time.Duration]
}

// New returns a Runner without commands; dir has one folder for each service that takes commands.
func New(dir string, log *slog.Logger) *Runner { return &Runner{dir: dir, log: log} }

// Declare takes the commands of the measured compose text, the services whose logs it opens, and the
// stop times of its services. A faulty compose text declares nothing.
func (r *Runner) Declare(compose string) {
	all, problems := declared.ReadAll(compose)
	for _, p := range problems {
		r.log.Error("no command is run: the measured compose file declares them with faults", "problem", p.String())
	}
	stops := declared.Stops(compose)
	r.stops.Store(&stops)
	r.declared.Store(&all)
	r.askToKeep(all.Logs)
}

// Run runs a's command for at most limit, with env in addition to the service's own environment. It
// returns nil when the command exits with 0 and no process of it is left. Errors hold no output,
// which may have secrets: only the reason that the command reports for people (HK-07, HK-08).
// ErrNotThere of call is safe to retry.
func (r *Runner) Run(ctx context.Context, a group.ExecAction, env []string, limit time.Duration) error {
	_, err := r.run(ctx, a, call.Request{Env: env, Time: limit})
	return err
}

// Ask is Run for a command that answers: it gets request on its standard input, and answer is the text that
// it wrote to the descriptor that CADRE_ANSWER_FD names, at most call.AnswerLimit+1 bytes. code is its exit
// code; -1: it did not exit.
func (r *Runner) Ask(ctx context.Context, a group.ExecAction, request []byte, limit time.Duration) (answer []byte, code int, err error) {
	reply, err := r.run(ctx, a, call.Request{Answer: true, Input: request, Time: limit})
	if reply.End != call.Exited {
		return nil, -1, err
	}
	return reply.Answer, reply.Code, err
}

// run fills in the declared command of req.
func (r *Runner) run(ctx context.Context, a group.ExecAction, req call.Request) (call.Reply, error) {
	name, limit := a.Service+"/"+a.Command, req.Time
	text := r.declared.Load()
	if text == nil {
		return call.Reply{}, fmt.Errorf("command %s: %w", name, errUnknownText)
	}
	req.Argv, req.Time = text.Exec[a.Service][a.Command], min(limit, call.MaxTime)
	if req.Argv == nil {
		return call.Reply{}, fmt.Errorf("EXEC_FORBIDDEN: command %s is not declared in the measured compose file", name)
	}
	reply, err := call.Do(ctx, filepath.Join(r.dir, a.Service), req)
	switch {
	case errors.Is(err, call.ErrNotThere):
		return reply, fmt.Errorf("service %s %w", a.Service, err)
	case errors.Is(err, context.DeadlineExceeded):
		reply = call.Reply{End: call.TimedOut}
	case err != nil:
		return reply, fmt.Errorf("command %s: %w", name, err)
	case reply.Unanswerable():
		return reply, fmt.Errorf("command %s was not started: service %s runs under an earlier /run/mesh/exec, which gives no answers: start its container again", name, a.Service)
	}
	if len(reply.Output) > 0 {
		r.log.Debug("command said", "command", name, "output", strconv.QuoteToASCII(string(reply.Output)))
	}
	return reply, verdict(name, reply, limit)
}

// RunUntil is Run that waits for a service which takes no commands yet.
func (r *Runner) RunUntil(ctx context.Context, a group.ExecAction, env []string, limit time.Duration) error {
	return untilThere(ctx, func() error { return r.Run(ctx, a, env, limit) })
}

// untilThere retries until the container accepts the command, or ctx ends: then the error has both
// causes.
func untilThere(ctx context.Context, try func() error) error {
	tick := time.NewTicker(retry)
	defer tick.Stop()
	for {
		err := try()
		if !errors.Is(err, call.ErrNotThere) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Restart ends the workload of a service and starts it again, in its container. Only a service
// whose commands the measured compose text declares can be restarted, even if it declares none.
func (r *Runner) Restart(ctx context.Context, service string) error {
	text := r.declared.Load()
	if text == nil {
		return errUnknownText
	}
	if text.Exec[service] == nil {
		return fmt.Errorf("EXEC_FORBIDDEN: service %q has no %s in the measured compose file, so it is not restarted alone", service, declared.Key)
	}
	stop := stopWithin
	if said, ok := (*r.stops.Load())[service]; ok {
		stop = min(said, mostStop)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, backWithin+stop, errLate)
	defer cancel()
	up, giveUp := context.WithTimeoutCause(ctx, backWithin, errNotBack)
	defer giveUp()
	err := untilThere(up, func() error { return call.Restart(ctx, filepath.Join(r.dir, service), stop) })
	if errors.Is(err, call.ErrNotThere) {
		return context.Cause(up)
	}
	return err
}

var (
	errLate    = errors.New("was not restarted in time")
	errNotBack = fmt.Errorf("takes no commands: its container did not come up in %s", backWithin)
)

// verdict is nil for success; any other value names the command's end and its cause.
func verdict(name string, r call.Reply, limit time.Duration) error {
	var what string
	switch r.End {
	case call.Exited:
		if r.Code == 0 {
			return nil
		}
		what = fmt.Sprintf("ended with code %d", r.Code)
	case call.Signalled:
		what = fmt.Sprintf("was ended by signal %d", r.Code)
	case call.TimedOut:
		what = fmt.Sprintf("HOOK_TIMEOUT: was not done in %s and killed", limit)
	case call.NotStarted:
		what = "was not started: " + r.Problem
	default:
		what = "gave no sound answer"
	}
	return errors.New(strings.TrimSuffix("command "+name+" "+what+": "+r.Reason, ": "))
}
