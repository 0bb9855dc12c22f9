package parent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// stopLimit is how long a worker has between SIGTERM and SIGKILL. Compose files give the
// container more (stop_grace_period).
const stopLimit = 8 * time.Second

// Config of a parent.
type Config struct {
	// Command is the worker's whole command line; the first word is a path. Required.
	Command []string
	// Sessions are the addresses off loopback that may be listened on, as the worker
	// names them, by network: {"tcp": ":7443"}.
	Sessions map[string]string
	// Log may be nil.
	Log *slog.Logger

	// Smaller in tests; zero means the default.
	steady, stop, look time.Duration
}

// Run keeps a worker running until ctx ends, and then stops it in order. It returns the exit code:
// 0, or that of a worker that failed before any was steady. Call it once, from a process that waits
// for no other children.
func Run(ctx context.Context, cfg Config) int {
	// It waits and hands out; one thread at a time is plenty.
	runtime.GOMAXPROCS(1)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.steady == 0 {
		cfg.steady = steady
	}
	if cfg.stop == 0 {
		cfg.stop = stopLimit
	}
	if cfg.look == 0 {
		cfg.look = lookEvery
	}
	var sessions []name
	for network, address := range cfg.Sessions {
		sessions = append(sessions, name{network: network, address: address})
	}
	p := &parent{cfg: cfg, sockets: newSockets(sessions)}
	defer p.sockets.clear()
	code, err := p.run(ctx)
	if err != nil {
		cfg.Log.Error("the parent ends", "error", err)
		return 1
	}
	return code
}

// parent is owned by one goroutine at a time: run's, and while a worker runs that of serve. run
// then reads only beats.
type parent struct {
	cfg     Config
	key     []byte
	started uint32
	sockets *sockets
	// beats of the present worker.
	beats atomic.Uint64
	// leave: a worker that hangs is not ended.
	leave bool
}

func (p *parent) run(ctx context.Context) (int, error) {
	if err := p.renew(); err != nil {
		return 0, err
	}
	policy := restarts{steady: p.cfg.steady}
	for {
		ended, err := p.once(ctx)
		if err != nil {
			// Want of memory or processes passes; it counts as a worker that was killed.
			p.cfg.Log.Error("the worker is not started", "error", err)
			ended = exit{code: -1}
		}
		if ctx.Err() != nil {
			return max(ended.code, 0), nil //nolint:nilerr // logged above, and the parent ends here
		}
		var then next
		policy, then = policy.after(ended)
		if then.leave && !p.leave {
			p.cfg.Log.Error("workers hang one after the other: a hanging worker is not restarted any more", "hung", hangsMost)
		}
		p.leave = then.leave
		if then.end {
			return ended.code, nil
		}
		p.cfg.Log.Warn("the worker ended, it is restarted", "code", ended.code, "signal", ended.signal,
			"lived", ended.lived.String(), "pause", then.pause.String())
		if then.spent {
			if err := p.renew(); err != nil {
				return 0, err
			}
		}
		if then.pause > 0 {
			select {
			case <-ctx.Done():
				return 0, nil
			case <-time.After(then.pause):
			}
		}
	}
}

// renew begins a new Boot: another key, and no socket of the one before.
func (p *parent) renew() (err error) {
	p.sockets.clear()
	p.key, err = newKey()
	return err
}

// once runs one worker to its end.
func (p *parent) once(ctx context.Context) (exit, error) {
	conn, theirs, err := pair()
	if err != nil {
		return exit{}, err
	}
	worker, err := start(p.cfg.Command, theirs)
	_ = theirs.Close()
	if err != nil {
		_ = conn.Close()
		return exit{}, err
	}
	p.started++
	p.beats.Store(0)
	p.sockets.begin(time.Now())
	served := make(chan struct{})
	go func() { //nolint:contextcheck // it ends with the worker
		defer close(served)
		p.serve(conn)
	}()
	defer func() {
		_ = conn.Close()
		<-served
	}()
	if ended, over := p.watch(ctx, worker); over {
		return ended, nil
	}
	return p.end(worker, syscall.SIGTERM), nil
}

