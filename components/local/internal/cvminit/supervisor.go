package cvminit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cadre.dev/local/internal/become"
	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/initctl"
	"cadre.dev/local/internal/sandbox"
	"golang.org/x/sys/unix"
)

// The states of a unit.
//
//	waiting ─► running ─► exited ─► (back-off) running ...
//	   └◄────► blocked   (a dependency does not fulfil its condition)
const (
	stateWaiting = "waiting"
	stateRunning = "running"
	stateExited  = "exited"
	stateBlocked = "blocked"
)

// Back-off between restarts, like the container engine's: it doubles, and a run of steadyRun resets
// it.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Minute
	steadyRun    = 10 * time.Second
)

type supervisor struct {
	// constant after newSupervisor
	spec    initctl.Spec
	conn    *initctl.Conn
	store   store
	volumes *volumeSet
	procs   *procs
	log     *logFile
	running sync.WaitGroup // the unit goroutines
	// images gets the daemon's pulled images, once.
	images chan initctl.Images
	// carry runs a unit once, to its end.
	carry func(context.Context, *unit) (code int, err error)

	mu       sync.Mutex // guards the following and the state of every unit
	changed  chan struct{}
	units    []*unit
	stopping bool
	// restoring: the units are the engine's restored ones, not yet the compose file's.
	restoring bool
	reported  initctl.Message // the last report about the boot
}

type unit struct {
	// constant after newUnit
	of      content // the input of its container
	svc     compose.Service
	volumes map[string]compose.Volume
	img     images.Image
	root    string // of its container image; empty when it runs programs of the machine
	people  people
	who     account
	caps    []string        // of its root
	mounts  []sandbox.Mount // files made at boot; volumes are added at start
	// container is set before the unit starts; written by its own goroutine alone.
	container *container

	// guarded by supervisor.mu
	state     string
	why       string    // of blocked, until it may start
	tries     int       // to start it that failed for a dependency
	pid       int       // pid 1 of the sandbox, in the CVM's pid namespace; 0 when not running
	started   bool      // at least once
	startedAt time.Time // last
	final     bool      // exited and will not be started again
	leaving   bool      // another container takes its place
	code      int       // of the last exit
	restarts  int
	health    string
}

func (u *unit) argv() []string {
	entry, cmd := u.img.Entrypoint, u.img.Command
	if u.svc.Entrypoint != nil {
		entry, cmd = u.svc.Entrypoint, nil
	}
	if u.svc.Command != nil {
		cmd = u.svc.Command
	}
	return append(append([]string{}, entry...), cmd...)
}

func (u *unit) dir() string {
	if u.svc.WorkingDir != "" {
		return u.svc.WorkingDir
	}
	return u.img.WorkingDir
}

func (s *supervisor) hostname(u *unit) string {
	if u.svc.Hostname != "" {
		return u.svc.Hostname
	}
	return s.spec.Hostname
}

func (s *supervisor) start(ctx context.Context, units []*unit) {
	for _, u := range units {
		s.running.Go(func() { s.run(ctx, u) })
	}
}

// run is the life of one unit.
func (s *supervisor) run(ctx context.Context, u *unit) {
	if s.awaitDependencies(ctx, u) {
		s.keep(ctx, u)
	}
}

// keep starts a unit, and starts it again by its restart policy.
func (s *supervisor) keep(ctx context.Context, u *unit) {
	backoff := firstBackoff
	for {
		began := time.Now()
		code, err := s.carry(ctx, u)
		if err != nil {
			s.logf("service %s: %v", u.svc.Name, err)
		}
		if time.Since(began) >= steadyRun {
			backoff = firstBackoff
		}
		s.mu.Lock()
		asked := s.stopping || u.leaving
		s.mu.Unlock()
		s.record(u, func(c *container) { c.State.Running, c.State.ExitCode, c.HasBeenManuallyStopped = false, code, asked })
		again := false
		s.set(func() {
			u.pid, u.state, u.code, u.health = 0, stateExited, code, ""
			again = !s.stopping && !u.leaving && restarts(u, code)
			u.final = !again
		})
		s.logf("service %s ended with code %d after %s", u.svc.Name, code, time.Since(began).Round(time.Millisecond))
		if !again || !s.pause(ctx, u, backoff) {
			s.set(func() { u.final = true })
			return
		}
		s.set(func() { u.restarts++ })
		backoff = min(2*backoff, maxBackoff)
	}
}

func restarts(u *unit, code int) bool {
	switch u.svc.Restart {
	case compose.RestartAlways, compose.RestartUnlessStopped:
		return true
	case compose.RestartOnFailure:
		return code != 0 && (u.svc.MaxRetries == 0 || u.restarts < u.svc.MaxRetries)
	default:
		return false
	}
}

// pause waits d; false when u is to end.
func (s *supervisor) pause(ctx context.Context, u *unit, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	ends := func() bool { return s.stopping || u.leaving }
	s.waitFor(ctx, ends)
	s.mu.Lock()
	defer s.mu.Unlock()
	return !ends()
}

