package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// killWithin is how long a process has between SIGTERM and SIGKILL, and overWithin how
	// long after that the kernel has.
	killWithin = time.Second
	overWithin = 2 * time.Second
	// idleEvery paces the question whether a drained Envoy still has connections.
	idleEvery = 100 * time.Millisecond
)

// keeper keeps one proxy's Envoy, from start to end.
type keeper struct {
	cfg   *Config
	proxy Proxy
	at    folder
	log   *slog.Logger
	// changed is called after each change of the status.
	changed func()

	cancel context.CancelCauseFunc
	done   chan struct{} // closed when run has returned

	mu     sync.Mutex
	status Status // guarded by mu

	lastError atomic.Pointer[string] // the last error that the Envoy logged
}

// run keeps an Envoy until ctx ends. after is closed when the previous keeper has left the folder.
func (k *keeper) run(ctx context.Context, after <-chan struct{}) {
	defer close(k.done)
	if after != nil {
		<-after
	}
	if err := k.at.make(); err != nil {
		k.set(StateDown, 0, fmt.Sprintf("its folder is not made: %v", err))
		<-ctx.Done()
		return
	}
	lines, err := k.at.reader()
	if err != nil {
		k.set(StateDown, 0, fmt.Sprintf("its pipe is not opened: %v", err))
		<-ctx.Done()
		return
	}
	var reading sync.WaitGroup
	reading.Go(func() { k.read(ctx, lines) })
	defer reading.Wait()
	defer lines.Close() //nolint:errcheck // it is ours alone

	var pace restarts
	for ctx.Err() == nil {
		p, err := k.acquire(ctx)
		var live time.Duration
		var why string
		if err != nil {
			why = err.Error()
		} else {
			k.set(StateStarting, p.pid, "")
			if live, why = k.watch(ctx, p); ctx.Err() != nil {
				k.end(ctx, p)
				return
			}
		}
		k.set(StateDown, 0, why)
		var pause time.Duration
		if pace, pause = pace.after(live); ctx.Err() == nil {
			k.log.Warn("an envoy ended, it is restarted", "pause", pause.String(), "error", why)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			k.again()
		case <-ctx.Done():
		}
		timer.Stop()
	}
	k.end(ctx, nil)
}

// acquire takes over the running Envoy, or starts one.
func (k *keeper) acquire(ctx context.Context) (*process, error) {
	if err := program(k.cfg.Binary); err != nil {
		return nil, err
	}
	text, err := bootstrap(k.proxy, k.cfg.XDS, k.at.admin())
	if err != nil {
		return nil, err
	}
	argv := append([]string{k.cfg.Binary}, arguments(k.at.bootstrap(), k.cfg.DrainTime)...)
	lock, err := k.at.lock()
	if err != nil {
		return nil, err
	}
	if lock == nil {
		f := found{held: true}
		p, info, err := admin(k.at.admin()).find(ctx)
		if err == nil {
			f.answers, f.sameCommand, f.sameBootstrap = true, runs(p.pid, argv), k.at.holds(text)
			f.sameNode, f.draining = info.Node.ID == k.proxy.ID, info.State == "DRAINING"
		}
		v, why := f.verdict()
		if v == takeOver {
			k.log.Info("an envoy is taken over", "pid", p.pid)
			return p, nil
		}
		k.log.Info("an envoy is replaced", "reason", why)
		if lock, err = clear(ctx, k.at, p); err != nil {
			return nil, err
		}
	}
	// The holder of the lock is alone here.
	if err := errors.Join(k.at.write(text), remove(k.at.admin())); err != nil {
		_ = lock.Close()
		return nil, err
	}
	p, err := start(argv, k.at, lock, k.cfg.mortal)
	if err != nil {
		return nil, err
	}
	k.log.Info("an envoy is started", "pid", p.pid)
	return p, nil
}

// program returns an error if the file cannot be run.
func program(path string) error {
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("stat %s: it is no program", path)
	}
	if err != nil {
		return fmt.Errorf("envoy is missing: %w; put Envoy %s into the agent's image, or name its path", err, Version)
	}
	return nil
}

