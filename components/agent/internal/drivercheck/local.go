package drivercheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
	"cadre.dev/exec/call"
	"cadre.dev/exec/declared"
)

// localCommands runs the declared commands of a compose file as processes of this machine, with the
// descriptors that cadre-exec gives them.
type localCommands map[string]map[string][]string

// readCommands reads the compose file. The service must declare every command that the settings need.
func readCommands(file string, w group.Workload) (localCommands, error) {
	compose, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	commands, problems := declared.Read(string(compose))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", file, problems[0])
	}
	for _, a := range w.AdapterCommands() {
		if commands[a.Service][a.Command] == nil {
			return nil, fmt.Errorf("%s: service %q does not declare the command %q under %s.exec, which its settings need", file, a.Service, a.Command, declared.Key)
		}
	}
	return localCommands(commands), nil
}

// Ask is that of driver.Commands.
func (l localCommands) Ask(ctx context.Context, a group.ExecAction, request []byte, limit time.Duration) (answer []byte, code int, err error) {
	name := a.Service + "/" + a.Command
	argv := l[a.Service][a.Command]
	if len(argv) == 0 {
		return nil, -1, fmt.Errorf("command %s is not declared", name)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.SysProcAttr, cmd.WaitDelay = bytes.NewReader(request), &syscall.SysProcAttr{Setpgid: true}, time.Second
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	reason, err := listen(call.ReasonLimit)
	if err != nil {
		return nil, -1, err
	}
	said, err := listen(adapter.MaxBody + 1)
	if err != nil {
		return nil, -1, errors.Join(err, reason.to.Close())
	}
	cmd.ExtraFiles = []*os.File{reason.to, said.to}
	cmd.Env = append(os.Environ(), "CADRE_REASON_FD=3", adapter.AnswerVariable+"=4")
	err = cmd.Start()
	_ = errors.Join(reason.to.Close(), said.to.Close())
	if err != nil {
		return nil, -1, fmt.Errorf("command %s was not started: %w", name, err)
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its leftovers
	answer, why := said.end(), call.CleanReason(string(reason.end()))
	switch code = cmd.ProcessState.ExitCode(); {
	case ctx.Err() != nil:
		return nil, -1, fmt.Errorf("command %s: %w", name, context.Cause(ctx))
	case code == 0 && err == nil:
		return answer, 0, nil
	}
	return answer, code, errors.New(strings.TrimSuffix(fmt.Sprintf("command %s ended with code %d: %s", name, code, why), ": "))
}

// ear reads a pipe whose other end a command has.
type ear struct {
	to, from *os.File
	text     chan []byte
}

// listen reads a new pipe to its end and keeps most bytes.
func listen(most int64) (*ear, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e := &ear{to: w, from: r, text: make(chan []byte, 1)}
	go func() {
		defer r.Close() //nolint:errcheck // read only
		text, _ := io.ReadAll(io.LimitReader(r, most))
		_, _ = io.Copy(io.Discard, r)
		e.text <- text
	}()
	return e, nil
}

// end returns the text. A process that left its group may hold the other end for a second.
func (e *ear) end() []byte {
	_ = e.from.SetReadDeadline(time.Now().Add(time.Second))
	return <-e.text
}