// once starts the service and waits for its end.
func (s *supervisor) once(ctx context.Context, u *unit) (int, error) {
	const cannotStart = 125
	cmd, info, release, err := s.command(ctx, u)
	if err != nil {
		return cannotStart, err
	}
	defer release()
	defer info.Close()
	out, err := openLog(filepath.Join(s.spec.Logs, u.svc.Name+".log"))
	if err != nil {
		return cannotStart, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	s.record(u, func(c *container) { c.State.Running, c.HasBeenManuallyStopped = true, false })
	s.mu.Lock()
	if s.stopping || u.leaving {
		s.mu.Unlock()
		return cannotStart, errors.New("not started: it is to end")
	}
	err = s.procs.start(cmd)
	s.mu.Unlock()
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	if err != nil {
		return cannotStart, fmt.Errorf("start bwrap: %w", err)
	}
	pid, err := childPID(info)
	if err != nil {
		code := s.procs.wait(cmd)
		return code, fmt.Errorf("sandbox did not start (see its log): %w", err)
	}
	awaitExec(ctx, pid)
	healthCtx, endHealth := context.WithCancel(ctx)
	s.set(func() {
		u.pid, u.state, u.started, u.startedAt = pid, stateRunning, true, time.Now().UTC()
		if u.svc.Health != nil {
			u.health = "starting"
		}
	})
	s.logf("service %s started, pid %d", u.svc.Name, pid)
	var checks sync.WaitGroup
	if u.svc.Health != nil {
		checks.Go(func() { s.checkHealth(healthCtx, u, pid) })
	}
	code := s.procs.wait(cmd)
	endHealth()
	checks.Wait()
	return code, nil
}

// all returns the units of now.
func (s *supervisor) all() []*unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.units)
}

// find is called under the lock.
func (s *supervisor) find(name string) *unit {
	for _, u := range s.units {
		if u.svc.Name == name {
			return u
		}
	}
	return nil
}

// set changes state under the lock, wakes the waiters and reports the boot.
func (s *supervisor) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
	if s.stopping || s.restoring {
		return
	}
	if m := s.boot(); m.Event != "" && (m.Event != s.reported.Event || m.Text != s.reported.Text) {
		s.reported = m
		// The socket holds far more than these lines; a dead daemon ends us anyway.
		_ = s.conn.Send(m)
	}
}

// boot says how far the boot is; nothing while services start as they should. Called
// under the lock.
func (s *supervisor) boot() initctl.Message {
	var failed, waiting []error
	pending := false
	for _, u := range s.units {
		pending = pending || !u.started && !u.final
		if u.why == "" {
			continue
		}
		err := fmt.Errorf("service %s: %s", u.svc.Name, u.why)
		if u.final || u.tries >= reportAfter {
			failed = append(failed, err)
		} else {
			waiting = append(waiting, err)
		}
	}
	switch {
	case len(failed) > 0:
		return initctl.Message{Event: initctl.EventBootError, Text: errors.Join(failed...).Error()}
	case len(waiting) > 0:
		return initctl.Message{Event: initctl.EventWaiting, Text: errors.Join(waiting...).Error()}
	case pending:
		return initctl.Message{}
	default:
		return initctl.Message{Event: initctl.EventUp}
	}
}

// waitFor blocks until ok, called under the lock after every change, or ctx ends.
func (s *supervisor) waitFor(ctx context.Context, ok func() bool) {
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// command composes bubblewrap around the service. info yields bubblewrap's description
// of the sandbox; release is called when the service has ended.
func (s *supervisor) command(ctx context.Context, u *unit) (cmd *exec.Cmd, info *os.File, release func(), err error) {
	mounts, err := s.volumes.mounts(u)
	if err != nil {
		return nil, nil, nil, err
	}
	hostname := s.hostname(u)
	cfg := sandbox.Config{
		Hostname: hostname, Visible: visible(u.img), Hide: s.spec.Hide, Mounts: append(mounts, u.mounts...),
		Writable: !u.svc.ReadOnly, Caps: becoming(u.caps), Dir: u.dir(), InfoFD: 3,
	}
	undo := func() {}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	var args []string
	var first [][]string
	if u.root == "" {
		args, err = sandbox.Args(cfg)
		first = [][]string{prlimit(u.svc.Limits), u.who.setpriv(u.caps), u.argv()}
	} else {
		var root string
		if root, undo, err = s.mountRoot(u); err != nil {
			return nil, nil, nil, err
		}
		cfg.Mounts = append(cfg.Mounts, sandbox.Mount{Source: s.spec.Become, Target: become.Path, ReadOnly: true})
		args, err = sandbox.RootedArgs(root, cfg)
		first = [][]string{u.who.become(u.svc.Limits, u.caps, u.argv())}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	cmd, err = bwrap(ctx, args, u.env(hostname), []*os.File{w}, first...)
	if err != nil {
		return nil, nil, nil, errors.Join(err, r.Close(), w.Close())
	}
	return cmd, r, undo, nil
}

// bwrap composes the command. Its arguments travel in a file: they are long, and
// /proc/<pid>/cmdline of a service is better the service. env is the command's alone: bwrap runs on
// the machine, as root, and would load the libraries of LD_PRELOAD. files come first, as
// descriptors 3 and up; the caller closes cmd.ExtraFiles after the start.
func bwrap(ctx context.Context, args, env []string, files []*os.File, command ...[]string) (*exec.Cmd, error) {
	args = append(slices.Clone(args), "--clearenv")
	for _, line := range env {
		key, value, _ := strings.Cut(line, "=")
		args = append(args, "--setenv", key, value)
	}
	for _, arg := range args {
		if strings.ContainsRune(arg, 0) {
			// It would end this argument and begin another one.
			return nil, fmt.Errorf("%.100q has a zero byte", arg)
		}
	}
	fd, err := unix.MemfdCreate("bwrap-args", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file of arguments: %w", err)
	}
	f := os.NewFile(uintptr(fd), "bwrap-args")
	if _, err = f.WriteString(strings.Join(args, "\x00") + "\x00"); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write file of arguments: %w", err), f.Close())
	}
	head := []string{"--args", strconv.Itoa(3 + len(files)), "--"}
	cmd := exec.CommandContext(ctx, "bwrap", append(head, slices.Concat(command...)...)...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", []string{"PATH=" + standardPath}, append(files, f)
	return cmd, nil
}