// watch asks the Envoy how it is until it has ended or ctx ends. It returns for how long it
// was live, and how it ended.
func (k *keeper) watch(ctx context.Context, p *process) (live time.Duration, why string) {
	var (
		at     = admin(k.at.admin())
		o      = begin(time.Now())
		liveAt time.Time
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0, ""
		case <-p.ended:
			why = p.how
			if last := k.lastError.Swap(nil); last != nil {
				why += ": " + *last
			}
			if !liveAt.IsZero() {
				live = time.Since(liveAt)
			}
			return live, why
		}
		o = o.judge(at.look(ctx))
		if o.hopeless {
			k.log.Error("an envoy is killed", "reason", o.message)
			p.signal(syscall.SIGKILL)
		}
		if o.state == StateLive && liveAt.IsZero() {
			liveAt = time.Now()
		}
		select {
		case <-p.ended: // the end of the process is the error to report
		default:
			k.set(o.state, p.pid, o.message)
		}
		timer.Reset(o.next())
	}
}

// end handles the end of ctx: it either leaves the Envoy, p or a running one, to the next worker,
// or ends it.
func (k *keeper) end(ctx context.Context, p *process) {
	if k.cfg.leaves(context.Cause(ctx)) {
		if p != nil {
			p.release()
		}
		return
	}
	ctx = context.WithoutCancel(ctx)
	if p != nil {
		k.set(StateDraining, p.pid, "")
		idle(ctx, k.at, max(k.cfg.StopWithin-killWithin, 0))
	}
	if err := sweep(ctx, k.at, p); err != nil {
		k.log.Error("an envoy does not end", "error", err)
	}
	k.set(StateDown, 0, "")
}

// idle has the Envoy accept nothing more, and waits until it has no connection or the limit
// has passed.
func idle(ctx context.Context, at folder, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if admin(at.admin()).drain(ctx) != nil {
		return
	}
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	for {
		if n, err := admin(at.admin()).open(ctx); err != nil || n == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep ends the process that runs in a folder, p if that is known, and removes the folder.
func sweep(ctx context.Context, at folder, p *process) error {
	if _, err := os.Stat(string(at)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := at.lock()
	if err != nil {
		return err
	}
	if lock == nil {
		if p == nil {
			p, _, _ = admin(at.admin()).find(ctx)
		}
		if lock, err = clear(ctx, at, p); err != nil {
			return err
		}
	}
	defer lock.Close() //nolint:errcheck // its file is gone
	return os.RemoveAll(string(at))
}

// clear ends the holder of the folder's lock, p if that is known, and returns the lock.
func clear(ctx context.Context, at folder, p *process) (*os.File, error) {
	var all []*process
	if p != nil {
		all = append(all, p)
	} else {
		for _, pid := range at.holders() {
			p, err := open(pid)
			if err != nil {
				continue // it has ended
			}
			go p.wait()
			all = append(all, p)
		}
	}
	for _, p := range all {
		kill(ctx, p)
		p.release()
	}
	lock, err := at.lock()
	if err == nil && lock == nil {
		err = fmt.Errorf("another process still holds %s", at.lockFile())
	}
	return lock, err
}

// kill ends a process, and waits for that within bounds.
func kill(ctx context.Context, p *process) {
	for _, step := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, killWithin}, {syscall.SIGKILL, overWithin}} {
		p.signal(step.signal)
		ctx, cancel := context.WithTimeout(ctx, step.limit)
		over := p.over(ctx)
		cancel()
		if over {
			return
		}
	}
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// read puts the Envoy's lines into the log.
func (k *keeper) read(ctx context.Context, lines *os.File) {
	var allowed allowance
	readLines(lines, func(line string) {
		level, part, text := parseLine(line)
		if level >= slog.LevelError {
			k.lastError.Store(&text)
		}
		if dropped, ok := allowed.take(time.Now()); ok {
			attrs := []slog.Attr{slog.String("part", part), slog.String("text", text)}
			if dropped > 0 {
				attrs = append(attrs, slog.Int("left_out", dropped))
			}
			k.log.LogAttrs(ctx, level, "envoy says", attrs...)
		}
	})
}

func (k *keeper) get() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *keeper) set(state State, pid int, message string) {
	k.mu.Lock()
	next := k.status
	next.State, next.PID, next.Message = state, pid, message
	if state != k.status.State || k.status.Since.IsZero() {
		next.Since = time.Now()
	}
	same := next == k.status
	k.status = next
	k.mu.Unlock()
	if !same {
		k.changed()
	}
}

// again counts another start.
func (k *keeper) again() {
	k.mu.Lock()
	k.status.Restarts++
	k.mu.Unlock()
}
