package cvminit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cadre.dev/local/internal/initctl"
	"cadre.dev/local/internal/sandbox"
)

const (
	maxExecOutput = 1 << 20
	execDeadline  = 2 * time.Minute
)

// stop ends every service: dependants first, each with its signal and grace.
func (s *supervisor) stop(ctx context.Context) {
	s.set(func() { s.stopping = true })
	var all sync.WaitGroup
	for _, u := range s.all() {
		all.Go(func() {
			s.waitFor(ctx, func() bool { return s.dependantsEnded(u) })
			s.stopUnit(ctx, u)
		})
	}
	all.Wait()
	s.running.Wait()
}

// dependantsEnded is called under the lock.
func (s *supervisor) dependantsEnded(u *unit) bool {
	for _, other := range s.units {
		for _, d := range other.svc.DependsOn {
			if d.Service == u.svc.Name && other.state == stateRunning {
				return false
			}
		}
	}
	return true
}

func (s *supervisor) stopUnit(ctx context.Context, u *unit) {
	ended := func() bool { return u.state != stateRunning }
	var pid int
	// A unit may be between its start and the news of its pid.
	s.waitFor(ctx, func() bool { pid = u.pid; return pid != 0 || u.final })
	if pid == 0 {
		return
	}
	if main := mainProcess(pid); main != 0 {
		_ = syscall.Kill(main, u.svc.StopSignal)
	}
	grace, cancel := context.WithTimeout(ctx, u.svc.StopGrace)
	defer cancel()
	s.waitFor(grace, ended)
	s.mu.Lock()
	running := !ended()
	s.mu.Unlock()
	if running {
		s.logf("service %s did not end in %s: killed", u.svc.Name, u.svc.StopGrace)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.waitFor(ctx, ended)
}

func (s *supervisor) hold(h initctl.Hold) error {
	sig := syscall.SIGCONT
	if h.Stop {
		sig = syscall.SIGSTOP
	}
	found := false
	var errs []error
	for _, u := range s.all() {
		if h.Service != "" && h.Service != u.svc.Name {
			continue
		}
		found = true
		s.mu.Lock()
		pid := u.pid
		s.mu.Unlock()
		if pid == 0 {
			if h.Service != "" {
				errs = append(errs, fmt.Errorf("service %s is not running", u.svc.Name))
			}
			continue
		}
		if err := signalAll(pid, sig); err != nil {
			errs = append(errs, fmt.Errorf("service %s: %w", u.svc.Name, err))
		}
	}
	if !found {
		errs = append(errs, s.unknown(h.Service))
	}
	return errors.Join(errs...)
}

func (s *supervisor) unknown(service string) error {
	var names []string
	for _, u := range s.all() {
		names = append(names, u.svc.Name)
	}
	return fmt.Errorf("no service %q (the compose file has: %s)", service, strings.Join(names, ", "))
}

func (s *supervisor) list() []initctl.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]initctl.Service, 0, len(s.units))
	for _, u := range s.units {
		v := initctl.Service{Name: u.svc.Name, State: u.state, PID: u.pid, Restarts: u.restarts, Health: u.health, StartedAt: u.startedAt}
		if u.state == stateExited {
			v.ExitCode = new(u.code)
		}
		out = append(out, v)
	}
	return out
}

// exec runs a command in a service, or in a separate sandbox with the guest agent's socket in its
// usual place.
func (s *supervisor) exec(ctx context.Context, e initctl.Exec) (initctl.Output, error) {
	if len(e.Command) == 0 {
		return initctl.Output{}, errors.New("command: is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, execDeadline)
	defer cancel()
	if e.Service == "" {
		who, err := lookUser(hostPeople{}, e.User, nil)
		if err != nil {
			return initctl.Output{}, fmt.Errorf("user: %w", err)
		}
		caps, err := sandbox.Capabilities(nil, nil)
		if err != nil {
			return initctl.Output{}, err
		}
		args, err := sandbox.Args(sandbox.Config{
			Hostname: s.spec.Hostname, Hide: s.spec.Hide, Writable: true, Caps: becoming(caps),
			Mounts: []sandbox.Mount{{Source: s.spec.GuestSocket, Target: "/var/run/dstack.sock"}},
		})
		if err != nil {
			return initctl.Output{}, err
		}
		env := []string{"PATH=" + standardPath, "HOME=" + who.home, "HOSTNAME=" + s.spec.Hostname}
		cmd, err := bwrap(ctx, args, env, nil, who.setpriv(caps), e.Command)
		if err != nil {
			return initctl.Output{}, err
		}
		defer cmd.ExtraFiles[0].Close()
		return s.output(cmd, e.Stdin), nil
	}
	pid := 0
	s.mu.Lock()
	u := s.find(e.Service)
	if u != nil {
		pid = u.pid
	}
	s.mu.Unlock()
	if u == nil {
		return initctl.Output{}, s.unknown(e.Service)
	}
	if pid == 0 {
		return initctl.Output{}, fmt.Errorf("service %s is not running", e.Service)
	}
	cmd, err := s.entering(ctx, u, pid, e.User, e.Command)
	if err != nil {
		return initctl.Output{}, err
	}
	return s.output(cmd, e.Stdin), nil
}

// entering composes a command that runs in the namespaces of u's sandbox as
// user, or as the service's own.
func (s *supervisor) entering(ctx context.Context, u *unit, pid int, user string, command []string) (*exec.Cmd, error) {
	who := u.who
	if user != "" {
		var err error
		if who, err = lookUser(u.people, user, nil); err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
	}
	args := []string{"--target", strconv.Itoa(pid), "--mount", "--pid", "--uts", "--ipc"}
	if dir := u.dir(); dir != "" {
		args = append(args, "--wdns="+dir)
	}
	if u.root == "" {
		command = append(who.setpriv(u.caps), command...)
	} else {
		command = who.become(nil, u.caps, command)
	}
	cmd := exec.CommandContext(ctx, "nsenter", slices.Concat(args, []string{"--"}, command)...)
	cmd.Env = harmless(u.env(s.hostname(u)))
	return cmd, nil
}

// output runs cmd to its end or that of its context, killing its whole process group then.
func (s *supervisor) output(cmd *exec.Cmd, stdin string) initctl.Output {
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &stdout, &stderr, strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if err := s.procs.start(cmd); err != nil {
		return initctl.Output{Stderr: err.Error(), Code: 125}
	}
	code := s.procs.wait(cmd)
	return initctl.Output{Stdout: stdout.String(), Stderr: stderr.String(), Code: code}
}

// bounded keeps the first maxExecOutput bytes and swallows the rest.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxExecOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
