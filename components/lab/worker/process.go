package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// stopTime is the time that a worker gets to end after the request.
const stopTime = 5 * time.Second

// Place starts a command where a worker shall run, a network namespace for
// instance.
type Place interface {
	Start(cmd *exec.Cmd) error
}

// Here is where the benchmark itself runs.
type Here struct{}

// Start starts cmd.
func (Here) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Process is a worker seen from the benchmark. Its methods may be called
// concurrently.
type Process struct {
	role  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when the worker's output has ended

	writing sync.Mutex // held while a line goes out

	mu      sync.Mutex
	last    uint64                   // number of the last call; guarded by mu
	waiting map[uint64]chan response // guarded by mu
	killed  bool                     // by us; guarded by mu
	stop    func() error
}

// Start runs a role at a place and returns when the role has started. The worker logs to
// log. The caller must Stop it.
func Start(ctx context.Context, at Place, role string, config any, log *os.File) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	// The worker ends with its input; ctx must not kill it before it was asked.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, Argument)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	if err := at.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	p := &Process{role: role, cmd: cmd, in: in, ended: make(chan struct{}), waiting: map[uint64]chan response{}}
	p.stop = sync.OnceValue(p.end)
	started := make(chan response, 1)
	p.waiting[0] = started
	go p.read(out)
	if err := p.write(hello{Role: role, Config: raw}); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", role, err), p.Stop())
	}
	if err := p.await(ctx, 0, started, nil); err != nil {
		_ = p.Stop() // the first error is more specific
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	return p, nil
}

// Call runs a method and fills result, which may be nil.
func (p *Process) Call(ctx context.Context, method string, args, result any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("call %s of %s: %w", method, p.role, err)
	}
	answer := make(chan response, 1)
	p.mu.Lock()
	p.last++
	id := p.last
	p.waiting[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, id)
	}()
	if err := p.write(request{ID: id, Method: method, Args: raw}); err != nil {
		return fmt.Errorf("call %s of %s: %w", method, p.role, err)
	}
	if err := p.await(ctx, id, answer, result); err != nil {
		return fmt.Errorf("%s of %s: %w", method, p.role, err)
	}
	return nil
}

func (p *Process) write(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.in.Write(append(line, '\n'))
	return err
}

func (p *Process) await(ctx context.Context, id uint64, answer <-chan response, result any) error {
	select {
	case r := <-answer:
		return r.into(result)
	case <-p.ended:
		select {
		case r := <-answer: // came with the last line
			return r.into(result)
		default:
			return fmt.Errorf("worker ended before it answered call %d", id)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r response) into(result any) error {
	switch {
	case r.Unavailable:
		return unavailable(r.Error)
	case r.Error != "":
		return errors.New(r.Error)
	case result == nil:
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// unavailable is ErrUnavailable after its way between processes.
type unavailable string

func (u unavailable) Error() string        { return string(u) }
func (u unavailable) Is(target error) bool { return target == ErrUnavailable }

func (p *Process) read(out io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var r response
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return // not ours any more; every call ends
		}
		p.mu.Lock()
		if c := p.waiting[r.ID]; c != nil {
			c <- r // buffered, one answer a call
			delete(p.waiting, r.ID)
		}
		p.mu.Unlock()
	}
}

// CPU is the time that the worker's threads have run so far, kernel work on
// their behalf included. It must not be called after Stop.
func (p *Process) CPU() (time.Duration, error) {
	used, err := CPUOf(p.cmd.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("read CPU time of %s: %w", p.role, err)
	}
	return used, nil
}

// CPUOf is the same for any process that has not been waited for.
func CPUOf(pid int) (time.Duration, error) {
	const cpuClockSched = 2 // clock of a whole process: ~pid<<3 | CPUCLOCK_SCHED
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockSched), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// PID names the worker to the kernel.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the worker as a crash would, and waits for its end.
func (p *Process) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill()
	_ = p.Stop()
}

// Stop asks the worker to end and waits for it. Further calls change nothing.
func (p *Process) Stop() error { return p.stop() }

func (p *Process) end() error {
	_ = p.in.Close()
	overdue := time.AfterFunc(stopTime, func() { _ = p.cmd.Process.Kill() })
	<-p.ended
	err := p.cmd.Wait()
	if !overdue.Stop() {
		return fmt.Errorf("%s did not end within %v", p.role, stopTime)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && !p.killed {
		return fmt.Errorf("%s: %w", p.role, err)
	}
	return nil
}
