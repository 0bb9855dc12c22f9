package cvminit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"cadre.dev/local/internal/initctl"
	"golang.org/x/sys/unix"
)

// Run is the life of pid 1. It returns when the daemon is gone, when all
// services were stopped on request, or when the boot failed.
func Run(specPath string) error {
	if os.Getpid() != 1 {
		return errors.New("cvm-init is pid 1 of a CVM and is started by cadre-local serve only")
	}
	conn, err := initctl.FromFile(os.NewFile(initctl.ControlFD, "control"))
	if err != nil {
		return err
	}
	defer conn.Close()
	spec, err := readSpec(specPath)
	if err == nil {
		err = isolateMounts()
	}
	if err != nil {
		return errors.Join(err, conn.Send(initctl.Message{Event: initctl.EventBootError, Text: err.Error()}))
	}
	// Signals of the terminal or of a curious service are not for pid 1. Caught and
	// dropped, not ignored: services would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGTERM)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := newSupervisor(spec, conn)
	if err == nil {
		defer s.log.Close()
		go s.procs.reapOrphans(ctx)
		err = s.runInitScript(ctx)
	}
	if err != nil {
		return errors.Join(err, conn.Send(initctl.Message{Event: initctl.EventBootError, Text: err.Error()}))
	}
	s.removeOrphans(ctx)
	return s.boots(ctx)
}

// boots starts the container engine and then the compose file, and serves until the end. The
// boot is accepted when a container runs, restored or of the file. A guest whose images
// cannot be pulled runs as well, without a container.
func (s *supervisor) boots(ctx context.Context) error {
	accepted := s.restore(ctx)
	if accepted {
		if err := s.conn.Send(initctl.Message{Event: initctl.EventAccepted}); err != nil {
			return err
		}
	}
	served, up := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.serve(ctx) }()
	go func() {
		up <- s.composeUp(ctx, func() error {
			if accepted {
				return nil
			}
			return s.conn.Send(initctl.Message{Event: initctl.EventAccepted})
		})
	}()
	for {
		select {
		case err := <-served:
			return err
		case err := <-up:
			if err == nil {
				continue
			}
			s.logf("compose file not started: %v", err)
			if pull := (*pullError)(nil); errors.As(err, &pull) && !accepted {
				if err := s.conn.Send(initctl.Message{Event: initctl.EventAccepted}); err != nil {
					return err
				}
				accepted = true
			}
			problem := s.conn.Send(initctl.Message{Event: initctl.EventBootError, Text: err.Error()})
			if !accepted {
				return errors.Join(err, problem)
			}
		}
	}
}

// readSpec reads the Spec and removes the file: it holds the environment in the clear.
func readSpec(path string) (initctl.Spec, error) {
	var spec initctl.Spec
	raw, err := os.ReadFile(path)
	if err != nil {
		return spec, fmt.Errorf("read boot spec: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return spec, fmt.Errorf("remove boot spec: %w", err)
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return spec, fmt.Errorf("parse boot spec: %w", err)
	}
	return spec, nil
}

// isolateMounts keeps our mounts out of the host, lets the host's unmounts
// through to us, and shows the CVM's own processes under /proc.
func isolateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate mounts from the host: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	return nil
}

func newSupervisor(spec initctl.Spec, conn *initctl.Conn) (*supervisor, error) {
	engine := store{dir: filepath.Join(spec.Disk, "docker")}
	for _, dir := range []string{spec.Disk, spec.Run, spec.Logs, engine.dir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("make %s: %w", dir, err)
		}
	}
	s := &supervisor{
		spec: spec, conn: conn, store: engine, volumes: &volumeSet{spec: spec, flush: syncfs, ready: map[string]bool{}},
		changed: make(chan struct{}), procs: &procs{mine: map[int]bool{}}, images: make(chan initctl.Images, 1), restoring: true,
	}
	s.carry = s.once
	var err error
	if s.log, err = openLog(filepath.Join(spec.Logs, "cvm.log")); err != nil {
		return nil, err
	}
	return s, nil
}

// serve answers the daemon until it is gone or all services were stopped.
func (s *supervisor) serve(ctx context.Context) error {
	stopped := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		for {
			var r initctl.Request
			if err := s.conn.Receive(&r); err != nil {
				failed <- err
				return
			}
			go func() {
				reply := s.answer(ctx, r)
				reply.ID = r.ID
				if s.conn.Send(reply) == nil && r.Stop != nil {
					close(stopped)
				}
			}()
		}
	}()
	select {
	case <-stopped:
		return nil
	case err := <-failed:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

func (s *supervisor) answer(ctx context.Context, r initctl.Request) initctl.Message {
	reply := initctl.Message{Event: initctl.EventReply}
	fail := func(err error) {
		if err != nil {
			reply.Text = err.Error()
		}
	}
	switch {
	case r.Stop != nil:
		s.stop(ctx)
		reply.Event = initctl.EventStopped
	case r.Exec != nil:
		out, err := s.exec(ctx, *r.Exec)
		reply.Output = &out
		fail(err)
	case r.Hold != nil:
		fail(s.hold(*r.Hold))
	case r.List != nil:
		reply.Services = s.list()
	case r.Images != nil:
		s.images <- *r.Images // once in a boot
	default:
		reply.Text = "unknown request"
	}
	return reply
}

func (s *supervisor) logf(format string, args ...any) {
	fmt.Fprintf(s.log, time.Now().UTC().Format(time.RFC3339Nano)+" "+format+"\n", args...)
}