// watch waits for the worker's end, or for ctx's: then the worker still runs. watch ends a worker
// that hangs.
func (p *parent) watch(ctx context.Context, worker process) (_ exit, over bool) {
	var (
		look  = time.NewTicker(p.cfg.look)
		known pulse
		hung  bool
	)
	defer look.Stop()
	for {
		select {
		case ended := <-worker.done:
			return ended, true
		case <-ctx.Done():
			return exit{}, false
		case <-look.C:
		}
		if known, hung = known.look(p.beats.Load()); hung && !p.leave {
			// The log line must not precede the signal: if the log's reader is stuck, the worker
			// hangs on it and this process would, too. Go programs print where each goroutine is,
			// and end.
			go p.cfg.Log.Error("the worker hangs: it prints its stacks and is restarted")
			ended := p.end(worker, syscall.SIGQUIT)
			ended.hung = true
			return ended, true
		}
	}
}

// end signals the worker to end, and kills it after a time limit.
func (p *parent) end(worker process, how syscall.Signal) exit {
	worker.signal(how)
	limit := time.NewTimer(p.cfg.stop)
	defer limit.Stop()
	select {
	case ended := <-worker.done:
		return ended
	case <-limit.C:
	}
	p.cfg.Log.Warn("the worker does not end, it is killed", "after", p.cfg.stop.String())
	worker.signal(syscall.SIGKILL)
	return <-worker.done
}

// serve answers a worker until the worker is gone or sends an invalid request.
func (p *parent) serve(conn *net.UnixConn) {
	defer conn.Close() //nolint:errcheck // no caller is left to receive it
	data := make([]byte, requestLimit+1)
	for {
		_ = conn.SetReadDeadline(p.sockets.prune(time.Now()))
		n, err := conn.Read(data)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		r, err := parseRequest(data[:n])
		if err != nil {
			p.cfg.Log.Error("the worker sent an invalid request", "error", err)
			return
		}
		if err := p.answer(conn, r); err != nil {
			return
		}
	}
}

func (p *parent) answer(conn *net.UnixConn, r request) error {
	var (
		value []byte
		fd    []byte
		err   error
	)
	switch r.verb {
	case verbKey:
		value = p.key
	case verbNewKey:
		p.cfg.Log.Warn("the boot has ended, a new boot begins")
		err = p.renew()
		value = p.key
	case verbRun:
		value = strconv.AppendUint(nil, uint64(p.started-1), 10)
	case verbBeat:
		p.beats.Add(1)
	case verbRelease:
		p.sockets.release(r.name, time.Now())
	case verbListen:
		file, once, failed := p.sockets.give(r.name)
		if failed != nil {
			err = failed
			break
		}
		if once {
			defer file.Close() //nolint:errcheck // the worker has it
		}
		// Not Fd, which would make the socket block in the worker too.
		raw, failed := file.SyscallConn()
		if failed == nil {
			failed = raw.Control(func(at uintptr) { fd = syscall.UnixRights(int(at)) })
		}
		err = failed
	}
	_, _, failed := conn.WriteMsgUnix(encodeAnswer(value, err), fd, nil)
	return failed
}

// pair makes the two ends of the link: ours, and the worker's. Messages keep their bounds.
func pair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the link to the worker: %w", err)
	}
	ours, err := connOf(os.NewFile(uintptr(fds[0]), "worker"))
	theirs := os.NewFile(uintptr(fds[1]), "parent")
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// connOf takes file over.
func connOf(file *os.File) (*net.UnixConn, error) {
	defer file.Close() //nolint:errcheck // the listener uses its own duplicate
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("use the link: %w", err)
	}
	out, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("use the link: it is a %T", conn)
	}
	return out, nil
}
